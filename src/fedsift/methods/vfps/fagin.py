# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Fagin's algorithm on sub-rankings: a small set of rows that contains the nearest ones.

Every participant sorts the rows by its own part of the distance. Once k rows have been seen near
the top of *all* lists, any row not seen in any list is farther than those k for every monotone sum
of the parts, and for the sum over any subset of the participants (the paper's inclusion property).

Lists are cut between different distances, never inside a tie. Then a row that was not seen is
*strictly* farther, so that the candidates contain all rows within the k-th distance, ties included.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]

FIRST_BLOCK = 64
"""Rows in the first block of a sub-ranking; every further one doubles what was sent."""


class SubRankings:
    """What has been seen of one query's sub-rankings; rows are known by pseudo-id only.

    Parameters
    ----------
    n_rows, n_lists : int

    Examples
    --------
    >>> seen = SubRankings(n_rows=5, n_lists=2)
    >>> seen.extend(0, np.array([3, 1, 0]))
    >>> seen.extend(1, np.array([1, 2, 3]))
    >>> [part.tolist() for part in seen.new_common()]
    [[1, 3], [2, 3]]
    >>> seen.candidates([2, 2]).tolist()
    [1, 2, 3]
    """

    def __init__(self, n_rows: int, n_lists: int) -> None:
        self._unseen = n_rows + 1
        # Rank of every row in every list, from 1.
        self._ranks = np.full((n_lists, n_rows), self._unseen, dtype=np.int32)
        self.lengths = [0] * n_lists
        self._told = np.zeros(n_rows, dtype=bool)

    def extend(self, number: int, rows: Integers) -> None:
        """Append a block to one list."""
        start = self.lengths[number]
        self._ranks[number, rows] = np.arange(start + 1, start + len(rows) + 1)
        self.lengths[number] = start + len(rows)

    def fits(self, number: int, rows: Integers) -> bool:
        """Whether a block holds known rows that the list does not have yet, each of them once."""
        if len(rows) == 0:
            return self.lengths[number] == self._ranks.shape[1]
        if rows.min() < 0 or rows.max() >= self._ranks.shape[1]:
            return False
        fresh = bool((self._ranks[number, rows] == self._unseen).all())
        return fresh and len(np.unique(rows)) == len(rows)

    def new_common(self) -> tuple[Integers, Integers]:
        """Rows newly seen in all lists and the depth at which that happened, nearest first."""
        depth = self._ranks.max(axis=0)
        rows = np.flatnonzero((depth < self._unseen) & ~self._told)
        rows = rows[np.argsort(depth[rows], kind="stable")]
        self._told[rows] = True
        return rows.astype(np.int64), depth[rows].astype(np.int64)

    def candidates(self, depths: Sequence[int]) -> Integers:
        """Rows seen in any list down to the list's depth."""
        limit = np.asarray(depths, dtype=np.int32)[:, None]
        return np.flatnonzero((self._ranks <= limit).any(axis=0)).astype(np.int64)


def stop_depth(depths: Integers, wanted: npt.NDArray[np.bool_], k: int) -> int | None:
    """Depth at which the k-th wanted row was seen in all lists, or None if there are fewer."""
    found = depths[wanted]
    return int(found[k - 1]) if len(found) >= k else None


def tie_end(sorted_distances: npt.NDArray[np.generic], depth: int) -> int:
    """Smallest cut at or after ``depth`` that does not divide equal distances.

    Examples
    --------
    >>> tie_end(np.array([1, 2, 2, 2, 5]), 2)
    4
    """
    if depth <= 0:
        return 0
    last = sorted_distances[min(depth, len(sorted_distances)) - 1]
    return int(np.searchsorted(sorted_distances, last, side="right"))


def candidate_rows(
    parts: Sequence[npt.NDArray[np.generic]], is_wanted: Callable[[int], bool], k: int
) -> Integers:
    """Plain Fagin, row by row: the reference for the federated version.

    Parameters
    ----------
    parts : list of ndarray of shape (n_rows,)
        Distances at every participant.
    is_wanted : callable
        Whether a row has the query's label.
    k : int
        At most as many as there are wanted rows.
    """
    orders = [np.argsort(part, kind="stable") for part in parts]
    n_rows = len(parts[0])
    seen = SubRankings(n_rows, len(parts))
    n_common = 0
    for depth in range(1, n_rows + 1):
        for number, order in enumerate(orders):
            seen.extend(number, order[depth - 1 : depth])
        n_common += sum(map(is_wanted, seen.new_common()[0].tolist()))
        if n_common >= k:
            break
    pairs = zip(parts, orders, strict=True)
    cuts = [tie_end(part[order], depth) for part, order in pairs]
    for number, order in enumerate(orders):
        seen.extend(number, order[depth : cuts[number]])
    return seen.candidates(cuts)
