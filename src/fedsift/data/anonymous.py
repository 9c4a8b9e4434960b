# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Numbers instead of names in a result, for parties of a simulation that keep theirs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from fedsift.data import Federation
from fedsift.data.part import numbered
from fedsift.result import SelectionResult


def anonymised(
    result: SelectionResult, federation: Federation, parties: Iterable[str]
) -> SelectionResult:
    """The result as others may see it: features of these parties by number, such as "shop #3".

    Numbers follow the order of the columns in the party's table, so that the party itself can tell.
    """
    names: dict[str, dict[str, str]] = {}
    for party in parties:
        if party in federation.tables:
            own = federation.tables[party].feature_names
            names[party] = dict(zip(own, numbered(party, len(own)), strict=True))
    if not names:
        return result
    return msgspec.structs.replace(
        result,
        selected={
            party: tuple(names.get(party, {}).get(name, name) for name in chosen)
            for party, chosen in result.selected.items()
        },
        scores=_by_party(result.scores, names),
        ranking=_by_party(result.ranking, names),
        p_values=_by_party(result.p_values, names),
        q_values=_by_party(result.q_values, names),
        history=tuple(_entry(entry, names) for entry in result.history),
        warnings=tuple(_sentence(text, names) for text in result.warnings),
        steps=tuple(anonymised(step, federation, names) for step in result.steps),
    )


def _by_party(told: Mapping[str, Any], names: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    return {
        party: (
            {names[party].get(name, name): value for name, value in own.items()}
            if party in names and isinstance(own, dict)
            else own
        )
        for party, own in told.items()
    }


def _entry(entry: Mapping[str, Any], names: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    changed = {
        key: _by_party(value, names) if isinstance(value, dict) else value
        for key, value in entry.items()
    }
    party, feature = entry.get("party"), entry.get("feature")
    if isinstance(party, str) and isinstance(feature, str):
        changed["feature"] = names.get(party, {}).get(feature, feature)
    return changed


def _sentence(text: str, names: Mapping[str, Mapping[str, str]]) -> str:
    """Remarks quote names of columns."""
    for own in names.values():
        for name in sorted(own, key=len, reverse=True):
            text = text.replace(repr(name), repr(own[name]))
    return text
