"""FedSDG-FS: encrypted and plain runs are one and the same, and every kind of model learns."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes, load_wine
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.preprocessing import StandardScaler
from torch import nn

import fedsift as fs
from fedsift.data import Federation, split_vertical
from fedsift.errors import FedsiftError
from fedsift.methods.fedsdg import label_holder as fedsdg
from fedsift.methods.fedsdg.settings import params_for
from helpers.fedsdg import (
    ALLOWING,
    PAPER,
    EachEpoch,
    assert_same_run,
    course,
    quick,
    run_paper,
    shifted,
)

SMALL = replace(ALLOWING, min_class_size=1)

# Encryption changes nothing


@pytest.mark.parametrize("label_holder", [0, None], ids=["with features", "labels only"])
@pytest.mark.parametrize("n_parties", [2, 5])
def test_bgv_and_plain_runs_are_identical(n_parties, label_holder):
    X, y = shifted()
    federation = split_vertical(X, y, n_parties, label_holder=label_holder)
    secure = quick(security="secure", he="bgv").fit(federation)
    assert_same_run(secure, quick().fit(federation), federation)
    assert secure.result_.crypto == "bgv"
    assert secure.result_.traffic.ciphertexts > 0


def test_bgv_and_plain_runs_are_identical_with_ten_clients():
    X, y = shifted(n_rows=24)
    federation = split_vertical(X, y, 10, label_holder=None)
    settings = {"max_epochs": 1, "init": "constant"}
    secure = quick(security="secure", **settings).fit(federation)
    assert len(federation.tables) == 10
    assert_same_run(secure, quick(**settings).fit(federation), federation)


@pytest.mark.parametrize("n_parties", [2, 5])
def test_paillier_and_plain_runs_are_identical(n_parties):
    X, y = shifted(n_rows=20 if n_parties == 2 else 8, n_features=5)
    federation = split_vertical(X, y, n_parties)
    settings = {"max_epochs": 1, "init": "constant", "embedding": 1, "policy": SMALL}
    secure = quick(security="secure", he="paillier", **settings).fit(federation)
    assert secure.result_.crypto == "paillier"
    # Keys are made anew to predict, which takes longer than all the rest.
    rows = split_vertical(X[:4], y[:4], n_parties) if n_parties == 2 else None
    assert_same_run(secure, quick(**settings).fit(federation), rows)


@pytest.mark.usefixtures("repeatable")
@pytest.mark.parametrize(
    "settings",
    [
        {"n_features_to_select": 3, "max_epochs": 1},
        {"model": "linear"},
        {"label_noise": 0.5},
        {"gates": "input"},
        {"gates": "none"},
    ],
    ids=lambda s: " ".join(map(str, next(iter(s.items())))),
)
def test_every_option_runs_alike_under_encryption(settings):
    X, y = shifted(n_rows=32, n_features=6)
    federation = split_vertical(X, y, 2, label_holder=None)
    settings = {"max_epochs": 1, "init": "constant", **settings}
    secure = quick(security="secure", **settings).fit(federation)
    assert_same_run(secure, quick(**settings).fit(federation), federation)


def test_the_wider_layer_for_many_classes_runs_alike_under_encryption():
    X, y = shifted(n_rows=126, n_classes=18)
    federation = split_vertical(X, y, 2, label_holder=None)
    settings = {"max_epochs": 1, "outputs": "auto", "min_batches": 1}
    secure = quick(security="secure", **settings).fit(federation)
    assert (secure.params_.embedding, secure.params_.outputs) == (32, 32)
    assert_same_run(secure, quick(**settings).fit(federation), federation)


def test_a_numeric_target_runs_alike_under_encryption():
    X, _ = shifted()
    federation = split_vertical(X, X[:, 0] - 2.0 * X[:, 1], 2, task="regression")
    secure = quick(security="secure").fit(federation)
    assert_same_run(secure, quick().fit(federation), federation)
    assert not hasattr(secure, "classes_")


def test_another_seed_is_another_run():
    """The comparisons above can fail."""
    X, y = shifted()
    one, other = quick().fit(X, y), quick(random_state=1).fit(X, y)
    assert course(one) != course(other)
    assert not np.array_equal(one.scores_, other.scores_)


def test_noise_on_the_gradients_is_there():
    X, y = shifted()
    assert course(quick(label_noise=0.5).fit(X, y)) != course(quick().fit(X, y))


# What it learns


def test_it_finds_the_columns_that_matter():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 40))
    y = (X[:, 0] + X[:, 1] ** 2 - X[:, 2] > 1).astype(int)
    selector = fs.FedSDGSelector(**PAPER, security="plain", lam=2.0, max_epochs=60, random_state=0)
    selector.fit(X[:400], y[:400])
    assert set(np.flatnonzero(selector.support_)) >= {0, 1, 2}
    assert selector.support_.sum() <= 8
    assert set(np.argsort(-selector.scores_)[:3]) == {0, 1, 2}
    assert selector.score(X[400:], y[400:]) > 0.8


def test_many_classes():
    X, y = load_wine(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(y))
    train, test = rows[:120], rows[120:]
    names = np.array(["ruby", "amber", "blush"])[y]
    selector = fs.FedSDGSelector(**PAPER, security="plain", max_epochs=50, random_state=0)
    selector.fit(X[train], names[train])
    assert list(selector.classes_) == ["amber", "blush", "ruby"]
    assert selector.score(X[test], names[test]) > 0.9
    chances = selector.predict_proba(X[test])
    assert chances.shape == (58, 3)
    assert np.allclose(chances.sum(axis=1), 1.0)
    assert np.array_equal(selector.classes_[chances.argmax(axis=1)], selector.predict(X[test]))


def test_a_linear_model_is_logistic_regression():
    X, y = shifted(n_rows=400, n_features=8)
    linear = fs.FedSDGSelector(
        **PAPER, security="plain", model="linear", gates="none", max_epochs=60, random_state=0
    ).fit(X[:300], y[:300])
    reference = LogisticRegression().fit(X[:300], y[:300])
    assert linear.score(X[300:], y[300:]) >= reference.score(X[300:], y[300:]) - 0.03
    agreement = linear.predict(X[300:]) == reference.predict(X[300:])
    assert agreement.mean() > 0.93


def test_a_linear_model_is_linear_regression():
    X, y = load_diabetes(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    linear = fs.FedSDGSelector(
        **PAPER, security="plain", model="linear", gates="none", max_epochs=80, random_state=0
    ).fit(X[:350], y[:350])
    reference = LinearRegression().fit(X[:350], y[:350])
    assert linear.score(X[350:], y[350:]) >= reference.score(X[350:], y[350:]) - 0.03
    predicted, expected = linear.predict(X[350:]), reference.predict(X[350:])
    assert np.corrcoef(predicted, expected)[0, 1] > 0.98


def test_a_linear_model_with_gates_drops_noise():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(500, 30))
    y = 3 * X[:, 0] - 2 * X[:, 1] + rng.normal(size=500)
    selector = fs.FedSDGSelector(**PAPER, security="plain", model="linear", lam=1.0, random_state=0)
    selector.fit(X[:400], y[:400])
    assert selector.support_[[0, 1]].all()
    assert selector.support_.sum() <= 10
    assert selector.score(X[400:], y[400:]) > 0.85


def test_one_party_may_bring_its_own_network():
    made = []

    def wide(n_inputs, width):
        made.append((n_inputs, width))
        return nn.Sequential(nn.Linear(n_inputs, 7), nn.Tanh(), nn.Linear(7, width))

    X, y = shifted(n_rows=120)
    federation = split_vertical(X, y, [[0, 1, 2], [3, 4, 5, 6, 7, 8, 9]])
    selector = quick(embedding_network={"party-2": wide}, max_epochs=3).fit(federation)
    assert made
    assert set(made) == {(7, 3)}
    assert selector.predict(federation).shape == (120,)
    everywhere = quick(embedding_network=wide, max_epochs=3).fit(federation)
    assert {(3, 3), (7, 3)} <= set(made)
    assert course(everywhere) != course(selector)


def test_a_network_of_the_wrong_width_is_refused():
    X, y = shifted()
    with pytest.raises(FedsiftError, match="embedding network returns shape"):
        quick(embedding_network=lambda n, width: nn.Linear(n, width + 1)).fit(X, y)


def test_categories_and_missing_values():
    rng = np.random.default_rng(1)
    n = 300
    colour = rng.choice(["red", "green", "blue"], n)
    y = (colour == "red").astype(int) ^ (rng.random(n) < 0.05)
    frame = pd.DataFrame({f"noise{i}": rng.normal(size=n) for i in range(4)})
    frame["colour"] = colour
    frame.loc[rng.random(n) < 0.1, "noise0"] = np.nan
    frame.loc[rng.random(n) < 0.05, "colour"] = None
    selector = fs.FedSDGSelector(**PAPER, security="plain", max_epochs=40, random_state=0)
    selector.fit(frame[:240], y[:240])
    assert selector.support_[4]
    assert selector.score(frame[240:], y[240:]) > 0.85
    assert "colour" in selector.get_feature_names_out()


# Selection


@pytest.mark.parametrize("wanted", [1, 4, 0.3])
def test_an_exact_number_is_exact(wanted):
    X, y = shifted(n_rows=100)
    selector = quick(n_features_to_select=wanted, max_epochs=8).fit(X, y)
    expected = wanted if isinstance(wanted, int) else 3
    assert selector.support_.sum() == expected
    assert selector.transform(X).shape == (100, expected)
    assert any(entry.get("refit") for entry in selector.history_)


def test_the_exact_number_are_the_widest_open_gates():
    X, y = shifted(n_rows=100)
    selector = quick(n_features_to_select=4, max_epochs=8).fit(X, y)
    chosen, others = selector.scores_[selector.support_], selector.scores_[~selector.support_]
    assert chosen.min() >= others.max()


def test_automatic_selection_is_never_empty():
    """A penalty that closes everything, on pure noise: the last open gates are kept."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 6)), np.arange(80) % 2
    selector = quick(lam=500.0, max_epochs=60, gate_learning_rate=0.2).fit(X, y)
    assert selector.history_[-1]["open_features"] == 0
    assert selector.support_.sum() >= 1
    assert selector.predict(X).shape == (80,)


