"""VF-PS with scores: who adds to the label holder's columns, what it costs, who sees what."""

import numpy as np
import pandas as pd
import pytest

import fedsift as fs
from benchmarks.suites.vfps import own_columns
from fedsift.errors import ParameterError, PartyFailed, PolicyViolation
from fedsift.methods.vfps import score_lists, score_messages
from fedsift.methods.vfps.distances import Distances, Params, prepared
from fedsift.methods.vfps.leader import PROTOCOL, build_nodes
from fedsift.methods.vfps.score_messages import ListsWanted
from fedsift.methods.vfps.selector import VFPSSelector
from fedsift.report.text import render
from helpers.vfps import blobs, labels_of, received, run

SCORES = {"design": "scores", "keep_own": True, "strategy": "greedy", "n_participants": 2}


def bank(parties=4, n_rows=90, **options):
    X, y = blobs(n_rows, 2 * parties)
    return fs.split_vertical(X, y, parties, label_holder=0, **options)


def oracle(fed, members, params):
    """Scores of a group on all queries, from pooled columns."""
    n_rows, labels = fed.n_rows, labels_of(fed)
    parts = [Distances(fed.tables[name], params, len(fed.tables)) for name in members]
    rng = np.random.default_rng(params.query_seed)
    queries = rng.permutation(n_rows)[: params.n_queries]
    found = []
    for number, query in enumerate(queries):
        rows = score_lists.listed_rows(queries, number, n_rows)
        kept = rows[labels.usable[rows]]
        sums = sum(part.part(query) for part in parts)[kept]
        found.append(
            score_lists.worth(
                sums, labels.rows(query)[kept], params.k, likelihood=params.likelihood
            )
        )
    return np.array(found)


@pytest.mark.parametrize("strategy", ["greedy", "submodular", "shapley", "individual"])
@pytest.mark.parametrize("scheme", ["plain", "bgv"])
def test_gains_are_those_of_pooled_columns(strategy, scheme):
    fed = bank()
    settings = {**SCORES, "strategy": strategy, "n_groups": 6, "scheme": scheme, "seed": 3}
    outcome = run(fed, policies=None, **settings)
    params = Params(**{**settings, "n_queries": 20, "query_seed": 3})
    reach = score_lists.most_changed(fed.n_rows, likelihood=params.likelihood)
    pairs = [
        p for m in received(outcome, "aggregator", score_messages.GainsWanted) for p in m.pairs
    ]
    told = [v for m in received(outcome, "party-1", score_messages.Gains) for v in m.values.array()]
    assert len(pairs) == len(told) > 2

    def score(group):
        if strategy == "submodular":
            each = [oracle(fed, ("party-1", name), params) for name in group]
            return np.max([oracle(fed, ("party-1",), params), *each], axis=0)
        return oracle(fed, ("party-1", *group), params)

    for (group, base), value in list(zip(pairs, told, strict=True))[:6]:
        expected = score_lists.rounded_mean(score(group) - score(base), reach)
        assert value == pytest.approx(expected.value, abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_the_new_one_is_named_first_and_the_search_stops_there(seed):
    plain = own_columns.one_run(seed, security="plain")
    assert plain["selected"] == ["new"]
    assert own_columns.one_run(seed) == plain


def test_the_label_holder_is_kept_and_one_partner_is_answered_without_permission():
    fed = bank(2)
    selector = VFPSSelector(n_participants="auto", n_queries=40, random_state=0).fit(fed)
    assert "party-1" not in selector.selected_participants_
    assert selector.result_.selected["party-1"]
    assert set(selector.importances_) == {"party-1", "party-2"}
    kinds = {row.kind for row in selector.result_.disclosures}
    assert not kinds & {"single-party-distances", "paired-groups", "group-distances"}
    assert {"group-scores", "shuffled-sums", "shuffled-labels", "leader-scores"} <= kinds


def test_without_own_columns_one_of_two_needs_permission():
    X, y = blobs(80, 4)
    fed = fs.split_vertical(X, y, 2, label_holder=None)
    with pytest.raises(PolicyViolation, match="single-party-distances"):
        VFPSSelector(n_queries=20).fit(fed)


def test_prices_decide_among_equals_and_are_shown():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    X = rng.normal(size=(400, 3)) + y[:, None] * np.array([0.5, 1.5, 1.4])
    fed = fs.split_vertical(X, y, 3, names=("bank", "dear", "cheap"), label_holder="bank")
    settings = {"n_queries": 200, "random_state": 0, "security": "plain"}
    dear = VFPSSelector(prices={"dear": 1.0, "cheap": 10}, **settings).fit(fed)
    cheap = VFPSSelector(prices={"dear": 10, "cheap": 1.0}, **settings).fit(fed)
    assert dear.selected_participants_ == ["dear"]
    assert cheap.selected_participants_ == ["cheap"]
    gain = cheap.importances_["cheap"]
    assert cheap.gains_per_price_ == {"dear": cheap.importances_["dear"] / 10, "cheap": gain}
    assert cheap.result_.history[0]["gains_per_price"] == cheap.gains_per_price_
    assert cheap.result_.parameters["prices"] == {"dear": 10.0, "cheap": 1.0}
    assert "per price" in render(cheap.result_)


@pytest.mark.parametrize(
    "prices", [{}, {"party-2": 1}, {"party-2": 1, "party-3": 0}, {"party-2": 1, "x": 1}, 3]
)
def test_prices_that_do_not_fit_are_refused(prices):
    with pytest.raises(ParameterError, match="positive number"):
        VFPSSelector(prices=prices).fit(bank(3))


@pytest.mark.parametrize(
    "settings",
    [
        {"design": "separate"},
        {"design": "separate", "keep_own": False, "strategy": "submodular"},
        {"n_participants": "auto", "strategy": "shapley"},
        {"design": "separate", "keep_own": False, "n_participants": "auto"},
    ],
)
def test_settings_that_do_not_go_together_are_refused(settings):
    with pytest.raises(ParameterError, match="Give"):
        VFPSSelector(**settings).fit(bank(3))


def test_lists_share_no_pair_of_queries_and_hold_nearly_all_other_rows():
    queries = np.random.default_rng(0).permutation(50)[:30]
    lists = [set(score_lists.listed_rows(queries, i, 50).tolist()) for i in range(30)]
    for i in range(30):
        assert len(lists[i]) == score_lists.list_length(i, 50, 30)
        assert int(queries[i]) not in lists[i]
        for j in range(i):
            assert (int(queries[j]) in lists[i]) != (int(queries[i]) in lists[j])


def test_one_query_changes_a_mean_by_a_step_at_most():
    values = np.random.default_rng(0).normal(size=200)
    reach, step = 5.0, 5.0 / 200
    before = score_lists.rounded_mean(values, reach)
    assert before.value / step == pytest.approx(round(before.value / step))
    values[0] += reach
    after = score_lists.rounded_mean(values, reach)
    assert abs(after.value - before.value) < 1.01 * step


@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "cosine", "gower"])
def test_distances_add_up_over_parties(metric):
    table = bank().tables["party-2"]
    matrix, _ = prepared(table, metric)
    part = Distances(table, Params(distance=metric), 2).part(5) / 2.0**23
    differences = matrix - matrix[5]
    squares = metric in ("euclidean", "cosine")
    expected = (differences**2 if squares else np.abs(differences)).sum(axis=1)
    assert part == pytest.approx(expected, abs=1e-5)
    if metric == "cosine":
        assert np.linalg.norm(matrix, axis=1) == pytest.approx(1.0)
    if metric == "gower":
        assert np.ptp(matrix, axis=0) == pytest.approx(1.0)


