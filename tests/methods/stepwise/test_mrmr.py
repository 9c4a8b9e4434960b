# SPDX-FileCopyrightText: The fedsift authors
"""Relevance minus redundancy by mutual information."""

import numpy as np
import pytest
from sklearn.metrics import mutual_info_score

from fedsift.maths.information import joint_counts, mutual_information
from fedsift.methods.stepwise import mrmr


def binned(seed=0, n_rows=400, n_columns=9):
    rng = np.random.default_rng(seed)
    columns = rng.integers(0, 4, size=(n_rows, n_columns))
    columns[:, 1] = np.where(rng.uniform(size=n_rows) < 0.9, columns[:, 0], columns[:, 1])
    labels = (columns[:, 0] + columns[:, 2] + rng.integers(0, 2, n_rows) > 3).astype(np.int64)
    return columns, labels


def test_mutual_information_is_that_of_scikit_learn():
    columns, labels = binned()
    found = mutual_information(joint_counts(columns, labels))
    assert np.allclose(found, [mutual_info_score(column, labels) for column in columns.T])


def test_the_order_is_that_of_the_definition():
    columns, labels = binned()
    relevance = [mutual_info_score(column, labels) for column in columns.T]
    chosen = [int(np.argmax(relevance))]
    while len(chosen) < 6:
        left = [f for f in range(9) if f not in chosen]
        found = [
            relevance[f]
            - np.mean([mutual_info_score(columns[:, f], columns[:, k]) for k in chosen])
            for f in left
        ]
        chosen.append(left[int(np.argmax(found))])
    assert mrmr.select_open(columns, labels, 6) == chosen


def test_a_near_copy_comes_late():
    columns, labels = binned()
    order = mrmr.select_open(columns, labels, 9)
    relevance = mutual_information(joint_counts(columns, labels))
    assert set(np.argsort(-relevance)[:3].tolist()) == {0, 1, 2}
    assert set(order[:2]) == {0, 2}
    assert order.index(1) > 5


def test_forced_and_excluded_columns_are_not_chosen():
    columns, labels = binned()
    search = mrmr.MrmrSearch(mutual_information(joint_counts(columns, labels)))
    search.exclude([2])
    search.add(0, mutual_information(joint_counts(columns, columns[:, 0])), forced=True)
    assert search.redundancy(1)[1] == 0
    assert search.redundancy(1)[0] == pytest.approx(mutual_info_score(columns[:, 0], columns[:, 1]))
    while (best := search.best()) is not None:
        search.add(best, mutual_information(joint_counts(columns, columns[:, best])))
    assert sorted(search.selected) == [1, 3, 4, 5, 6, 7, 8]
