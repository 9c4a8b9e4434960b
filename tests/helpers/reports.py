"""Results of small real runs, one per method: what report pages in these tests are made of."""

import warnings

from sklearn.datasets import load_wine

import fedsift as fs
from fedsift.lab.compare import compare

METHODS = ("filter", "horizontal", "interaction", "stepwise", "vfps", "dcfs", "fpso", "fedsdg")
TITLES = {
    "filter": {"Best features", "Score by rank", "Roles and flows"},
    "horizontal": {
        "Best features",
        "Score by rank",
        "Bytes by round of the method",
        "Roles and flows",
    },
    "interaction": {
        "Best features",
        "Interaction of features (rows) with selected ones (columns)",
        "Roles and flows",
    },
    "stepwise": {
        "Best features",
        "What the selection explains",
        "Gain of participants",
        "Roles and flows",
    },
    "vfps": {"Importance of participants", "Redundancy of participants", "Roles and flows"},
    "dcfs": {"Best features", "Score by rank", "Roles and flows"},
    "fpso": {
        "How often features were found",
        "Accuracy of participants",
        "Convergence of the swarms",
        "Size of the best subset",
        "Accuracy against number of features",
        "Roles and flows",
    },
    "fedsdg": {
        "Best features",
        "Open gates",
        "Loss",
        "Validation score",
        "Accuracy against number of features",
        "Roles and flows",
    },
}
"""Charts that a report of each method must have."""


def result_of(method):
    """A small run without encryption: the same messages and the same history, in a second."""
    X, y = load_wine(return_X_y=True, as_frame=True)
    few = {"n_features_to_select": 3, "security": "plain", "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        if method == "filter":
            return fs.FilterSelector("gini", parties=3, **few).fit(X, y).result_
        if method == "horizontal":
            federation = fs.split_horizontal(X, y, 3, random_state=0)
            return fs.FilterSelector("gini", **few).fit(federation).result_
        if method == "interaction":
            return fs.InteractionSelector(**few).fit(X, y).result_
        if method == "stepwise":
            return fs.StepwiseSelector(parties=3, **few).fit(X, y).result_
        if method == "vfps":
            federation = fs.split_vertical(X, y, 5, label_holder=None, random_state=0)
            chosen = fs.VFPSSelector(
                strategy="group-testing",
                n_participants=2,
                n_queries=12,
                security="plain",
                random_state=0,
            )
            return chosen.fit(federation).result_
        if method == "dcfs":
            return fs.DCFSSelector(**few).fit(X).result_
        if method == "fpso":
            swarm = {"n_particles": 4, "n_iterations": 4, "n_rounds": 2}
            return fs.FPSOSelector(**swarm, random_state=0).fit(X, y).result_
        protocol = {"fedsdg": "paper", "fedsdg blind": "blind"}[method]
        network = {"max_epochs": 3, "outputs": 4, "embedding": 2, "protocol": protocol}
        trained = fs.FedSDGSelector(security="plain", random_state=0, **network)
        return trained.fit(X, y).result_


def small_comparison():
    """A comparison of one method with its controls, in two seconds."""
    X, y = load_wine(return_X_y=True, as_frame=True)
    federation = fs.split_vertical(X, y, 3, random_state=0)
    few = {"models": ["knn"], "folds": 2, "permutations": 1}
    gini = fs.FilterSelector("gini", n_features_to_select=3)
    return compare(federation, {"gini": gini}, security="plain", verify=False, **few)
