"""FPSO-FS through messages: common subsets, what the third party sees, modes and refusals."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import NearestCentroid
from sklearn.utils.estimator_checks import parametrize_with_checks

import fedsift as fs
from benchmarks.baselines import fpso as fpso_baselines
from fedsift.engine import run_local
from fedsift.errors import (
    ColumnError,
    ParameterError,
    PartyError,
    ProtocolError,
    ValueProblem,
)
from fedsift.lab.pooled import pooled_subset
from fedsift.methods.fpso import messages as fpso_messages
from fedsift.methods.fpso import third_party as fpso
from fedsift.methods.fpso import unnamed
from fedsift.methods.fpso.local_search import Params, fewest_rows
from fedsift.methods.fpso.selector import FPSOSelector
from fedsift.protocol import handles
from helpers.arrays import labelled
from helpers.fpso import MODES, PAPER, QUICK, STEP, run, task
from helpers.runs import received

# scikit-learn's tables are so small that classes have a few rows only.
SMALL = fs.Policy(min_class_size=1, min_security_bits=0)


@pytest.mark.parametrize("integration", ["mean", "max-min"])
@pytest.mark.parametrize("mode", MODES)
def test_masked_and_open_aggregation_choose_the_same_subset(mode, integration):
    X, y = task()
    settings = {"mode": mode, "integration": integration, **QUICK}
    masked, open_, plain = (
        FPSOSelector(**settings, **how).fit(X, y) for how in ({}, PAPER, {"security": "plain"})
    )
    for other in (open_, plain):
        assert np.array_equal(masked.get_support(), other.get_support())
        assert masked.accuracy_ == pytest.approx(other.accuracy_, abs=1e-12)
        assert masked.result_.history[-1] == other.result_.history[-1]  # the same subsets were met
    assert masked.get_support()[0]


@pytest.mark.parametrize(("integration", "together"), [("mean", np.mean), ("max-min", np.min)])
def test_the_winner_is_the_best_candidate_of_all_parties(integration, together):
    """The oracle: every party's own accuracy on every subset that was proposed."""
    X, y = task()
    federation = fs.split_horizontal(X, y, 3, random_state=0)
    outcome, nodes = run(federation, integration=integration)
    (asked,) = received(outcome, "party-1", fpso_messages.Candidates, protocol=fpso.PROTOCOL)
    masks = asked.masks.array().astype(bool)
    accuracy = [
        nodes[p][0].fitness.correct(masks) / federation.tables[p].n_rows for p in federation.tables
    ]
    best = together(accuracy, axis=0).max()
    assert outcome.value.accuracy == pytest.approx(best, abs=STEP)
    assert any(np.array_equal(outcome.value.mask, mask) for mask in masks)


def test_max_min_takes_the_best_worst_case():
    X, y = task()
    selector = FPSOSelector(integration="max-min", **QUICK).fit(X, y)
    worst = min(selector.result_.participants.values())
    assert worst == pytest.approx(selector.accuracy_, abs=STEP)


def two_minds():
    """Each party has one telling column of its own; no subset of one column serves both."""
    rng = np.random.default_rng(0)
    y = np.tile([0, 1], 40)
    north, south = rng.normal(size=(80, 6)), rng.normal(size=(80, 6))
    north[:, 0] += 3 * y
    south[:, 5] += 3 * y
    return fs.Federation.horizontal({"north": (north, y), "south": (south, y)})


@pytest.mark.parametrize("n_rounds", [1, 2])
def test_a_party_keeps_its_own_subset_where_that_is_better_on_its_own_rows(n_rounds):
    federation = two_minds()
    outcome, nodes = run(federation, n_rounds=n_rounds, max_features=1)
    quick = {"n_iterations": 5, "n_rounds": n_rounds, "n_particles": 8, "random_state": 0}
    selector = FPSOSelector(n_features_to_select=1, **quick).fit(federation)
    n_kept = 0
    for party, column in (("north", 0), ("south", 5)):
        node = nodes[party][0]
        best = node._swarm.best
        common = node.fitness.correct(outcome.value.mask[None])[0]
        kept = selector.party_support_[party]
        assert kept[column]
        if best.fitness > common:
            n_kept += 1
            assert np.array_equal(kept, best.mask)
            assert any(party in note for note in selector.result_.warnings)
        else:
            assert np.array_equal(kept, outcome.value.mask)
    assert n_kept >= 1


