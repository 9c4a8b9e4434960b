"""VFPSSelector is a scikit-learn citizen."""

from dataclasses import replace

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from fedsift.methods.vfps.selector import VFPSSelector
from helpers.vfps import ALLOWING, PAPER

# scikit-learn's tables are so small that classes have a few rows only.
SMALL = {"policy": replace(ALLOWING, min_class_size=1)}
PLAIN = {"security": "plain", "n_queries": 20, **SMALL}
SELECTORS = [
    VFPSSelector(**PAPER, **SMALL),
    VFPSSelector(n_participants="auto", n_queries=20, **SMALL),
    VFPSSelector(strategy="shapley", n_groups=6, parties=2, **PLAIN),
]


@pytest.mark.filterwarnings("ignore:Only . features are there:UserWarning")
@parametrize_with_checks(SELECTORS)
def test_scikit_learn_contract(estimator, check):
    check(estimator)
