"""Measures of interaction: known values, defects of the paper, and whole numbers against reals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsift.data import catalog
from fedsift.errors import ParameterError
from fedsift.methods.interaction import fixed_point as fixed
from fedsift.methods.interaction import measures


def data(name):
    loaded = catalog.load(name)
    return np.asarray(loaded.X, dtype=float), np.unique(loaded.y, return_inverse=True)[1]


def xor_task(seed, n_rows=400, n_noise=9):
    """A weak mate, its exclusive-or partner and noise; the partner alone tells nothing."""
    rng = np.random.default_rng(seed)
    mate, partner = rng.integers(0, 2, (2, n_rows))
    y = (mate ^ partner).astype(int)
    flip = rng.random(n_rows) < 0.2
    X = rng.normal(size=(n_rows, 2 + n_noise))
    X[:, 0] = np.where(flip, y, mate) + 0.01 * X[:, 0]
    X[:, 1] = partner + 0.01 * X[:, 1]
    return X, y


@pytest.mark.parametrize("measure", ["iwfs", "miw", "paper"])
def test_exclusive_or_raises_the_weight_of_the_partner(measure):
    a = np.tile([0, 0, 1, 1], 50).astype(float)
    b = np.tile([0, 1, 0, 1], 50).astype(float)
    y = (a != b).astype(int)
    trace = measures.oracle(np.stack([a, b], axis=1), y, measure)
    np.testing.assert_allclose(trace.relevance, 0, atol=0.01)
    assert trace.interaction[1, 0] > 1.2


@pytest.mark.parametrize(
    ("measure", "weight"), [("iwfs", 1.5), ("miw", 1.5), ("paper", 1.325), ("paper_literal", 0.675)]
)
def test_exclusive_or_weights_by_hand(measure, weight):
    a = np.tile([0, 0, 1, 1], 50).astype(float)
    b = np.tile([0, 1, 0, 1], 50).astype(float)
    trace = measures.oracle(np.stack([a, b], axis=1), (a != b).astype(int), measure)
    assert trace.interaction[1, 0] == pytest.approx(weight, abs=1e-9)


def test_a_copy_loses_weight_unless_the_paper_is_taken_literally():
    X, y = data("wine")
    twice = np.column_stack([X, X[:, 6]])
    for measure, sign in (("iwfs", -1), ("miw", -1), ("paper", -1), ("paper_literal", 1)):
        trace = measures.oracle(twice, y, measure)
        first, second = sorted([6, 13], key=trace.order.index)
        assert np.sign(trace.interaction[second, first] - 1) == sign, measure


def test_binary_taylor_information_is_a_variance():
    """Feasibility A.2: the cubic terms cancel for one binary column."""
    X, y = data("wine")
    x = measures.binarise(X)
    shares = np.bincount(y) / len(y)
    inside = np.stack([x[y == j].mean(axis=0) for j in range(3)])
    information = shares @ (inside - x.mean(axis=0)) ** 2
    entropy = measures.feature_entropy(x.mean(axis=0), "paper")
    expected = 2 * information / (entropy * measures.label_entropy(shares, "paper"))
    np.testing.assert_allclose(measures.oracle(X, y, "paper").relevance, expected, atol=1e-12)


def test_relevance_of_moments_is_the_correlation_ratio():
    X, y = data("wine")
    u = measures.standardise(X)
    total = ((u - u.mean(axis=0)) ** 2).sum(axis=0)
    between = sum((y == j).sum() * (u[y == j].mean(axis=0) - u.mean(axis=0)) ** 2 for j in range(3))
    eta = measures.oracle(X, y, "miw").relevance * len(y)
    np.testing.assert_allclose(eta, between, rtol=1e-10)
    assert (between <= total * (1 + 1e-12)).all()


def test_exponentials_add_up_to_the_reciprocal():
    x = np.geomspace(0.1, 4.7, 500)
    total = np.exp(-np.outer(x, fixed.EXPONENTS)) @ fixed.exponential_factors()
    assert np.abs(total * x - 1).max() < 2e-4


@pytest.mark.parametrize("measure", measures.SECURE)
@pytest.mark.parametrize("name", ["wine", "wine_white"])
def test_whole_numbers_rank_as_reals(measure, name):
    X, y = data(name)
    exact, whole = measures.oracle(X, y, measure), fixed.simulate(X, y, measure)
    assert whole.order == exact.order
    # Shares of reciprocals and exponentials are rounded to 14 bits.
    tolerance = 5e-5 if measure == "miw" else 2e-3
    np.testing.assert_allclose(whole.relevance, exact.relevance, atol=tolerance)
    np.testing.assert_allclose(whole.interaction, exact.interaction, atol=tolerance)


@pytest.mark.usefixtures("big_sets")
@pytest.mark.parametrize("name", ["vehicle", "segmentation", "sonar"])
def test_whole_numbers_rank_as_reals_on_more_data(name):
    X, y = data(name)
    X = X[:, ~measures.constant_columns(X, "miw")]
    n_select = 30 if name == "sonar" else None
    exact = measures.oracle(X, y, "miw", n_select)
    assert fixed.simulate(X, y, "miw", n_select).order == exact.order


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(measures.SECURE), st.integers(5, 60))
def test_no_whole_number_outgrows_its_bound(seed, measure, n_rows):
    rng = np.random.default_rng(seed)
    X = rng.standard_cauchy((n_rows, 3))
    y = np.r_[0, 1, rng.integers(0, 3, n_rows - 2)]
    search = fixed.FixedSearch(X, y, measure)
    bound = 1 << search.plan.scales.result_bits
    opened = [*search.relevance_integers(), *search.weight_integers(0, [1, 2])]
    assert all(abs(value) < bound for value in opened)
    one = np.ones(3, dtype=int)
    low, high = search.plan.relevance_limits(one)
    assert (search.relevance() >= low).all()
    assert (search.relevance() <= high).all()
    low, high = search.plan.weight_limits(one[:2])
    gains = search.plan.gains(search.weight_integers(0, [1, 2]))
    assert (gains >= low).all()
    assert (gains <= high).all()


def test_thirty_trials_of_exclusive_or():
    found = {"miw": 0, "paper": 0, "iwfs": 0, "paper_literal": 0}
    for seed in range(30):
        X, y = xor_task(seed)
        for measure in found:
            order = measures.oracle(X, y, measure).order
            found[measure] += order.index(1) == order.index(0) + 1
    literal = found.pop("paper_literal")
    assert set(found.values()) == {30}
    assert literal < 3


def test_constant_columns_and_missing_values():
    X = np.array([[1.0, 5.0, np.nan], [2.0, 5.0, 3.0], [3.0, 5.0, 3.5], [4.0, 5.0, 4.0]])
    for measure in ("miw", "paper"):
        assert measures.constant_columns(X, measure).tolist() == [False, True, False]
    assert measures.standardise(X)[0, 2] == 0
    assert measures.binarise(X)[0, 2] == 0
    assert np.isfinite(measures.standardise(np.full((3, 1), np.nan))).all()


def test_a_class_of_one_row_and_an_empty_class():
    X, y = data("wine")
    lonely = y.copy()
    lonely[0] = 7
    trace = fixed.simulate(X, lonely)
    assert np.isfinite(trace.scores).all()
    assert trace.order == measures.oracle(X, lonely).order


def test_unknown_measure():
    with pytest.raises(ParameterError, match="measure='gini'"):
        measures.oracle(np.eye(4), np.array([0, 1, 0, 1]), "gini")
