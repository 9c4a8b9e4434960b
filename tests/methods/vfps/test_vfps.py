"""Federated mutual information equals the pooled estimator; strategies find what is there."""

import itertools
import re

import numpy as np
import pytest

from fedsift.crypto.shuffle import SecretOrder
from fedsift.data import Federation, PartyTable
from fedsift.engine import run_local
from fedsift.methods.vfps import leader as vfps
from fedsift.methods.vfps import search
from fedsift.methods.vfps.distances import Params, Ranking, part_of_distance, standardised
from fedsift.methods.vfps.knn_mi import estimate
from fedsift.methods.vfps.selector import VFPSSelector
from fedsift.report.text import render
from helpers.vfps import ALLOWING, blobs, federation, oracle, queries_of, run, scores

SWITCHES = list(itertools.product([True, False], [True, False]))


@pytest.mark.parametrize(("fagin", "batching"), SWITCHES)
@pytest.mark.parametrize("levels", [None, 4, 2])
def test_scores_equal_the_oracle_with_every_switch(fagin, batching, levels):
    fed = federation(*blobs(levels=levels))
    outcome = run(fed, strategy="shapley", n_groups=20, fagin=fagin, batching=batching)
    found = scores(outcome)
    assert len(found) >= 6
    for group, value in found.items():
        assert value == pytest.approx(oracle(fed, group), abs=1e-12)
        assert value == pytest.approx(oracle(fed, group, exact=True), abs=0.02)


@pytest.mark.parametrize("parties", [2, 3, 7, 12, 20])
def test_scores_equal_the_oracle_for_2_to_20_participants(parties):
    fed = federation(*blobs(90, 20), parties)
    outcome = run(fed, strategy="shapley", n_groups=parties, n_queries=8, singles=parties == 2)
    for group, value in scores(outcome).items():
        assert value == pytest.approx(oracle(fed, group, 8), abs=1e-12)
        assert value == pytest.approx(oracle(fed, group, 8, exact=True), abs=0.05)


@pytest.mark.parametrize("scheme", ["bgv", "paillier"])
@pytest.mark.parametrize("fagin", [True, False])
def test_encrypted_runs_equal_plain_ones(scheme, fagin):
    n_queries = 10 if scheme == "bgv" else 2
    fed = federation(*blobs(60, 6), 3)
    settings = {"strategy": "brute-force", "n_participants": 2, "n_queries": n_queries}
    plain = run(fed, fagin=fagin, **settings)
    secure = run(fed, scheme=scheme, fagin=fagin, **settings)
    assert scores(secure) == scores(plain)
    assert secure.value.found.selected == plain.value.found.selected


@pytest.mark.parametrize("scheme", ["bgv", "paillier"])
def test_separate_groups_score_the_same_under_encryption(scheme):
    fed = federation(*blobs(60, 8), 4)
    settings = {"n_queries": 12 if scheme == "bgv" else 3, "n_participants": 2}
    plain = run(fed, **settings)
    secure = run(fed, scheme=scheme, **settings)
    assert scores(secure) == scores(plain)
    assert len(scores(secure)) >= 3
    assert secure.value.found.importances == plain.value.found.importances


@pytest.mark.parametrize("design", ["separate", "shared"])
def test_a_numeric_target_works_in_groups(design):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 8))
    y = X[:, 4] + X[:, 5] + 0.1 * rng.normal(size=200)
    fed = federation(X, y)
    found = run(fed, design=design, n_queries=100).value.found
    assert found.selected == ("party-3",)


def test_a_numeric_target_runs_through_the_same_protocol():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 4))
    y = X[:, 2] * 2 + 0.1 * rng.normal(size=150)
    fed = federation(X, y)
    outcome = run(fed, strategy="individual", singles=True, n_queries=60)
    for group, value in scores(outcome).items():
        assert value == pytest.approx(oracle(fed, group, 60), abs=1e-12)
    assert outcome.value.found.selected == ("party-3",)


