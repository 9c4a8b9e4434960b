# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What private selections by interactions or of participants would need: why none is offered.

Neighbours, choices and budgets are those of :mod:`fedsift.privacy.release`.

*Interactions* (measure ``miw``). Columns that are standardised by their own rows have no bound: one
extreme value shrinks all others. So let columns be cut in two at points known beforehand, into -1
and 1. Steps would draw by ``ln R = ln(1 + relevance) + sum ln IW`` over the features drawn before.

Relevance times n is the sum of squares between classes. A row that enters class j changes it by
``N / (N + 1) (x - mean)**2 - n_j / (n_j + 1) (x - mean_j)**2``, which lies in [-4, 4], since two
values differ by at most 2. A row that leaves does the opposite: at most 8 in all, and
``ln(1 + .)`` is no steeper than 1.

``IW - 1 = (sum_j n_j c_j**2 - n c**2) / (2 n)`` with covariances c inside classes and overall. Let
a row enter a group of m rows with means u, v and covariance c, and let ``d = (x - u)(y - v)``.
Then ``m c**2`` changes by ``e = (m / (m+1))**2 (2 c d + d**2 / (m+1)) - c**2 m / (m+1)``.

- From above: ``|c| <= sqrt((1 - u**2)(1 - v**2))`` and ``|d| <= (1 + |u|)(1 + |v|)``, and
  ``sqrt(1 - a**2) (1 + a)`` is largest at a = 1/2, so ``2 c d <= 27/8``; with ``d**2 <= 16`` the
  sum is largest at m = 4, below 4.25.
- From below, say for c > 0 > d: ``c <= min(p, q)`` with ``p = (1 - u)(1 + v)`` and
  ``q = (1 + u)(1 - v)``, and d is -p or -q, so ``c |d| <= p q <= 1`` and ``c**2 <= p q <= 1``: e is
  at least -3.

A row leaves and enters, inside classes and overall: n IW changes by at most 2 * 7.25 / 2. IW is at
least 1/2, so ln IW changes by at most 14.5 / n, for each feature drawn before. The worst data that
are known (:func:`a_pair`) change it by a seventh of that: a sharper proof could save no more.

*Participants* (VF-PS). The term of a query ends with ``-psi(m_q)``, m_q being the rows within the
k-th neighbour of the query's class. One row can be that neighbour for all queries: without it their
spheres grow to the next one, and may take in every row of other classes. So the change is bounded
by ``psi(n - 1) - psi(k)`` only, more than all information that a label of two classes has, and
:func:`a_hub` shows data that come near it. Kissing numbers bound how many rows one row can be the
neighbour of, but not below many thousands from about twenty columns on.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.special import digamma

from fedsift.privacy.release import Release

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_RELEVANCE, _WEIGHT = 8.0, 14.5


def interaction_reaches(n_rows: int, n_select: int) -> list[float]:
    """Sensitivity of ``ln R`` in each step, for columns of -1 and 1."""
    return [(_RELEVANCE + _WEIGHT * step) / n_rows for step in range(n_select)]


def participant_reach(n_rows: int, k: int) -> float:
    """How far one row can move a participant's importance, in nats."""
    return float(digamma(n_rows - 1) - digamma(k))


def odds(lead: float, reaches: list[float], budget: Release) -> float:
    """How much more often a choice falls on a candidate that leads by so much.

    Examples
    --------
    >>> round(odds(0.1, [0.01, 0.01], Release(4.0)), 3)  # each choice has epsilon 2
    22026.466
    """
    prices = budget.prices(reaches)
    return math.exp(lead * prices[0] / (2 * reaches[0]))


def a_pair(n_rows: int) -> tuple[Floats, Floats, Integers]:
    """Two columns of neighbours, and labels: the first row agrees in both columns, or does not.

    It is of a rare class in which both columns are equal, more often at the lower end.
    """
    rng = np.random.default_rng(0)
    n_rare = n_rows // 25
    codes = np.where(np.arange(n_rows) < n_rare, 1, 0)
    columns = rng.choice([-1.0, 1.0], size=(n_rows, 2))
    columns[:n_rare] = np.where(np.arange(n_rare) < 0.4 * n_rare, 1.0, -1.0)[:, None]
    other = columns.copy()
    other[0, 1] = -1.0
    return columns, other, codes


def a_hub(n_rows: int, k: int, n_columns: int = 200) -> tuple[Floats, Integers]:
    """Data in which the first row is among the k nearest of its class for every row of it.

    Rows of the class lie in corners of a cube, k of them in its centre; the rows of the other class
    are farther from the corners than the centre is, but nearer than other corners.
    """
    rng = np.random.default_rng(0)
    codes = np.arange(n_rows) % 2
    corners = rng.choice([-1.0, 1.0], size=(n_rows, n_columns)) / math.sqrt(n_columns)
    around = rng.normal(size=(n_rows, n_columns))
    around *= 0.4 / np.linalg.norm(around, axis=1, keepdims=True)
    columns = np.where(codes[:, None] == 0, corners, around)
    columns[: 2 * k : 2] = 0.0
    return columns, codes


def without_hub(columns: Floats) -> Floats:
    """The same but for the first row, which is in a corner of its own."""
    moved = columns.copy()
    moved[0] = np.where(np.arange(columns.shape[1]) % 2, 1.0, -1.0) / math.sqrt(columns.shape[1])
    return moved
