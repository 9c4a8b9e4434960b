"""Every strategy scores and chooses under encryption exactly as on pooled columns."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_wine

from benchmarks.suites.vfps import secure as vfps_secure
from benchmarks.suites.vfps.measures import run_method
from fedsift.data import split_vertical
from fedsift.methods.vfps.distances import Params

CASES = [
    ("group-testing", "separate"),
    ("group-testing", "shared"),
    ("greedy", "shared"),
    ("shapley", "shared"),
    ("individual", "shared"),
    ("brute-force", "shared"),
]


@pytest.fixture(scope="module", params=[load_wine, load_breast_cancer], ids=["wine", "cancer"])
def federation(request):
    X, y = request.param(return_X_y=True)
    return split_vertical(X, y, 4, label_holder=None, task="classification")


@pytest.mark.parametrize(("strategy", "design"), CASES)
def test_selection_and_scores_are_those_of_the_pooled_table(federation, strategy, design):
    row = vfps_secure.compare(federation, strategy, design, n_queries=15)
    assert row["n_groups"] >= 4
    assert row["same_selection"]
    assert row["largest_difference"] < 1e-12
    assert row["largest_error"] < 0.02
    assert len(row["selected"]) == 2


def test_the_comparison_can_fail(federation):
    """A search with other queries finds other scores."""
    params = Params(
        n_participants=2, strategy="brute-force", n_queries=15, singles=True, seed=0, query_seed=0
    )
    outcome, _ = run_method(federation, params)
    other = vfps_secure.Pool(federation).find(Params(**{**vars(params), "seed": 1}))
    ours = [row["mutual_information"] for row in outcome.value.found.history]
    theirs = [row["mutual_information"] for row in other.history]
    assert np.abs(np.subtract(ours, theirs)).max() > 1e-3
