"""VFPSSelector: parameters, attributes, and what it says to bad input."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from fedsift.data import split_horizontal
from fedsift.errors import ColumnError, ParameterError, PartyError, PolicyViolation, ValueProblem
from fedsift.methods.vfps.selector import VFPSSelector
from fedsift.protocol import Policy
from fedsift.report.text import render
from fedsift.result import SelectionResult
from helpers.vfps import ALLOWING, PAIRING, PAPER, blobs, federation

PLAIN = {**PAPER, "security": "plain", "n_queries": 30, "random_state": 0}
ALLOWED = {**PLAIN, "policy": ALLOWING}


def test_attributes_and_result_file(tmp_path):
    X, y = blobs(150, 8)
    selector = VFPSSelector(n_participants=2, **PLAIN).fit(X, y)
    assert len(selector.selected_participants_) == 2
    assert set(selector.importances_) == {"party-1", "party-2", "party-3", "party-4"}
    assert set(selector.standard_errors_) == set(selector.importances_)
    assert selector.get_support().sum() == 4
    assert selector.transform(X).shape == (150, 4)
    result = selector.result_
    assert result.participants == selector.importances_
    assert {p for p, names in result.selected.items() if names} == set(
        selector.selected_participants_
    )
    assert result.history[0]["standard_errors"] == selector.standard_errors_
    loaded = SelectionResult.load(result.save(tmp_path / "result.json"))
    assert loaded.participants == result.participants
    result.to_html(tmp_path / "report.html")
    assert "participant" in (tmp_path / "report.html").read_text()


def test_frames_keep_their_names_and_federations_can_be_transformed():
    X, y = blobs(100, 6)
    frame = pd.DataFrame(X, columns=list("abcdef"))
    parties = [["a", "b"], ["c", "d"], ["e"], ["f"]]
    selector = VFPSSelector(n_participants=1, parties=parties, **PLAIN).fit(frame, y)
    names = selector.get_feature_names_out().tolist()
    assert names in [["a", "b"], ["c", "d"], ["e"], ["f"]]
    fed = federation(frame, y)
    chosen = VFPSSelector(n_participants=0.5, **PLAIN).fit(fed)
    assert list(chosen.transform(fed).tables) == chosen.selected_participants_


def test_works_in_a_pipeline_and_a_search():
    X, y = blobs(120, 8)
    model = make_pipeline(VFPSSelector(**PLAIN), KNeighborsClassifier())
    grid = {"vfpsselector__n_participants": [1, 3]}
    search = GridSearchCV(model, grid, cv=2).fit(X, y)
    assert search.best_score_ > 0.5
    assert clone(model).get_params()["vfpsselector__security"] == "plain"


@pytest.mark.parametrize("wanted", [4, 5, 0, -1, 1.0, 0.0, "two", True, None])
def test_impossible_numbers_of_participants(wanted):
    with pytest.raises(ParameterError, match="n_participants"):
        VFPSSelector(n_participants=wanted, **PLAIN).fit(*blobs(60, 8))


@pytest.mark.parametrize(
    "setting",
    [
        {"strategy": "best"}, {"design": "none"}, {"he": "rsa"}, {"security": "off"},
        {"k": 0}, {"k": 1.5}, {"n_groups": 0}, {"n_queries": 0}, {"n_queries": True},
    ],
)  # fmt: skip
def test_impossible_settings(setting):
    with pytest.raises(ParameterError, match=next(iter(setting))):
        VFPSSelector(**{**PLAIN, **setting}).fit(*blobs(60, 8))


def test_one_participant_a_horizontal_federation_and_a_missing_label_are_refused():
    X, y = blobs(60, 8)
    with pytest.raises(ParameterError, match="two at least"):
        VFPSSelector(**PLAIN).fit(federation(X, y, 1))
    with pytest.raises(ParameterError, match="horizontal"):
        VFPSSelector(**PLAIN).fit(split_horizontal(X, y, 2))
    with pytest.raises(ParameterError, match="no label"):
        VFPSSelector(**PLAIN).fit(federation(X, None, 3, label_holder=0))
    with pytest.raises(PartyError, match="Rename"):
        VFPSSelector(**PLAIN).fit(federation(X, y, 3, names=["a", "b", "aggregator"]))
    with pytest.raises(ValueProblem, match="one class"):
        VFPSSelector(**PLAIN).fit(X, np.zeros(60, dtype=int))


def test_too_many_subsets_for_brute_force():
    X, y = blobs(40, 20)
    with pytest.raises(ParameterError, match="greedy"):
        VFPSSelector(
            **{**PLAIN, "n_participants": 10, "strategy": "brute-force", "parties": 20}
        ).fit(X, y)


def test_constant_columns_are_reported_and_never_win():
    X, y = blobs(150, 8)
    X[:, 6:] = 3.0
    parties = [[0, 1], [2, 3], [4, 5], [6, 7]]
    for strategy in ("individual", "greedy", "group-testing"):
        selector = VFPSSelector(**{**ALLOWED, "strategy": strategy, "parties": parties}).fit(X, y)
        assert "party-4" not in selector.selected_participants_
        assert any("constant" in warning for warning in selector.result_.warnings)


def test_a_federation_of_constants_still_gets_an_answer():
    y = np.arange(40) % 2
    selector = VFPSSelector(**PLAIN).fit(np.ones((40, 4)), y)
    assert len(selector.selected_participants_) == 1
    assert all(abs(value) < 0.1 for value in selector.importances_.values())


def test_missing_values_are_mended_and_reported():
    X, y = blobs(150, 8)
    X[::7, 0] = np.nan
    selector = VFPSSelector(**PLAIN).fit(X, y)
    assert any("missing" in warning for warning in selector.result_.warnings)
    assert all(np.isfinite(v) for v in selector.importances_.values())


def test_a_column_without_any_value_and_infinite_values_are_refused():
    X, y = blobs(60, 8)
    X[:, 7] = np.nan
    with pytest.raises(ColumnError, match="no value in any row"):
        VFPSSelector(**PLAIN).fit(X, y)
    X[:, 7] = 0.0
    X[3, 7] = np.inf
    with pytest.raises(ValueError, match="inf"):
        VFPSSelector(**PLAIN).fit(X, y)


def test_duplicate_rows_do_not_look_informative():
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(10, 4)), 20, axis=0)
    y = rng.integers(0, 2, 200)
    selector = VFPSSelector(**{**ALLOWED, "strategy": "individual", "n_queries": 200}).fit(X, y)
    assert all(value < 0.05 for value in selector.importances_.values())


def test_classes_smaller_than_k_and_of_one_row():
    X, y = blobs(60, 8, 2)
    y[:2], y[2] = 7, 9
    settings = {**PLAIN, "n_queries": 60}
    with pytest.raises(PolicyViolation, match="min_class_size"):
        VFPSSelector(k=5, **settings).fit(X, y)
    small = Policy(min_security_bits=0, min_bin_size=1, min_class_size=1)
    selector = VFPSSelector(k=5, policy=small, **settings).fit(X, y)
    assert selector.result_.parameters["n_queries"] == 59
    assert all(np.isfinite(v) for v in selector.importances_.values())


def test_k_larger_than_everything():
    selector = VFPSSelector(k=500, **PLAIN).fit(*blobs(40, 8))
    assert all(np.isfinite(v) for v in selector.importances_.values())


@pytest.mark.parametrize("strategy", ["group-testing", "individual", "greedy", "brute-force"])
def test_groups_of_one_in_federations_are_granted_by_policies_only(strategy):
    data = federation(*blobs(60, 2), 2)
    settings = {**PLAIN, "strategy": strategy}
    settings["policy"] = PAIRING
    with pytest.raises(PolicyViolation, match="single-party-distances"):
        VFPSSelector(**settings).fit(data)
    with pytest.raises(PolicyViolation, match="single-party-distances"):
        VFPSSelector(**settings).plan(data)
    settings["policy"] = ALLOWING
    allowed = VFPSSelector(**settings).fit(data)
    assert len(allowed.selected_participants_) == 1
    assert any("one participant's data" in w for w in allowed.result_.warnings)


def test_one_array_in_two_parts_is_the_callers_own_unless_a_policy_says_otherwise():
    X, y = blobs(60, 2)
    selector = VFPSSelector(**PLAIN).fit(X, y)
    assert any("one participant's data" in w for w in selector.result_.warnings)
    with pytest.raises(PolicyViolation, match="single-party-distances"):
        VFPSSelector(policy=Policy(min_security_bits=0), **PLAIN).fit(X, y)
    # Nothing is granted where it can be avoided.
    wide = VFPSSelector(**{**PLAIN, "parties": 4}).fit(*blobs(60, 8))
    assert not any("one participant's data" in w for w in wide.result_.warnings)


def test_reports_show_standard_errors_and_what_became_of_everybody(tmp_path):
    selector = VFPSSelector(n_participants=2, **PLAIN).fit(*blobs(150, 8))
    text = render(selector.result_)
    selector.result_.to_html(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    for party, error in selector.standard_errors_.items():
        shown = f"± {error:.2g}"
        line = next(line for line in text.splitlines() if line.startswith(party) and "±" in line)
        assert shown in line
        assert shown in page
        chosen = party in selector.selected_participants_
        assert line.endswith("not selected") != chosen


def test_groups_that_may_not_be_tested_are_named_in_the_result():
    fed = federation(*blobs(80, 8), 4, label_holder=0)
    settings = {**PLAIN, "strategy": "brute-force", "n_participants": 2, "policy": PAIRING}
    selector = VFPSSelector(**settings).fit(fed)
    assert "party-1" not in selector.selected_participants_
    assert any("were not tested" in warning for warning in selector.result_.warnings)


def test_the_observer_sees_every_message_and_no_content():
    seen = []
    VFPSSelector(**PLAIN).run(*blobs(60, 8), observer=seen.append)
    assert {p.message for p in seen} >= {"Introduction", "PartialDistances", "GroupDistances"}
