# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Attack on released relevances: which counts explain them (method ``interaction``, paper 001).

Leak  The label owner knows the labels and learns the relevance of an unnamed feature. If the
      feature has two values, the relevance is a function of one count per class, and the label
      owner can try all of them: an exact number leaves one table (and its mirror image).
Fix   The server adds noise to the low bits, so that many tables explain what is released; what is
      left is the stated precision. Few rows and few classes have few tables, and no noise that
      leaves the order intact can change that: the ledger calls the released values what they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from fedsift.methods.interaction.fixed_point import LabelPlan
from fedsift.methods.interaction.measures import CLIP

Table = npt.NDArray[np.int64]
Relevance = Callable[[Table, Sequence[int]], npt.NDArray[np.float64]]


def relevance_of(ones: Table, class_sizes: Sequence[int]) -> npt.NDArray[np.float64]:
    """Relevance (``miw``) of two-valued features from their ones per class, last axis classes."""
    sizes = np.asarray(class_sizes, dtype=np.float64)
    n_rows = sizes.sum()
    p = ones.sum(axis=-1) / n_rows
    between = ((ones / sizes - p[..., None]) ** 2 * (sizes / n_rows)).sum(axis=-1)
    variance = p * (1 - p)
    return np.asarray(between / np.where(variance > 0, variance, 1.0))


def opened_relevance(ones: Table, class_sizes: Sequence[int]) -> npt.NDArray[np.float64]:
    """The same in the protocol's fixed-point numbers: what the label owner opens without noise.

    Examples
    --------
    >>> ones, sizes = np.array([3, 5, 11]), (10, 13, 17)
    >>> round(float(opened_relevance(ones, sizes)), 4), round(float(relevance_of(ones, sizes)), 4)
    (0.0918, 0.0918)
    """
    sizes = np.asarray(class_sizes)
    plan = LabelPlan("miw", sizes)
    share = np.clip(ones.sum(axis=-1) / sizes.sum(), 1e-9, 1 - 1e-9)
    spread, unit = np.sqrt(share * (1 - share)), 1 << plan.scales.value_bits
    one = np.rint(unit * np.minimum((1 - share) / spread, CLIP))[..., None]
    zero = np.rint(unit * np.maximum(-share / spread, -CLIP))[..., None]
    sums = ones * one + (sizes - ones) * zero
    sums = np.concatenate([sums, sums.sum(axis=-1, keepdims=True)], axis=-1)
    factors = plan.relevance_polynomial[2].astype(np.float64)
    return np.asarray((sums**2 * factors).sum(axis=-1) * 2.0**-plan.scales.relevance_bits)


def tables_that_explain(
    released: float,
    precision: float,
    class_sizes: Sequence[int],
    relevance: Relevance = relevance_of,
) -> Table:
    """All counts of ones per class whose relevance is within ``precision`` of the released one.

    Examples
    --------
    >>> exact = float(relevance_of(np.array([3, 5, 11]), (10, 13, 17)))
    >>> tables_that_explain(exact, 1e-12, (10, 13, 17)).tolist()
    [[3, 5, 11], [7, 8, 6]]
    """
    *most, last = class_sizes
    grid = np.stack(np.meshgrid(*[np.arange(n + 1) for n in most], indexing="ij"), axis=-1)
    grid = grid.reshape(-1, len(most))
    found = []
    # One value of the last class at a time keeps the memory small.
    for ones in range(last + 1):
        tables = np.column_stack([grid, np.full(len(grid), ones)])
        close = np.abs(relevance(tables, class_sizes) - released) <= precision
        found.append(tables[close])
    tables = np.concatenate(found)
    return np.asarray(tables[np.lexsort(tables.T[::-1])])
