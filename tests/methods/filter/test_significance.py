"""P-values of filter scores against scipy, under no relation, and what selections by them do."""

import warnings

import numpy as np
import pytest
from scipy import stats
from scipy.stats import chi2_contingency, false_discovery_control
from sklearn.feature_selection import f_classif, f_regression

import fedsift as fs
from fedsift.data import PartyTable, Target
from fedsift.errors import ParameterError
from fedsift.lab.pooled import pooled_selection
from fedsift.methods.filter import messages, significance
from fedsift.methods.filter.ranking import Params, bins_of, contingency, plain_scores
from helpers.arrays import labelled
from helpers.runs import received, run_filter

EVERY_SCORE = ["f", "gini", "chi2", "mi", "iv"]


def fitted(X, y, score="f", **settings):
    chosen = {"n_features_to_select": "fdr", "random_state": 0, **settings}
    return fs.FilterSelector(score, **chosen).fit(X, y)


def tables_of(X, y, **settings):
    """The counts that a run opens, feature by feature, without empty bins."""
    table, n_classes = PartyTable.from_any(X, name="pooled"), y.max() + 1
    params = Params(min_class_size=5, **settings)
    binned = bins_of(table, params, n_classes)
    counts = contingency(binned.codes, binned.n_bins, y, n_classes)
    return [own[own.sum(axis=1) > 0] for own in counts]


@pytest.mark.parametrize(("parties", "n_classes"), [(2, 2), (3, 4), (5, 2)])
def test_p_values_of_f_are_those_of_the_pooled_table(parties, n_classes):
    X, y = labelled(150, 6, n_classes)
    expected = f_classif(X, y)[1]

    vertical = fitted(X, y, parties=parties)
    horizontal = fitted(fs.split_horizontal(X, y, parties, random_state=0), None)

    for selector in (vertical, horizontal):
        np.testing.assert_allclose(selector.p_values_, expected, rtol=1e-6)
        q_values = false_discovery_control(expected)
        np.testing.assert_allclose(selector.q_values_, q_values, rtol=1e-6)
        assert np.array_equal(selector.support_, q_values <= 0.1)
        assert selector.n_features_to_select_ == selector.support_.sum()


def test_p_values_of_numbers_are_those_of_a_regression():
    X = labelled(120, 6)[0]
    numbers = X[:, 0] + np.random.default_rng(1).normal(size=120)

    for given in (fs.split_vertical(X, numbers, 3), fs.split_horizontal(X, numbers, 3)):
        np.testing.assert_allclose(
            fitted(given, None).p_values_, f_regression(X, numbers)[1], rtol=1e-6
        )


@pytest.mark.parametrize("disclose", ["scores", "counts"])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_p_values_of_chi2_have_the_degrees_of_freedom_of_each_column(n_classes, disclose):
    X, y = labelled(200, 6, n_classes)  # the last column has few values, and so fewer bins
    tables = tables_of(X, y, score="chi2", disclose=disclose)
    assert len({len(table) for table in tables}) > 1

    found = fitted(X, y, "chi2", disclose=disclose).p_values_

    expected = [chi2_contingency(table, correction=False)[1] for table in tables]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-12)


@pytest.mark.parametrize("score", ["mi", "iv"])
def test_p_values_of_information_are_those_of_the_g_test(score):
    X, y = labelled(200, 6, 3)
    tables = tables_of(X, y, score=score, disclose="counts")

    found = fitted(X, y, score).p_values_

    expected = [
        chi2_contingency(table, correction=False, lambda_="log-likelihood")[1] for table in tables
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-15)


def test_two_classes_make_gini_and_chi2_the_same_test():
    X, y = labelled(200, 6, 2)

    found = fitted(X, y, "gini").p_values_

    np.testing.assert_allclose(found, fitted(X, y, "chi2").p_values_, rtol=1e-3, atol=1e-12)


def test_the_law_of_gini_is_a_sum_of_chi_squared_variables():
    rng = np.random.default_rng(0)
    shares, n_bins, n_rows = np.array([0.7, 0.2, 0.1]), 5, 1000
    weights = np.linalg.eigvalsh(np.diag(shares) - np.outer(shares, shares))[1:]
    sums = rng.chisquare(n_bins - 1, size=(200_000, 2)) @ weights
    taken = np.quantile(sums, [0.5, 0.9, 0.99, 0.999])

    found = significance.of_gini(
        1 - (shares**2).sum() - taken / n_rows, shares * n_rows, np.full(4, n_bins)
    )

    np.testing.assert_allclose(found, [0.5, 0.1, 0.01, 0.001], rtol=0.15)


