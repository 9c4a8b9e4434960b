"""Names, scores and supports of split tables are in the order of the table that was split."""

import numpy as np
import pytest
from sklearn.datasets import load_wine

import fedsift as fs


@pytest.fixture(scope="module")
def wine():
    return load_wine(as_frame=True, return_X_y=True)


@pytest.fixture
def federation(wine):
    made = fs.split_vertical(*wine, parties=3, random_state=1)
    assert sorted(made.column_order) == ["party-1", "party-2", "party-3"]
    assert made.column_order["party-1"] != tuple(range(5))
    return made


def fit(data, n, **options):
    return fs.FilterSelector(n_features_to_select=n, random_state=0).fit(data, **options)


def test_names_are_those_of_the_support(wine, federation):
    selector = fit(federation, 3)
    names = selector.get_feature_names_out()
    assert names.tolist() == wine[0].columns[selector.support_].tolist()
    assert set(names) == {name for own in selector.result_.selected.values() for name in own}
    whole = fs.FilterSelector(n_features_to_select=3, random_state=0).fit(*wine)
    assert names.tolist() == whole.get_feature_names_out().tolist()


def test_a_federation_of_selected_columns_can_be_selected_from(wine, federation):
    first = fit(federation, 4)
    second = fit(first.transform(federation), 2)
    kept = first.get_feature_names_out()
    assert second.n_features_in_ == 4
    assert second.feature_names_in_.tolist() == kept.tolist()
    assert set(second.get_feature_names_out()) == set(
        kept[np.argsort(first.scores_[first.support_])[:2]]
    )


def test_parties_with_different_rows_too(wine):
    federation = fs.split_horizontal(*wine, parties=2, random_state=0)
    first = fs.FilterSelector("f", n_features_to_select=4).fit(federation)
    second = fs.FilterSelector("f", n_features_to_select=2).fit(first.transform(federation))
    assert set(second.get_feature_names_out()) <= set(first.get_feature_names_out())
