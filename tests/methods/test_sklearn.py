"""Every selector is a scikit-learn citizen."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import fedsift as fs
from fedsift.testing.draws import let_seeds_drive_everything

# scikit-learn's tables are so small that classes have a few rows only.
SMALL = fs.Policy(min_class_size=1, min_bin_size=1)
# Counts by bin have to be named.
COUNTING = fs.Policy(min_class_size=1, min_bin_size=1, may_reveal=("basic", "counts"))
SELECTORS = [
    fs.FilterSelector(n_features_to_select=1, policy=SMALL),
    fs.FilterSelector(policy=SMALL),
    fs.FilterSelector("f", n_features_to_select=0.5, disclose="counts", policy=SMALL),
    fs.FilterSelector("mi", n_features_to_select=1, parties=3, policy=COUNTING),
    fs.FilterSelector(
        "gini", n_features_to_select=1, bins=[0.0, 1.0], release_epsilon=1.0, policy=SMALL
    ),
    fs.FilterSelector("variance", n_features_to_select=1, policy=SMALL),
]


@pytest.mark.filterwarnings("ignore:Only . features are there:UserWarning")
@parametrize_with_checks(SELECTORS)
def test_scikit_learn_contract(estimator, check):
    if estimator.release_epsilon is None:
        check(estimator)
        return
    # Some checks compare runs; noise comes from the operating system otherwise.
    with let_seeds_drive_everything():
        check(estimator)