def null_p_values(score, n_rows, n_classes, n_permutations, seed=5, frequencies=False, smallest=5):
    """Of 300 columns that know nothing of the label; some have few values."""
    rng = np.random.default_rng(seed)
    X = rng.gamma(2.0, size=(n_rows, 300)) if frequencies else rng.normal(size=(n_rows, 300))
    X[:, ::3] = np.round(X[:, ::3] * (4 if frequencies else 1))
    y = rng.permutation(np.resize(np.arange(n_classes), n_rows))
    table, target = PartyTable.from_any(X, name="one"), Target.from_values(y)
    way = messages.way_of(score, "counts", frequencies=frequencies)
    params = Params(
        score, disclose="counts", bins=4, min_bin_size=smallest, n_permutations=n_permutations
    )
    values = plain_scores(table, target, params, frequencies=frequencies)
    evidence = significance.own_evidence(
        table, target, values, params, frequencies=frequencies, way=way, rng=rng
    )
    return significance.p_values({"one": evidence})["one"]


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("score", EVERY_SCORE)
def test_laws_are_uniform_where_columns_tell_nothing(score, n_classes):
    found = null_p_values(score, 600, n_classes, 0)

    assert stats.kstest(found, "uniform").pvalue > 0.01


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("score", EVERY_SCORE)
def test_shuffles_hold_for_few_rows_too(score, n_classes):
    found = null_p_values(score, 40, n_classes, 30, smallest=2)

    # Few rows give few different scores; then p-values may be larger, and never smaller.
    assert stats.kstest(found, "uniform", alternative="greater").pvalue > 0.01
    assert 0.02 < (found <= 0.05).mean() < 0.08


def test_the_same_check_finds_a_law_that_does_not_hold():
    found = null_p_values("mi", 40, 4, 0, smallest=1)  # too few rows for the G test

    assert stats.kstest(found, "uniform", alternative="greater").pvalue < 0.01


def test_frequencies_without_a_law_have_p_values_from_shuffles():
    found = null_p_values("chi2", 100, 2, 40, frequencies=True)

    assert stats.kstest(found, "uniform").pvalue > 0.01


@pytest.mark.parametrize(
    ("score", "he"), [*((score, "auto") for score in EVERY_SCORE), ("gini", "paillier")]
)
def test_encrypted_shuffles_equal_those_in_the_open(score, he):
    X, y = labelled(40, 3, 2)
    given = {"n_permutations": 3, "bins": 3, "he": he, "n_features_to_select": 2}

    secure, plain = (fitted(X, y, score, security=s, **given) for s in ("secure", "plain"))

    assert np.array_equal(secure.p_values_, plain.p_values_)
    assert np.array_equal(secure.scores_, plain.scores_)
    assert (secure.p_values_ >= 1 / (1 + 3 * 3)).all()
    without = fitted(X, y, score, **given | {"n_permutations": 0})
    np.testing.assert_allclose(secure.scores_, without.scores_, atol=1e-4)


def test_copies_tell_of_a_column_by_itself_and_not_whose_rows_are_whose():
    """A label holder that knows the column cannot see in copies which rows have which values."""
    rng = np.random.default_rng(3)
    y = np.resize([0, 1], 80)
    params = Params("gini", bins=[0.5], min_bin_size=1, n_permutations=40, scheme="plain", seed=1)

    def gini_of_copies(column, shuffled):
        federation = fs.split_vertical(
            column[:, None], y, 1, label_holder=None, names=["shop"], random_state=0
        )
        outcome, nodes = run_filter(federation, params)
        holder = next(iter(nodes[federation.label_holder]))
        evidence = holder._evidence["shop"]
        assert len(received(outcome, "shop", messages.EncryptedLabels)) == 1
        return evidence.shuffled[:, 0] if shuffled else evidence.own[0]

    same, other = y.astype(float), rng.permutation(y).astype(float)
    assert gini_of_copies(same, False) < 1e-9 < 0.01 < gini_of_copies(other, False)
    of_same, of_other = gini_of_copies(same, True), gini_of_copies(other, True)
    assert of_same.min() > 1e-4
    assert stats.ks_2samp(of_same, of_other).pvalue > 0.05


