# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The control with shuffled labels: where nothing is to be learned, nothing may be reached.

Selection and models see training rows with shuffled labels; test rows keep their true ones. Nothing
is left to learn, so balanced accuracy must be 1 / number of classes and R2 at most 0, within two
standard errors. A method that does better has seen the test rows. One method in twenty is outside
by bad luck, so an alarm is checked once more with fresh shuffles, and only these decide.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import msgspec

WIDTH = 2.0
"""Standard errors that chance may be away."""

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
    first : float or None
        What the first shuffles gave, if they raised an alarm that was checked again.
    """

    metric: str
    value: float
    standard_error: float
    chance: float
    n: int
    passed: bool
    first: float | None = None


def check_chance(
    values: Sequence[float],
    chance: float,
    variances: Sequence[float] = (),
    *,
    metric: str = "balanced_accuracy",
    first: float | None = None,
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
    first : float, optional
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
    return LeakCheck(metric, mean, error, chance, n, passed, first)
