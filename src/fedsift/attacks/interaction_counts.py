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

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Table = npt.NDArray[np.int64]


def relevance_of(ones: Table, class_sizes: Sequence[int]) -> npt.NDArray[np.float64]:
    """Relevance (``miw``) of two-valued features from their ones per class, last axis classes."""
    sizes = np.asarray(class_sizes, dtype=np.float64)
    n_rows = sizes.sum()
    p = ones.sum(axis=-1) / n_rows
    between = ((ones / sizes - p[..., None]) ** 2 * (sizes / n_rows)).sum(axis=-1)
    variance = p * (1 - p)
    return np.asarray(between / np.where(variance > 0, variance, 1.0))


def tables_that_explain(released: float, precision: float, class_sizes: Sequence[int]) -> Table:
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
        close = np.abs(relevance_of(tables, class_sizes) - released) <= precision
        found.append(tables[close])
    tables = np.concatenate(found)
    return np.asarray(tables[np.lexsort(tables.T[::-1])])