def test_a_party_takes_the_common_subset_where_its_own_is_no_better():
    X, y = task()
    twice = fs.Federation.horizontal({"north": (X, y), "south": (X, y)})
    selector = FPSOSelector(**QUICK).fit(twice)
    owner_accuracy = max(selector.result_.participants.values())
    for party, kept in selector.party_support_.items():
        if selector.result_.participants[party] == owner_accuracy:
            assert np.array_equal(kept, selector.get_support())


@pytest.mark.parametrize("classifier", [None, GaussianNB(), LogisticRegression()])
def test_parties_without_some_classes_take_part(classifier):
    X, y = labelled(120, 6, 3)
    tables = {
        "north": (X[:60], np.where(y[:60] == 2, 0, y[:60])),
        "south": (X[60:90], y[60:90]),
        "single": (X[90:], np.full(30, 2)),
    }
    quick = {**QUICK, "n_iterations": 2} if classifier else QUICK
    selector = FPSOSelector(classifier=classifier, **quick).fit(fs.Federation.horizontal(tables))
    assert selector.get_support().any()
    # Whatever the subset, a party with one class gets everything right.
    assert selector.result_.participants["single"] == 1.0


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
    assert all(1 <= kept.sum() <= 2 for kept in selector.party_support_.values())
    assert selector.result_.parameters["classifier"] == "NearestCentroid"


@pytest.mark.parametrize(("wanted", "most"), [("auto", 10), (1, 1), (3, 3), (0.2, 2)])
@pytest.mark.parametrize("mode", MODES)
def test_the_number_of_features_is_free_or_capped(mode, wanted, most):
    X, y = task()
    selector = FPSOSelector(n_features_to_select=wanted, mode=mode, **QUICK).fit(X, y)
    assert 1 <= selector.get_support().sum() <= most


@pytest.mark.parametrize("settings", [{"decoding": "random"}, *({"mode": m} for m in MODES)])
def test_a_seed_fixes_the_result(settings):
    X, y = task()
    first, again = (FPSOSelector(**settings, **QUICK).fit(X, y) for _ in range(2))
    assert np.array_equal(first.get_support(), again.get_support())
    assert first.history_ == again.history_
    assert first.result_.participants == again.result_.participants
    assert all(
        np.array_equal(kept, again.party_support_[party])
        for party, kept in first.party_support_.items()
    )
    other = FPSOSelector(**settings, **{**QUICK, "random_state": 1}).fit(X, y)
    assert other.history_ != first.history_


@pytest.mark.parametrize("mode", MODES)
def test_every_party_has_a_convergence_curve_that_never_goes_down(mode):
    X, y = task()
    selector = FPSOSelector(
        mode=mode, n_iterations=4, n_rounds=3, n_particles=8, random_state=1
    ).fit(X, y)
    assert tuple(selector.history_) == selector.result_.history[:-1]
    for party in ("party-1", "party-2", "party-3"):
        curve = [entry for entry in selector.history_ if entry["party"] == party]
        assert [entry["step"] for entry in curve] == list(range(1, 13))
        reached = [entry["accuracy"] for entry in curve]
        assert reached == sorted(reached)
        assert 0 < reached[-1] <= 1
    common = [entry for entry in selector.history_ if entry["party"] == "*"]
    points = {"rounds": [4, 8, 12], "federated-fitness": [*range(1, 13)]}
    assert [entry["step"] for entry in common] == points[mode]
    assert common[-1]["accuracy"] == selector.accuracy_
    assert common[-1]["n_features"] == selector.get_support().sum()


@pytest.mark.parametrize("mode", MODES)
def test_the_result_tells_in_how_many_subsets_a_feature_was(mode):
    X, y = task()
    settings = {"n_iterations": 4, "n_rounds": 3, "n_particles": 8, "random_state": 1}
    selector = FPSOSelector(mode=mode, **settings).fit(X, y)

    entry = selector.result_.history[-1]
    # Three parties in three rounds, or the particles of the last step.
    assert entry["n_subsets"] == {"rounds": 9, "federated-fitness": 8}[mode]
    assert len(entry["found_in"]) == X.shape[1]
    assert all(0 <= n <= entry["n_subsets"] for n in entry["found_in"].values())
    chosen = selector.result_.selected["party-1"]
    if mode != "federated-fitness":  # the winner is one of the subsets that were counted
        assert all(entry["found_in"][name] >= 1 for name in chosen)


