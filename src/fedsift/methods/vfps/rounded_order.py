# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Nearest rows from rounded sums: a small set that certainly contains them.

Every one of m members cuts its part of a distance down to a multiple of a step. If Q is the sum of
these multiples and D the true distance, then Q <= D / step < Q + m. Take any k rows of the query's
label and let K be the largest of their Q: the k-th nearest row of that label is nearer than K + m
steps, so every row within its distance has Q <= K + m - 1. Ties of true distances are ties of Q.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]


class RoundedOrder:
    """Rows of one query, known by pseudo-id only, sorted by the rounded distances of a group.

    Parameters
    ----------
    sums : ndarray of int of shape (n_rows,)
        Rounded distances, by pseudo-id.
    n_members : int
        Parties whose parts were rounded and added.

    Examples
    --------
    >>> order = RoundedOrder(np.array([7, 0, 3, 5, 1]), n_members=2)
    >>> order.block(2).tolist(), order.block(4).tolist()
    ([1, 4], [2, 3])
    >>> order.candidates(3).tolist()  # 3 is the third; up to 3 + 2 - 1 may be as near
    [1, 2, 4]
    """

    def __init__(self, sums: npt.NDArray[np.integer], n_members: int) -> None:
        self._sums = sums.astype(np.int64)
        self._n_members = n_members
        # Pseudo-ids are random, so ties are in no order that means anything.
        self._order = np.argsort(sums, kind="stable").astype(np.int64)
        self._told = 0

    def block(self, depth: int) -> Integers:
        """Pseudo-ids from where the last block ended to the given depth, nearest first."""
        start, self._told = self._told, max(self._told, min(depth, len(self._order)))
        return self._order[start : self._told]

    def candidates(self, depth: int) -> Integers:
        """Pseudo-ids that may be as near as the row at this place of the order, counted from 1."""
        limit = self._sums[self._order[min(depth, len(self._order)) - 1]] + self._n_members - 1
        return np.flatnonzero(self._sums <= limit).astype(np.int64)
