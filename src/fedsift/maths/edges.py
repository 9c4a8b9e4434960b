# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Bin edges of pooled columns from counts of rows below thresholds, and from nothing else.

Every edge is looked for by halving the range of all floats. The search ends with the first
threshold that has about the wanted number of values below it; thresholds have few digits, 10 bits
of mantissa at most. A range is therefore only cut in two while it holds more values than twice the
tolerance, and an edge is as coarse as it can be.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fedsift.maths import binning

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

EDGE_BITS = 22
"""Leading bits of the ordered 64-bit form of an edge: sign, exponent and 10 bits of mantissa."""

_TOP = np.uint64(2**64 - 1)


class EdgeSearch:
    """All edges of all columns at once; whoever knows the same counts finds the same edges.

    Parameters
    ----------
    n_bins : sequence of int
        Wanted bins of each column.
    complete : sequence of bool
        Columns whose values may be counted; of the others about all rows have one.
    smallest : int
        Fewest rows by which an edge may miss its place.

    Examples
    --------
    >>> search, values = EdgeSearch([2], [True], 1), np.arange(100.0)
    >>> while search.thresholds:
    ...     below = [int((values <= t).sum()) for t in search.thresholds[0]]
    ...     search.take(np.array([100, *below]) if not search.n_rows else np.array(below))
    >>> search.edges[0][0].round(3)
    array([48.])
    """

    def __init__(self, n_bins: Sequence[int], complete: Sequence[bool], smallest: int) -> None:
        self._bins = np.asarray(n_bins, dtype=np.int64)
        self._complete = np.asarray(complete, dtype=np.bool_)
        self._smallest = smallest
        self._step = 0
        self.n_rows = 0
        middle = binning.finite_from_ordered(np.array([_TOP >> np.uint64(1)]))
        largest = np.array([np.finfo(np.float64).max])
        self.thresholds: list[Floats] = [
            np.concatenate([middle, largest]) if known else middle for known in complete
        ]
        """What to count next, by column; empty at the end. First the number of rows, too."""

    def take(self, counts: Integers) -> None:
        """Counts of values at or below the thresholds, column by column."""
        if not self._step:
            counts = self._begin(counts)
        bit = np.uint64(1) << np.uint64(63 - self._step)
        tried = self._low | (bit - np.uint64(1))
        found = counts[self._asked]
        missed = found - self._ranks
        hit = self._active & (np.abs(missed) <= self._tolerance[:, None])
        above = self._active & (missed > 0) | hit
        self._edges[above], self._at[above] = tried[above], found[above]
        self._active &= ~hit
        self._low[self._active & (missed < 0)] |= bit
        self._step += 1
        self._ask()

    @property
    def edges(self) -> list[tuple[Floats, Integers]]:
        """Edges of each column and the values at or below them; none that nothing lies above."""
        result = []
        for found, at, present in zip(self._edges, self._at, self._present, strict=True):
            known, places = np.unique(found[at < present], return_index=True)
            result.append((binning.finite_from_ordered(known), at[at < present][places]))
        return result

    def present(self, column: int) -> int:
        """How many values a column has, as far as that may be known."""
        return int(self._present[column])

    def _begin(self, counts: Integers) -> Integers:
        """Sizes and wanted ranks; the counts at the first threshold."""
        self.n_rows = int(counts[0])
        lengths = 1 + self._complete
        first = np.cumsum(lengths) - lengths + 1
        last = np.minimum(first + 1, len(counts) - 1)
        self._present = np.where(self._complete, counts[last], self.n_rows)
        bins = np.minimum(self._bins, np.maximum(self._present, 2))
        width = int(bins.max(initial=2)) - 1
        shape = (len(bins), width)
        self._ranks = np.zeros(shape, dtype=np.int64)
        self._active = np.zeros(shape, dtype=np.bool_)
        for c, (present, number) in enumerate(zip(self._present, bins, strict=True)):
            self._ranks[c, : number - 1] = binning.quantile_ranks(int(present), int(number))
            self._active[c, : number - 1] = present > 0
        self._tolerance = np.maximum(self._smallest, self._present // (8 * bins))
        self._low = np.zeros(shape, dtype=np.uint64)
        self._edges = np.full(shape, _TOP)
        self._at = np.repeat(self._present[:, None], width, axis=1)
        self._asked = np.repeat(np.arange(len(bins))[:, None], width, axis=1)
        return np.asarray(counts[first])

    def _ask(self) -> None:
        """Thresholds of the edges that are still looked for, each once in a column."""
        if self._step == EDGE_BITS or not self._active.any():
            self.thresholds = []
            return
        bit = np.uint64(1) << np.uint64(63 - self._step)
        tried = np.where(self._active, self._low | (bit - np.uint64(1)), np.uint64(0))
        # Ranks ascend, and so do thresholds: equal ones are neighbours.
        highest = np.maximum.accumulate(tried, axis=1)
        before = np.concatenate([np.zeros((len(tried), 1), np.uint64), highest[:, :-1]], axis=1)
        new = self._active & (highest != before)
        self._asked = np.maximum(np.cumsum(new).reshape(new.shape) - 1, 0)
        flat = binning.finite_from_ordered(tried[new])
        self.thresholds = np.split(flat, np.cumsum(new.sum(axis=1))[:-1])