def test_subsets_that_were_tried_before_come_from_memory():
    X, y = task()
    federation = fs.split_horizontal(X[:, :4], y, 2, random_state=0)
    _, nodes = run(federation, n_rounds=4)
    for party in federation.tables:
        fitness = nodes[party][0].fitness
        assert fitness.n_hits > fitness.n_lookups / 2  # four columns have fifteen subsets
        assert len(fitness._known) <= 15


def test_the_local_baseline_is_what_parties_propose_without_exchange():
    X, y = task()
    federation = fs.split_horizontal(X, y, 3, random_state=0)
    params = Params(n_iterations=10, n_rounds=1, n_particles=8, seed=0)
    local = fpso_baselines.local_subsets(federation, params)
    nodes = fpso.build_nodes(federation.tables, federation.targets, params)
    outcome = run_local(fpso.PROTOCOL, nodes, keep_frames=True)
    (asked,) = received(outcome, "party-1", fpso_messages.Candidates, protocol=fpso.PROTOCOL)
    wanted = unnamed.in_order(np.stack(list(local.values())))
    assert np.array_equal(asked.masks.array(), wanted)


def test_a_search_on_pooled_rows_and_one_without_search():
    X, y = task()
    federation = fs.split_horizontal(X, y, 3, random_state=0)
    params = Params(n_iterations=8, n_rounds=1, n_particles=10, seed=0, max_features=3)
    pooled = pooled_subset(federation, params)
    assert pooled[0]
    assert 1 <= pooled.sum() <= 3
    for mask in fpso_baselines.relief_subsets(federation, 2).values():
        assert mask[0]
        assert mask.sum() == 2
    drawn = [fpso_baselines.random_subset(10, 4, seed=s) for s in range(30)]
    assert all(mask.sum() == 4 for mask in drawn)
    assert np.stack(drawn).any(axis=0).all()
    with pytest.raises(ParameterError, match="from 1 to 10"):
        fpso_baselines.random_subset(10, 11)


class Boaster(fpso.Participant, name="participant"):
    """Claims more than everything right."""

    def _correct(self, wanted):
        return super()._correct(wanted) + 10 * self._n_rows


class Narrow(fpso.Participant, name="participant"):
    """Has other columns than it agreed to."""

    @handles(fpso_messages.Hello)
    async def greet(self, ask, net):
        return fpso_messages.Greeting(self._key.public, self._n_features - 1)


@pytest.mark.parametrize("settings", [{}, {"mode": "federated-fitness"}])
@pytest.mark.parametrize("aggregation", ["masked", "third-party"])
def test_impossible_accuracies_stop_the_run(aggregation, settings):
    X, y = task()
    federation = fs.split_horizontal(X, y, 2, random_state=0)
    params = Params(aggregation=aggregation, n_iterations=2, n_rounds=1, seed=0, **settings)
    nodes = fpso.build_nodes(federation.tables, federation.targets, params)
    table = federation.tables["party-2"]
    boaster = Boaster(table, federation.targets["party-2"], params)
    policies = dict.fromkeys(nodes, PAPER["policy"])
    with pytest.raises(ProtocolError, match="do not add up"):
        run_local(fpso.PROTOCOL, {**nodes, "party-2": (boaster,)}, policies=policies)


def test_a_party_with_other_columns_stops_the_run():
    X, y = task()
    federation = fs.split_horizontal(X, y, 2, random_state=0)
    params = Params(n_iterations=2, n_rounds=1, seed=0)
    nodes = fpso.build_nodes(federation.tables, federation.targets, params)
    narrow = Narrow(federation.tables["party-2"], federation.targets["party-2"], params)
    with pytest.raises(ProtocolError, match="different numbers of columns"):
        run_local(fpso.PROTOCOL, {**nodes, "party-2": (narrow,)})


