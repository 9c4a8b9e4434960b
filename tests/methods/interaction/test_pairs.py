"""Pairs that say nothing alone, columns of categories, and what chance reaches."""

import numpy as np
import pandas as pd
import pytest

import fedsift as fs
from benchmarks.suites.interaction.accuracy import product_order, pure_xor, ring
from fedsift.data import split_vertical
from fedsift.data.table import PartyTable
from fedsift.engine import run_local
from fedsift.lab.pooled import select_interaction
from fedsift.methods.interaction import label_owner as interaction
from fedsift.methods.interaction import measures
from fedsift.methods.interaction.fixed_point import simulate
from fedsift.methods.interaction.messages import Params
from fedsift.methods.interaction.search import Chance, Sum, number_paired
from fedsift.methods.interaction.selector import InteractionSelector
from helpers.arrays import labelled
from helpers.runs import received


def order_of(selector):
    """Selected columns, first selected first."""
    ranks = selector.ranking_
    return tuple(sorted(np.flatnonzero(selector.support_), key=lambda f: ranks[f]))


def people(n_rows=120, seed=0):
    """A job that tells the class, a town with rare ones and gaps, numbers."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_rows) % 3
    jobs = np.array(["cook", "smith", "clerk"])[np.where(rng.random(n_rows) < 0.8, y, 0)]
    towns = np.array(["A", "B", "C", "D", "rare", "rarest"], dtype=object)[
        rng.choice(6, n_rows, p=[0.4, 0.3, 0.15, 0.1, 0.03, 0.02])
    ]
    towns[::11] = None
    frame = pd.DataFrame({"age": rng.normal(size=n_rows), "job": jobs, "town": towns})
    return frame.assign(size=rng.normal(size=n_rows) + 0.4 * y), y


@pytest.mark.parametrize(("make", "least"), [(pure_xor, 1.0), (ring, 0.8)])
def test_pairs_without_relevance_are_among_the_first_four(make, least):
    found = {"none": 0, "auto": 0}
    for seed in range(20):
        X, y, pair = make(seed)
        for start in found:
            found[start] += pair <= set(measures.oracle(X, y, "miw", 4, start).order)
    assert found["auto"] >= least * 20
    assert found["none"] <= 10


def test_an_exclusive_or_is_found_under_encryption():
    X, y, _ = pure_xor(0)
    X, y = X[:300], y[:300]
    found = InteractionSelector(n_features_to_select=2, random_state=0).fit(X, y)
    trace = simulate(X, y, "miw", 2)
    assert order_of(found) == trace.order
    np.testing.assert_allclose(found.interaction_, trace.interaction, atol=2**-15)
    assert found.interaction_[trace.order] > 1.4
    assert "Mate" not in {e["message"] for e in found.result_.history if "message" in e}


@pytest.mark.parametrize("pair_start", ["none", 3, 5, "auto"])
@pytest.mark.parametrize("words", [False, True])
def test_without_noise_every_number_is_the_simulated_one(pair_start, words):
    X, y = people() if words else labelled(90, 7, 3)
    frame = X if words else pd.DataFrame(X, columns=list("abcdefg"))
    federation = split_vertical(frame, y, 2, random_state=0)
    n = federation.n_features
    n_paired = number_paired(pair_start, n, n)
    params = Params(n_features_to_select=n, n_paired=n_paired, scheme="plain", noise_bits=None)
    holder, target = federation.label_holder, federation.target
    nodes = interaction.build_nodes(federation.tables, holder, target, len(y), params)
    found = run_local(interaction.PROTOCOL, nodes).value
    columns = []
    for party, number in found.features:
        name = nodes[party][-1].facts()["names"][number]
        columns.append(federation.tables[party].column(name))
    trace = simulate(columns, y, "miw", n, pair_start)
    assert found.order == trace.order
    assert np.array_equal(found.relevance, trace.relevance)
    assert np.array_equal(found.interaction, trace.interaction, equal_nan=True)
    exact = measures.oracle(columns, y, "miw", n, pair_start)
    np.testing.assert_allclose(found.interaction, exact.interaction, atol=1e-4)


def test_a_column_of_categories_is_one_feature_also_under_encryption():
    frame, y = people()
    federation = split_vertical(frame, y, [[0, 2], [1, 3]], random_state=0)
    selector = InteractionSelector(n_features_to_select=2, random_state=0).fit(federation)
    assert selector.result_.selected == {"party-1": (), "party-2": ("job", "size")}
    assert selector.ranking_[1] == 1
    assert selector.relevance_[1] > 1  # three classes, of which the job tells all
    pooled = select_interaction(
        federation, {"n_features_to_select": 2, "measure": "miw", "pair_start": "auto"}, 0
    )
    assert np.array_equal(selector.support_, pooled)


def test_parts_of_categories_are_uncorrelated_and_never_large():
    frame, _ = people(600)
    codes = PartyTable.from_any(frame, name="a").column("town").values
    parts = measures.contrasts(codes)
    present = codes >= 0
    assert parts.shape == (600, 3)  # four towns, one of them with the rare ones
    covariance = parts[present].T @ parts[present] / present.sum()
    np.testing.assert_allclose(covariance, np.eye(3), atol=1e-9)
    assert np.abs(parts).max() <= 4
    assert not parts[~present].any()
    rng = np.random.default_rng(1)
    many = measures.contrasts(rng.integers(0, 100, 500))
    assert many.shape[1] <= measures.MOST_PARTS
    assert np.abs(many).max() <= 4
    assert not measures.contrasts(np.zeros(9, dtype=np.int64)).any()
    assert not measures.contrasts(np.full(9, -1)).any()


def test_relevance_of_categories_is_chi_square_by_rows():
    frame, y = people(300)
    columns = PartyTable.from_any(frame[["job"]], name="a").columns
    table = pd.crosstab(frame["job"], y).to_numpy()
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    chi2 = ((table - expected) ** 2 / expected).sum()
    relevance = measures.oracle(columns, y).relevance
    assert relevance[0] == pytest.approx(chi2 / 300, abs=1e-9)


def test_other_names_of_levels_change_nothing():
    frame, y = people()
    other = frame.assign(job=frame["job"].map({"cook": "z", "smith": "a", "clerk": "k"}))
    traces = [measures.oracle(PartyTable.from_any(f, name="a").columns, y) for f in (frame, other)]
    assert traces[0].order == traces[1].order
    np.testing.assert_allclose(traces[0].interaction, traces[1].interaction, atol=1e-9)


def test_chance_exceeds_its_limits_rarely():
    rng = np.random.default_rng(0)
    n_rows, n_features, n_tables = 120, 30, 300
    limit = Chance(n_rows, 2, n_features).gain()
    relevant, paired = 0, 0
    for _ in range(n_tables):
        X, y = rng.normal(size=(n_rows, n_features)), rng.permutation(np.arange(n_rows) % 2)
        moments = measures.Moments(measures.standardise(X), y)
        relevant += moments.relevance().max() > Chance(n_rows, 2, n_features).relevance()
        weights = moments.weights_with(0, list(range(1, n_features)))
        paired += weights.max() - 1 > limit
    assert relevant / n_tables <= 0.07
    assert 0.01 <= paired / n_tables <= 0.12


def test_shuffled_labels_show_heavy_tails():
    chance = Chance(100, 2, 50)
    usual = chance.gain(share=0.5)
    assert chance.scale(np.full(50, float(usual) / 2)) == 1.0
    assert chance.scale(np.full(50, 3 * float(usual))) == pytest.approx(3.0)
    rule = Sum(np.zeros(3), chance)
    rule.weigh(0, [1, 2], np.array([1.2, 1.0]), scale=10.0)
    assert rule.scores[1] == 1.0  # not more than chance reaches on such columns


def test_auto_measures_weights_for_shuffled_labels_too():
    X, y = labelled(120, 5, 2)
    found = InteractionSelector(n_features_to_select="auto", security="plain", random_state=0).fit(
        X, y
    )
    kinds = {d.kind for d in found.result_.disclosures}
    assert {"shuffled-weights", "shuffled-relevance", "interaction-weights"} <= kinds
    assert 1 <= found.support_.sum() < 5


def test_irrelevant_columns_do_not_take_over_wide_tables():
    """Three quarters of 240 correlated columns are irrelevant; products of weights choose them."""
    relevant = {"sum": [], "product": []}
    for seed in range(4):
        rng = np.random.default_rng(seed)
        y = np.arange(90) % 2
        causes = rng.normal(size=(90, 10))
        causes[:, :3] += np.array([1.3, 1.0, 0.8]) * y[:, None]
        cause = np.r_[rng.integers(0, 3, 60), rng.integers(3, 10, 180)]
        X = causes[:, cause] * rng.uniform(0.6, 1.4, 240) + 0.5 * rng.normal(size=(90, 240))
        X[:, ::2] = np.exp(X[:, ::2])
        relevant["sum"] += [f < 60 for f in measures.oracle(X, y, "miw", 15).order]
        relevant["product"] += [f < 60 for f in product_order(X, y, 15)]
    assert np.mean(relevant["sum"]) >= 0.9
    assert np.mean(relevant["product"]) <= 0.5


@pytest.fixture(scope="module")
def started():
    X, y = labelled(64, 6, 2)
    owned, names = [[0, 1], [2, 3], [4, 5]], ["bank", "shop", "mill"]
    federation = split_vertical(X, y, owned, label_holder=None, names=names)
    params = Params(n_features_to_select=3, n_paired=3, seed=0)
    nodes = interaction.build_nodes(
        federation.tables, "label-holder", federation.target, 64, params
    )
    return run_local(interaction.PROTOCOL, nodes, keep_frames=True), federation


def test_a_pair_start_tells_owners_their_own_candidates_only(started):
    outcome, _ = started
    seen = {e.message for e in outcome.transcript.view("cloud")}
    assert {"PairsWanted", "MateColumns", "PairTerms"} <= seen
    asked = 0
    for party in ("bank", "shop", "mill"):
        names = {e.message for e in outcome.transcript.view(party)}
        assert names <= {
            "Introduction", "ColumnKey", "MateWanted", "MatesWanted", "Selected", "Done",
        }  # fmt: skip
        for message in received(outcome, party, interaction.messages.MatesWanted,
                                protocol=interaction.PROTOCOL):  # fmt: skip
            assert set(message.features) <= {0, 1}
            asked += len(message.features)
    assert asked == 3
    ledger = {(d.learner, d.kind) for d in outcome.ledger.rows()}
    assert ("cloud", "selection") in ledger
    assert ("label-holder", "interaction-weights") in ledger


def test_the_plan_of_a_pair_start_is_what_the_ledger_says(started):
    _, federation = started
    for settings in ({"pair_start": 3}, {"pair_start": "none"}, {}):
        selector = InteractionSelector(
            n_features_to_select=3, security="plain", random_state=0, **settings
        )
        planned = {(d.learner, d.kind) for d in selector.plan(federation).disclosures}
        told = selector.fit(federation).result_.disclosures
        # Owners none of whose features are asked for learn less than planned.
        assert {(d.learner, d.kind) for d in told} <= planned
        assert {kind for _, kind in planned} == {d.kind for d in told}


def test_a_policy_that_forbids_weights_refuses_a_pair_start():
    X, y = labelled(40, 3, 2)
    policy = {"party-1": fs.Policy(may_not_reveal=("interaction-weights",))}
    selector = InteractionSelector(n_features_to_select=2, policy=policy)
    with pytest.raises(fs.errors.PolicyViolation, match="interaction-weights"):
        selector.fit(split_vertical(X, y, 2, random_state=0))
