"""Figures that docs/threat-model.md and docs/privacy-officer.md state about labels and selections."""

import math

import numpy as np
import pytest

from fedsift.lab.attacks import probing
from fedsift.lab.attacks.attack import UNPROTECTED
from fedsift.lab.attacks.made_columns import area, made_table, solve_labels
from fedsift.methods.filter.scores import TABLE_SCORES


@pytest.mark.parametrize(("n_jobs", "n_rows_told"), [(3, 2), (20, 37)])
def test_halves_of_so_many_rows_are_told_in_so_many_jobs(n_jobs, n_rows_told):
    trial = probing._mounted(probing._probe_halves, 61, 2, n_jobs, 0.5)
    assert trial(UNPROTECTED, 0).found == pytest.approx(0.5 + n_rows_told / 61 / 2)


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_a_detecting_matrix_tells_every_object(depth):
    matrix = probing.detecting_matrix(depth)
    assert matrix.shape == (2**depth - 1, depth * 2 ** (depth - 1))
    rng = np.random.default_rng(depth)
    for _ in range(20):
        objects = rng.integers(0, 2, matrix.shape[1])
        assert probing.detected(matrix @ objects, depth).tolist() == objects.tolist()


def selected(X, y, n_selected):
    """One for each of the best columns by gini."""
    tables = np.zeros((X.shape[1], 2, 2), dtype=np.int64)
    for value in (0, 1):
        for label in (0, 1):
            tables[:, value, label] = ((value == X) & (y == label)[:, None]).sum(axis=0)
    scores = TABLE_SCORES["gini"](tables)
    told = np.zeros(X.shape[1])
    told[np.argsort(scores)[:n_selected]] = 1
    return told


@pytest.mark.parametrize(
    ("n_columns", "n_selected", "least", "most"),
    [(600, 60, 0.97, 1.0), (600, 1, 0.6, 0.7), (30, 3, 0.6, 0.65)],
)
def test_a_selection_of_made_up_columns_tells_labels(n_columns, n_selected, least, most):
    found = []
    for seed in range(4):
        X, y = made_table(120, n_columns, seed)
        found.append(area(solve_labels(X, selected(X, y, n_selected), seed), y))
    assert least < np.mean(found) <= most


def test_ten_of_thirty_columns_tell_a_twentieth_of_a_bit_about_each_of_500_rows():
    bits = math.log2(math.comb(30, 10))
    assert bits / 500 < 1 / 20 < bits / 490
    assert math.log2(10_000) > 200 / 20


def test_the_fullest_bin_of_a_small_class_is_right_more_often_than_a_guess():
    found, guesses = [], []
    for seed in range(40):
        bins = np.searchsorted([-0.6, 0.5], np.random.default_rng(seed).normal(size=(60, 8)))
        for column in bins.T:
            found.append(np.bincount(column[:5], minlength=3).max() / 5)
            guesses.append(np.bincount(column, minlength=3).max() / 60)
    assert np.mean(found) == pytest.approx(0.57, abs=0.01)
    assert np.mean(guesses) == pytest.approx(0.42, abs=0.01)
