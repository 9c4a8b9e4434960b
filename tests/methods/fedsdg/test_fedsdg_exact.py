"""FedSDG-FS without gates and with an exact number of features: those an elimination leaves."""

from html import unescape

import numpy as np
import pandas as pd
import pytest
from torch import nn

import fedsift as fs
from fedsift.data import PartyTable, split_vertical
from fedsift.errors import FedsiftError
from fedsift.methods.fedsdg.elimination import elimination_costs
from fedsift.methods.fedsdg.inputs import InputEncoder
from fedsift.methods.fedsdg.local_part import LocalPart, PartData
from fedsift.methods.fedsdg.messages import Params
from fedsift.report.html import render
from helpers.fedsdg import EachEpoch, assert_same_run, course, quick, shifted

EXACT = {"n_features_to_select": 3, "gates": "none"}


class Outage(Exception):
    """What ends a run in these tests."""


def copies(n_rows=240, seed=0):
    """Four columns that matter, the first one most, each of them four times."""
    rng = np.random.default_rng(seed)
    causes = rng.normal(size=(n_rows, 4))
    y = (causes @ np.array([3.0, 1.0, -1.0, 1.0]) > 0).astype(int)
    X = np.repeat(causes, 4, axis=1) + 0.05 * rng.normal(size=(n_rows, 16))
    return X, y


@pytest.mark.parametrize("label_holder", [0, None], ids=["with features", "labels only"])
@pytest.mark.parametrize("n_parties", [2, 5])
def test_encryption_changes_nothing(n_parties, label_holder):
    X, y = shifted()
    federation = split_vertical(X, y, n_parties, label_holder=label_holder)
    secure = quick(security="secure", **EXACT).fit(federation)
    assert_same_run(secure, quick(**EXACT).fit(federation), federation)
    assert secure.support_.sum() == 3


def test_paillier_changes_nothing():
    X, y = shifted(n_rows=20, n_features=5)
    federation = split_vertical(X, y, 2)
    settings = {**EXACT, "max_epochs": 1, "init": "constant", "embedding": 1}
    secure = quick(security="secure", he="paillier", **settings).fit(federation)
    assert_same_run(secure, quick(**settings).fit(federation))


def test_a_linear_model_can_eliminate():
    X, y = shifted(n_rows=100)
    selector = quick(**EXACT, model="linear", max_epochs=4).fit(X, y)
    assert selector.support_.sum() == 3
    assert selector.predict(X).shape == (100,)


def test_the_first_networks_are_those_of_all_features():
    X, y = shifted(n_rows=100)
    chosen = quick(**EXACT, max_epochs=4).fit(X, y)
    everything = quick(gates="none", max_epochs=4).fit(X, y)
    assert course(chosen)[:4] == course(everything)
    assert all(entry["refit"] for entry in course(chosen)[4:])
    assert everything.support_.all()


def test_scores_are_costs_and_the_largest_are_selected():
    X, y = shifted(n_rows=100)
    selector = quick(**EXACT, max_epochs=4).fit(X, y)
    assert len(set(selector.scores_)) == 10
    assert selector.scores_[selector.support_].min() > selector.scores_[~selector.support_].max()
    for party, names in selector.result_.selected.items():
        ranks = selector.result_.ranking[party]
        assert {name for name in ranks if ranks[name] <= 3} == set(names)


def test_a_report_says_what_the_scores_are():
    X, y = shifted()
    texts = {
        way: unescape(render(quick(**settings, max_epochs=1).fit(X, y).result_))
        for way, settings in {"costs": EXACT, "gates": {"n_features_to_select": 3}}.items()
    }
    assert "when its turn came" in texts["costs"]
    assert "gate is open" not in texts["costs"]
    assert "gate is open" in texts["gates"]
    assert "when its turn came" not in texts["gates"]


