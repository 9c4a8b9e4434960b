# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""From cells with shuffled labels to the verdict on a row."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from fedsift.evaluate.cells import Cell
from fedsift.evaluate.leak_check import LeakCheck, check_chance


def leak_checks(cells: Sequence[Cell], permutations: int) -> dict[str, LeakCheck]:
    """Verdict by model on one row.

    Parameters
    ----------
    cells : sequence of Cell
        Of one row; those with true labels are passed over.
    permutations : int
        First shuffles per split. Any beyond were made after an alarm, and only they decide.
    """
    first = [c for c in cells if 0 < c.permutation <= permutations and c.scores]
    fresh = [c for c in cells if c.permutation > permutations and c.scores]
    verdicts = {}
    for model in next(iter(cell.scores for cell in first), {}):
        found = _check(first, model, None)
        if found is not None and fresh:
            found = _check(fresh, model, found.value) or found
        if found is not None:
            verdicts[model] = found
    return verdicts


def _check(cells: Sequence[Cell], model: str, earlier: float | None) -> LeakCheck | None:
    scores = [cell.scores[model] for cell in cells if model in cell.scores]
    if not scores or "r2" in scores[0]:
        return check_chance([s["r2"] for s in scores], 0.0, metric="r2", first=earlier)
    chance = statistics.fmean(s["chance"] for s in scores)
    # Test rows of a split may lack a rare class, which makes guessing the others easier.
    values = [s["balanced_accuracy"] - s["chance"] + chance for s in scores]
    variances = [s["variance_of_guessing"] for s in scores]
    return check_chance(values, chance, variances, first=earlier)
