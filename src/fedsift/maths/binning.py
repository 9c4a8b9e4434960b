# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Cut a feature into bins that are safe to count: quantiles, categories, a bin for missing values.

Edges of a column that one party holds are order statistics rounded up to 28 bits of mantissa; they
stay with that party. Parties that hold different rows look for coarser ones together
(:mod:`fedsift.maths.edges`), by bisection on :func:`ordered_integers`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]

KEPT_BITS = 40
"""Leading bits of the ordered 64-bit form of an edge: sign, exponent and 28 bits of mantissa."""

_DROPPED = 64 - KEPT_BITS
LOW_MASK = np.uint64((1 << _DROPPED) - 1)
_SIGN = np.uint64(1 << 63)


@dataclass(frozen=True, eq=False)
class Bins:
    """One binned feature.

    Attributes
    ----------
    codes : ndarray of shape (n_samples,)
        Bin of each sample, ``0 .. n_bins - 1``, none of them empty.
    n_bins : int
    n_merged : int
        Bins that were too small and went into a neighbour.
    """

    codes: Codes
    n_bins: int
    n_merged: int = 0


def ordered_integers(values: Floats) -> npt.NDArray[np.uint64]:
    """Map floats to unsigned integers of the same order (negative zero counts as zero)."""
    bits = (np.asarray(values, dtype=np.float64) + 0.0).view(np.uint64)
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def from_ordered(integers: npt.NDArray[np.uint64]) -> Floats:
    """Inverse of :func:`ordered_integers`."""
    bits = np.where(integers & _SIGN, integers ^ _SIGN, ~integers)
    return bits.view(np.float64)


def finite_from_ordered(integers: npt.NDArray[np.uint64]) -> Floats:
    """As :func:`from_ordered`, with patterns beyond the largest float clipped to it."""
    largest = ordered_integers(np.array([np.finfo(np.float64).max]))[0]
    return from_ordered(np.clip(integers, ~largest, largest))


def round_up(values: Floats) -> Floats:
    """The largest float that shares the leading 40 ordered bits: an edge that hides the rest."""
    return from_ordered(ordered_integers(values) | LOW_MASK)


def quantile_ranks(n_values: int, n_bins: int) -> npt.NDArray[np.int64]:
    """Ranks (1-based) of the order statistics at which the inner edges lie."""
    inner = np.arange(1, n_bins)
    return np.maximum(1, -(-inner * n_values // n_bins))  # ceil without floats


def quantile_edges(values: Floats, n_bins: int) -> Floats:
    """Inner edges of (nearly) equally filled bins; missing values are left out.

    Examples
    --------
    >>> quantile_edges(np.array([1.0, 2.0, 3.0, 4.0]), 2).round(6)
    array([2.])
    """
    present = np.sort(values[~np.isnan(values)])
    if present.size == 0:
        return np.empty(0)
    # More bins than values would repeat edges, and the last one is left out anyway.
    n_bins = min(n_bins, present.size)
    return unique_edges(present[quantile_ranks(present.size, n_bins) - 1], float(present[-1]))


def unique_edges(order_statistics: Floats, maximum: float) -> Floats:
    """Rounded, without repeats, and without an edge that nothing lies above."""
    edges = np.unique(round_up(order_statistics))
    return edges[edges < maximum]


def cut(values: Floats, edges: Floats) -> Bins:
    """Numbers to bins: bin ``b`` holds ``edges[b-1] < x <= edges[b]``; missing ones come last."""
    codes = np.searchsorted(edges, values, side="left").astype(np.int64)
    missing = np.isnan(values)
    codes[missing] = len(edges) + 1
    return Bins(codes, len(edges) + 1 + bool(missing.any()))


def categories(codes: Codes, n_categories: int) -> Bins:
    """Categories to bins; missing ones (-1) come last."""
    missing = codes < 0
    filled = np.where(missing, n_categories, codes)
    return Bins(filled, n_categories + bool(missing.any()))


def merge_plan(sizes: Sequence[int], min_size: int, *, ordered: bool) -> Codes:
    """New bin of each old bin so that no bin is smaller than ``min_size`` (empty bins vanish).

    Ordered bins go to the smaller neighbour. Unordered ones (categories) are pooled with the
    smallest others. If everything together is too small, one bin remains.

    Examples
    --------
    >>> merge_plan([6, 2, 7], 5, ordered=True)
    array([0, 0, 1])
    """
    groups = [[bin_] for bin_ in range(len(sizes)) if sizes[bin_] > 0]
    weights = [int(sizes[group[0]]) for group in groups]
    while len(groups) > 1 and min(weights) < min_size:
        small = int(np.argmin(weights))
        other = _partner(weights, small, ordered=ordered)
        first, second = sorted((small, other))
        groups[first] += groups.pop(second)
        weights[first] += weights.pop(second)
    plan = np.zeros(len(sizes), dtype=np.int64)
    for new, group in enumerate(groups):
        plan[group] = new
    return plan


def _partner(weights: Sequence[int], small: int, *, ordered: bool) -> int:
    """Which bin a too small one joins."""
    if ordered:
        candidates = [i for i in (small - 1, small + 1) if 0 <= i < len(weights)]
    else:
        candidates = [i for i in range(len(weights)) if i != small]
    return min(candidates, key=lambda i: weights[i])


def merge_small(bins: Bins, min_size: int, *, ordered: bool) -> Bins:
    """Merge bins below the minimum size; drop empty ones."""
    sizes = np.bincount(bins.codes, minlength=bins.n_bins)
    plan = merge_plan(sizes.tolist(), min_size, ordered=ordered)
    occupied = int((sizes > 0).sum())
    n_bins = int(plan.max(initial=0)) + 1
    return Bins(plan[bins.codes], n_bins, bins.n_merged + occupied - n_bins)
