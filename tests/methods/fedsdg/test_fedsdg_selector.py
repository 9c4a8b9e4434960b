"""FedSDGSelector around the training: files, interruptions, resuming, and bad input."""

import dataclasses
import json
import signal
import stat
import threading
import time

import numpy as np
import pandas as pd
import pytest

import fedsift as fs
from fedsift.data import Federation, split_vertical
from fedsift.errors import FedsiftError, ParameterError
from helpers.fedsdg import PAPER, EachEpoch, assert_same_run, course, quick, shifted


def ctrl_c():
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)


# Saved models


@pytest.mark.parametrize("security", ["plain", "secure"])
def test_a_saved_model_predicts_the_same(tmp_path, security):
    X, y = shifted()
    selector = quick(security=security, max_epochs=1).fit(X, y)
    selector.save(tmp_path / "model")
    loaded = fs.FedSDGSelector.load(tmp_path / "model")
    assert np.array_equal(loaded.predict_proba(X), selector.predict_proba(X))
    assert np.array_equal(loaded.get_support(), selector.get_support())
    assert np.array_equal(loaded.transform(X), selector.transform(X))
    assert loaded.score(X, y) == selector.score(X, y)


def test_a_saved_refitted_model_with_names_and_categories(tmp_path):
    X, y = shifted(n_rows=120)
    frame = pd.DataFrame(X, columns=[f"c{i}" for i in range(10)])
    frame["kind"] = np.where(np.arange(120) % 3 == 0, "a", "b")
    labels = np.array(["no", "yes"])[y]
    selector = quick(n_features_to_select=4, max_epochs=5).fit(frame, labels)
    selector.save(tmp_path)
    loaded = fs.FedSDGSelector.load(tmp_path)
    assert list(loaded.predict(frame)) == list(selector.predict(frame))
    assert list(loaded.get_feature_names_out()) == list(selector.get_feature_names_out())
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame.rename(columns={"c0": "other"}))


def test_each_part_is_for_its_owner_alone(tmp_path):
    X, y = shifted()
    federation = split_vertical(X, y, 3, names=["bank", "shop", "post"])
    selector = quick().fit(federation)
    selector.save(tmp_path)
    parts = sorted(tmp_path.glob("*.fedsift-part"))
    assert [path.name.split(".")[0] for path in parts] == ["bank", "post", "shop"]
    for path in parts:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path.name
    header = json.loads((tmp_path / "model.json").read_text(encoding="utf-8"))
    text = json.dumps(header)
    assert "share" not in text
    assert "network" not in text.replace('"model": "network"', "")


def test_a_part_holds_nothing_of_other_parties(tmp_path):
    X, y = shifted()
    columns = {"bank": ["b0", "b1"], "shop": ["s0", "s1", "s2"]}
    tables = {
        party: pd.DataFrame(X[:, i : i + len(names)], columns=names)
        for i, (party, names) in enumerate(columns.items())
    }
    selector = quick().fit(Federation.vertical(tables, label=("bank", y)))
    selector.save(tmp_path)
    shop = (tmp_path / "shop.fedsift-part").read_bytes()
    bank = (tmp_path / "bank.fedsift-part").read_bytes()
    assert b"s1" in shop
    assert b"b1" not in shop
    assert b"s1" not in bank


