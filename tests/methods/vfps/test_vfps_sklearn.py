"""VFPSSelector is a scikit-learn citizen."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from fedsift.methods.vfps.selector import VFPSSelector

SELECTORS = [
    VFPSSelector(),
    VFPSSelector(security="plain", strategy="greedy", parties=3, n_queries=20),
    VFPSSelector(security="plain", strategy="shapley", n_groups=6, parties=2, n_queries=20),
]


@pytest.mark.filterwarnings("ignore:Only . features are there:UserWarning")
@parametrize_with_checks(SELECTORS)
def test_scikit_learn_contract(estimator, check):
    check(estimator)
