"""The selections FedSDG-FS is compared with keep the same contract and choose what they say."""

import sys
import types

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.feature_selection import f_classif

import fedsift as fs
from benchmarks.baselines.fedsdg import BASELINES, PreselectedNetwork, fedsdg_baseline
from benchmarks.baselines.split_lasso import Part, less_vfl, vflfs
from fedsift.data import split_vertical
from fedsift.errors import MissingPackage, ParameterError
from helpers.fedsdg import QUICK, shifted

PLAIN = {**QUICK, "security": "plain"}


@pytest.mark.parametrize("kind", BASELINES)
def test_every_baseline_selects_and_predicts(kind):
    X, y = shifted(n_rows=100)
    labels = np.array(["out", "in"])[y]
    model = fedsdg_baseline(kind, n_features_to_select=4, **{**PLAIN, "max_epochs": 12})
    model.fit(X, labels)
    expected = {"all": 10, "original-gate": None}.get(kind, 4)
    if expected is not None:
        assert model.support_.sum() == expected
        assert model.transform(X).shape == (100, expected)
    assert list(model.classes_) == ["in", "out"]
    chances = model.predict_proba(X)
    assert np.array_equal(model.classes_[chances.argmax(axis=1)], model.predict(X))
    assert model.score(X, labels) == (model.predict(X) == labels).mean()
    assert clone(model).get_params().keys() == model.get_params().keys()


def test_the_original_gate_has_one_gate_and_a_constant_start():
    model = fedsdg_baseline("original-gate", **PLAIN)
    assert (model.gates, model.init) == ("input", "constant")
    assert fedsdg_baseline("all", **PLAIN).gates == "none"


def test_sffs_takes_the_features_with_the_largest_f():
    X, y = shifted(n_rows=100)
    model = fedsdg_baseline("sffs", n_features_to_select=3, **PLAIN).fit(X, y)
    expected = np.argsort(-f_classif(X, y)[0])[:3]
    assert set(np.flatnonzero(model.support_)) == set(expected)


def impurity(above, y):
    """Weighted Gini impurity of two classes after one cut."""
    halves = [y[above], y[~above]]
    return sum(len(half) * 2 * half.mean() * (1 - half.mean()) for half in halves) / len(y)


def test_ms_gini_cuts_every_feature_at_its_mean():
    X, y = shifted(n_rows=100)
    X[:, 4] = np.sign(y - 0.5) * (1 + (np.arange(100) % 5 == 0) * 90)  # its mean is no median
    X[:, 5] = np.where(np.arange(100) % 10 == 0, 500.0, y)  # ten bins see more than one cut
    model = fedsdg_baseline("ms-gini", n_features_to_select=3, **PLAIN).fit(X, y)
    impurities = np.array([impurity(column > column.mean(), y) for column in X.T])
    assert -model.scores_ == pytest.approx(impurities, abs=1e-3)
    assert set(np.flatnonzero(model.support_)) == set(np.argsort(impurities)[:3])
    assert 5 not in np.flatnonzero(model.support_)


def test_ms_gini_takes_what_the_gini_filter_takes_of_columns_cut_at_their_means():
    X, y = shifted(n_rows=100)
    cut = (X.mean(axis=0) < X).astype(float)
    federation, halves = (split_vertical(table, y, 2, random_state=0) for table in (X, cut))
    model = fedsdg_baseline("ms-gini", n_features_to_select=3, **PLAIN).fit(federation)
    filtered = fs.FilterSelector("gini", n_features_to_select=3, security="plain").fit(halves)
    assert np.array_equal(model.support_, filtered.support_)
    assert model.selection_bytes_ == model.filter_.result_.traffic.n_bytes > 0
    assert model.filter_.result_.selected == {
        party: tuple(names) or () for party, names in filtered.result_.selected.items()
    }


@pytest.mark.parametrize("kind", ["ms-gini", "sffs"])
def test_the_filters_really_run_encrypted(kind):
    X, y = shifted()
    settings = {**QUICK, "max_epochs": 1}
    secure = fedsdg_baseline(kind, n_features_to_select=3, **settings).fit(X, y)
    plain = fedsdg_baseline(kind, n_features_to_select=3, **settings, security="plain").fit(X, y)
    assert secure.filter_.result_.crypto != "plain"
    assert secure.network_.result_.crypto == "bgv"
    assert np.array_equal(secure.support_, plain.support_)
    assert np.array_equal(secure.predict_proba(X), plain.predict_proba(X))


def test_random_draws_differ_with_the_seed_only():
    X, y = shifted()
    draws = [
        fedsdg_baseline("random", n_features_to_select=4, **{**PLAIN, "random_state": seed})
        .fit(X, y)
        .support_
        for seed in (0, 0, 1)
    ]
    assert np.array_equal(draws[0], draws[1])
    assert not np.array_equal(draws[0], draws[2])


