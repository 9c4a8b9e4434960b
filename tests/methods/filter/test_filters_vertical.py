"""The encrypted filters equal the plaintext scores of the pooled table, whoever holds what."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.feature_selection import chi2, f_classif, f_regression
from sklearn.metrics import mutual_info_score

import fedsift as fs
from fedsift.data import PartyTable, Target, synthetic
from fedsift.errors import ParameterError, PartyFailed
from fedsift.methods.filter.ranking import Params, plain_scores
from fedsift.methods.filter.scores import gini_error_bound
from helpers.arrays import bank_and_registry, labelled
from helpers.runs import run_filter

SCORES = ["gini", "f", "mi", "chi2", "iv", "variance"]


def pooled(X, y, score, **settings):
    """The oracle: scores of the whole table with open labels."""
    table = PartyTable.from_any(X, name="pooled")
    given = {"min_class_size": 5, "disclose": "counts", **settings}
    return plain_scores(table, Target.from_values(y), Params(score=score, **given))


def relative_error(found, wanted):
    return np.max(np.abs(found - wanted) / np.maximum(1.0, np.abs(wanted)))


@pytest.mark.parametrize("parties", [2, 3, 5])
@pytest.mark.parametrize("score", SCORES)
def test_counts_equal_the_pooled_scores(score, parties):
    X, y = labelled(150, 10, 3)
    disclose = "auto" if score == "variance" else "counts"
    selector = fs.FilterSelector(
        score, n_features_to_select=4, parties=parties, disclose=disclose, random_state=1
    ).fit(X, y)
    assert relative_error(selector.scores_, pooled(X, y, score)) < 1e-9


@pytest.mark.parametrize("n_classes", [2, 3, 7, 26])
@pytest.mark.parametrize("score", ["gini", "f", "mi", "chi2", "iv"])
def test_every_number_of_classes(score, n_classes):
    X, y = labelled(300, 5, n_classes)
    X = np.abs(X) if score == "chi2" else X
    selector = fs.FilterSelector(score, n_features_to_select=2, disclose="counts", random_state=1)
    assert relative_error(selector.fit(X, y).scores_, pooled(X, y, score)) < 1e-9


@pytest.mark.parametrize("n_classes", [2, 5])
@pytest.mark.parametrize("score", ["gini", "f"])
def test_scores_alone_stay_within_the_stated_bound_and_equal_plain(score, n_classes):
    X, y = labelled(400, 6, n_classes)
    secure = fs.FilterSelector(score, n_features_to_select=3, parties=3, random_state=2).fit(X, y)
    plain = fs.FilterSelector(
        score, n_features_to_select=3, parties=3, random_state=2, security="plain"
    ).fit(X, y)
    bound = gini_error_bound(400) if score == "gini" else 1e-6
    assert bound <= 1e-4
    assert relative_error(secure.scores_, pooled(X, y, score)) <= bound
    assert np.array_equal(secure.scores_, plain.scores_)
    assert secure.result_.selected == plain.result_.selected


@pytest.mark.real_keys
@pytest.mark.parametrize("disclose", ["scores", "counts"])
@pytest.mark.parametrize("score", ["gini", "f"])
def test_paillier_and_bgv_agree_bit_for_bit(score, disclose):
    X, y = labelled(120, 4, 3)
    both = [
        fs.FilterSelector(
            score, n_features_to_select=2, disclose=disclose, he=he, random_state=3
        ).fit(X, y)
        for he in ("bgv", "paillier")
    ]
    assert np.array_equal(both[0].scores_, both[1].scores_)
    assert [s.result_.crypto for s in both] == ["bgv", "paillier"]
    assert both[0].result_.selected == both[1].result_.selected


@pytest.mark.real_keys
@pytest.mark.parametrize("parties", [2, 3, 5])
@pytest.mark.parametrize("score", ["gini", "f", "mi", "chi2", "iv"])
def test_paillier_counts_equal_the_pooled_scores(score, parties):
    X, y = labelled(80, 6, 3)
    selector = fs.FilterSelector(
        score,
        n_features_to_select=2,
        disclose="counts",
        he="paillier",
        parties=parties,
        random_state=3,
    )
    assert relative_error(selector.fit(X, y).scores_, pooled(X, y, score)) < 1e-9


@pytest.mark.real_keys
@pytest.mark.parametrize("n_classes", [2, 26])
@pytest.mark.parametrize(
    ("score", "disclose"),
    [("gini", "counts"), ("gini", "scores"), ("f", "counts"), ("f", "scores")],
)
def test_paillier_with_few_and_many_classes(score, disclose, n_classes):
    X, y = labelled(130, 3, n_classes)
    selector = fs.FilterSelector(
        score, n_features_to_select=1, disclose=disclose, he="paillier", random_state=3
    ).fit(X, y)
    bound = {"counts": 1e-9, "scores": gini_error_bound(130) if score == "gini" else 1e-6}[disclose]
    # Bins whose counts are opened are larger.
    wanted = pooled(X, y, score, disclose=disclose)
    assert relative_error(selector.scores_, wanted) <= bound


@pytest.mark.parametrize("disclose", ["scores", "counts"])
def test_f_equals_scikit_learn(disclose):
    X, y = load_breast_cancer(return_X_y=True)
    selector = fs.FilterSelector("f", disclose=disclose, parties=3, random_state=0).fit(X, y)
    tolerance = 1e-9 if disclose == "counts" else 1e-6
    assert relative_error(selector.scores_, f_classif(X, y)[0]) < tolerance


@pytest.mark.parametrize(("disclose", "tolerance"), [("auto", 1e-5), ("counts", 1e-9)])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_chi2_equals_scikit_learn_on_non_negative_columns(disclose, tolerance, n_classes):
    X, y = load_wine(return_X_y=True)
    y = np.minimum(y, n_classes - 1)
    selector = fs.FilterSelector("chi2", parties=3, disclose=disclose, random_state=0).fit(X, y)
    assert relative_error(selector.scores_, chi2(X, y)[0]) < tolerance


@pytest.mark.parametrize(("disclose", "tolerance"), [("auto", 1e-5), ("counts", 1e-9)])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_binned_chi2_is_the_sum_of_scikit_learns_over_one_hot_bins(disclose, tolerance, n_classes):
    X, y = labelled(200, 4, n_classes)
    edges, settings = [-0.5, 0.5], {"n_features_to_select": 2, "random_state": 0}
    selector = fs.FilterSelector("chi2", bins=edges, disclose=disclose, **settings).fit(X, y)
    for j in range(X.shape[1]):
        one_hot = np.eye(3)[np.searchsorted(edges, X[:, j], side="left")]
        assert selector.scores_[j] == pytest.approx(chi2(one_hot, y)[0].sum(), rel=tolerance)


@pytest.mark.parametrize("frequencies", [True, False])
def test_chi2_tells_scores_alone_and_costs_what_gini_and_f_cost(frequencies):
    X, y = labelled(200, 6, 3)
    X = np.abs(X) if frequencies else X
    runs = {
        score: fs.FilterSelector(score, n_features_to_select=2, random_state=0).fit(X, y).result_
        for score in ("chi2", "gini", "f")
    }
    kinds = {score: {row.kind for row in run.disclosures} for score, run in runs.items()}
    assert kinds["chi2"] == kinds["gini"] == kinds["f"]
    dearest = max(runs["gini"].traffic.n_bytes, runs["f"].traffic.n_bytes)
    assert runs["chi2"].traffic.n_bytes <= 1.3 * dearest


def test_mutual_information_equals_scikit_learn_on_the_same_bins():
    X, y = labelled(200, 3, 3)
    selector = fs.FilterSelector("mi", bins=[0.0], n_features_to_select=1, random_state=0).fit(X, y)
    for j in range(X.shape[1]):
        assert selector.scores_[j] == pytest.approx(mutual_info_score(X[:, j] > 0, y), rel=1e-9)


@pytest.mark.parametrize("disclose", ["scores", "counts"])
def test_numeric_targets(disclose):
    data = synthetic.friedman(200, 8, random_state=0)
    X, y = np.asarray(data.X, dtype=float), np.asarray(data.y)
    selector = fs.FilterSelector("f", n_features_to_select=3, disclose=disclose, random_state=0)
    assert relative_error(selector.fit(X, y).scores_, f_regression(X, y)[0]) < 1e-6
    binned = fs.FilterSelector("gini", n_features_to_select=3, disclose=disclose, random_state=0)
    assert relative_error(binned.fit(X, y).scores_, pooled(X, y, "gini")) <= gini_error_bound(200)


def test_categories_and_missing_values_get_bins_of_their_own():
    frame = pd.DataFrame(
        {
            "region": ["north", "south", None, "west"] * 30,
            "income": [1.0, np.nan, 3.0, 4.0] * 30,
            "noise": np.random.default_rng(0).normal(size=120),
        }
    )
    y = np.array([0, 1, 1, 0] * 30)
    for score in ("gini", "mi", "iv", "chi2"):
        selector = fs.FilterSelector(score, n_features_to_select=2, parties=3, random_state=0).fit(
            frame, y
        )
        assert relative_error(selector.scores_, pooled(frame, y, score)) <= gini_error_bound(120)
        assert selector.get_feature_names_out().tolist() == ["region", "income"]


@pytest.mark.parametrize(("disclose", "smallest"), [("scores", 5), ("counts", 2 * 5)])
def test_small_bins_are_merged_and_the_result_says_so(disclose, smallest):
    X, y = labelled(100, 3)
    frame = pd.DataFrame({"rare": ["usual"] * 97 + ["once", "twice", "twice"], "other": X[:, 0]})
    selector = fs.FilterSelector(
        "gini", n_features_to_select=1, parties=[["other"], ["rare"]], disclose=disclose
    ).fit(frame, y)
    said = f"fewer than {smallest} rows and were merged"
    assert any(said in note for note in selector.result_.warnings)


def test_the_label_holder_may_own_features_or_stand_alone():
    X, y = labelled(120, 6)
    alone = fs.FilterSelector("gini", n_features_to_select=3).fit(
        fs.split_vertical(X, y, 2, label_holder=None)
    )
    owner = fs.FilterSelector("gini", n_features_to_select=3).fit(fs.split_vertical(X, y, 2))
    assert np.allclose(alone.scores_, owner.scores_, atol=1e-4)
    assert "label-holder" not in alone.result_.selected
    assert {d.learner for d in alone.result_.disclosures if d.kind == "feature-scores"} == {
        "label-holder"
    }


def test_the_same_seed_gives_the_same_selection_even_with_ties():
    X, y = labelled(100, 6)
    X = np.concatenate([X, X], axis=1)  # every feature has an exact twin
    runs = [
        fs.FilterSelector("gini", n_features_to_select=5, random_state=7).fit(X, y).get_support()
        for _ in range(2)
    ]
    assert np.array_equal(*runs)
    assert runs[0].sum() == 5


def test_a_share_and_a_number_select_the_same():
    X, y = labelled(100, 8)
    share = fs.FilterSelector("mi", n_features_to_select=0.25, random_state=0).fit(X, y)
    number = fs.FilterSelector("mi", n_features_to_select=2, random_state=0).fit(X, y)
    assert np.array_equal(share.get_support(), number.get_support())


def test_more_rows_than_one_ciphertext_holds():
    X, y = labelled(9000, 3)
    for disclose in ("scores", "counts"):
        selector = fs.FilterSelector(
            "gini", n_features_to_select=1, disclose=disclose, random_state=0
        )
        bound = gini_error_bound(9000) if disclose == "scores" else 1e-12
        assert relative_error(selector.fit(X, y).scores_, pooled(X, y, "gini")) <= bound


@pytest.mark.parametrize("score", ["mi", "iv"])
def test_scores_alone_are_refused_where_they_need_divisions(score):
    X, y = labelled(60, 3)
    with pytest.raises(ParameterError, match="gini, f and chi2"):
        fs.FilterSelector(score, n_features_to_select=1, disclose="scores").fit(X, y)


def test_counts_that_do_not_add_up_are_noticed(monkeypatch):
    """A feature holder that lies about its bins is caught by the class sizes."""
    from fedsift.methods.filter import label_holder as filters

    honest = filters.FeatureHolder._shuffled_bins

    def lying(self):
        rows, sizes = honest(self)
        return rows, np.roll(sizes, 1, axis=1) + 1

    monkeypatch.setattr(filters.FeatureHolder, "_shuffled_bins", lying)
    X, y = labelled(60, 3)
    params = Params(score="mi", n_features_to_select=1, disclose="counts", seed=0)
    with pytest.raises(PartyFailed, match="do not add up"):
        run_filter(bank_and_registry(X, y), params)
