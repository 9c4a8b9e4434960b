"""``FedSDGSelector`` without open rows: what is selected, kept, predicted, resumed and refused."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import balanced_accuracy_score

from fedsift.costs.counts import Counts
from fedsift.data import split_vertical
from fedsift.errors import ParameterError
from fedsift.methods.execution import execute
from fedsift.methods.fedsdg.blind.gates import Gates, Judged, choose, selected_features
from fedsift.methods.fedsdg.blind.targets import prepare_targets
from fedsift.methods.fedsdg.blind.training import BlindTraining
from fedsift.methods.fedsdg.costs import expect_fedsdg
from fedsift.methods.fedsdg.selector import FedSDGSelector
from helpers.fedsdg import EachEpoch, moons, parties


def blind(**settings):
    small = {"max_epochs": 12, "outputs": 8, "security": "plain", "random_state": 0}
    return FedSDGSelector(**{"choose": "one-se", **small, **settings})


def telling(n_rows=240, n_features=12, seed=0):
    """The first two columns tell the class, the others nothing."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    y = (X[:, 0] + X[:, 1] + 0.3 * rng.normal(size=n_rows) > 0).astype(int)
    return X, y


# Selection


@pytest.mark.parametrize("n_parties", [1, 2, 3])
def test_the_columns_that_tell_are_found_and_others_left_out(n_parties):
    X, y = telling()
    selector = blind(max_epochs=30, parties=n_parties, lam=0.3).fit(X, y)
    assert selector.support_[:2].all()
    assert selector.support_.sum() <= 5
    assert selector.score(X, y) > 0.85


@pytest.mark.parametrize("n_features", [1, 3])
def test_an_exact_number_is_exact(n_features):
    X, y = telling()
    selector = blind(n_features_to_select=n_features).fit(X, y)
    assert selector.support_.sum() == n_features
    assert sum(map(len, selector.result_.selected.values())) == n_features


def test_all_gates_closed_keep_one_column_and_say_so():
    X, y = telling()
    selector = blind(
        max_epochs=4, lam=1e4, gate_learning_rate=0.5, n_features_to_select="auto"
    ).fit(X, y)
    assert selector.support_.sum() == 1
    assert any("closed" in remark for remark in selector.result_.warnings)


def test_a_training_that_diverges_says_what_to_do():
    X, y = telling()
    with pytest.raises(ParameterError, match="layer_learning_rate"):
        blind(layer_learning_rate=50.0).fit(X, y)


def test_a_training_that_diverges_late_keeps_what_gates_had_selected():
    X, y = telling()
    with pytest.warns(UserWarning, match=r"diverged.*smaller layer_learning_rate.*no use"):
        selector = blind(layer_learning_rate=8.0, max_epochs=8).fit(X, y)
    assert 0 < len(selector.history_) < 8
    assert selector.support_.any()
    assert any("diverged" in remark for remark in selector.result_.warnings)


def test_rules_of_choosing_buy_fewer_features_with_loss():
    gates = np.array([0.5, -0.2, 0.1])
    judged = [
        Judged(0, 9, 0.20, 0.02, gates),
        Judged(1, 5, 0.21, 0.02, gates),
        Judged(2, 2, 0.23, 0.02, gates),
        Judged(3, 0, 0.10, 0.02, gates),
    ]
    chosen = {rule: choose(judged, rule).n_open for rule in ("best", "one-se", "fewest")}
    assert chosen == {"best": 9, "one-se": 5, "fewest": 2}
    assert choose(judged[3:], "best") is None
    assert selected_features(judged[0], gates, None).tolist() == [0, 2]
    assert selected_features(judged[0], gates, 1).tolist() == [0]
    assert selected_features(None, gates, None).tolist() == [0]


def test_a_selection_that_costs_accuracy_says_how_much():
    X, y = telling(n_rows=400)
    with pytest.warns(UserWarning, match="The selection costs .* points"):
        selector = blind(max_epochs=40, lam=0.01, n_features_to_select=1).fit(X, y)
    assert any("costs" in remark for remark in selector.result_.warnings)


def test_a_selection_that_keeps_what_tells_costs_nothing():
    X, y = telling(n_rows=1200)
    selector = blind(max_epochs=40, n_features_to_select=2).fit(X, y)
    assert not any("costs" in remark for remark in selector.result_.warnings)