def test_columns_that_others_stand_in_for_are_left_out():
    X, y = copies()
    settings = {"n_features_to_select": 4, "max_epochs": 6, "min_batches": 3}
    federation = split_vertical(X, y, [list(range(8)), list(range(8, 16))], label_holder=None)
    left = quick(**settings, gates="none").fit(federation)
    assert set(np.flatnonzero(left.support_) // 4) == {0, 1, 2, 3}
    widest = quick(**settings).fit(federation)
    assert len(set(np.flatnonzero(widest.support_) // 4)) < 4


def test_a_score_is_what_the_own_network_loses():
    X, _ = shifted(n_rows=100, n_features=4)
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame.insert(1, "kind", np.array(["x", "y", "z"])[np.arange(100) % 3])
    table = PartyTable.from_any(frame, name="shop")
    encoder = InputEncoder.fit(table, np.arange(100))
    part = LocalPart(encoder, None, Params(n_features_to_select=2, gates="none"), None, 0)
    inputs = PartData(encoder, table).batch(np.arange(80))
    weights = part.network[0].weight.detach().numpy().T
    owner = [0, 1, 1, 1, 2, 3, 4]  # a category has several inputs
    expected = elimination_costs(inputs.numpy(), weights, owner)
    assert np.array_equal(part.exact_scores(inputs), expected)
    assert len(set(expected)) == 5


@pytest.mark.parametrize("security", ["plain", "secure"])
@pytest.mark.parametrize("refitting", [False, True], ids=["gates", "refit"])
def test_a_resumed_training_is_the_uninterrupted_one(tmp_path, security, refitting):
    X, y = shifted()
    federation = split_vertical(X, y, 2, label_holder=0)
    settings = {**EXACT, "security": security, "max_epochs": 3}
    seen = []

    def fail(entry):
        seen.append(entry)
        if len(seen) == (5 if refitting else 2):
            raise Outage

    with pytest.raises(Outage):
        quick(checkpoint=tmp_path, **settings).run(federation, observer=EachEpoch(fail))
    assert list(tmp_path.iterdir())
    resumed = quick(checkpoint=tmp_path, **settings).fit(federation)
    assert_same_run(resumed, quick(**{**settings, "security": "plain"}).fit(federation), federation)
    assert not list(tmp_path.iterdir())


def test_a_checkpoint_with_gates_is_not_continued_without(tmp_path):
    X, y = shifted()

    def fail(entry):
        if entry["epoch"] == 1:
            raise Outage

    settings = {"n_features_to_select": 3, "max_epochs": 3, "checkpoint": tmp_path}
    with pytest.raises(Outage):
        quick(**settings).run(X, y, observer=EachEpoch(fail))
    with pytest.raises(FedsiftError):
        quick(**settings, gates="none").fit(X, y)


def test_a_saved_model_predicts_the_same(tmp_path):
    X, y = shifted(n_rows=120)
    frame = pd.DataFrame(X, columns=[f"c{i}" for i in range(10)])
    frame["kind"] = np.where(np.arange(120) % 3 == 0, "a", np.where(y, "b", "c"))
    selector = quick(**EXACT, max_epochs=5).fit(frame, y)
    selector.save(tmp_path)
    loaded = fs.FedSDGSelector.load(tmp_path)
    assert np.array_equal(loaded.predict_proba(frame), selector.predict_proba(frame))
    assert np.array_equal(loaded.get_support(), selector.get_support())


def test_a_network_without_a_first_layer_is_refused():
    X, y = shifted()

    def pooled(n_inputs, width):
        return nn.Sequential(nn.AdaptiveAvgPool1d(n_inputs - 1), nn.Linear(n_inputs - 1, width))

    assert quick(n_features_to_select=8, embedding_network=pooled).fit(X, y).support_.sum() == 8
    with pytest.raises(FedsiftError, match=r"no torch\.nn\.Linear with 5 inputs") as caught:
        quick(**EXACT, embedding_network=pooled).fit(X, y)
    assert "gates='dual'" in str(caught.value)
