# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""From cells with shuffled labels to the verdict on a row."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from fedsift.lab.compare.cells import Cell
from fedsift.lab.compare.leak_check import ROUNDS, LeakCheck, check_chance, round_of


def leak_checks(cells: Sequence[Cell], permutations: int) -> dict[str, LeakCheck]:
    """Verdict by model on one row.

    Parameters
    ----------
    cells : sequence of Cell
        Of one row; those with true labels are passed over.
    permutations : int
        First shuffles per split. Those beyond were made after an alarm, in rounds: the last one
        decides.
    """
    shuffled = [cell for cell in cells if cell.permutation and cell.scores]
    verdicts: dict[str, LeakCheck] = {}
    for number in range(ROUNDS):
        own = [c for c in shuffled if round_of(c.permutation, permutations) == number]
        for model in next(iter(cell.scores for cell in own), {}):
            last = verdicts.get(model)
            if last is not None and last.passed:
                continue  # the alarm was another model's
            earlier = () if last is None else (*last.earlier, last.value)
            found = _check(own, model, earlier)
            if found is not None:
                verdicts[model] = found
    return verdicts


def _check(cells: Sequence[Cell], model: str, earlier: tuple[float, ...]) -> LeakCheck | None:
    scores = [cell.scores[model] for cell in cells if model in cell.scores]
    if not scores or "r2" in scores[0]:
        return check_chance([s["r2"] for s in scores], 0.0, metric="r2", earlier=earlier)
    chance = statistics.fmean(s["chance"] for s in scores)
    # Test rows of a split may lack a rare class, which makes guessing the others easier.
    values = [s["balanced_accuracy"] - s["chance"] + chance for s in scores]
    variances = [s["variance_of_guessing"] for s in scores]
    return check_chance(values, chance, variances, earlier=earlier)