@pytest.mark.parametrize("kind", ["vflfs", "less-vfl"])
def test_split_networks_find_what_labels_depend_on(kind):
    X, y = shifted(n_rows=200)
    X[:, 7] = 3.0  # constant: says nothing
    model = fedsdg_baseline(kind, n_features_to_select=3, **PLAIN).fit(X, y)
    assert set(np.flatnonzero(model.support_)) == {0, 1, 2}
    chosen = model.scores_[model.support_]
    assert chosen.min() > model.scores_[~model.support_].max()
    other = (np.arange(200) % 4 < 2).astype(int)
    X[:, 5] += 3.0 * other
    assert model.fit(X, other).support_[5]


def in_two_parts(X):
    half = X.shape[1] // 2
    return [Part(some, np.arange(some.shape[1])) for some in (X[:, :half], X[:, half:])]


@pytest.mark.parametrize("search", [vflfs, less_vfl])
def test_the_group_penalty_shrinks_whole_features(search):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 12)).astype(np.float32)
    y = (X[:, 0] + X[:, 1] + X[:, 6] > 0).astype(int)
    parts = [
        Part(part.inputs, np.repeat(np.arange(3), 2))  # two inputs of each feature
        for part in in_two_parts(X)
    ]
    free, priced = (np.concatenate(search(parts, y, penalty=p).norms) for p in (0.0, 4.0))
    assert free.shape == (6,)
    assert priced.mean() < 0.5 * free.mean()
    assert set(np.argsort(-priced)[:2]) == {0, 3}


def test_less_vfl_exchanges_less_and_counts_every_byte():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 8)).astype(np.float32)
    y = (X[:, 0] > 0).astype(int)
    parts = in_two_parts(X)
    own = [parts[0], Part(parts[1].inputs, parts[1].feature_of_input, travels=False)]
    batch = 2 * 128 * 16 * 4  # an embedding of 16 numbers per row, and a gradient as large
    for some, n_holders in ((parts, 2), (own, 1)):
        assert vflfs(some, y, n_steps=20).n_bytes == 20 * n_holders * batch
        once = 150 * 16 * 4 + 16  # the embedding of all rows, and which of its columns matter
        found = less_vfl(some, y, n_steps=5, n_local=20)
        assert found.n_bytes == n_holders * (5 * batch + once)
    assert less_vfl(parts, y).n_bytes < vflfs(parts, y).n_bytes / 3


def test_split_networks_fit_numbers_too():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 8)).astype(np.float32)
    for search in (vflfs, less_vfl):
        norms = search(in_two_parts(X), 50.0 + 9.0 * X[:, 6].astype(np.float64)).norms
        assert np.concatenate(norms).argmax() == 6


class FakeLassoNet:
    """What the peer uses of the package: a path, and when features leave it."""

    def __init__(self, *, path_multiplier, n_iters, **settings):
        assert path_multiplier > 1.0 < n_iters[0]

    def path(self, X, y):
        correlations = [abs(np.corrcoef(column, y)[0, 1]) for column in X.T]
        self.feature_importances_ = torch.tensor(correlations)


def test_lassonet_ranks_pooled_columns(monkeypatch):
    package = types.ModuleType("lassonet")
    package.LassoNetClassifier = package.LassoNetRegressor = FakeLassoNet
    monkeypatch.setitem(sys.modules, "lassonet", package)
    X, y = shifted(n_rows=100)
    model = fedsdg_baseline("lassonet", n_features_to_select=3, **PLAIN).fit(X, y)
    assert set(np.flatnonzero(model.support_)) == {0, 1, 2}
    assert model.selection_bytes_ is None
    assert model.score(X, y) > 0.5


def test_lassonet_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "lassonet", None)
    X, y = shifted()
    with pytest.raises(MissingPackage, match="lassonet"):
        fedsdg_baseline("lassonet", n_features_to_select=3, **PLAIN).fit(X, y)


def test_numeric_targets_and_frames():
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    settings = {**PLAIN, "max_epochs": 40, "embedding": 8, "outputs": 8}
    model = fedsdg_baseline("sffs", n_features_to_select=4, **settings).fit(X, y)
    assert {"bmi", "s5"} <= set(model.get_feature_names_out())
    assert model.score(X, y) > 0.3
    assert not hasattr(model, "classes_")
    shuffled = pd.DataFrame(X[X.columns[::-1]])
    with pytest.raises(ValueError, match="order"):
        model.predict(shuffled)


def test_a_federation_keeps_its_parties():
    X, y = shifted(n_rows=100)
    federation = split_vertical(X, y, 3, label_holder=None)
    model = fedsdg_baseline("ms-gini", n_features_to_select=5, **PLAIN).fit(federation)
    assert model.score(federation) == model.score(federation, y.astype(str))
    assert set(model.transform(federation).tables) <= set(federation.tables)


def test_unknown_kinds_and_numbers_are_refused():
    X, y = shifted()
    with pytest.raises(ParameterError, match="kind='best'"):
        fedsdg_baseline("best")
    with pytest.raises(ParameterError, match="kind='all'"):
        PreselectedNetwork("all").fit(X, y)
    with pytest.raises(ParameterError, match="n_features_to_select=99"):
        fedsdg_baseline("random", n_features_to_select=99, **PLAIN).fit(X, y)
