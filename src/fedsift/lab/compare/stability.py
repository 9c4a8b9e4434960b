# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""How alike the selections of several splits are.

The index of Nogueira, Sechidis and Brown ("On the stability of feature selection algorithms",
JMLR 18, 2018): one minus the mean variance of a feature's selection over what chance would give.
1 is always the same selection, 0 is what drawing at random gives. Its variance is estimated as in
the same paper, by the influence of each selection.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np

from fedsift.lab.compare.cases import Floats, Mask

_WIDTH = 1.959963984540054
"""Half-width of a 95 % interval in standard errors."""


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
