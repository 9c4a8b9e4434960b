# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Filter scores of single features, from contingency counts or from class sums.

Counts have shape (n_features, n_bins, n_classes); empty bins change nothing, so features may be
padded to a common number of bins.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from fedsift.errors import ValueProblem
from fedsift.maths.information import mutual_information

Floats = npt.NDArray[np.float64]

LOWER_IS_BETTER = frozenset({"gini"})
"""Scores that measure impurity; all others measure relevance."""


def gini(counts: npt.ArrayLike) -> Floats:
    """Weighted Gini impurity that remains after cutting by the feature (paper 000, section IV-A).

    Examples
    --------
    >>> gini(np.array([[[5, 0], [0, 5]], [[2, 3], [3, 2]]]))
    array([0.  , 0.48])
    """
    table = np.asarray(counts, dtype=np.float64)
    sizes = table.sum(axis=2)
    squares = (table**2).sum(axis=2)
    purity = np.divide(squares, sizes, out=np.zeros_like(sizes), where=sizes > 0)
    return np.asarray(1.0 - purity.sum(axis=1) / sizes.sum(axis=1))


def gini_from_quadratic(quadratic: npt.ArrayLike, n_samples: int, *, centred: bool) -> Floats:
    """Gini impurity from ``sum_b (1 / n_b) sum_k m_bk^2``.

    ``centred`` is the two-class form, where the one column is +1 and -1, so that
    ``n_1^2 + n_2^2 = (m^2 + n_b^2) / 2``.
    """
    total = np.asarray(quadratic, dtype=np.float64) / n_samples
    return 0.5 - 0.5 * total if centred else 1.0 - total


def chi2_of_table(counts: npt.ArrayLike) -> Floats:
    """Pearson's chi-squared statistic of each feature's bin-by-class table."""
    table = np.asarray(counts, dtype=np.float64)
    total = table.sum(axis=(1, 2), keepdims=True)
    expected = table.sum(axis=2, keepdims=True) * table.sum(axis=1, keepdims=True) / total
    squares = (table - expected) ** 2
    return np.asarray(
        np.divide(squares, expected, out=np.zeros_like(squares), where=expected > 0).sum(
            axis=(1, 2)
        )
    )


def information_value(counts: npt.ArrayLike) -> Floats:
    """Information value: how far the bins of a class differ from the bins of all others.

    ``sum_b (g_b - h_b) ln(g_b / h_b)`` with half a row added where a bin lacks a class; with more
    than two classes the mean over one-against-rest, which for two classes is the usual value.
    """
    table = np.asarray(counts, dtype=np.float64)
    values = [_one_against_rest(table, k) for k in range(table.shape[2])]
    return np.asarray(np.mean(values, axis=0))


def _one_against_rest(table: Floats, positive: int) -> Floats:
    hits = table[:, :, positive]
    rest = table.sum(axis=2) - hits
    used = (hits + rest) > 0
    lacking = used & ((hits == 0) | (rest == 0))
    hits, rest = hits + 0.5 * lacking, rest + 0.5 * lacking
    g = hits / hits.sum(axis=1, keepdims=True)
    h = rest / rest.sum(axis=1, keepdims=True)
    weight = np.log(np.divide(g, h, out=np.ones_like(g), where=used))
    return np.asarray(((g - h) * weight).sum(axis=1))


TABLE_SCORES = {
    "gini": gini,
    "mi": mutual_information,
    "chi2": chi2_of_table,
    "iv": information_value,
}
"""Scores of a contingency table."""


def anova_f(explained: npt.ArrayLike, n_samples: int, n_classes: int) -> Floats:
    """F statistic from the explained share of variance (eta squared)."""
    share = np.clip(np.asarray(explained, dtype=np.float64), 0.0, 1.0)
    between, within = n_classes - 1, n_samples - n_classes
    with np.errstate(divide="ignore"):
        return np.asarray(share / (1.0 - share) * (within / between))


def regression_f(squared_correlation: npt.ArrayLike, n_samples: int) -> Floats:
    """F statistic of a linear regression on one feature."""
    return anova_f(squared_correlation, n_samples, 2)


