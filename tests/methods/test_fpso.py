"""FPSO-FS through messages: common subsets, what the third party sees, modes and refusals."""

import numpy as np
import pandas as pd
import pytest
from sklearn.neighbors import NearestCentroid
from sklearn.utils.estimator_checks import parametrize_with_checks

import fedsift as fs
from fedsift.errors import ColumnError, ParameterError, PartyError, PolicyViolation, ValueProblem
from fedsift.methods import fpso, fpso_messages
from fedsift.runtime import run_embedded
from fedsift.selectors.fpso import FPSOSelector
from helpers import labelled, received

QUICK = {"n_iterations": 6, "n_rounds": 2, "n_particles": 10, "random_state": 0}


def task(seed=0):
    X, y = labelled(120, 10, 2, seed)
    X[:, 0] += 2 * y
    return X, y


@pytest.mark.parametrize("mode", ["rounds", "best-of-local", "federated-fitness"])
def test_masked_and_open_aggregation_choose_the_same_subset(mode):
    X, y = task()
    both = [
        FPSOSelector(mode=mode, aggregation=a, **QUICK).fit(X, y) for a in ("masked", "third-party")
    ]
    assert np.array_equal(both[0].get_support(), both[1].get_support())
    assert both[0].accuracy_ == pytest.approx(both[1].accuracy_, abs=1e-10)
    assert both[0].get_support()[0]
    plain = FPSOSelector(mode=mode, security="plain", **QUICK).fit(X, y)
    assert np.array_equal(plain.get_support(), both[0].get_support())


def test_the_winner_is_the_best_candidate_of_all_parties():
    """The oracle: every party's accuracy on every subset, from the open mode's own messages."""
    X, y = task()
    federation = fs.split_horizontal(X, y, 3, random_state=0)
    params = fpso.Params(
        aggregation="third-party", n_iterations=5, n_rounds=1, n_particles=8, seed=0
    )
    nodes = fpso.build_nodes(federation.tables, federation.targets, params)
    outcome = run_embedded(fpso.PROTOCOL, nodes, keep_frames=True)
    subsets = received(outcome, "third-party", fpso_messages.LocalSubset, protocol=fpso.PROTOCOL)
    masks = np.stack([s.mask.array() for s in subsets]).astype(bool)
    accuracy = [
        nodes[p][0]._fitness.correct(masks) / federation.tables[p].n_rows for p in federation.tables
    ]
    assert outcome.value.accuracy == pytest.approx(np.mean(accuracy, axis=0).max())
    assert any(np.array_equal(outcome.value.mask, mask) for mask in masks)


def test_max_min_takes_the_best_worst_case():
    X, y = task()
    selector = FPSOSelector(integration="max-min", aggregation="third-party", **QUICK).fit(X, y)
    assert min(selector.result_.participants.values()) == pytest.approx(selector.accuracy_)


def test_in_the_masked_mode_no_single_accuracy_reaches_the_third_party():
    X, y = task()
    federation = fs.split_horizontal(X, y, 3, random_state=0)
    masked = FPSOSelector(**QUICK).fit(federation).result_.disclosures
    open_ = FPSOSelector(aggregation="third-party", **QUICK).fit(federation).result_.disclosures
    assert "accuracies" not in {d.kind for d in masked}
    assert "accuracies" in {d.kind for d in open_}
    assert {d.form for d in masked if d.kind == "pooled-accuracy"} == {"masked, only the sum opens"}


def test_the_plan_is_what_happens_and_policies_refuse():
    X, y = task()
    federation = fs.split_horizontal(X, y, 2, random_state=0)
    for mode in ("rounds", "federated-fitness"):
        selector = FPSOSelector(mode=mode, **QUICK)
        planned = {(d.learner, d.kind) for d in selector.plan(federation).disclosures}
        happened = {(d.learner, d.kind) for d in selector.fit(federation).result_.disclosures}
        assert happened == planned
    policy = {"party-1": fs.Policy(may_not_reveal=("local-subset",))}
    with pytest.raises(PolicyViolation, match="local-subset"):
        FPSOSelector(policy=policy, **QUICK).fit(federation)
    FPSOSelector(policy=policy, mode="federated-fitness", **QUICK).fit(federation)


