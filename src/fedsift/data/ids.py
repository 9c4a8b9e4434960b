# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Names of parties, and ids of rows: text that is equal exactly when rows belong together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsift.config.toml import did_you_mean
from fedsift.data.sources import RawColumn, is_missing, plain_text, shortened
from fedsift.errors import AlignmentError, PartyError

Ids = NDArray[np.str_]


def make_ids(columns: Sequence[RawColumn], party: str) -> Ids:
    """Normalise one or more id columns.

    Parameters
    ----------
    columns : sequence of RawColumn
        The columns that together identify a row.
    party : str
        Name of the owner, for error messages.

    Returns
    -------
    ids : ndarray of str of shape (n_rows,)
        Stripped text; several columns are joined so that different tuples stay different.
    """
    parts = [_texts(column, party) for column in columns]
    if len(parts) == 1:
        ids = np.array(parts[0], dtype=np.str_)
    else:
        # A length prefix keeps ("ab", "c") and ("a", "bc") apart whatever the cells contain.
        joined = [
            "".join(f"{len(part)}:{part}" for part in row) for row in zip(*parts, strict=True)
        ]
        ids = np.array(joined, dtype=np.str_)
    refuse_duplicates(ids, party)
    return ids


def refuse_duplicates(ids: Ids, party: str) -> None:
    """Refuse ids that occur more than once; say how many, not which."""
    n_repeated = len(ids) - len(np.unique(ids))
    if n_repeated:
        raise AlignmentError(
            f"Party {party!r} has duplicate ids: {n_repeated} of its {len(ids)} rows repeat "
            "the id of an earlier row.",
            "An id must stand for one row.",
            "Remove or merge the duplicates, or add a column that distinguishes the rows.",
        )


def _texts(column: RawColumn, party: str) -> list[str]:
    values: NDArray[Any] = column.values
    missing = is_missing(values.astype(object) if values.dtype.kind in "US" else values)
    if missing.any():
        raise AlignmentError(
            f"Id column {column.name!r} of party {party!r} is empty in {int(missing.sum())} of "
            f"{len(values)} rows.",
            "Every row needs an id.",
            "Fill in the ids, or remove those rows.",
        )
    if values.dtype.kind == "M":
        values = values.astype("datetime64[us]").astype(np.str_)
    return [plain_text(value) for value in values.tolist()]


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
        did_you_mean(name, known, f"Known parties: {shortened(known)}."),
    )
