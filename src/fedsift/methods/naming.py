# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""From the numbers of a ranking in secret order to the parties' own column names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def named(ranking: Any, names: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Selected names, scores and ranks by party, as ``build_result`` takes them."""

    def by_name(values: Mapping[str, Any]) -> dict[str, dict[str, float]]:
        return {
            party: dict(zip(names[party], numbers.tolist(), strict=True))
            for party, numbers in values.items()
        }

    return {
        "selected": {p: [names[p][i] for i in chosen] for p, chosen in ranking.selected.items()},
        "scores": by_name(ranking.scores),
        "ranking": by_name(ranking.ranks),
    }
