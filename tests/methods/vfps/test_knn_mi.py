"""The nearest-neighbour estimator of mutual information, on pooled plaintext."""

import numpy as np
import pytest
from scipy.special import digamma
from sklearn.feature_selection import mutual_info_classif

from fedsift.methods.vfps.knn_mi import (
    Alike,
    estimate,
    exact_terms,
    neighbours_wanted,
    term,
    term_of_row,
)


def column(n=300, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    return (rng.normal(size=n) + y)[:, None], y


@pytest.mark.parametrize("k", [1, 3, 7])
@pytest.mark.parametrize("classes", [2, 3, 8])
def test_equals_scikit_learn_on_one_column_without_ties(k, classes):
    x, y = column(classes=classes)
    ours = estimate(exact_terms([x / x.std()], Alike(y), range(len(y)), k)).value
    theirs = mutual_info_classif(x, y, discrete_features=False, n_neighbors=k, random_state=0)[0]
    # scikit-learn moves every value by about 1e-10 to break ties, and never returns less than 0.
    assert max(0.0, ours) == pytest.approx(theirs, abs=1e-9)


def test_only_the_order_of_distances_counts():
    rng = np.random.default_rng(1)
    alike = rng.random(50) < 0.4
    distances = rng.integers(0, 30, 50)
    reference = term(distances, alike, 3, 51, int(alike.sum()) + 1)
    assert term(7 * distances - 123, alike, 3, 51, int(alike.sum()) + 1) == reference
    assert term(np.exp(distances / 5), alike, 3, 51, int(alike.sum()) + 1) == reference


def test_rows_farther_than_the_kth_do_not_matter():
    rng = np.random.default_rng(2)
    distances = rng.random(80)
    alike = rng.random(80) < 0.5
    size = int(alike.sum()) + 1
    radius = np.sort(distances[alike])[2]
    near = distances <= radius
    assert term(distances[near], alike[near], 3, 81, size) == term(distances, alike, 3, 81, size)


def test_constant_columns_tell_nothing():
    y = np.arange(200) % 4
    value = estimate(exact_terms([np.zeros((200, 2))], Alike(y), range(200), 3)).value
    assert abs(value) < 0.02


@pytest.mark.parametrize("levels", [2, 4])
def test_ties_do_not_invent_information(levels):
    """Columns with few levels that are independent of the label score near zero."""
    rng = np.random.default_rng(3)
    y = rng.integers(0, 2, 400)
    x = rng.integers(0, levels, (400, 2)).astype(float)
    # Counts of small groups pull the estimate a little below zero, never above.
    assert -0.1 < estimate(exact_terms([x], Alike(y), range(400), 3)).value < 0.03


def test_a_column_that_is_the_label_scores_its_entropy():
    y = np.random.default_rng(4).integers(0, 3, 600)
    value = estimate(exact_terms([y[:, None] * 1.0], Alike(y), range(600), 3)).value
    shares = np.bincount(y) / 600
    assert value == pytest.approx(-(shares * np.log(shares)).sum(), abs=0.02)


def test_duplicate_rows_are_counted_on_both_sides():
    # Query 0 has two copies of its own class and one of the other: k = 2 of m = 3 at distance 0.
    distances = np.array([0, 0, 0, 0, 5, 6])
    codes = np.array([0, 0, 0, 1, 1, 0])
    expected = digamma(6) - digamma(4) + digamma(2) - digamma(3)
    assert term_of_row(distances, Alike(codes), 0, 1) == pytest.approx(expected)


def test_a_small_class_uses_the_neighbours_it_has_and_a_lonely_row_takes_no_part():
    codes = np.array([0] * 10 + [1] * 2 + [2])
    labels = Alike(codes)
    assert labels.n_rows == 12
    assert not labels.usable[12]
    assert neighbours_wanted(3, labels.size(10)) == 1
    distances = np.arange(13.0)
    assert np.isfinite(term_of_row(distances, labels, 10, 3))


def test_numeric_targets_rank_columns_by_what_they_explain():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(400, 3))
    y = x[:, 0] + 0.3 * x[:, 1]
    labels = Alike(values=y)
    scores = [estimate(exact_terms([x[:, [i]]], labels, range(200), 3)).value for i in range(3)]
    assert scores[0] > scores[1] > scores[2] - 0.02
    assert abs(scores[2]) < 0.05
    assert scores[0] > 0.5


def test_a_numeric_target_with_ties_keeps_all_of_them():
    labels = Alike(values=np.array([1.0] * 30 + [2.0] * 30))
    assert labels.size(0) == 30
    assert labels.rows(0)[:30].all()


def test_standard_error_covers_the_truth():
    """The mean over some queries lies within a few errors of the mean over all."""
    x, y = column(800, 2, seed=6)
    terms = exact_terms([x], Alike(y), range(800), 3)
    rng = np.random.default_rng(0)
    off = []
    for _ in range(50):
        some = estimate(terms[rng.choice(800, 80, replace=False)])
        off.append(abs(some.value - terms.mean()) / some.standard_error)
    assert np.mean(np.array(off) < 2) > 0.85
    assert estimate([]).n_queries == 0
    assert estimate([1.0]).standard_error == 0.0