def test_fagin_saves_slots_and_gives_up_where_it_does_not():
    fed = federation(*blobs(1500, 4), 2)
    with_fagin = run(fed, strategy="individual", singles=True)
    without = run(fed, strategy="individual", singles=True, fagin=False)
    assert with_fagin.value.stats["slots"] < without.value.stats["slots"] / 3
    many = run(federation(*blobs(200, 12), 12), n_queries=10, strategy="shapley", n_groups=12)
    assert any("all rows are compared" in remark for remark in many.value.remarks)
    assert not with_fagin.value.remarks


@pytest.mark.parametrize("levels", [None, 4, 2])
@pytest.mark.parametrize(("parties", "own"), [(4, None), (4, 0), (7, None), (12, 0), (20, None)])
def test_separate_groups_equal_the_oracle_on_the_queries_they_had(parties, own, levels):
    """Rounded sums find every row that counts, also those at equal distance."""
    fed = federation(*blobs(120, 20, levels=levels), parties, label_holder=own)
    params = Params(scheme="plain", seed=0, query_seed=0, n_queries=60, n_groups=10)
    nodes = vfps.build_nodes(fed.tables, fed.label_holder, fed.target, params)
    served = {}
    leader = nodes[fed.label_holder][0]
    collect = leader._collect

    async def noting(members, queries, net):
        chunk = await collect(members, queries, net)
        served.setdefault(members, []).extend(chunk.queries)
        return chunk

    leader._collect = noting
    outcome = run_local(vfps.PROTOCOL, nodes, protected=False)
    found = scores(outcome)
    assert len(found) >= 4
    for group, value in found.items():
        assert value == pytest.approx(oracle(fed, group, queries=served[group]), abs=1e-12)
    share = outcome.value.stats["candidate_share"]
    assert share < (0.2 if levels is None else 1.0)


def test_separate_groups_of_a_large_federation_need_few_slots():
    """Where Fagin would have to compare nearly all rows."""
    fed = federation(*blobs(1000, 16), 16)
    outcome = run(fed, n_queries=40)
    assert outcome.value.stats["candidate_share"] < 0.05
    paired = run(fed, n_queries=8, strategy="shapley", n_groups=16)
    assert any("all rows are compared" in remark for remark in paired.value.remarks)


def test_a_run_that_reaches_its_limit_of_distances_says_so():
    outcome = run(federation(*blobs(60, 8)), n_queries=60, k=8)
    assert any("tested on fewer queries" in remark for remark in outcome.value.remarks)
    free = run(federation(*blobs(60, 8)), n_queries=60, k=8, all_rows=True)
    assert not free.value.remarks
    assert sum(row["n_queries"] for row in free.value.found.history) > sum(
        row["n_queries"] for row in outcome.value.found.history
    )


def test_several_queries_share_ciphertexts():
    fed = federation(*blobs(400, 4), 2)
    outcome = run(fed, strategy="individual", singles=True, scheme="bgv", fagin=False, n_queries=20)
    sent = [e for e in outcome.transcript.entries if e.message == "PartialDistances"]
    # 20 queries of 400 rows are 8000 numbers: one ciphertext from each of the two.
    assert sum(e.n_ciphertexts for e in sent) == 2