@pytest.mark.parametrize("damage", ["missing", "cut", "foreign"])
def test_a_damaged_part_is_refused(tmp_path, damage):
    X, y = shifted()
    quick().fit(X, y).save(tmp_path)
    part = tmp_path / "party-2.fedsift-part"
    if damage == "missing":
        part.unlink()
    else:
        content = part.read_bytes()
        part.write_bytes(content[: len(content) // 2] if damage == "cut" else b"something else")
    with pytest.raises(FedsiftError):
        fs.FedSDGSelector.load(tmp_path)


# Checkpoints and interruptions


class Outage(Exception):
    """What ends a run in these tests."""


@pytest.mark.usefixtures("repeatable")
@pytest.mark.parametrize("security", ["plain", "secure"])
@pytest.mark.parametrize("label_holder", [0, None])
def test_a_resumed_training_is_the_uninterrupted_one(tmp_path, security, label_holder):
    X, y = shifted()
    federation = split_vertical(X, y, 2, label_holder=label_holder)
    settings = {"security": security, "max_epochs": 4, "label_noise": 0.1}

    def fail(entry):
        if entry["epoch"] == 2:
            raise Outage

    with pytest.raises(Outage):
        quick(checkpoint=tmp_path, **settings).run(federation, observer=EachEpoch(fail))
    assert list(tmp_path.iterdir())
    resumed = quick(checkpoint=tmp_path, **settings).fit(federation)
    whole = quick(**settings | {"security": "plain"}).fit(federation)
    assert_same_run(resumed, whole, federation)
    assert not list(tmp_path.iterdir())  # a finished training leaves nothing behind


def test_a_resumed_training_may_go_on_for_longer(tmp_path):
    """Ctrl-C, then the same job again: as if it had never stopped."""
    X, y = shifted(n_rows=120)
    settings = {"max_epochs": 12, "n_features_to_select": 4}

    def stop(entry):
        if entry["epoch"] == 4 and not entry.get("refit"):
            ctrl_c()

    with pytest.warns(UserWarning, match="interrupted"):
        partial = quick(checkpoint=tmp_path, **settings).run(X, y, observer=EachEpoch(stop))
    assert partial.interrupted_
    resumed = quick(checkpoint=tmp_path, **settings).fit(X, y)
    assert_same_run(resumed, quick(**settings).fit(X, y), X)


def test_ctrl_c_in_the_middle_of_an_epoch_can_be_resumed(tmp_path):
    X, y = shifted(n_rows=120)
    settings = {"max_epochs": 6}
    seen = []

    def stop(step):
        seen.append(step)
        if len(seen) == 60:
            ctrl_c()
            time.sleep(0.05)  # until the main thread has noticed

    with pytest.warns(UserWarning, match="interrupted"):
        partial = quick(checkpoint=tmp_path, **settings).run(X, y, observer=stop)
    assert 0 < partial.n_epochs_ < 6
    resumed = quick(checkpoint=tmp_path, **settings).fit(X, y)
    assert_same_run(resumed, quick(**settings).fit(X, y), X)


def test_ctrl_c_leaves_a_valid_partial_result():
    X, y = shifted(n_rows=120)

    def stop(entry):
        if entry["epoch"] == 3:
            ctrl_c()

    with pytest.warns(UserWarning, match="interrupted after . epochs"):
        selector = quick(max_epochs=500, patience=500).run(X, y, observer=EachEpoch(stop))
    assert selector.interrupted_
    assert 4 <= selector.n_epochs_ < 20  # the signal takes a moment
    assert selector.support_.any()
    assert selector.predict(X).shape == (120,)
    assert any("Interrupted" in text for text in selector.result_.warnings)
    whole = quick(max_epochs=4).fit(X, y)
    assert course(selector)[:4] == course(whole)


def test_other_data_does_not_continue_a_training(tmp_path):
    X, y = shifted()

    def fail(entry):
        if entry["epoch"] == 1:
            raise Outage

    with pytest.raises(Outage):
        quick(checkpoint=tmp_path, max_epochs=3).run(X, y, observer=EachEpoch(fail))
    changed = X.copy()
    changed[:, :] += np.linspace(0, 1, 48)[:, None]
    with pytest.raises(FedsiftError, match="not what it was at the checkpoint"):
        quick(checkpoint=tmp_path, max_epochs=3).fit(changed, y)


def test_the_progress_bar_shows_gates_and_loss(capsys):
    X, y = shifted()
    quick(verbose=True, max_epochs=3).fit(X, y)
    shown = capsys.readouterr().err
    assert "open gates" in shown
    assert "loss" in shown


def test_more_draws_of_the_gates_change_the_training_and_no_traffic():
    X, y = shifted()
    one, four = (quick(gate_samples=n).fit(X, y) for n in (1, 4))
    assert not np.array_equal(one.scores_, four.scores_)
    assert [entry["n_bytes"] for entry in one.history_] == [
        entry["n_bytes"] for entry in four.history_
    ]
    assert_same_run(four, quick(gate_samples=4, security="secure").fit(X, y), X)


# Prediction traffic


def test_closed_embedding_columns_do_not_travel():
    X, y = shifted(n_rows=64)
    # Steps so long that most embedding gates close in the first epoch, whichever is chosen.
    settings = {"embedding": 8, "lam_embedding": 30.0, "gate_learning_rate": 0.5, "max_epochs": 4}
    narrow = quick(**settings).fit(X, y)
    assert max(entry["open_embeddings"] for entry in narrow.history_) < 16
    wide = quick(**settings, gates="input").fit(X, y)
    for selector in (narrow, wide):
        selector.predict_proba(X)
    assert narrow.prediction_traffic_.n_bytes < wide.prediction_traffic_.n_bytes


# Bad input


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lam": -0.1}, "lam=-0.1"),
        ({"lam": float("nan")}, "lam=nan"),
        ({"lam": "much"}, "lam='much'"),
        ({"lam_embedding": -1}, "lam_embedding=-1"),
        ({"gate_samples": 0}, "gate_samples=0"),
        ({"sigma": 0}, "sigma=0"),
        ({"label_noise": -0.5}, "label_noise=-0.5"),
        ({"validation": 1.0}, "validation=1.0"),
        ({"init": "relief"}, "init='relief'"),
        ({"gates": "triple"}, "gates='triple'"),
        ({"model": "forest"}, "model='forest'"),
        ({"he": "ckks"}, "he='ckks'"),
        ({"security": "some"}, "security='some'"),
        ({"embedding": 0}, "embedding=0"),
        ({"outputs": 0}, "outputs=0"),
        ({"outputs": "wide"}, "outputs='wide'"),
        ({"max_epochs": 0}, "max_epochs=0"),
        ({"batch_size": 4}, "batch_size=4"),
        ({"n_features_to_select": 0}, "n_features_to_select=0"),
        ({"n_features_to_select": 11}, "n_features_to_select=11"),
        ({"n_features_to_select": "many"}, "n_features_to_select='many'"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_settings_out_of_range_are_refused(settings, message):
    X, y = shifted()
    with pytest.raises(ParameterError) as caught:
        quick(**settings).fit(X, y)
    assert message in str(caught.value)


def test_a_client_without_features_is_refused():
    X, y = shifted()
    with pytest.raises(FedsiftError):
        split_vertical(X, y, [list(range(10)), []])
    tables = {"bank": X, "shop": np.empty((48, 0))}
    with pytest.raises(FedsiftError):
        quick().fit(Federation.vertical(tables, label=("bank", y)))


def test_too_few_rows_are_refused():
    X, y = shifted()
    with pytest.raises(ValueError, match="minimum of 2 is required"):
        quick().fit(X[:1], y[:1])
    with pytest.raises(ParameterError, match="There are 3 rows"):
        quick().fit(X[:3], y[:3])


def test_a_federation_without_labels_or_by_rows_is_refused():
    X, y = shifted()
    with pytest.raises(ParameterError, match="needs parties with different columns"):
        quick().fit(fs.split_horizontal(X, y, 2))
    with pytest.raises(ParameterError, match="has no label"):
        quick().fit(split_vertical(X, None, 2))


def test_a_single_class_is_refused():
    X, _ = shifted()
    with pytest.raises((FedsiftError, ValueError)):
        quick().fit(X, np.zeros(48, dtype=int))


def test_a_class_that_was_not_there_when_fitting_is_refused_by_score():
    X, y = shifted()
    selector = quick().fit(X, y)
    strange = y.copy()
    strange[0] = 7
    with pytest.raises(FedsiftError, match="1 classes that were not there"):
        selector.score(X, strange)


def test_a_class_of_one_row_trains_and_does_not_validate():
    X, y = shifted()
    y[5] = 2
    selector = quick(policy=dataclasses.replace(PAPER["policy"], min_class_size=1)).fit(X, y)
    assert list(selector.classes_) == [0, 1, 2]
    assert selector.predict_proba(X).shape == (48, 3)


def test_one_missing_value_may_lie_in_a_validation_row():
    """Whichever row it is in, some split puts it where nothing trains."""
    X, y = shifted()
    for row in range(6):
        holed = X.copy()
        holed[row, 0] = np.nan
        fitted = quick(max_epochs=1).fit(holed, y)
        assert np.isfinite(fitted.predict_proba(holed)).all()


def test_missing_values_at_prediction_are_refused_where_there_were_none():
    X, y = shifted()
    selector = quick().fit(X, y)
    broken = X.copy()
    broken[3, 4] = np.nan
    with pytest.raises(FedsiftError) as caught:
        selector.predict(broken)
    assert "missing" in str(caught.value).lower()


def test_another_number_of_features_at_prediction_is_refused():
    X, y = shifted()
    selector = quick().fit(X, y)
    with pytest.raises(ValueError, match="9 features, but FedSDGSelector is expecting 10"):
        selector.predict(X[:, :9])
    federation = split_vertical(X, y, 2)
    fitted = quick().fit(federation)
    with pytest.raises(FedsiftError, match="lacks"):
        fitted.predict(split_vertical(X[:, :8], y, 2))


def test_a_party_that_is_missing_at_prediction_is_named():
    X, y = shifted()
    federation = split_vertical(X, y, 3, names=["bank", "shop", "post"])
    selector = quick(gates="none").fit(federation)
    rest = {party: table for party, table in federation.tables.items() if party != "shop"}
    with pytest.raises(FedsiftError, match="'shop'"):
        selector.predict(Federation.vertical(rest, label=("bank", y)))


def test_probabilities_of_numbers_are_refused():
    X, _ = shifted()
    selector = quick().fit(split_vertical(X, X[:, 0], 2, task="regression"))
    with pytest.raises(ParameterError, match="numeric"):
        selector.predict_proba(X)


def test_nothing_works_before_fit(tmp_path):
    from sklearn.exceptions import NotFittedError

    X, y = shifted()
    for call in (
        lambda s: s.predict(X),
        lambda s: s.predict_proba(X),
        lambda s: s.score(X, y),
        lambda s: s.save(tmp_path),
        lambda s: s.transform(X),
    ):
        with pytest.raises(NotFittedError):
            call(quick())


def test_errors_and_reprs_do_not_show_cells():
    X, y = shifted()
    X[3, 4] = 123456.789
    selector = quick().fit(X, y)
    broken = X.copy()
    broken[7, 4] = np.nan
    with pytest.raises(FedsiftError) as caught:
        selector.predict(broken)
    assert "123456" not in str(caught.value)
    assert "123456" not in repr(selector) + repr(selector.result_)


def test_the_plan_warns_and_trains_nothing():
    X, y = shifted()
    selector = quick(security="secure")
    notes = " ".join(selector.plan(X, y).notes)
    assert "bgv, 128-bit" in notes
    assert "label_noise" in notes
    assert "one feature holder" in notes
    assert not hasattr(selector, "result_")
