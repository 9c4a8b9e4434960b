"""Masked sums over parties with different rows give the scores of the pooled rows."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.feature_selection import chi2, f_classif

import fedsift as fs
from fedsift.data import PartyTable, Target, synthetic
from fedsift.engine import run_local
from fedsift.errors import PartyError
from fedsift.methods.filter import coordinator as filters_horizontal
from fedsift.methods.filter.horizontal_messages import MaskedSums
from fedsift.methods.filter.pooled import pooled_scores
from fedsift.methods.filter.ranking import Params
from helpers.arrays import labelled
from helpers.runs import received

SCORES = ["gini", "f", "mi", "chi2", "iv", "variance"]


def pooled(X, y, score, small_cells=True):
    """The statistic of all rows in one table, with the bins that members find together."""
    table = PartyTable.from_any(X, name="pooled")
    params = Params(score, min_class_size=5, small_cells=small_cells)
    return pooled_scores(table, Target.from_values(y), params).values


@pytest.mark.parametrize("parties", [2, 3, 5])
@pytest.mark.parametrize("score", SCORES)
def test_scores_equal_the_pooled_ones(score, parties):
    X, y = labelled(180, 6, 3)
    X[::9, 1] = np.nan
    federation = fs.split_horizontal(X, y, parties, random_state=0)
    selector = fs.FilterSelector(score, n_features_to_select=3).fit(federation)
    assert np.allclose(selector.scores_, pooled(X, y, score), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("score", ["gini", "mi", "chi2", "iv"])
def test_so_they_do_where_no_small_cell_is_opened(score):
    X, y = labelled(180, 6, 3)
    X[::9, 1] = np.nan
    federation = fs.split_horizontal(X, y, 3, random_state=0)
    selector = fs.FilterSelector(score, n_features_to_select=3, policy=fs.Policy()).fit(federation)
    assert np.allclose(selector.scores_, pooled(X, y, score, small_cells=False), rtol=1e-9)
    assert "bin-counts" not in {row.kind for row in selector.result_.disclosures}


@pytest.mark.parametrize("skew", ["kmeans", "dirichlet"])
def test_skewed_rows_change_nothing(skew):
    X, y = labelled(200, 5)
    federation = fs.split_horizontal(X, y, 3, skew=skew, random_state=0)
    selector = fs.FilterSelector("gini", n_features_to_select=2).fit(federation)
    assert np.allclose(selector.scores_, pooled(X, y, "gini"), atol=1e-12)


def test_scikit_learn_agrees():
    X, y = load_breast_cancer(return_X_y=True)
    owners = np.arange(len(y)) % 3
    f = fs.FilterSelector("f", parties=owners).fit(X, y)
    assert np.allclose(f.scores_, f_classif(X, y)[0], rtol=1e-9)
    X, y = load_wine(return_X_y=True)
    c = fs.FilterSelector("chi2").fit(fs.split_horizontal(X, y, 3, random_state=0))
    assert np.allclose(c.scores_, chi2(X, y)[0], rtol=1e-9)


def test_numbers_far_from_zero_keep_their_digits():
    X, y = labelled(120, 3)
    X = X * 1e-3 + 1e6
    federation = fs.split_horizontal(X, y, 3, random_state=0)
    for score in ("f", "variance"):
        selector = fs.FilterSelector(score, n_features_to_select=1).fit(federation)
        assert np.allclose(selector.scores_, pooled(X, y, score), rtol=1e-6)


@pytest.mark.parametrize("score", ["f", "gini", "mi"])
def test_numeric_targets(score):
    data = synthetic.friedman(240, 7, random_state=0)
    X, y = np.asarray(data.X, dtype=float), np.asarray(data.y)
    federation = fs.split_horizontal(X, y, 3, random_state=0)
    selector = fs.FilterSelector(score, n_features_to_select=3).fit(federation)
    assert np.allclose(selector.scores_, pooled(X, y, score), rtol=1e-9)


def test_categories_are_united_over_parties():
    north = pd.DataFrame({"kind": ["a", "b"] * 20, "x": np.arange(40.0)})
    south = pd.DataFrame({"kind": ["c", "b"] * 20, "x": np.arange(40.0) - 5})
    y = np.array([0, 1] * 20)
    federation = fs.Federation.horizontal({"north": (north, y), "south": (south, y)})
    both = pd.concat([north, south], ignore_index=True)
    selector = fs.FilterSelector("mi", n_features_to_select=1).fit(federation)
    assert np.allclose(selector.scores_, pooled(both, np.tile(y, 2), "mi"), rtol=1e-9)
    assert selector.result_.selected == {"north": ("kind",), "south": ("kind",)}


def test_one_masked_answer_looks_random_and_the_sum_does_not():
    """Two worlds with equal totals: the coordinator's single answers must not repeat."""
    X, y = labelled(60, 2)
    params = Params(score="variance", n_features_to_select=1)

    def answers(seed):
        federation = fs.split_horizontal(X, y, 2, random_state=seed)
        nodes = filters_horizontal.build_nodes(federation.tables, federation.targets, params)
        outcome = run_local(filters_horizontal.PROTOCOL, nodes, keep_frames=True)
        masked = received(outcome, "coordinator", MaskedSums, protocol=filters_horizontal.PROTOCOL)
        return [m.sums.array() for m in masked], outcome.value.scores

    (here, scores), (there, same_scores) = answers(0), answers(1)
    assert np.allclose(scores, same_scores, rtol=1e-12)
    assert not any(np.array_equal(a, b) for a in here for b in there)
    # A count of 30 rows would have 59 leading zero bits; a uniform word almost never has.
    assert all((word >> np.uint64(40)).all() for word in here)


