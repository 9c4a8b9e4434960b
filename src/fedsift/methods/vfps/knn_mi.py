# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Mutual information of several columns with a label, from nearest neighbours.

Ross (2014) for classes. For a query row q with N_q rows of its class among N rows, let r be the
distance of its k-th nearest row of the same class. With

    k_q = rows of the class within r,   m_q = rows of any class within r   (q itself not counted)

the term of the query is psi(N) - psi(N_q) + psi(k_q) - psi(m_q), and the estimate is the mean of
the terms. Without ties k_q = k and m_q is scikit-learn's count. With ties both counts include the
rows at distance r (Gao et al. 2017), so that a constant column gives 0 and not the entropy.

Only the *order* of the distances enters, whatever positive scale and offset they carry: that is
what lets the federated version work on blinded numbers.

A numeric target has no classes. Here the "class" of a query is the window of rows whose target is
nearest to its own: the same formula, the same order-only input, and a lower bound of the mutual
information like every discretisation of the target.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import digamma

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

WINDOW_SHARE = 0.1
"""Share of the rows that count as "the same label" as a query with a numeric target."""


_DIGITS = 9


@dataclass(frozen=True)
class Estimate:
    """A mean of query terms and how far it may be off."""

    value: float
    standard_error: float
    n_queries: int

    def __add__(self, gain: Estimate) -> Estimate:
        """What is there with a gain on top; the errors are taken for independent."""
        error = math.hypot(self.standard_error, gain.standard_error)
        return Estimate(self.value + gain.value, error, gain.n_queries)


def estimate(terms: npt.ArrayLike) -> Estimate:
    """Mean and standard error of query terms.

    Examples
    --------
    >>> estimate([1.0, 2.0, 3.0]).value
    2.0
    """
    values = np.asarray(terms, dtype=np.float64)
    n = len(values)
    error = float(values.std(ddof=1) / np.sqrt(n)) if n > 1 else 0.0
    return Estimate(float(values.mean()) if n else 0.0, error, n)


class Alike:
    """Which rows carry "the same label" as a query.

    Parameters
    ----------
    codes : ndarray of int64 of shape (n_rows,) or None
        Classes.
    values : ndarray of float64 of shape (n_rows,) or None
        A numeric target, where there are no classes.
    """

    def __init__(self, codes: Integers | None = None, values: Floats | None = None) -> None:
        if codes is not None:
            self._codes = codes
            counts = np.bincount(codes)
            # A class of one row has no neighbour of its own: such rows take no part.
            self.usable: Mask = counts[codes] > 1
            self._counts: Integers | None = counts
        else:
            assert values is not None  # noqa: S101 - one of the two is given
            self._values = values
            self.usable = np.ones(len(values), dtype=bool)
            self._counts = None
        self.n_rows = int(self.usable.sum())
        size = round(WINDOW_SHARE * len(self.usable))
        self._window = min(len(self.usable) - 1, max(2, size))

    def rows(self, query: int) -> Mask:
        """Rows of the query's class (or window), itself included."""
        if self._counts is not None:
            return np.asarray(self._codes == self._codes[query])
        gaps = np.abs(self._values - self._values[query])
        radius = np.partition(gaps, self._window)[self._window]
        return np.asarray(gaps <= radius)

    def size(self, query: int) -> int:
        """Number of rows of the query's class or window."""
        if self._counts is not None:
            return int(self._counts[self._codes[query]])
        return int(self.rows(query).sum())


def neighbours_wanted(k: int, class_size: int) -> int:
    """k, or what the class has besides the query."""
    return min(k, class_size - 1)


def term(distances: npt.ArrayLike, alike: Mask, k: int, n_rows: int, class_size: int) -> float:
    """The term of one query.

    Parameters
    ----------
    distances : array-like of shape (n,)
        To the candidate rows, the query itself and rows without part left out; any scale, any
        offset. Must contain every row within the k-th nearest one of the query's class.
    alike : ndarray of bool of shape (n,)
        Which candidates are of the query's class.
    k : int
        Neighbours of the same class.
    n_rows, class_size : int
        N and N_q over *all* rows, the query included.

    Examples
    --------
    >>> alike = np.array([True, True, False, False])
    >>> round(term([1, 2, 3, 4], alike, 2, 5, 3), 4)  # both of the class are nearest
    0.5833
    """
    numbers = np.asarray(distances)
    k = neighbours_wanted(k, class_size)
    same = numbers[alike]
    radius = np.partition(same, k - 1)[k - 1]
    k_q = int((same <= radius).sum())
    m_q = int((numbers <= radius).sum())
    return float(digamma(n_rows) - digamma(class_size) + digamma(k_q) - digamma(m_q))


def exact_terms(parts: Sequence[Floats], labels: Alike, queries: Iterable[int], k: int) -> Floats:
    """Terms of some queries from pooled plaintext columns: the oracle of the federated version.

    Parameters
    ----------
    parts : list of ndarray of shape (n_rows, n_columns)
        Standardised columns of the participants in the group.
    """
    joint = np.concatenate(list(parts), axis=1)
    terms = []
    for query in queries:
        distances = ((joint - joint[query]) ** 2).sum(axis=1)
        # Equal distances that were added up in another order differ in the last digits only.
        distances = np.round(distances, _DIGITS)
        terms.append(term_of_row(distances, labels, query, k))
    return np.array(terms)


def term_of_row(distances: npt.ArrayLike, labels: Alike, query: int, k: int) -> float:
    """The term of a query from its distances to all rows."""
    kept = labels.usable.copy()
    kept[query] = False
    alike = labels.rows(query)
    return term(np.asarray(distances)[kept], alike[kept], k, labels.n_rows, labels.size(query))