def copies(seed=0, n=400):
    """Two strong participants, a copy of the stronger one, and noise that free-rides."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 4, n)
    first = (y // 2)[:, None] * 3 + rng.normal(size=(n, 2))
    second = (y % 2)[:, None] * 2.5 + rng.normal(size=(n, 2))
    tables = {
        "strong": first,
        "copy": first + 1e-6 * rng.normal(size=first.shape),
        "other": second,
        "noise": rng.normal(size=(n, 2)),
    }
    named = {name: PartyTable.from_any(x, name=name) for name, x in tables.items()}
    return Federation.vertical(named, label=("registry", y))


@pytest.mark.parametrize("seed", range(3))
def test_greedy_never_takes_a_copy_and_shows_that_it_adds_nothing(seed):
    policy = dict.fromkeys(("strong", "copy", "other", "noise"), ALLOWING)
    selector = VFPSSelector(design="separate", keep_own=False,
        n_participants=2, strategy="greedy", n_queries=200, security="plain", policy=policy,
        random_state=seed,
    ).fit(copies(seed))  # fmt: skip
    chosen = set(selector.selected_participants_)
    assert "other" in chosen
    assert len(chosen & {"strong", "copy"}) == 1
    twin = ({"strong", "copy"} - chosen).pop()
    assert selector.importances_[twin] < 0.1 * selector.importances_["other"]
    assert selector.importances_["noise"] < 0.1 * selector.importances_["other"]
    left_out = [row for row in selector.result_.history if row["step"] == "left out"]
    assert {row["participant"] for row in left_out} == {twin, "noise"}
    report = render(selector.result_).splitlines()
    line = next(line for line in report if line.startswith(twin) and "selected" in line)
    added = re.search(
        r"not selected, would add (\d+)% of what the least of the selected adds", line
    )
    assert int(added[1]) < 10
    assert selector.result_.participants[twin] == selector.importances_[twin]


@pytest.mark.parametrize("seed", range(4))
def test_greedy_equals_brute_force_on_mutual_information(seed):
    fed = federation(*blobs(200, 12, seed=seed), 6)
    settings = {"n_participants": 3, "n_queries": 60}
    best = run(fed, strategy="brute-force", **settings).value.found
    ours = run(fed, strategy="greedy", **settings).value.found
    value = {tuple(row["group"]): row["mutual_information"] for row in best.history}
    assert value[ours.selected] == pytest.approx(value[best.selected])


@pytest.mark.parametrize("strategy", ["group-testing", "shapley", "individual"])
def test_informative_participants_rank_before_noise(strategy):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    X = rng.normal(size=(400, 8))
    X[:, :4] += 1.5 * y[:, None]
    selector = VFPSSelector(design="separate", keep_own=False,
        n_participants=2, strategy=strategy, parties=[[0, 1], [2, 3], [4, 5], [6, 7]],
        security="plain", random_state=0, policy=ALLOWING,
    ).fit(X, y)  # fmt: skip
    assert selector.selected_participants_ == ["party-1", "party-2"]
    assert selector.get_support().tolist() == [True] * 4 + [False] * 4
    errors = selector.standard_errors_
    assert set(errors) == set(selector.importances_)
    assert all(0 < error < 0.2 for error in errors.values())


def test_the_same_seed_gives_the_same_result_whatever_the_keys():
    fed = federation(*blobs())
    first, second = (run(fed, n_queries=40).value.found for _ in range(2))
    assert first.importances == second.importances
    assert run(fed, n_queries=40, seed=1).value.found.importances != first.importances


def test_queries_of_real_runs_come_from_the_operating_system_and_score_as_exactly():
    fed = federation(*blobs())
    params = Params(scheme="plain", seed=0, n_queries=20, strategy="shapley", n_groups=12)
    drawn = []
    for _ in range(2):
        nodes = vfps.build_nodes(fed.tables, fed.label_holder, fed.target, params)
        policies = dict.fromkeys(nodes, ALLOWING)
        outcome = run_local(vfps.PROTOCOL, nodes, policies=policies, protected=False)
        drawn.append(nodes[fed.label_holder][0]._queries.tolist())
        for group, value in scores(outcome).items():
            assert value == pytest.approx(oracle(fed, group, queries=drawn[-1]), abs=1e-12)
    assert drawn[0] != drawn[1]
    assert queries_of(fed).tolist() not in drawn


def test_separate_designs_never_put_a_participant_twice_into_one_query():
    players = search.Players(tuple("abcdefgh"), "a", singles=False)
    rng = np.random.default_rng(0)
    groups = search.random_groups(players, 50, rng)
    assert len(set(groups)) == 50
    assert all(len(players.others(group)) >= 2 for group in groups)
    served = search.assign(players, groups, 300, rng)
    for query in range(300):
        members = [m for g in groups if query in served[g] for m in players.others(g)]
        assert members
        assert len(members) == len(set(members))
    sizes = [len(queries) for queries in served.values()]
    assert max(sizes) - min(sizes) <= 3
    joined = [sum(name in group for group in groups) for name in players.names]
    assert min(joined) > 0.6 * max(joined)


def test_a_shapley_prefix_that_may_not_be_tested_is_shared():
    players = search.Players(("own", "x", "y", "z"), "own", singles=False)
    asked = []

    async def evaluate(groups):
        asked.extend(groups)
        return {g: np.full(5, float(len(g))) for g in groups}

    coroutine = search.shapley(players, 1, 40, np.random.default_rng(0), evaluate)
    with pytest.raises(StopIteration) as finished:
        coroutine.send(None)
    found = finished.value.value
    assert all(len(players.others(group)) != 1 for group in asked)
    assert sum(e.value for e in found.importances.values()) == pytest.approx(4.0)


def test_distances_are_cut_off_and_scaled_to_fit_twenty_parties():
    x = np.zeros((50, 1))
    x[0] = 1e9
    table = PartyTable.from_any(np.hstack([x, np.ones((50, 1))]), name="far")
    matrix, remarks = standardised(table)
    assert len(remarks) == 1
    for m in (2, 5, 20):
        part = part_of_distance(matrix * 1e6, 1, m)
        assert part.min() >= 0
        assert int(part.max()) * m < 2**36


def test_categories_weigh_as_much_as_numbers_and_missing_values_are_mended():
    rng = np.random.default_rng(0)
    columns = {
        "job": rng.choice(["cook", "smith", None], 300),
        "age": np.where(rng.random(300) < 0.1, np.nan, rng.normal(40, 10, 300)),
    }
    matrix, remarks = standardised(PartyTable.from_any(columns, name="bank"))
    assert np.isfinite(matrix).all()
    assert len(remarks) == 2
    expected = [2 * matrix[:, s].var(axis=0).sum() for s in (slice(0, -1), slice(-1, None))]
    assert expected[0] == pytest.approx(2.0)
    assert expected[1] == pytest.approx(2.0, rel=0.15)


def test_group_scores_come_with_errors_that_shrink_with_queries():
    fed = federation(*blobs(600, 8))
    few = run(fed, strategy="individual", singles=True, n_queries=20).value.found.importances
    many = run(fed, strategy="individual", singles=True, n_queries=320).value.found.importances
    ratio = np.mean([few[p].standard_error / many[p].standard_error for p in few])
    assert 2.5 < ratio < 6
    assert estimate([1.0, 3.0]).standard_error == pytest.approx(1.0)


def test_a_search_that_cannot_keep_all_parts_finds_the_same(monkeypatch):
    fed = federation(*blobs(120, 8))
    settings = {"strategy": "greedy", "n_participants": 2}
    kept = run(fed, **settings).value
    monkeypatch.setattr("fedsift.methods.vfps.leader._MOST_KEPT_NUMBERS", 1000)
    again = run(fed, **settings).value
    assert again.found.importances == kept.found.importances
    assert any("sent again" in remark for remark in again.remarks)
    assert again.stats["slots"] > 2 * kept.stats["slots"]


@pytest.mark.parametrize("largest", [3, 2**20, 2**35 - 1])
def test_rankings_are_sorted_complete_in_ties_and_never_repeat_a_row(largest):
    """Also at the largest parts there are, which share a 64-bit key with the tie-break."""
    rng = np.random.default_rng(0)
    distances = rng.integers(0, largest, 3000, endpoint=True)
    order = SecretOrder(bytes(32), 1, 3000)
    ranking, listed = Ranking(distances, order), []
    for depth in (64, 128, 256, 2000, 3000):
        listed += order.row_of[ranking.block(depth)].tolist()
        assert len(listed) == ranking.delivered >= depth
        values = distances[listed]
        assert (np.diff(values) >= 0).all()
        rest = np.setdiff1d(np.arange(3000), listed)
        assert not rest.size or distances[rest].min() > values[-1]
    assert sorted(listed) == list(range(3000))
