"""InteractionSelector is a scikit-learn citizen."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import fedsift as fs
from fedsift.methods.interaction.selector import InteractionSelector

# scikit-learn's tables are so small that classes have a few rows only.
SMALL = {"policy": fs.Policy(min_class_size=1, min_security_bits=0)}
PLAIN = {"security": "plain", **SMALL}
SELECTORS = [
    InteractionSelector(**SMALL),
    InteractionSelector(n_features_to_select=1, **PLAIN),
    InteractionSelector(n_features_to_select="auto", **PLAIN),
    InteractionSelector(n_features_to_select=0.5, measure="paper", parties=3, **PLAIN),
]


@pytest.mark.filterwarnings("ignore:Only . features are there:UserWarning")
@parametrize_with_checks(SELECTORS)
def test_scikit_learn_contract(estimator, check):
    check(estimator)
