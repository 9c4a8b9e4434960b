# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""``StepwiseSelector`` is a scikit-learn citizen."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import fedsift as fs

# scikit-learn's tables are so small that classes have a few rows only.
SMALL = fs.Policy(
    min_class_size=1,
    min_bin_size=1,
    min_security_bits=0,
    may_reveal=("basic", "products", "numeric-scores"),
)
SETTINGS = {"security": "plain", "policy": SMALL}


@pytest.mark.filterwarnings("ignore:No features were selected:UserWarning")
@parametrize_with_checks(
    [
        fs.StepwiseSelector(n_features_to_select=1, **SETTINGS),
        fs.StepwiseSelector(n_features_to_select=1, keep_own=False, **SETTINGS),
    ]
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)
