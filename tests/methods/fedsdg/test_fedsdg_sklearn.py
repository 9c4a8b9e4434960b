"""FedSDGSelector and its baselines are scikit-learn citizens."""

import dataclasses

from sklearn.utils.estimator_checks import parametrize_with_checks

import fedsift as fs
from benchmarks.baselines.fedsdg import PreselectedNetwork
from helpers.fedsdg import PAPER

# scikit-learn's tables are so small that classes have a few rows only.
SMALL = dataclasses.replace(PAPER["policy"], min_class_size=1)
QUICK = {"security": "plain", "max_epochs": 3, "min_epochs": 0, **PAPER, "policy": SMALL}


@parametrize_with_checks(
    [
        fs.FedSDGSelector(**QUICK),
        PreselectedNetwork(
            "sffs", n_features_to_select=1, network=fs.FedSDGSelector(**QUICK, random_state=0)
        ),
    ]
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)
