"""Baselines of DCFS: each is what it says, and the federated ones equal their pooled oracle."""

import numpy as np
import pytest
from sklearn.feature_selection import f_classif

import fedsift as fs
from benchmarks.baselines import oracles
from benchmarks.baselines.dcfs import BASELINES, baseline_scores
from fedsift.errors import ParameterError
from fedsift.methods.dcfs import unsupervised


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 60)
    X = rng.normal(size=(60, 12)) * np.linspace(1, 5, 12)
    X[:, :3] += 4 * rng.normal(size=(3, 3))[y]
    return X, y, fs.split_horizontal(X, y, 3, random_state=0)


@pytest.mark.parametrize("kind", BASELINES)
def test_every_party_gets_a_score_for_every_column(data, kind):
    _, _, federation = data
    scores = baseline_scores(federation, kind, random_state=0)
    assert list(scores) == list(federation.tables)
    assert all(own.shape == (12,) and np.isfinite(own).all() for own in scores.values())


def test_filters_are_those_of_the_pooled_rows(data):
    X, y, federation = data
    assert np.allclose(baseline_scores(federation, "variance")["party-1"], X.var(axis=0))
    assert np.allclose(baseline_scores(federation, "anova")["party-2"], f_classif(X, y)[0])


def test_afs_is_the_local_baseline_on_all_rows(data):
    _, _, federation = data
    rows = np.concatenate([t.numeric_matrix() for t in federation.tables.values()])
    scaled = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    wanted = unsupervised.local_selection(scaled, alpha=2.0)
    assert np.allclose(baseline_scores(federation, "afs", alpha=2.0)["party-3"], wanted)


def test_lfs_differs_by_party_and_borda_joins_its_ranks(data):
    _, _, federation = data
    own = baseline_scores(federation, "lfs")
    assert not np.allclose(own["party-1"], own["party-2"])
    joint = baseline_scores(federation, "borda")["party-1"]
    assert np.allclose(joint, oracles.borda(list(own.values())))


def test_random_is_repeatable(data):
    _, _, federation = data
    one, other, third = (
        baseline_scores(federation, "random", random_state=s)["party-1"] for s in (1, 1, 2)
    )
    assert np.array_equal(one, other)
    assert not np.array_equal(one, third)


def test_what_it_refuses(data):
    X, y, federation = data
    with pytest.raises(ParameterError, match="One of all, random"):
        baseline_scores(federation, "best")
    with pytest.raises(ParameterError, match="vertical"):
        baseline_scores(fs.split_vertical(X, y, 2), "lfs")