def test_numbers_of_bins_are_sent_only_where_p_values_need_them():
    X, y = labelled(80, 4, 2)

    def kinds(**settings):
        ledger = fitted(X, y, "gini", **{"n_features_to_select": 2, **settings}).result_.disclosures
        return {row.message for row in ledger}

    assert "Offer" in kinds()
    assert np.isnan(fitted(X, y, "gini", n_features_to_select=2).p_values_).all()
    assert {"OfferOfBins", "SealedScores"} <= kinds(n_features_to_select="fdr")
    assert {"OfferOfBins", "SealedScoresAndShuffles"} <= kinds(n_permutations=2)
    assert not fitted(X, y, "gini", n_features_to_select=2).result_.p_values


def test_nothing_may_pass_and_the_result_says_so():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 5)), np.resize([0, 1], 60)

    selector = fitted(X, y, fdr=0.001, security="plain")

    assert selector.n_features_to_select_ == 0
    assert any("None of 5 features" in text for text in selector.result_.warnings)
    with pytest.warns(UserWarning, match="No features were selected"):
        assert selector.transform(X).shape == (60, 0)
    federation = fs.split_vertical(X, y, 2, random_state=0)
    with pytest.warns(UserWarning, match="No features were selected"):
        left = fitted(federation, None, fdr=0.001, security="plain").transform(federation)
    assert left.n_features == 0
    assert selector.result_.to_json()


def test_the_share_of_false_discoveries_is_a_choice():
    X, y = labelled(150, 12, 2)

    strict, lax = (fitted(X, y, fdr=fdr, security="plain").support_ for fdr in (1e-6, 0.5))

    assert strict.sum() < lax.sum()
    assert (strict <= lax).all()


BUDGET = {"bins": [0.0], "n_features_to_select": 2}


@pytest.mark.parametrize("budget", [{"epsilon": 5.0}, {"release_epsilon": 5.0}])
def test_budgets_of_privacy_withhold_p_values(budget):
    X, y = labelled(120, 4, 2)

    selector = fitted(X, y, "gini", **BUDGET | budget)

    assert not selector.result_.p_values
    assert np.isnan(selector.q_values_).all()
    for asked in ({"n_features_to_select": "fdr"}, {"n_permutations": 5}):
        with pytest.raises(ParameterError, match="differential privacy"):
            fitted(X, y, "gini", **BUDGET | budget | asked)


def test_p_values_that_cannot_be_are_refused():
    X, y = labelled(80, 4, 2)
    rows = fs.split_horizontal(X, y, 2, random_state=0)

    for given, settings, match in [
        (X, {"score": "variance"}, "variance"),
        (rows, {"n_permutations": 5}, "different rows"),
        (np.abs(X), {"score": "chi2"}, "frequencies"),
        (fs.split_horizontal(np.abs(X), y, 2), {"score": "chi2"}, "frequencies"),
        (X, {"fdr": 1.5}, "fdr=1.5"),
        (X, {"n_permutations": -1}, "n_permutations=-1"),
    ]:
        labels = y if isinstance(given, np.ndarray) else None
        with pytest.raises(ParameterError, match=match):
            fitted(given, labels, **settings)
    assert fitted(np.abs(X), y, "chi2", n_permutations=20).p_values_.min() > 0


def test_a_mean_of_zero_is_no_evidence():
    X, y = np.abs(labelled(80, 4, 2)[0]), np.resize([0, 1], 80)
    X[:, 2] = 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = fitted(X, y, "chi2", n_permutations=20).p_values_
    assert found[2] > 0.5


def test_reports_show_them_beside_the_score(tmp_path):
    from fedsift.report import text

    X, y = labelled(120, 4, 2)
    result = fitted(X, y, security="plain").result_

    assert "p-value" in text.render(result)
    assert "q-value of at most 0.1" in text.render(result)
    page = result.to_html(tmp_path / "report.html").read_text()
    assert "q-value" in page
    assert "p-value" not in text.render(
        fitted(X, y, "gini", security="plain", n_features_to_select=2).result_
    )


@pytest.mark.parametrize("score", ["f", "gini", "mi"])
@pytest.mark.parametrize("split", [fs.split_vertical, fs.split_horizontal])
def test_comparisons_know_what_open_data_would_select(score, split):
    X, y = labelled(200, 8, 2)
    federation = split(X, y, 2, random_state=0)
    given = {"score": score, "n_features_to_select": "fdr"}

    found = pooled_selection("filter", given, federation, seed=0)

    chosen = fitted(federation, None, score, security="plain").support_
    assert found.tolist() == chosen.tolist()
    assert 0 < found.sum() < 8