def test_a_party_may_keep_its_own_subset_where_that_is_better():
    rng = np.random.default_rng(0)
    y = np.tile([0, 1], 40)
    north, south = rng.normal(size=(80, 6)), rng.normal(size=(80, 6))
    north[:, 0] += 3 * y
    south[:, 5] += 3 * y  # each party has one telling column of its own
    federation = fs.Federation.horizontal({"north": (north, y), "south": (south, y)})
    selector = FPSOSelector(**QUICK).fit(federation)
    assert selector.party_support_["north"][0]
    assert selector.party_support_["south"][5]


def test_parties_without_some_classes_take_part():
    X, y = labelled(120, 6, 3)
    federation = fs.Federation.horizontal(
        {"north": (X[:60], np.where(y[:60] == 2, 0, y[:60])), "south": (X[60:], y[60:])}
    )
    assert FPSOSelector(**QUICK).fit(federation).get_support().any()


def test_any_classifier_and_a_cap():
    X, y = task()
    selector = FPSOSelector(
        classifier=NearestCentroid(),
        n_features_to_select=2,
        n_iterations=3,
        n_rounds=1,
        n_particles=5,
        random_state=0,
    ).fit(X, y)
    assert 1 <= selector.get_support().sum() <= 2
    assert selector.result_.parameters["classifier"] == "NearestCentroid"


def test_convergence_never_goes_down():
    X, y = task()
    selector = FPSOSelector(n_iterations=4, n_rounds=3, n_particles=8, random_state=1).fit(X, y)
    common = [entry["accuracy"] for entry in selector.history_ if entry["party"] == "*"]
    assert len(common) == 3
    assert common == sorted(common)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda X, y: (X[:4], y[:4]), ParameterError),
        (lambda X, y: (pd.DataFrame(X).assign(kind="a"), y), ColumnError),
        (lambda X, y: (np.where(np.arange(10) == 0, np.nan, X), y), (ColumnError, ValueProblem)),
    ],
)
def test_bad_tables(change, error):
    X, y = task()
    bad = change(X[:60], y[:60])
    other = (
        (pd.DataFrame(X[60:]).assign(kind="a"), y[60:])
        if isinstance(bad[0], pd.DataFrame)
        else (X[60:], y[60:])
    )
    with pytest.raises(error):
        FPSOSelector(**QUICK).fit(fs.Federation.horizontal({"north": bad, "south": other}))


@pytest.mark.parametrize(
    "settings",
    [
        {"integration": "max-min"},
        {"mode": "both"},
        {"k": 0},
        {"n_particles": 1.5},
        {"n_features_to_select": 99},
    ],
)
def test_bad_settings(settings):
    with pytest.raises(ParameterError):
        FPSOSelector(**settings).fit(*task())


def test_one_party_numbers_as_labels_and_vertical_federations_are_refused():
    X, y = task()
    with pytest.raises(PartyError):
        FPSOSelector(**QUICK).fit(fs.Federation.horizontal({"only": (X, y)}))
    numbers = np.random.default_rng(0).normal(size=60)
    with pytest.raises(ValueProblem, match="numeric labels"):
        FPSOSelector(**QUICK).fit(
            fs.Federation.horizontal({"a": (X[:60], numbers), "b": (X[60:], numbers)})
        )
    with pytest.raises(ParameterError, match="vertical"):
        FPSOSelector(**QUICK).fit(fs.split_vertical(X, y, 2))


@parametrize_with_checks([FPSOSelector(n_iterations=3, n_rounds=2, n_particles=6), FPSOSelector()])
def test_scikit_learn_contract(estimator, check):
    check(estimator)
