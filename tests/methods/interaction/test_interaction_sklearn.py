"""InteractionSelector is a scikit-learn citizen."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from fedsift.methods.interaction.selector import InteractionSelector

SELECTORS = [
    InteractionSelector(),
    InteractionSelector(n_features_to_select=1, security="plain"),
    InteractionSelector(n_features_to_select="auto", security="plain"),
    InteractionSelector(n_features_to_select=0.5, measure="paper", parties=3, security="plain"),
]


@pytest.mark.filterwarnings("ignore:Only . features are there:UserWarning")
@parametrize_with_checks(SELECTORS)
def test_scikit_learn_contract(estimator, check):
    check(estimator)
