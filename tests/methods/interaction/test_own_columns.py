"""A label owner's own column asks for no single row of the others."""

import numpy as np
import pytest

import fedsift as fs

ANY = fs.Policy(min_class_size=1, min_bin_size=1, min_security_bits=0)


def federation(own, n_rows=80):
    rng = np.random.default_rng(0)
    shop = {f"x{f}": rng.normal(size=n_rows) for f in range(4)}
    return fs.Federation.vertical({"bank": {"own": own}, "shop": shop}, ("bank", np.arange(80) % 2))


def fit(own, **settings):
    selector = fs.InteractionSelector(n_features_to_select=2, security="plain", **settings)
    return selector.fit(federation(own))


@pytest.mark.parametrize("n_marked", [1, 4])
def test_a_column_that_marks_fewer_rows_takes_no_part(n_marked):
    own = (np.arange(80) < n_marked).astype(float)
    for policy in (None, {"bank": ANY}):  # the other party has not agreed
        selector = fit(own, policy=policy)
        assert not selector.result_.selected["bank"]
        assert np.isnan(selector.interaction_[0]).all()
        assert any("1 features take no part" in text for text in selector.result_.warnings)
    assert not np.isnan(fit(own, policy=ANY).interaction_[0]).all()


@pytest.mark.parametrize("own", [np.arange(80) < 5, np.arange(80) ** 2, np.zeros(80)])
def test_other_columns_are_not(own):
    assert fit(own.astype(float)).get_support().sum() == 2


def test_a_missing_value_marks_no_row():
    own = np.where(np.arange(80) == 3, np.nan, np.random.default_rng(1).normal(size=80))
    assert fit(own).get_support().sum() == 2


def test_a_feature_owner_may_have_rare_values():
    own, rng = np.random.default_rng(1).normal(size=80), np.random.default_rng(2)
    shop = {"rare": (np.arange(80) == 7).astype(float), "x": rng.normal(size=80)}
    tables = {"bank": {"own": own}, "shop": shop}
    made = fs.Federation.vertical(tables, ("bank", np.arange(80) % 2))
    fs.InteractionSelector(n_features_to_select=2, security="plain").fit(made)
