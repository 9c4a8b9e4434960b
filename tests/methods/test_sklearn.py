"""Every selector is a scikit-learn citizen."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import fedsift as fs

SELECTORS = [
    fs.FilterSelector(n_features_to_select=1),
    fs.FilterSelector(),
    fs.FilterSelector("f", n_features_to_select=0.5, disclose="counts"),
    fs.FilterSelector("mi", n_features_to_select=1, parties=3),
    fs.FilterSelector("gini", n_features_to_select=1, bins=[0.0, 1.0], release_epsilon=1.0),
    fs.FilterSelector("variance", n_features_to_select=1),
]


@pytest.mark.filterwarnings("ignore:Only . features are there:UserWarning")
@parametrize_with_checks(SELECTORS)
def test_scikit_learn_contract(estimator, check):
    check(estimator)
