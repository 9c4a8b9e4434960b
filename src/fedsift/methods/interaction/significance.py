# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""How likely the relevance of a feature is if the feature tells nothing of the classes.

Law      Relevance is the share of a column's variance that lies between the classes, added over
         the uncorrelated parts of a column of categories: Pillai's trace. Half the label's entropy
         times the relevance of ``paper`` is the same share of a column cut at its mean, as the sum
         of the published logarithm over both values is ``-p (1 - p)``. A beta distribution matches
         it: that of the F test for one part, exact for columns that are normal within the classes;
         for several parts and for columns of two values it holds for many rows.
Blur     Opened relevances carry uniform noise, which is part of the law: otherwise it would look
         like relevance where rows are very many.
Shuffles A run that stops by itself has opened relevances for shuffled labels. A p-value is then the
         share of relevances at least as significant among those of all features; the law goes on
         where none of them reaches.

P-values are too large, never too small, for columns whose variance is below one: columns cut at
four deviations, categories with missing values, and columns of two values for ``paper`` of which
one has fewer than one row in 19.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy import stats

Floats = npt.NDArray[np.float64]

_N_NODES = 48
"""Points of the noise at which the law is averaged."""


def of_shares(
    shares: npt.ArrayLike,
    n_rows: int,
    n_classes: int,
    n_parts: npt.ArrayLike = 1,
    blur: float = 0.0,
) -> Floats:
    """P-values of shares of variance between the classes, each with noise of ``+-blur``.

    Examples
    --------
    >>> of_shares([0.1, 0.1], 60, 3, [1, 2]).round(3).tolist()
    [0.05, 0.207]
    """
    opened = np.asarray(shares, dtype=np.float64)
    parts = np.broadcast_to(np.asarray(n_parts, dtype=np.float64), opened.shape)
    least = np.minimum(parts, n_classes - 1)
    rest = n_rows - n_classes - parts + least
    nodes, weights = np.polynomial.legendre.leggauss(_N_NODES if blur else 1)
    found = np.zeros(opened.shape)
    for node, weight in zip(nodes.tolist(), weights.tolist(), strict=True):
        reached = (opened - blur * node) / least
        half = parts * (n_classes - 1) / 2, least * np.maximum(rest, 1) / 2
        found += weight / 2 * stats.beta.sf(reached, *half)
    return np.where(rest > 0, np.minimum(found, 1.0), np.nan)


def with_shuffles(own: Floats, shuffled: Sequence[Floats]) -> Floats:
    """P-values by their share among those for shuffled labels, by the law where none reaches.

    Examples
    --------
    >>> with_shuffles(np.array([1e-9, 0.3]), [np.array([0.1, 0.6, 0.8])]).tolist()
    [1e-09, 0.5]
    """
    if not shuffled:
        return own
    ordered = np.sort(np.concatenate(shuffled))
    at_least = np.searchsorted(ordered, own, side="right")
    counted = (1 + at_least) / (1 + len(ordered))
    found = np.where(at_least > 0, counted, np.minimum(counted, own))
    return np.where(np.isnan(own), np.nan, found)
