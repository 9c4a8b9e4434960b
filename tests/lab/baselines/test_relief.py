"""ReliefF: weights by hand, partners found, nothing said about constants."""

import numpy as np
import pytest

from benchmarks.baselines.relief import relief


def test_weights_worked_out_by_hand():
    # Column 0 tells the classes, column 1 differs between the rows of a class.
    X = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    y = np.array([0, 0, 1, 1])
    # Nearest hit of every row: differs by 1 in column 1. Nearest miss: by 1 in column 0.
    assert relief(X, y, n_neighbors=1) == pytest.approx([1.0, -1.0])


def test_other_classes_count_by_their_share():
    X = np.array([[0.0], [0.0], [0.5], [0.5], [1.0], [1.0], [1.0], [1.0]])
    y = np.array([0, 0, 1, 1, 2, 2, 2, 2])
    # Hits never differ. Misses: classes of 2, 2 and 4 rows, shares 1/4, 1/4, 1/2.
    first = (1 / 4) / (3 / 4) * 0.5 + (1 / 2) / (3 / 4) * 1.0
    second = (1 / 4) / (3 / 4) * 0.5 + (1 / 2) / (3 / 4) * 0.5
    third = (1 / 4) / (1 / 2) * 1.0 + (1 / 4) / (1 / 2) * 0.5
    expected = (2 * first + 2 * second + 4 * third) / 8
    assert relief(X, y, n_neighbors=1) == pytest.approx([expected])


def test_it_finds_partners_that_a_single_look_misses():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (200, 6)).astype(float)
    y = (X[:, 0] != X[:, 1]).astype(np.int64)
    assert set(np.argsort(-relief(X, y))[:2].tolist()) == {0, 1}


def test_constants_and_lonely_classes():
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.normal(size=20), np.ones(20)])
    y = np.zeros(20, dtype=np.int64)
    y[:9], y[9] = 1, 2  # class 2 has a single row: it has no hits
    weights = relief(X, y)
    assert np.isfinite(weights).all()
    assert weights[1] == 0
