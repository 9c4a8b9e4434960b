# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Relevance minus redundancy, by mutual information of binned and categorical columns.

The criterion of a candidate is its mutual information with the label, less the mean of its mutual
information with the columns selected so far (mRMR, difference form). Both come from tables of two
columns at a time, which products of bins with bins say: the owner of the column selected last
has it multiplied as any other column. CMIM and JMI need tables of three columns, which it does not.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fedsift.maths.information import joint_counts, mutual_information

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]


class MrmrSearch:
    """Selects one column after the other.

    Parameters
    ----------
    relevance : array of shape (n_columns,)
        Mutual information of every column with the label.

    Examples
    --------
    >>> search = MrmrSearch([0.6, 0.59, 0.2])
    >>> search.add(search.best(), [0.69, 0.6, 0.0])
    >>> search.best()
    2
    """

    def __init__(self, relevance: npt.ArrayLike) -> None:
        self.relevance = np.asarray(relevance, dtype=np.float64)
        self._redundancy = np.zeros_like(self.relevance)
        self._closest = np.zeros_like(self.relevance)
        self._closest_to = np.full(len(self.relevance), -1)
        self._open = np.ones(len(self.relevance), dtype=np.bool_)
        self._n_in = 0
        self.selected: list[int] = []
        self.entered: list[float] = []
        """Criterion of each selected column when it was selected."""

    def exclude(self, columns: list[int]) -> None:
        """Take columns out of the choice."""
        self._open[columns] = False

    def criterion(self) -> Floats:
        """Relevance less mean redundancy of every column."""
        return self.relevance - self._redundancy / max(1, self._n_in)

    def best(self) -> int | None:
        """The candidate to go on with, if there is one; of equal ones the first."""
        if not self._open.any():
            return None
        return int(np.argmax(np.where(self._open, self.criterion(), -np.inf)))

    def redundancy(self, column: int) -> tuple[float, int | None]:
        """The largest mutual information with a column that is in, and which column that is."""
        near = int(self._closest_to[column])
        return float(self._closest[column]), near if near >= 0 else None

    def add(self, column: int, information: npt.ArrayLike, *, forced: bool = False) -> None:
        """Take a column in, with its mutual information with every column."""
        if not forced:
            self.selected.append(column)
            self.entered.append(float(self.criterion()[column]))
        shared = np.maximum(np.asarray(information, dtype=np.float64), 0.0)
        self._redundancy += shared
        closer = shared > self._closest
        self._closest[closer] = shared[closer]
        self._closest_to[closer] = column
        self._open[column] = False
        self._n_in += 1


def search_open(
    binned: Codes, labels: Codes, n_select: int, forced: Sequence[int] = ()
) -> MrmrSearch:
    """The same search over columns that are all in one place; constants are not selected."""
    search = MrmrSearch(mutual_information(joint_counts(binned, labels)))
    search.exclude(np.flatnonzero(np.ptp(binned, axis=0) == 0).tolist())
    for column in forced:
        shared = mutual_information(joint_counts(binned, binned[:, column]))
        search.add(column, shared, forced=True)
    while len(search.selected) < n_select and (best := search.best()) is not None:
        search.add(best, mutual_information(joint_counts(binned, binned[:, best])))
    return search


def select_open(binned: Codes, labels: Codes, n_select: int) -> list[int]:
    """Only what is selected, in order."""
    return search_open(binned, labels, n_select).selected