def test_automatic_selection_is_the_open_gates_of_the_chosen_epoch():
    X, y = shifted(n_rows=200)
    selector = quick(max_epochs=40, lam=1.0).fit(X, y)
    chosen = selector.history_[selector.result_.parameters["chosen_epoch"]]
    assert selector.support_.sum() == chosen["open_features"]
    assert np.array_equal(selector.support_, selector.scores_ > 0.5)
    assert chosen["validation_score"] == selector.result_.parameters["validation_score"]


def test_without_gates_everything_is_selected():
    X, y = shifted()
    selector = quick(gates="none").fit(X, y)
    assert selector.support_.all()


def test_a_refit_uses_the_selected_features_only():
    X, y = shifted(n_rows=150)
    selector = quick(max_epochs=30, lam=2.0, refit=True).fit(X, y)
    assert 0 < selector.support_.sum() < 10
    changed = X.copy()
    changed[:, ~selector.support_] = 1e3
    assert np.array_equal(selector.predict_proba(X), selector.predict_proba(changed))
    changed[:, selector.support_] += 1.0
    assert not np.array_equal(selector.predict_proba(X), selector.predict_proba(changed))


def test_without_a_refit_closed_gates_let_nothing_through():
    X, y = shifted(n_rows=150)
    selector = quick(max_epochs=30, lam=2.0).fit(X, y)
    assert 0 < selector.support_.sum() < 10
    changed = X.copy()
    changed[:, ~selector.support_] = 1e3
    assert np.array_equal(selector.predict_proba(X), selector.predict_proba(changed))


