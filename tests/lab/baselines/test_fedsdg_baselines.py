"""The selections FedSDG-FS is compared with keep the same contract and choose what they say."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.feature_selection import f_classif

import fedsift as fs
from benchmarks.baselines.fedsdg import BASELINES, PreselectedNetwork, fedsdg_baseline
from benchmarks.baselines.group_autoencoder import group_norms
from fedsift.data import split_vertical
from fedsift.errors import ParameterError
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


def test_ms_gini_takes_what_the_gini_filter_takes():
    X, y = shifted(n_rows=100)
    federation = split_vertical(X, y, 2, random_state=0)
    model = fedsdg_baseline("ms-gini", n_features_to_select=3, **PLAIN).fit(federation)
    filtered = fs.FilterSelector("gini", n_features_to_select=3, security="plain").fit(federation)
    assert np.array_equal(model.support_, filtered.support_)
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


def test_vflfs_ranks_by_the_parties_own_autoencoders_and_ignores_labels():
    X, y = shifted(n_rows=100)
    X[:, 7] = 3.0  # constant: nothing to rebuild
    model = fedsdg_baseline("vflfs", n_features_to_select=9, **PLAIN)
    chosen = model.fit(X, y).support_
    assert not chosen[7]
    assert np.array_equal(model.fit(X, y[::-1]).support_, chosen)
    assert model.scores_[chosen].min() >= model.scores_[~chosen].max()


def test_the_group_penalty_shrinks_whole_features():
    rng = np.random.default_rng(1)
    inputs = rng.normal(size=(200, 12)).astype(np.float32)
    groups = np.repeat(np.arange(6), 2)
    free = group_norms(inputs, groups, penalty=0.0, width=4)
    priced = group_norms(inputs, groups, penalty=1.0, width=4)
    assert free.shape == (6,)
    assert priced.mean() < 0.5 * free.mean()


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
