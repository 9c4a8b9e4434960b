"""FilterSelector as a user of scikit-learn meets it."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fedsift as fs
from fedsift.errors import ColumnError, ParameterError, ValueProblem
from helpers.arrays import bank_and_registry, labelled


def test_it_works_in_a_pipeline_and_a_grid_search():
    X, y = load_wine(return_X_y=True)
    pipeline = make_pipeline(
        StandardScaler(),
        fs.FilterSelector("gini", random_state=0),
        LogisticRegression(max_iter=500),
    )
    grid = {
        "filterselector__score": ["gini", "f"],
        "filterselector__n_features_to_select": [2, 6],
    }
    search = GridSearchCV(pipeline, grid, cv=3).fit(X, y)
    assert search.best_score_ > 0.9
    assert search.best_estimator_[1].get_support().sum() in (2, 6)


def test_it_can_be_searched_on_its_own_because_score_is_a_name_and_a_method():
    X, y = load_wine(return_X_y=True)
    search = GridSearchCV(
        fs.FilterSelector("mi", random_state=0),
        {"n_features_to_select": [1, 8]},
        cv=KFold(3, shuffle=True, random_state=0),
    ).fit(X, y)
    # The single best feature has a higher mean score than the best eight together.
    assert search.best_params_ == {"n_features_to_select": 1}
    selector = fs.FilterSelector("gini", n_features_to_select=3).fit(X, y)
    assert selector.score == "gini"
    assert -1 < selector.score(X, y) < 0


def test_clone_and_pickle_keep_the_parameters():
    selector = fs.FilterSelector("f", n_features_to_select=3, policy=fs.Policy())
    assert clone(selector).get_params() == selector.get_params()
    assert pickle.loads(pickle.dumps(selector)).get_params() == selector.get_params()  # noqa: S301


def test_nothing_happens_in_the_constructor():
    nonsense = fs.FilterSelector("no such score", n_features_to_select=-1, he="rot13")
    assert nonsense.score == "no such score"
    with pytest.raises(ParameterError, match="One of gini"):
        nonsense.fit(*labelled())


def test_frames_keep_their_names_and_come_back_as_frames():
    data = load_wine(as_frame=True)
    selector = fs.FilterSelector("mi", n_features_to_select=2, random_state=0)
    out = selector.set_output(transform="pandas").fit_transform(data.data, data.target)
    assert list(out.columns) == list(selector.get_feature_names_out())
    assert set(out.columns) <= set(data.data.columns)
    assert selector.result_.n_selected == 2


def test_a_federation_with_ids_in_another_order():
    X, y = labelled(80, 4)
    ids = np.arange(80)
    bank = pd.DataFrame({"id": ids, "age": X[:, 0], "debt": X[:, 1], "default": y})
    shop = pd.DataFrame({"id": ids, "visits": X[:, 2], "basket": X[:, 3]}).sample(
        frac=1, random_state=0
    )
    federation = fs.Federation.vertical(
        {"bank": bank, "shop": shop}, label=("bank", "default"), on="id"
    )
    selector = fs.FilterSelector("gini", n_features_to_select=2).fit(federation)
    direct = fs.FilterSelector("gini", n_features_to_select=2).fit(X, y)
    assert np.allclose(selector.scores_, direct.scores_, atol=1e-4)
    assert selector.get_feature_names_out().tolist() == ["age", "debt"]
    assert selector.result_.selected == {"bank": ("age", "debt"), "shop": ()}
    kept = selector.transform(federation)
    assert kept.tables["bank"].feature_names == ("age", "debt")
    assert "shop" not in kept.tables


def test_parties_may_be_column_lists():
    X, y = labelled(80, 5)
    selector = fs.FilterSelector("gini", n_features_to_select=2, parties=[[4, 0], [1], [2, 3]])
    by_lists = selector.fit(X, y)
    assert np.allclose(
        by_lists.scores_,
        fs.FilterSelector("gini", n_features_to_select=2).fit(X, y).scores_,
        atol=1e-4,
    )
    assert set(by_lists.result_.selected) == {"party-1", "party-2", "party-3"}


def test_the_default_of_ten_means_at_most_ten():
    X, y = labelled(60, 4)
    with pytest.warns(UserWarning, match="Only 4 features"):
        assert fs.FilterSelector().fit(X, y).get_support().all()
    with pytest.raises(ParameterError, match="1 to 4"):
        fs.FilterSelector(n_features_to_select=11).fit(X, y)


@pytest.mark.parametrize("wanted", [0, -1, 1.5, 0.0, "auto", True, None])
def test_impossible_numbers_of_features(wanted):
    X, y = labelled(60, 4)
    with pytest.raises(ParameterError) as caught:
        fs.FilterSelector(n_features_to_select=wanted).fit(X, y)
    assert caught.value.found
    assert caught.value.needed
    assert caught.value.action


def test_one_class_only():
    X, _ = labelled(60, 3)
    with pytest.raises(ValueProblem, match="one class"):
        fs.FilterSelector(n_features_to_select=1).fit(X, np.zeros(60, int))


def test_a_score_with_a_label_needs_one():
    X, _ = labelled(60, 3)
    with pytest.raises(ParameterError, match="no label"):
        fs.FilterSelector(n_features_to_select=1).fit(fs.Federation.vertical({"a": X, "b": X}))
    fs.FilterSelector("variance", n_features_to_select=1).fit(
        fs.Federation.vertical({"a": X, "b": X})
    )


def test_categories_have_no_f_statistic():
    frame = pd.DataFrame({"kind": ["a", "b"] * 30, "x": np.arange(60.0)})
    sent = []
    with pytest.raises(ColumnError, match="holds categories"):
        fs.FilterSelector("f", n_features_to_select=1, parties=[["x"], ["kind"]]).run(
            frame, np.arange(60) % 2, observer=sent.append
        )
    assert sent == []


def test_plan_sends_nothing_and_names_every_disclosure():
    X, y = labelled(60, 3)
    federation = bank_and_registry(X, y)
    selector = fs.FilterSelector("mi", n_features_to_select=1)
    plan = selector.plan(federation)
    planned = {(d.learner, d.about, d.kind) for d in plan.disclosures}
    assert not hasattr(selector, "result_")
    happened = {(d.learner, d.about, d.kind) for d in selector.fit(federation).result_.disclosures}
    assert happened <= planned
    assert ("label-holder", "bank", "bin-counts") in happened


def test_the_result_survives_its_file(tmp_path):
    X, y = labelled(60, 3)
    result = fs.FilterSelector("mi", n_features_to_select=1, random_state=4).fit(X, y).result_
    path = result.save(tmp_path / "deep" / "result.json")
    again = fs.SelectionResult.load(path)
    assert again == result
    assert again.seed == 4
    assert again.traffic.bytes == sum(again.traffic.by_message.values()) > 0
    assert again.traffic.bytes == sum(again.traffic.by_party.values())
    assert {"encrypt", "evaluate", "decrypt", "wait", "total"} <= set(again.timings)
    assert [p.name for p in path.parent.iterdir()] == ["result.json"]


def test_no_key_and_no_value_reaches_the_result():
    X, y = labelled(60, 3)
    X[7, 1] = 98765.4321
    text = fs.FilterSelector("mi", n_features_to_select=1).fit(X, y).result_.to_json()
    assert "98765" not in text
    assert len(text) < 20_000  # a key or a ciphertext alone would be larger


@pytest.mark.parametrize("bins", [0, 1, -3, [], ["a"], [np.inf], {"x0": "many"}, {"nobody": 3}])
def test_bins_that_are_none_are_refused_before_any_message(bins):
    X, y = labelled(60, 3)
    sent = []
    with pytest.raises(ParameterError):
        fs.FilterSelector(bins=bins, n_features_to_select=1).run(X, y, observer=sent.append)
    assert sent == []


def test_the_ledger_says_who_could_open_what():
    X, y = labelled(60, 3)
    rows = (
        fs.FilterSelector(n_features_to_select=1).fit(bank_and_registry(X, y)).result_.disclosures
    )
    forms = {row.kind: row.form for row in rows}
    assert forms["feature-scores"] == "encrypted, decrypted by the learner"
    assert forms["class-count"] == "open numbers"  # the labels beside them stay under their key
    owners = {row.kind: row.key_owner for row in rows}
    assert owners["feature-scores"] == "label-holder"