def test_the_ledger_names_all_members_as_the_source_of_totals():
    X, y = labelled(80, 3)
    selector = fs.FilterSelector("gini", n_features_to_select=1, disclose="scores").fit(
        fs.split_horizontal(X, y, 2, random_state=0)
    )
    rows = {(d.learner, d.kind): d for d in selector.result_.disclosures}
    assert rows[("coordinator", "pooled-sums")].form.startswith("masked")
    assert rows[("party-1", "pooled-quantiles")].about == "party-1, party-2"


def test_a_member_can_forbid_pooled_quantiles():
    X, y = labelled(80, 3)
    federation = fs.split_horizontal(X, y, 2, random_state=0)
    policy = {"party-2": fs.Policy(may_not_reveal=("pooled-quantiles",))}
    with pytest.raises(fs.errors.PolicyViolation, match="pooled-quantiles"):
        fs.FilterSelector("gini", n_features_to_select=1, policy=policy).fit(federation)
    fs.FilterSelector("f", n_features_to_select=1, policy=policy).fit(federation)


def test_a_single_party_has_nobody_to_hide_among():
    X, y = labelled(60, 3)
    with pytest.raises(PartyError, match="at least two"):
        fs.FilterSelector("f", n_features_to_select=1).fit(
            fs.Federation.horizontal({"only": (X, y)})
        )


def test_the_plan_is_what_happens():
    X, y = labelled(80, 3)
    federation = fs.split_horizontal(X, y, 3, random_state=0)
    for score in ("gini", "f"):
        selector = fs.FilterSelector(score, n_features_to_select=1)
        planned = {(d.learner, d.about, d.kind) for d in selector.plan(federation).disclosures}
        happened = {
            (d.learner, d.about, d.kind) for d in selector.fit(federation).result_.disclosures
        }
        assert happened == planned


def test_common_columns_count_once():
    X, y = labelled(80, 4)
    selector = fs.FilterSelector("f", n_features_to_select=2).fit(fs.split_horizontal(X, y, 3))
    assert selector.result_.n_selected == 2
    assert selector.result_.headline() == ("filter: 2 features selected (common to 3 parties).")


def test_the_name_of_the_neutral_role_is_taken():
    X, y = labelled(60, 3)
    federation = fs.split_horizontal(X, y, 2, names=["coordinator", "north"])
    with pytest.raises(fs.errors.PartyError, match="coordinator"):
        fs.FilterSelector("f", n_features_to_select=1).fit(federation)
