# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The control with shuffled labels: where nothing is to be learned, nothing may be reached.

Selection and models see training rows with shuffled labels; test rows keep their true ones. Nothing
is left to learn, so balanced accuracy must be 1 / number of classes and R2 at most 0, within two
standard errors. A method that does better has seen the test rows. One check in twenty is outside by
bad luck, so an alarm must be confirmed twice, by fresh shuffles each time; the last ones decide.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import msgspec

WIDTH = 2.0
"""Standard errors that chance may be away."""

ROUNDS = 3
"""The first shuffles, and two rounds that may confirm an alarm."""

FRESH = 2
"""Shuffles of a later round for every one of the first."""


def round_of(permutation: int, permutations: int) -> int:
    """Round, from 0, that a shuffle of a split belongs to; shuffles are numbered from 1.

    Examples
    --------
    >>> [round_of(number, 1) for number in (1, 2, 3, 4, 5)]
    [0, 1, 1, 2, 2]
    """
    if permutation <= permutations:
        return 0
    return 1 + (permutation - permutations - 1) // (FRESH * permutations)


def shuffles_of(number: int, permutations: int) -> range:
    """The shuffles of every split that a round has."""
    if number == 0:
        return range(1, permutations + 1)
    start = 1 + permutations + (number - 1) * FRESH * permutations
    return range(start, start + FRESH * permutations)


_ROUNDING = 1e-9


class LeakCheck(msgspec.Struct, frozen=True):
    """What one model reached on shuffled labels.

    Attributes
    ----------
    metric : str
        ``balanced_accuracy`` or ``r2``.
    value, standard_error : float
        Over the shuffles that decided.
    chance : float
    n : int
        Number of these shuffles.
    passed : bool
    earlier : tuple of float
        What earlier shuffles gave that raised an alarm.
    """

    metric: str
    value: float
    standard_error: float
    chance: float
    n: int
    passed: bool
    earlier: tuple[float, ...] = ()


def check_chance(
    values: Sequence[float],
    chance: float,
    variances: Sequence[float] = (),
    *,
    metric: str = "balanced_accuracy",
    earlier: tuple[float, ...] = (),
) -> LeakCheck | None:
    """Whether scores on shuffled labels are chance.

    Parameters
    ----------
    values : sequence of float
        One per shuffle; fewer than two decide nothing.
    chance : float
    variances : sequence of float
        Variance of each value if predictions were guesses; a spread over few shuffles may come out
        too small, so the larger of the two standard errors counts.
    metric : str
        With ``r2`` anything below chance passes: bad predictions are worse than the mean.
    earlier : tuple of float
        Kept in the outcome.

    Examples
    --------
    >>> check_chance([0.52, 0.47, 0.51], 0.5).passed
    True
    """
    if len(values) < 2:
        return None
    n = len(values)
    mean = statistics.fmean(values)
    error = math.sqrt(statistics.variance(values) / n)
    if variances:
        error = max(error, math.sqrt(statistics.fmean(variances) / n))
    away = mean - chance if metric == "r2" else abs(mean - chance)
    passed = away <= WIDTH * error + _ROUNDING
    return LeakCheck(metric, mean, error, chance, n, passed, earlier)