def chi2_of_sums(
    class_sums: npt.ArrayLike, class_sizes: npt.ArrayLike, exponents: npt.ArrayLike = 0
) -> Floats:
    """Chi-squared of non-negative features read as frequencies, as scikit-learn defines it.

    ``class_sums`` has shape (n_features, n_classes), and is to be multiplied with two to the power
    of ``exponents``; so is the score, which grows in proportion.
    """
    observed = np.asarray(class_sums, dtype=np.float64)
    sizes = np.asarray(class_sizes, dtype=np.float64)
    expected = observed.sum(axis=1, keepdims=True) * (sizes / sizes.sum())
    squares = (observed - expected) ** 2
    found = np.divide(squares, expected, out=np.zeros_like(squares), where=expected > 0).sum(axis=1)
    return chi2_times_powers(found, exponents)


def chi2_times_powers(found: Floats, exponents: npt.ArrayLike) -> Floats:
    """Chi-squared of scaled columns times two to the power of ``exponents``, if a float can be."""
    with np.errstate(over="ignore"):
        values = np.asarray(np.ldexp(found, exponents))
    if not np.isfinite(values).all():
        raise ValueProblem(
            "The chi2 of a column is larger than any floating-point number.",
            "Values that are read as frequencies must stay below about 1e300.",
            "Divide the column by a power of ten.",
        )
    return values


def class_deviations(codes: npt.NDArray[np.int64], n_classes: int) -> Floats:
    """Columns whose squared sums over rows make chi-squared of both kinds.

    ``(indicator - share) / sqrt(share)`` per class. A column x of frequencies has
    ``chi2 = sum_k (x . z_k)^2 / sum(x)``; with bins, x is the indicator of each. Two classes need
    one column, because their deviations are opposite.

    Examples
    --------
    >>> class_deviations(np.array([0, 1]), 2)
    array([[ 1.],
           [-1.]])
    """
    shares = np.bincount(codes, minlength=n_classes) / len(codes)
    if n_classes == 2:
        scale = np.sqrt(shares[:1] * shares[1:])
        deviations = (codes == 0)[:, None] - shares[:1]
    else:
        scale = np.sqrt(shares)
        deviations = np.eye(n_classes)[codes] - shares
    return np.asarray(np.divide(deviations, scale, out=np.zeros_like(deviations), where=scale > 0))


def deviation_bits(n_samples: int) -> int:
    """Fraction bits of deviations that keep the chi-squared of bins to six digits."""
    return math.ceil(math.log2(max(2, n_samples)) / 2) + 16


def explained_share(class_sums: npt.ArrayLike, class_sizes: npt.ArrayLike) -> Floats:
    """Eta squared of features with mean 0 and norm 1, from their sums per class."""
    sums = np.asarray(class_sums, dtype=np.float64)
    return np.asarray((sums**2 / np.asarray(class_sizes, dtype=np.float64)).sum(axis=1))


def gini_weight_bits(n_samples: int, *, fine: bool = False) -> int:
    """Fraction bits of the weights 1 / bin size that keep the Gini error below 2**-15.

    ``fine`` keeps it below one sixteenth of what one row weighs too.
    """
    log = max(1, math.ceil(math.log2(n_samples)))
    return log + (max(14, log + 3) if fine else 14)


def gini_weights(
    sizes: npt.NDArray[np.int64], n_samples: int, *, fine: bool = False
) -> npt.NDArray[np.int64]:
    """Fixed-point 1 / size of each bin; 0 for empty bins."""
    scale = 1 << gini_weight_bits(n_samples, fine=fine)
    return np.where(sizes > 0, np.rint(scale / np.maximum(sizes, 1)), 0).astype(np.int64)


def gini_error_bound(n_samples: int, *, fine: bool = False) -> float:
    """Largest difference between the fixed-point and the exact Gini impurity.

    Each weight is off by at most half a unit: ``sum_b n_b^2 / (2 scale n) <= n / (2 scale)``.
    """
    return n_samples / 2 / float(1 << gini_weight_bits(n_samples, fine=fine))
