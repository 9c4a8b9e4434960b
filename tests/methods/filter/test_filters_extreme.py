"""Scores of columns far from zero, tiny or huge: the right number, or an error that says why not."""

import numpy as np
import pytest
from sklearn.feature_selection import chi2, f_classif, f_regression

import fedsift as fs
from fedsift.errors import FedsiftError, FixedPointOverflow, PartyFailed, ValueProblem
from fedsift.maths import moments
from fedsift.methods.filter import features
from fedsift.methods.filter.features import constant_columns, frequency_scales, unit_columns

N = 90
SPLITS = {"vertical": 2, "horizontal": np.arange(N) % 3}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    y = rng.integers(0, 3, N)
    X = rng.normal(size=(N, 4))
    X[:, 0] += y
    X[:, 3] -= 0.4 * y
    return X, y


def scores(score, split, X, y, **settings):
    selector = fs.FilterSelector(
        score, n_features_to_select=2, parties=SPLITS[split], random_state=0, **settings
    )
    return selector.fit(X, y).scores_


def wanted(X, y, oracle=f_classif):
    """The statistic does not change with offset and scale; differences of close floats are exact."""
    moved = X - X[0]
    return oracle(moved / np.abs(moved).max(), y)[0]


PLACES = {
    "an offset of 1e14": lambda X: X + 1e14,
    "an offset of -1e15": lambda X: X - 1e15,
    "a scale of 1e-25": lambda X: X * 1e-25,
    "a scale of 1e-25 far from zero": lambda X: X * 1e-25 + 1e-11,
    "a scale of 1e12": lambda X: X * 1e12,
}


class TestF:
    @pytest.mark.parametrize("place", PLACES)
    @pytest.mark.parametrize("split", SPLITS)
    @pytest.mark.parametrize("security", ["plain", "secure"])
    def test_is_right_wherever_the_columns_are(self, table, place, split, security):
        X, y = table
        moved = PLACES[place](X)
        found = scores("f", split, moved, y, security=security)
        assert np.allclose(found, wanted(moved, y), rtol=1e-6)

    @pytest.mark.parametrize("disclose", ["scores", "counts"])
    def test_is_right_whatever_is_disclosed(self, table, disclose):
        X, y = table
        found = scores("f", "vertical", X + 1e14, y, disclose=disclose, security="plain")
        assert np.allclose(found, wanted(X + 1e14, y), rtol=1e-6)

    @pytest.mark.parametrize("split", SPLITS)
    def test_is_right_for_a_numeric_target_far_from_zero(self, table, split):
        X, _ = table
        target = X[:, 0] + np.random.default_rng(0).normal(size=N) + 1e12
        found = scores("f", split, X + 1e14, target, security="plain")
        assert np.allclose(found, wanted(X + 1e14, target - target[0], f_regression), rtol=1e-6)

    @pytest.mark.parametrize("split", SPLITS)
    def test_says_that_digits_are_used_up(self, table, split):
        X, y = table
        settings = {"n_features_to_select": 2, "parties": SPLITS[split], "security": "plain"}
        selector = fs.FilterSelector("f", random_state=0, **settings).fit(X * 0.5 + 1e16, y)
        assert any("no more than rounding" in text for text in selector.result_.warnings)
        assert not selector.scores_.any()

    @pytest.mark.parametrize("scale", [1e-40, 1e-300, 1e40, 1e300])
    def test_says_that_masked_sums_have_a_range(self, table, scale):
        X, y = table
        with pytest.raises(FedsiftError, match=r"too (small|large) for the agreed fixed-point"):
            scores("f", "horizontal", X * scale, y)

    @pytest.mark.parametrize("scale", [1e-300, 1e300])
    def test_has_no_such_range_vertically(self, table, scale):
        X, y = table
        found = scores("f", "vertical", X * scale, y)
        assert np.allclose(found, wanted(X, y), rtol=1e-6)


class TestChi2:
    @pytest.mark.parametrize("scale", [1e-300, 1e-25, 1.0, 1e300])
    @pytest.mark.parametrize("security", ["plain", "secure"])
    @pytest.mark.parametrize(("disclose", "rtol"), [("scores", 1e-6), ("counts", 1e-9)])
    def test_grows_in_proportion(self, table, scale, security, disclose, rtol):
        X, y = np.abs(table[0]), table[1]
        found = scores("chi2", "vertical", X * scale, y, security=security, disclose=disclose)
        assert np.allclose(found / scale, chi2(X, y)[0], rtol=rtol, atol=0)

    @pytest.mark.parametrize("scale", [1e-25, 1e15])
    def test_horizontally_too(self, table, scale):
        X, y = np.abs(table[0]), table[1]
        found = scores("chi2", "horizontal", X * scale, y)
        assert np.allclose(found / scale, chi2(X, y)[0], rtol=1e-9)

    def test_horizontal_sums_have_a_range(self, table):
        with pytest.raises(FedsiftError, match="too large for the agreed fixed-point range"):
            scores("chi2", "horizontal", np.abs(table[0]) * 1e300, table[1])

    @pytest.mark.parametrize("disclose", ["scores", "counts"])
    def test_that_no_float_can_be_is_refused(self, table, disclose):
        X, y = np.zeros((N, 2)), table[1]
        X[y == 0] = 1.7e308
        with pytest.raises(ValueProblem, match="larger than any floating-point number"):
            scores("chi2", "vertical", X, y, disclose=disclose)

    @pytest.mark.parametrize("exponent", [1500, -(2**63), 2**63 - 1])
    def test_a_scale_that_no_column_has_is_its_owners_failure(self, table, monkeypatch, exponent):
        honest = features.frequency_shares
        monkeypatch.setattr(
            features, "frequency_shares", lambda values: (honest(values)[0], exponent)
        )
        with pytest.raises(PartyFailed, match="a scale that no column has"):
            scores("chi2", "vertical", np.abs(table[0]), table[1], security="plain")


@pytest.mark.parametrize(("scale", "which"), [(1e200, "larger"), (1e-200, "smaller")])
def test_a_variance_that_no_float_can_be_is_refused(table, scale, which):
    with pytest.raises(FedsiftError, match=f"{which} than any floating-point number"):
        scores("variance", "vertical", table[0] * scale, table[1])


def test_columns_are_constant_only_by_rounding():
    values = np.array([[0.1 + 0.2, 1e14, 5.0], [0.3, 1e14 + 1, 5.0]])
    assert constant_columns(values).tolist() == [True, False, True]
    assert unit_columns(values)[:, [0, 2]].tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert np.allclose(np.abs(unit_columns(values)[:, 1]), np.sqrt(0.5))


def test_only_tiny_frequencies_tell_their_exponent():
    values = np.array([[1e-25, 0.3, 3.0, 0.0]])
    assert frequency_scales(values, 40).tolist() == [40 + 83, 39, 38, 39]


def test_counts_side_by_side_add_up():
    first, second = list(range(1, 15)), [2**40] * 14
    added = [a + b for a, b in zip(*map(moments.pack_counts, (first, second)), strict=True)]
    stream = iter([*added, 7])
    assert moments.unpack_counts(stream, 14) == [2**40 + n for n in first]
    assert next(stream) == 7


def test_values_that_cancel_in_a_sum_still_overflow():
    with pytest.raises(FixedPointOverflow, match="too large"):
        moments.column_sums(np.array([1e200, -1e200]), np.empty(0, int), 0, np.empty(0))
