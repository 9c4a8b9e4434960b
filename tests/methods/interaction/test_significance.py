"""P-values of relevances, against scipy, on columns that tell nothing, and through the protocol."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.feature_selection import f_classif

from fedsift.data import split_vertical
from fedsift.maths.multiple_testing import q_values
from fedsift.methods.interaction import measures
from fedsift.methods.interaction.fixed_point import FixedSearch
from fedsift.methods.interaction.selector import InteractionSelector
from fedsift.methods.interaction.significance import of_shares, with_shuffles
from helpers.arrays import labelled


def p_values(values, codes, measure="miw", blur=0.0):
    """By the law, of open columns in the protocol's whole numbers."""
    search = FixedSearch(values, codes, measure)
    shares = search.plan.shares(search.relevance())
    noise = np.random.default_rng(1).uniform(-blur, blur, len(shares))
    n_classes = int(codes.max()) + 1
    return of_shares(shares + noise, len(codes), n_classes, search.parts, blur)


def columns_of(values):
    """Columns of a frame as the measure takes them."""
    federation = split_vertical(values, np.resize([0, 1], len(values)), 1)
    return list(federation.tables[federation.label_holder].columns)


def unrelated(n_rows, n_classes, n_columns=300, seed=5):
    """Numbers, some with few values, and classes of unequal size that have no relation."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n_rows, n_columns))
    values[:, ::3] = np.round(values[:, ::3])
    codes = np.minimum(np.arange(n_rows) % (n_classes + 1), n_classes - 1)
    return values, rng.permutation(codes)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_p_values_of_numbers_are_those_of_the_f_test(n_classes):
    X, y = labelled(120, 6, n_classes)
    X = np.clip(X, X.mean(axis=0) - 2 * X.std(axis=0), X.mean(axis=0) + 2 * X.std(axis=0))

    np.testing.assert_allclose(p_values(X, y), f_classif(X, y)[1], rtol=2e-2, atol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_shares_of_the_published_measure_are_those_of_pearson(n_classes):
    X, y = labelled(120, 6, n_classes)
    search = FixedSearch(X, y, "paper")
    binary = measures.binarise(X)

    expected = [
        stats.chi2_contingency(pd.crosstab(column, y), correction=False).statistic / len(y)
        for column in binary.T
    ]

    np.testing.assert_allclose(search.plan.shares(search.relevance()), expected, rtol=1e-2)


def test_shares_of_categories_are_those_of_pearson():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 400)
    level = np.where(rng.random(400) < 0.2, y, rng.integers(0, 4, 400))
    frame = pd.DataFrame({"level": pd.Categorical(np.array(list("abcd"))[level])})
    search = FixedSearch(columns_of(frame), y, "miw")

    whole = stats.chi2_contingency(pd.crosstab(level, y))
    (found,) = p_values(columns_of(frame), y)

    assert search.relevance()[0] * 400 == pytest.approx(whole.statistic, rel=1e-3)
    assert np.log(found) == pytest.approx(np.log(whole.pvalue), rel=0.05)


@pytest.mark.parametrize("n_rows", [150, 600])
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("measure", measures.SECURE)
def test_p_values_are_uniform_where_columns_tell_nothing(measure, n_classes, n_rows):
    values, codes = unrelated(n_rows, n_classes)

    found = p_values(values, codes, measure, 2**-16)

    assert stats.kstest(found, "uniform").pvalue > 0.01


@pytest.mark.parametrize("n_classes", [2, 4])
def test_p_values_are_uniform_where_categories_tell_nothing(n_classes):
    rng = np.random.default_rng(2)
    codes = unrelated(400, n_classes)[1]
    levels = {f"c{i}": rng.choice(list("abcdef"[: 3 + i % 4]), 400) for i in range(200)}

    found = p_values(columns_of(pd.DataFrame(levels).astype("category")), codes)

    assert stats.kstest(found, "uniform").pvalue > 0.01


def test_the_same_check_finds_a_law_of_too_few_parts():
    """Categories as if each of them were a number."""
    rng = np.random.default_rng(2)
    shares = rng.beta(3 / 2, 397 / 2, 200)

    assert stats.kstest(of_shares(shares, 400, 2, 3), "uniform").pvalue > 0.01
    assert stats.kstest(of_shares(shares, 400, 2, 1), "uniform").pvalue < 1e-6


def test_noise_is_part_of_the_law():
    """Among a million rows noise of 2**-16 is larger than what chance reaches."""
    rng = np.random.default_rng(3)
    shares = rng.beta(0.5, 5e5, 2000) + rng.uniform(-(2**-16), 2**-16, 2000)

    assert stats.kstest(of_shares(shares, 10**6, 2, 1, 2**-16), "uniform").pvalue > 0.01
    ignored = of_shares(shares, 10**6, 2)
    assert (ignored < 0.01).mean() > 0.1


@pytest.mark.parametrize(("share", "measure"), [(0.02, "paper"), (0.004, "miw")])
def test_p_values_of_rare_values_are_too_large_and_never_too_small(share, measure):
    rng = np.random.default_rng(4)
    values = (rng.random((2000, 300)) < share).astype(float)
    codes = np.arange(2000) % 2

    found = p_values(values, codes, measure)

    assert stats.kstest(found, "uniform", alternative="greater").pvalue > 0.01
    assert stats.kstest(found, "uniform").pvalue < 0.01


def test_p_values_of_categories_with_missing_values_are_too_large():
    rng = np.random.default_rng(6)
    frame = pd.DataFrame(rng.choice(list("abcd"), (400, 200))).mask(rng.random((400, 200)) < 0.5)
    frame.columns = frame.columns.astype(str)

    found = p_values(columns_of(frame.astype("category")), np.arange(400) % 2)

    assert stats.kstest(found, "uniform", alternative="greater").pvalue > 0.01
    assert found.mean() > 0.6


def test_shuffled_labels_correct_a_law_as_far_as_they_reach():
    rng = np.random.default_rng(7)
    own, *shuffled = rng.random((7, 500)) ** 0.5  # a law whose p-values are too large

    found = with_shuffles(own, shuffled)

    assert stats.kstest(own, "uniform").pvalue < 0.01
    assert stats.kstest(found, "uniform").pvalue > 0.01
    assert with_shuffles(np.array([1e-12]), shuffled)[0] == 1e-12


def test_too_few_rows_have_no_p_values():
    assert np.isnan(of_shares([0.5], 3, 3)).all()
    assert np.isnan(with_shuffles(np.array([np.nan]), [np.array([0.5])])).all()


@pytest.mark.parametrize("measure", measures.SECURE)
def test_a_run_tells_p_values_of_its_relevances(measure):
    X, y = labelled(80, 5, 2)
    X[:, 2] = 1.0  # constant: not tested
    selector = InteractionSelector(
        n_features_to_select=2, measure=measure, pair_start="none", random_state=0
    ).fit(X, y)

    tested = [0, 1, 3, 4]
    expected = p_values(X[:, tested], y, measure)
    assert np.isnan(selector.p_values_[2])
    np.testing.assert_allclose(selector.p_values_[tested], expected, rtol=0.03)
    np.testing.assert_allclose(selector.q_values_[tested], q_values(selector.p_values_[tested]))
    told = selector.result_.to_frame().set_index("feature")["p_value"]
    assert told.notna().sum() == len(tested)


@pytest.mark.parametrize("measure", measures.SECURE)
def test_a_run_that_stops_by_itself_counts_shuffled_labels(measure):
    X, y = labelled(60, 4, 2)
    X[:, 0] = y + 0.3 * X[:, 0]
    selector = InteractionSelector(
        n_features_to_select="auto", measure=measure, security="plain", random_state=0
    ).fit(X, y)

    counted = selector.p_values_ * (1 + 6 * 4)
    best = int(np.argmin(selector.p_values_))
    assert best == 0
    assert selector.p_values_[0] < 1e-4
    others = counted[1:][selector.p_values_[1:] > 0.1]
    assert len(others)
    np.testing.assert_allclose(others, np.round(others))