def test_columns_are_aligned_by_name():
    X, y = task()
    frame = pd.DataFrame(X, columns=list("abcdefghij"))
    first, second = (frame[:60], y[:60]), (frame[60:], y[60:])
    shuffled = (frame[60:][list("jihgfedcba")], y[60:])
    straight = FPSOSelector(**QUICK).fit(fs.Federation.horizontal({"a": first, "b": second}))
    turned = FPSOSelector(**QUICK).fit(fs.Federation.horizontal({"a": first, "b": shuffled}))
    assert straight.result_.selected == turned.result_.selected


def test_other_columns_are_refused():
    X, y = task()
    frame = pd.DataFrame(X, columns=list("abcdefghij"))
    with pytest.raises(ColumnError, match="other columns"):
        fs.Federation.horizontal(
            {"a": (frame[:60], y[:60]), "b": (frame[60:].drop(columns="c"), y[60:])}
        )


def test_constant_columns_are_never_worth_having():
    X, y = task()
    X[:, 3] = 5.0
    selector = FPSOSelector(**{**QUICK, "n_iterations": 25}).fit(X, y)
    assert not selector.get_support()[3]


@pytest.mark.parametrize(("n_rows", "k", "needed"), [(4, 3, 5), (4, 1, 5), (6, 5, 7), (8, 8, 10)])
def test_fewer_rows_than_folds_or_neighbours_are_refused(n_rows, k, needed):
    X, y = task()
    assert fewest_rows(5, k) == needed
    tables = {"small": (X[:n_rows], y[:n_rows]), "large": (X[20:], y[20:])}
    with pytest.raises(ParameterError, match=rf"has {n_rows} rows.*at least {needed}"):
        FPSOSelector(k=k, policy=SMALL, **QUICK).fit(fs.Federation.horizontal(tables))
    tables["small"] = (X[:needed], y[:needed])
    FPSOSelector(k=k, policy=SMALL, **QUICK).fit(fs.Federation.horizontal(tables))


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda X, y: (pd.DataFrame(X).assign(kind="a"), y), ColumnError),
        (lambda X, y: (np.where(X[7, 2] == X, np.nan, X), y), ValueProblem),
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
    with pytest.raises(error, match="party 'north'"):
        FPSOSelector(**QUICK).fit(fs.Federation.horizontal({"north": bad, "south": other}))


@pytest.mark.parametrize(
    ("settings", "needed"),
    [
        ({"integration": "min-max"}, "mean, max-min"),
        ({"aggregation": "open"}, "masked, third-party"),
        ({"mode": "both"}, "rounds, federated-fitness"),
        ({"decoding": "coin"}, "threshold, random"),
        ({"k": 0}, "positive whole number"),
        ({"n_particles": 1.5}, "positive whole number"),
        ({"n_features_to_select": 99}, "from 1 to 10"),
        ({"n_features_to_select": "all"}, "a share in"),
        ({"classifier": LinearRegression()}, "scikit-learn classifier"),
    ],
)
def test_bad_settings(settings, needed):
    with pytest.raises(ParameterError, match=needed):
        FPSOSelector(**settings).fit(*task())


def test_one_party_numbers_as_labels_and_vertical_federations_are_refused():
    X, y = task()
    with pytest.raises(PartyError, match="at least two parties"):
        FPSOSelector(**QUICK).fit(fs.Federation.horizontal({"only": (X, y)}))
    with pytest.raises(PartyError, match="called 'third-party'"):
        FPSOSelector(**QUICK).fit(
            fs.Federation.horizontal({"third-party": (X[:60], y[:60]), "b": (X[60:], y[60:])})
        )
    numbers = np.random.default_rng(0).normal(size=60)
    with pytest.raises(ValueProblem, match="numeric labels"):
        FPSOSelector(**QUICK).fit(
            fs.Federation.horizontal({"a": (X[:60], numbers), "b": (X[60:], numbers)})
        )
    with pytest.raises(ValueProblem, match="no labels"):
        FPSOSelector(**QUICK).fit(fs.Federation.horizontal({"a": X[:60], "b": X[60:]}))
    with pytest.raises(ParameterError, match="vertical"):
        FPSOSelector(**QUICK).fit(fs.split_vertical(X, y, 2))


@parametrize_with_checks(
    [FPSOSelector(n_iterations=3, n_rounds=2, n_particles=6, policy=SMALL),
     FPSOSelector(policy=SMALL)]
)  # fmt: skip
def test_scikit_learn_contract(estimator, check):
    check(estimator)