def rare_class(n_rows=400):
    """Three classes, of which one has 6 % of the rows and overlaps with another."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [n_rows // 2, n_rows * 44 // 100, n_rows * 6 // 100])
    X = rng.normal(size=(len(y), 8))
    X[:, 0] += 2.0 * (y == 1) - 2.0 * (y == 0)
    X[:, 1] += 1.5 * (y == 2)
    return X, y


@pytest.mark.parametrize("weights", ["balanced", {"2": 8.0}])
def test_weights_of_classes_bring_rare_ones_back(weights):
    X, y = rare_class()
    as_they_are, weighted = (
        balanced_accuracy_score(
            y, blind(max_epochs=30, lam=0.01, class_weight=w).fit(X, y).predict(X)
        )
        for w in (None, weights)
    )
    assert weighted > as_they_are + 0.05


def rare_positives(share, n_rows=500):
    """Two classes, of which the second is rare and moves two columns."""
    rng = np.random.default_rng(0)
    y = (np.arange(n_rows) < share * n_rows).astype(int)
    X = rng.normal(size=(n_rows, 6))
    X[:, :2] += 1.2 * y[:, None]
    return X, y


@pytest.mark.parametrize(
    ("share", "weights"),
    [(0.06, "balanced"), (0.15, "balanced"), (0.26, "balanced"), (0.06, {"1": 8.0})],
)
def test_weights_of_two_classes_find_rare_positives(share, weights):
    X, y = rare_positives(share)
    train, new = np.arange(len(y)) % 2 == 0, np.arange(len(y)) % 2 == 1
    majority = balanced_accuracy_score(y[new], np.zeros(new.sum()))
    as_they_are, weighted = (
        balanced_accuracy_score(
            y[new],
            blind(max_epochs=20, choose="best", class_weight=w)
            .fit(X[train], y[train])
            .predict(X[new]),
        )
        for w in (None, weights)
    )
    assert weighted > as_they_are + 0.02
    assert weighted > majority + 0.2


def test_two_weighted_classes_have_an_output_each_whose_loss_is_weighted():
    X, y = rare_positives(0.1)
    federation = split_vertical(X, y, 2, random_state=0)
    plain, weighted = (
        blind(class_weight=w).prepare(federation, simulated=True).params for w in (None, {"1": 4.0})
    )
    assert (plain.n_outputs, weighted.n_outputs) == (1, 2)
    rows = np.arange(len(y))
    alike = prepare_targets(federation.target, rows, replace(weighted, class_weight=None))[0]
    scaled = prepare_targets(federation.target, rows, weighted)[0]
    factors = (scaled.astype(float) ** 2).sum(axis=1) / (alike.astype(float) ** 2).sum(axis=1)
    assert factors[1] / factors[0] == pytest.approx(4.0, rel=1e-3)


@pytest.mark.parametrize("weights", ["heavy", {"9": 1.0}, {"0": -1.0}, {"0": "much"}])
def test_weights_of_unknown_classes_are_refused(weights):
    X, y = rare_class()
    with pytest.raises(ParameterError, match="class_weight"):
        blind(class_weight=weights).fit(X, y)


def test_the_frontier_is_in_the_history():
    selector = blind().fit(*telling())
    on_it = [entry for entry in selector.result_.history if entry.get("on_frontier")]
    losses = [e["validation_loss"] for e in sorted(on_it, key=lambda e: e["open_features"])]
    assert on_it
    assert losses == sorted(losses, reverse=True)


def test_gates_of_columns_that_help_open_and_others_close():
    gates = Gates(np.full(2, 0.5), 0.5, 0.01, 0.05)
    for _ in range(30):
        gates.step(np.array([-1.0, 0.0]))
    assert gates.means[0] > 0.9 > 0.0 > gates.means[1]


# Kinds of data


def test_classes_categories_and_missing_values_of_several_parties():
    rng = np.random.default_rng(0)
    kind = rng.choice(["a", "b", "c"], 150)
    frame = pd.DataFrame({"kind": kind, "x": rng.normal(size=150), "z": rng.normal(size=150)})
    frame.loc[::7, "x"] = np.nan
    y = np.array(["one", "two", "three"])[np.searchsorted(["a", "b", "c"], kind)]
    selector = blind(max_epochs=30, parties=[["z"], ["kind", "x"]], lam=0.02).fit(frame, y)
    assert "kind" in selector.get_feature_names_out()
    assert selector.score(frame, y) > 0.9
    assert selector.predict_proba(frame).sum(axis=1) == pytest.approx(1.0)


def test_numbers_as_target_and_a_label_holder_without_columns():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 6))
    y = 100 + 20 * X[:, 0] + X[:, 1]
    federation = parties(X, y, 2)
    selector = blind(max_epochs=30).fit(federation)
    assert selector.score(federation) > 0.8


def test_one_column_and_few_rows():
    rng = np.random.default_rng(0)
    y = np.arange(24) % 2
    selector = blind(max_epochs=4).fit((y + rng.normal(size=24))[:, None], y)
    assert selector.support_.tolist() == [True]


def test_too_few_rows_for_any_opening_are_refused():
    with pytest.raises(ParameterError, match="rows to train with"):
        blind().fit(np.arange(12.0).reshape(6, 2), np.arange(6) % 2)


@pytest.mark.parametrize(
    "settings",
    [
        {"gates": "none", "n_features_to_select": 2},
        {"model": "linear"},
        {"label_noise": 1.0},
        {"gate_samples": 4},
        {"choose": "luck"},
    ],
)
def test_settings_of_the_other_protocol_are_refused(settings):
    with pytest.raises(ParameterError):
        blind(**settings).fit(*telling())


# Models


def test_a_saved_model_predicts_the_same(tmp_path):
    X, y = telling()
    selector = blind(parties=3).fit(X, y)
    selector.save(tmp_path)
    loaded = FedSDGSelector.load(tmp_path)
    assert loaded.protocol == "blind"
    assert np.array_equal(loaded.support_, selector.support_)
    # Every prediction draws masks of its own, and is off by a unit here and there.
    assert loaded.predict_proba(X) == pytest.approx(selector.predict_proba(X), abs=0.02)
    kinds = {row.kind for row in loaded._latest["disclosures"]}
    assert "predictions" in kinds


def test_columns_that_were_not_selected_need_not_be_there_to_predict():
    X, y = moons(n_rows=150)
    federation = split_vertical(X, y, 2, random_state=0)
    selector = blind(n_features_to_select=3).fit(federation)
    reduced = selector.transform(federation)
    if set(reduced.tables) == set(federation.tables):
        expected = selector.predict_proba(federation)
        assert selector.predict_proba(reduced) == pytest.approx(expected, abs=0.02)


def test_ctrl_c_keeps_the_best_state_so_far():
    X, y = telling()
    selector = blind(max_epochs=30)
    prepared = []

    def stop_after_three(entry):
        if entry["epoch"] == 2:
            prepared[0].on_interrupt()

    made = selector.prepare(X, y, simulated=True, observer=EachEpoch(stop_after_three))
    prepared.append(made)
    outcome = execute(made)
    assert outcome.value.interrupted
    assert len(outcome.value.history) == 3
    assert outcome.value.n_open >= 1


def test_a_training_that_was_cut_off_goes_on_after_its_last_opening(tmp_path, monkeypatch):
    X, y = telling()
    whole = blind(parties=3).fit(X, y)
    original = BlindTraining._open

    async def cut(self, net):
        if len(self.history) == 5:
            raise RuntimeError("power failure")
        return await original(self, net)

    monkeypatch.setattr(BlindTraining, "_open", cut)
    with pytest.raises(RuntimeError):
        blind(parties=3, checkpoint=tmp_path).fit(X, y)
    monkeypatch.undo()
    resumed = blind(parties=3, checkpoint=tmp_path).fit(X, y)
    assert len(resumed.history_) == len(whole.history_)
    found, expected = (
        np.array([entry["validation_loss"] for entry in s.history_]) for s in (resumed, whole)
    )
    assert found == pytest.approx(expected, rel=0.05)


# Cost


@pytest.mark.parametrize("own", [None, "party-1"])
def test_the_cost_is_known_before_the_run(own):
    federation = split_vertical(*moons(n_rows=60), 2, label_holder=own, random_state=0)
    selector = blind(max_epochs=1, init="constant", outputs=4, min_batches=2)
    prepared = selector.prepare(federation, simulated=True)
    expected = expect_fedsdg(selector, federation, prepared.params).counts
    assert isinstance(expected, Counts)
    traffic = execute(prepared).transcript.traffic()
    assert expected.ciphertexts == traffic.ciphertexts
    assert expected.messages == traffic.messages
    assert expected.n_bytes == pytest.approx(traffic.n_bytes, rel=0.1)