def test_a_party_without_selected_features_leaves_the_model():
    X, y = shifted(n_rows=200, n_features=6)
    federation = split_vertical(X, y, [[0, 1, 2], [3], [4, 5]], label_holder=None)
    selector = quick(n_features_to_select=1, max_epochs=10).fit(federation)
    chosen = {party for party, names in selector.result_.selected.items() if names}
    assert chosen == {"party-1"}
    alone = Federation.vertical({"party-1": federation.tables["party-1"]}, label=None)
    assert np.array_equal(selector.predict(alone), selector.predict(federation))


def widths(n_classes, **settings):
    """Embedding columns and outputs of the layer that all parties are told."""
    X = np.random.default_rng(0).normal(size=(120, 4))
    y = np.arange(120) % n_classes
    params = params_for(
        fs.FedSDGSelector(**PAPER, **settings), split_vertical(X, y, 2, label_holder=None)
    )
    return params.embedding, params.outputs


def test_many_classes_get_a_wider_layer():
    assert widths(2) == widths(16) == (16, 16)
    assert widths(17) == widths(40) == (32, 32)
    assert widths(17, embedding=48) == (48, 32)
    assert widths(16, embedding=4) == (4, 16)
    # Numbers of one's own are kept.
    assert widths(17, outputs=16) == (16, 16)
    assert widths(17, embedding=8, outputs=20) == (8, 20)