def test_categories_are_one_apart_by_gower_and_parties_weigh_the_same():
    table = fs.split_vertical(
        pd.DataFrame({"a": ["x", "y", "x", "z"], "b": [0.0, 1.0, 2.0, 4.0]}),
        [0, 1, 0, 1], [["a", "b"], []][:1], label_holder=None,
    ).tables["party-1"]  # fmt: skip
    by_columns = Distances(table, Params(distance="gower"), 2).part(0) / 2.0**23
    assert by_columns == pytest.approx([0, 1.25, 0.5, 2.0], abs=1e-5)
    weighed = Distances(table, Params(distance="gower", scaling="parties"), 2).part(0) / 2.0**23
    assert weighed == pytest.approx(by_columns / 2, abs=1e-5)


def test_the_leader_and_participants_see_no_distance():
    fed = bank(3)
    outcome = run(fed, policies=None, **{**SCORES, "scheme": "bgv"})
    for party in fed.tables:
        got = {entry.message for entry in outcome.transcript.view(party) if entry.receiver == party}
        assert not got & {"ListParts", "SingleListParts", "ListsWanted", "GroupDistances"}
    gains = received(outcome, "party-1", score_messages.Gains)
    assert all(message.values.shape[0] <= 3 for message in gains)


def test_masked_parts_look_random_and_their_sum_is_the_list():
    fed = bank(2)
    masked = run(fed, policies=None, **{**SCORES, "n_participants": 1, "scheme": "bgv"})
    parts = [m.parts.array() for m in received(masked, "aggregator", score_messages.ListParts)]
    assert len(parts) == 2
    for part in parts:
        assert abs((part >> np.uint64(63)).mean() - 0.5) < 0.1
    assert int((parts[0] + parts[1]).max()) < 1 << 40


def test_the_aggregator_answers_no_second_question_about_a_group():
    """A leader that reads a group's lists again could ask for them with other marks."""
    from fedsift.engine import run_local
    from fedsift.methods.vfps.leader import Leader

    class Curious(Leader):
        async def _read_lists(self, group, net):
            await super()._read_lists(group, net)
            self._read_groups.pop(group)
            await super()._read_lists(group, net)

    fed = bank(3)
    params = Params(scheme="plain", seed=0, query_seed=0, n_queries=6, **SCORES)
    nodes = build_nodes(fed.tables, fed.label_holder, fed.target, params)
    _, own = nodes["party-1"]
    nodes["party-1"] = (
        Curious(fed.target, "party-1", params, "party-1", None, fed.tables["party-1"]), own,
    )  # fmt: skip
    with pytest.raises(PartyFailed, match="out of turn"):
        run_local(PROTOCOL, nodes, timeout_seconds=20)


def test_queries_between_organisations_are_nobodys_choice():
    fed = bank(3)
    first, second = (
        run(fed, policies=None, **{**SCORES, "query_seed": None, "n_queries": 10}) for _ in range(2)
    )
    rows = [received(one, "party-2", score_messages.QueryDraw)[0].number for one in (first, second)]
    assert rows[0] != rows[1]
    drawn = score_lists.draw_queries(b"a" * 32, rows[0], None, 90, 10)
    assert set(drawn) != set(score_lists.draw_queries(b"b" * 32, rows[0], None, 90, 10))
    flags = received(first, "aggregator", ListsWanted)
    assert {m.alike.dtype for m in flags} == {"|b1"}


def test_numbers_are_a_target_too():
    X, y = blobs(80, 6)
    fed = fs.split_vertical(X, y + 0.01 * X[:, 0], 3, label_holder=0, task="regression")
    selector = VFPSSelector(n_participants=1, n_queries=40, random_state=0).fit(fed)
    assert len(selector.selected_participants_) == 1
