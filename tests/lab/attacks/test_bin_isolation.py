"""A score and one's own bins are an equation in the label counts (leak i of paper 000)."""

import numpy as np
import pytest

import fedsift as fs
from fedsift.lab.attacks import filter as attack
from fedsift.maths import moments
from helpers.arrays import bank_and_registry

N_ROWS, POSITIVE = 60, 24


@pytest.mark.parametrize("score", ["gini", "iv", "mi", "chi2"])
def test_any_binned_score_tells_a_lonely_label(score):
    sizes = np.array([N_ROWS - 1, 1])
    for label in (0, 1):
        positives = np.array([[POSITIVE - label, label]])
        value = float(attack.two_class_score(score, positives, sizes)[0])
        assert attack.lonely_label(score, value, sizes, POSITIVE) == label


def test_larger_bins_hide_a_label_from_one_score_but_not_from_two():
    """Why a minimum bin size alone is not enough, and scores do not go back by default."""
    sizes, y = np.array([40, 20]), np.zeros(N_ROWS, dtype=int)
    y[:POSITIVE] = 1
    found = []
    for row in (3, 50):
        columns = attack.nearly_equal_columns(N_ROWS, row, np.random.default_rng(row))
        scores = [
            attack.two_class_score(
                "gini",
                np.array([[np.sum(y[c == 0]), np.sum(y[c == 1])]]),
                np.bincount(c.astype(int)),
            )[0]
            for c in columns.T
        ]
        first = np.bincount(columns[:, 0].astype(int))
        assert first.tolist() == sizes.tolist()
        assert attack.lonely_label("gini", scores[0], first, POSITIVE) is None
        found.append(
            attack.label_by_difference("gini", np.array(scores), first, POSITIVE) == y[row]
        )
    assert found == [True, True]


def test_by_default_a_feature_holder_learns_three_things_and_no_score():
    y = np.random.default_rng(1).integers(0, 2, N_ROWS)
    columns = attack.nearly_equal_columns(N_ROWS, 30, np.random.default_rng(0))
    selector = fs.FilterSelector("gini", n_features_to_select=1, bins=[0.5])
    result = selector.fit(bank_and_registry(columns, y)).result_
    learned = {d.kind for d in result.disclosures if d.learner == "bank"}
    assert learned == {"row-count", "class-count", "selection"}


def test_totals_are_subtracted_exactly():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(9, 2)), np.arange(9) % 2

    def totals(rows):
        own = moments.table_sums(len(rows), X[rows].T, y[rows], 2, np.empty(0), complete=True)
        return attack.Totals.read(own, 2, 2)

    gap = totals(np.arange(9)).minus(totals(np.arange(8)))
    assert gap.n_rows == 1
    assert gap.class_sizes.tolist() == [1, 0]
    assert attack.recovered(gap.means, X[8]) == 1.0
    assert attack.recovered(gap.means + 1e-3, X[8]) == 0.0
