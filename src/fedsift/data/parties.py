# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Names of parties: unique, not blank, and easy to tell apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fedsift.data.wording import did_you_mean
from fedsift.errors import PartyError


def as_pairs(
    tables: Mapping[str, Any] | Sequence[tuple[str, Any]],
) -> list[tuple[str, Any]]:
    """Return (name, source) pairs of a mapping or a sequence, after a check of the names."""
    pairs = list(tables.items()) if isinstance(tables, Mapping) else [(n, s) for n, s in tables]
    if not pairs:
        raise PartyError(
            "The federation has no party.",
            "At least one party with data is needed.",
            "Pass a mapping of party name to data.",
        )
    check_names(name for name, _ in pairs)
    return pairs


def check_names(names: Iterable[str]) -> None:
    """Refuse blank names and names that differ in case or outer blanks only."""
    seen: dict[str, str] = {}
    for name in names:
        if not isinstance(name, str) or not name.strip():
            raise PartyError(
                "A party has a blank name or a name that is not text.",
                "Every party needs a name.",
                "Name the party.",
            )
        folded = name.strip().casefold()
        if folded in seen:
            raise PartyError(
                f"Party {name!r} is named twice (also as {seen[folded]!r}).",
                "Every party has one entry and a name of its own.",
                "Join the two tables of the party, or rename one of the parties.",
            )
        seen[folded] = name


def unknown_party(name: str, known: Sequence[str]) -> PartyError:
    """Build the error for a party that is not in the federation."""
    return PartyError(
        f"There is no party {name!r}.",
        f"It must be one of the {len(known)} parties of the federation.",
        did_you_mean(name, known, what="parties"),
    )
