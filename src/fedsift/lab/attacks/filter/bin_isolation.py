# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Filters: a feature holder solves the scores of its own columns for the labels of single rows.

Method    filter with a binned score (gini of paper 000; iv, mi and chi2 alike).
Leak      A score and one's own bins are an equation in the label counts. A bin of one row has one
          unknown, the label of that row (:func:`lonely_label`). Two columns that differ in one row
          give it by difference, however large their bins are (:func:`label_by_difference`).
Fix       Bins below the minimum size are merged, which ends the first, and scores do not go back
          to feature holders unless the label holder's policy names ``own-scores``, which ends both.
Remains   Where a policy names ``own-scores``, the second attack works; the declaration says so.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fedsift.methods.filter.scores import TABLE_SCORES

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_SAME = 2.0**-15
"""Scores closer than this are the same: they are computed in fixed point."""


def isolating_column(n_rows: int, row: int) -> Floats:
    """One for a single row, zero for all others."""
    column = np.zeros(n_rows)
    column[row] = 1.0
    return column


def nearly_equal_columns(n_rows: int, row: int, rng: np.random.Generator) -> Floats:
    """Two columns of zeros and ones, about a third ones, that differ in a single row.

    Returns
    -------
    ndarray of shape (n_rows, 2)
        The row is one in the second column only.
    """
    others = np.delete(np.arange(n_rows), row)
    ones = rng.permutation(others)[: max(1, n_rows // 3)]
    columns = np.zeros((n_rows, 2))
    columns[ones] = 1.0
    columns[row, 1] = 1.0
    return columns


def two_class_score(name: str, positives: Integers, sizes: Integers) -> Floats:
    """A score of tables with two bins and two classes, one for each line of ``positives``.

    Parameters
    ----------
    positives : ndarray of shape (n_tables, 2)
        Rows of the second class in either bin.
    sizes : ndarray of shape (2,)
    """
    tables = np.stack([sizes - positives, positives], axis=2)
    return np.asarray(TABLE_SCORES[name](tables), dtype=np.float64)


def lonely_label(name: str, score: float, sizes: Integers, n_positive: int) -> int | None:
    """The label of the only row in the second bin, if the score tells.

    Parameters
    ----------
    sizes : ndarray of shape (2,)
        Rows of either bin, as the score was computed; the attacker knows them.
    n_positive : int
        Rows of the second class in all; told for the attacker's benefit.

    Examples
    --------
    >>> sizes = np.array([9, 1])
    >>> score = two_class_score("gini", np.array([[4, 0]]), sizes)[0]
    >>> lonely_label("gini", float(score), sizes, n_positive=4)
    0
    """
    if sizes.min() != 1:
        return None
    labels = np.array([0, 1])
    found = two_class_score(name, np.stack([n_positive - labels, labels], axis=1), sizes)
    return _only(labels[np.abs(found - score) < _SAME])


def label_by_difference(name: str, scores: Floats, sizes: Integers, n_positive: int) -> int | None:
    """The label of the one row by which two partitions differ, if their scores tell.

    Parameters
    ----------
    scores : ndarray of shape (2,)
        Of a column without the row among its ones, and of the same column with it.
    sizes : ndarray of shape (2,)
        Zeros and ones of the first column.

    Examples
    --------
    >>> sizes = np.array([14, 6])
    >>> first = two_class_score("gini", np.array([[5, 4]]), sizes)[0]
    >>> second = two_class_score("gini", np.array([[4, 5]]), sizes + [-1, 1])[0]
    >>> label_by_difference("gini", np.array([first, second]), sizes, n_positive=9)
    1
    """
    low, high = max(0, n_positive - int(sizes[0])), min(n_positive, int(sizes[1]))
    ones = np.arange(low, high + 1)
    before = two_class_score(name, np.stack([n_positive - ones, ones], axis=1), sizes)
    ones = ones[np.abs(before - scores[0]) < _SAME]
    explained, larger = [], sizes + np.array([-1, 1])
    for label in (0, 1):
        moved = np.stack([n_positive - ones - label, ones + label], axis=1)
        possible = (moved >= 0).all(axis=1) & (moved <= larger).all(axis=1)
        after = two_class_score(name, moved[possible], larger)
        if (np.abs(after - scores[1]) < _SAME).any():
            explained.append(label)
    return _only(np.array(explained))


def share_right(guesses: list[int | None], labels: Integers) -> float:
    """Share of right labels; where the attacker cannot tell, it tosses a coin.

    Examples
    --------
    >>> share_right([1, None, 0], np.array([1, 0, 0]))
    0.8333333333333334
    """
    points = [0.5 if g is None else float(g == y) for g, y in zip(guesses, labels, strict=True)]
    return float(np.mean(points))


def _only(labels: Integers) -> int | None:
    return int(labels[0]) if len(labels) == 1 else None