def test_a_linear_model_has_an_output_per_class():
    assert widths(3, model="linear") == (16, 3)
    assert widths(20, model="linear") == (32, 20)


def test_sites_tell_the_number_of_classes_if_the_width_depends_on_it():
    assert fs.FedSDGSelector(**PAPER)._wanted().n_classes
    assert fs.FedSDGSelector(**PAPER, model="linear", outputs=4)._wanted().n_classes
    assert not fs.FedSDGSelector(**PAPER, outputs=16)._wanted().n_classes


def test_labels_of_validation_rows_reach_no_gradient():
    X, y = shifted(n_rows=100)
    y = y + X[:, 0]
    params = params_for(quick(), split_vertical(X, y, 2, task="regression"), simulated=True)

    def losses(values):
        federation = split_vertical(X, values, 2, task="regression")
        nodes = fedsdg.build_nodes(federation.tables, "party-1", federation.target, params)
        trained = run_paper(nodes).value
        return nodes["party-1"][0], trained.history

    driver, before = losses(y)
    validating = driver._validation
    assert len(validating) == 20
    changed = y.copy()
    changed[validating] += 100.0
    _, after = losses(changed)
    for name, same in (
        ("training_loss", True),
        ("open_features", True),
        ("validation_loss", False),
    ):
        assert ([e[name] for e in before] == [e[name] for e in after]) == same, name


# History


def test_the_history_tells_gates_losses_and_bytes():
    X, y = shifted()
    told = []
    selector = quick(max_epochs=4).run(X, y, observer=EachEpoch(told.append))
    assert [entry["epoch"] for entry in selector.history_] == [0, 1, 2, 3]
    assert [entry["n_bytes"] for entry in told] == [e["n_bytes"] for e in selector.history_]
    sizes = [entry["n_bytes"] for entry in selector.history_]
    assert sizes == sorted(set(sizes))
    assert sizes[-1] <= selector.result_.traffic.n_bytes
    for entry in selector.history_:
        assert 0 <= entry["open_features"] <= 10
        assert 0 <= entry["open_embeddings"] <= 6
        assert 0.0 <= entry["validation_score"] <= 1.0
        assert entry["training_loss"] > 0
    assert selector.n_epochs_ == 4
    assert not selector.interrupted_


def test_early_stopping_waits_for_patience():
    X, y = shifted(n_rows=200)
    selector = quick(max_epochs=200, min_epochs=5, patience=6).fit(X, y)
    chosen = selector.result_.parameters["chosen_epoch"]
    assert 5 <= chosen < selector.n_epochs_ < 200
