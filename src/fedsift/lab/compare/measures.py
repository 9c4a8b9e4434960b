# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Over all splits: means and differences, how alike selections are, and shuffled labels.

Means. Training rows of different splits overlap, so their scores are not independent and the usual
standard error is too small. The one used here is that of Nadeau and Bengio ("Inference for the
generalization error", Machine Learning 52, 2003): ``sqrt((1/n + n_test/n_train) * variance)``.

Stability. The index of Nogueira, Sechidis and Brown ("On the stability of feature selection
algorithms", JMLR 18, 2018): one minus the mean variance of a feature's selection over what chance
would give. 1 is always the same selection, 0 is what drawing at random gives. Its variance is
estimated as in the same paper, by the influence of each selection.

Shuffled labels: where nothing is to be learned, nothing may be reached. Selection and models see
training rows with shuffled labels; test rows keep their true ones. Nothing is left to learn, so
balanced accuracy must be 1 / number of classes and R2 at most 0, within two standard errors. A
method that does better has seen the test rows. One check in twenty is outside by bad luck, so an
alarm must be confirmed twice, by fresh shuffles each time; the last ones decide.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from fedsift.lab.compare.cases import Floats, Mask
from fedsift.lab.compare.cells import Cell

_WIDTH = 1.959963984540054
"""Half-width of a 95 % interval in standard errors."""


WIDTH = 2.0
"""Standard errors that chance may be away."""


ROUNDS = 3
"""The first shuffles, and two rounds that may confirm an alarm."""


FRESH = 2
"""Shuffles of a later round for every one of the first."""


_ROUNDING = 1e-9


class Mean(msgspec.Struct, frozen=True):
    """A mean over splits.

    Attributes
    ----------
    value : float
    standard_error : float or None
        None for a single split.
    n : int
        Number of splits.
    """

    value: float
    standard_error: float | None
    n: int


def mean_over_splits(values: Sequence[float], test_share: float) -> Mean | None:
    """Mean and corrected standard error.

    Parameters
    ----------
    values : sequence of float
        One per split; none gives None.
    test_share : float
        Test rows by training rows.

    Examples
    --------
    >>> mean_over_splits([1.0, 2.0, 3.0], 0.0)
    Mean(value=2.0, standard_error=0.5773502691896257, n=3)
    """
    if not values:
        return None
    error = None
    if len(values) > 1:
        error = math.sqrt((1 / len(values) + test_share) * statistics.variance(values))
    return Mean(statistics.fmean(values), error, len(values))


def paired_difference(
    left: Mapping[tuple[int, int], float],
    right: Mapping[tuple[int, int], float],
    test_share: float,
) -> Mean | None:
    """Mean of left minus right over the splits (seed, fold) that both have."""
    common = [left[split] - right[split] for split in left if split in right]
    return mean_over_splits(common, test_share)


# Stability


class Stability(msgspec.Struct, frozen=True):
    """Stability of one method on one data set.

    Attributes
    ----------
    index : float or None
        Nogueira's index; None where it is not defined: fewer than two selections, or always all
        features, or never one.
    standard_error : float or None
    low, high : float or None
        Its 95 % interval.
    jaccard : float or None
        Mean over pairs of selections: common features as a share of those in either.
    """

    index: float | None = None
    standard_error: float | None = None
    low: float | None = None
    high: float | None = None
    jaccard: float | None = None


def stability(selections: Mask) -> Stability:
    """Stability of several selections.

    Parameters
    ----------
    selections : ndarray of bool of shape (n_selections, n_features)

    Examples
    --------
    >>> same = np.array([[1, 0, 0], [1, 0, 0]], dtype=bool)
    >>> stability(same).index, stability(same).jaccard
    (1.0, 1.0)
    """
    Z = np.asarray(selections, dtype=np.float64)
    n_runs, n_features = Z.shape
    if n_runs < 2:
        return Stability()
    jaccard = _jaccard(Z)
    share = Z.mean(axis=0)
    mean_size = float(Z.sum(axis=1).mean())
    by_chance = mean_size / n_features * (1 - mean_size / n_features)
    if by_chance <= 0:
        return Stability(jaccard=jaccard)
    spread = n_runs / (n_runs - 1) * float((share * (1 - share)).mean())
    index = 1 - spread / by_chance
    error = math.sqrt(_variance(Z, share, mean_size, by_chance, index))
    return Stability(
        float(index), error, float(index - _WIDTH * error), float(index + _WIDTH * error), jaccard
    )


def _variance(Z: Floats, share: Floats, mean_size: float, by_chance: float, index: float) -> float:
    """Variance of the index, from how much every single selection moves it."""
    n_runs, n_features = Z.shape
    sizes = Z.sum(axis=1)
    common = sizes * mean_size / n_features**2
    influence = (Z * share).mean(axis=1) - common + index / 2 * (2 * common - sizes / n_features)
    influence = influence / by_chance
    return float(4 / n_runs**2 * ((influence - influence.mean()) ** 2).sum())


def _jaccard(Z: Floats) -> float:
    """Mean over pairs; two empty selections are alike."""
    common = Z @ Z.T
    sizes = Z.sum(axis=1)
    either = sizes[:, None] + sizes - common
    alike = np.where(either > 0, common / np.maximum(either, 1), 1.0)
    return float(alike[np.triu_indices(len(Z), 1)].mean())


# Shuffled labels


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
