"""Attack: the aggregator of VF-PS links pseudo-ids over queries (one seed for all in paper 002)."""

import numpy as np
import pytest

from fedsift.crypto.shuffle import SecretOrder
from fedsift.data import split_vertical
from fedsift.engine import run_local
from fedsift.lab.attacks.vfps.techniques import CuriousAggregator, popularity
from fedsift.methods.vfps import leader as vfps
from fedsift.methods.vfps.distances import Params, Ranking, part_of_distance, standardised
from fedsift.methods.vfps.messages import MESSAGES, SubRankings, divided
from fedsift.protocol import Codec, Policy
from helpers.vfps import PAIRING

N_ROWS, DEPTH = 300, 64


@pytest.fixture(scope="module")
def federation():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, N_ROWS)
    # Most neighbours are few enough that Fagin is kept for all queries.
    base = rng.normal(size=(N_ROWS, 1)) + y[:, None]
    return split_vertical(base + 0.05 * rng.normal(size=(N_ROWS, 3)), y, 3, label_holder=None)


def truth(federation):
    """How often each row comes near any other, in the columns of the first participant."""
    matrix, _ = standardised(federation.tables["party-1"])
    rankings = [
        np.argsort(part_of_distance(matrix, query, 3), kind="stable") for query in range(N_ROWS)
    ]
    return popularity(rankings, N_ROWS, DEPTH)


def linked(rankings, row_of, federation):
    """Correlation of what the aggregator counts with how central the rows really are."""
    counted = popularity(rankings, N_ROWS, DEPTH)
    return float(np.corrcoef(counted, truth(federation)[row_of])[0, 1])


def test_one_shuffle_for_all_queries_is_linked(federation):
    """The unprotected variant: the paper's single seed."""
    order = SecretOrder(bytes(32), 0, N_ROWS)
    matrix, _ = standardised(federation.tables["party-1"])
    rankings = [
        Ranking(part_of_distance(matrix, query, 3), order).block(DEPTH) for query in range(100)
    ]
    assert linked(rankings, order.row_of, federation) > 0.7


@pytest.fixture(scope="module")
def seen(federation):
    """First blocks of one participant's rankings, decoded from the frames the aggregator got."""
    params = Params(n_queries=100, seed=0, query_seed=0, strategy="shapley", n_groups=12)
    nodes = vfps.build_nodes(federation.tables, federation.label_holder, federation.target, params)
    policies = dict.fromkeys(nodes, PAIRING)
    outcome = run_local(vfps.PROTOCOL, nodes, policies=policies, keep_frames=True)
    codec = Codec(MESSAGES)
    rankings = []
    for entry in outcome.transcript.entries:
        if (entry.sender, entry.message) == ("party-1", "SubRankings"):
            message = codec.decode(entry.frame, [SubRankings])
            rankings += divided(message.ids, message.lengths, message.lengths.shape[0])
    return [ranking for ranking in rankings if len(ranking) >= DEPTH]


def test_fresh_shuffles_are_not(federation, seen):
    assert len(seen) == 100
    rng = np.random.default_rng(0)
    readings = [np.arange(N_ROWS), *(rng.permutation(N_ROWS) for _ in range(10))]
    assert max(abs(linked(seen, reading, federation)) for reading in readings) < 0.3


def test_ids_are_spread_evenly_over_queries(seen):
    """A row that is near in many queries has another id each time, so no id stands out."""
    counts = popularity(seen, N_ROWS, DEPTH)
    share = DEPTH / N_ROWS
    expected, spread = len(seen) * share, np.sqrt(len(seen) * share * (1 - share))
    assert counts.std() < 1.3 * spread
    assert abs(counts - expected).max() < 5 * spread


def test_the_query_itself_has_another_id_every_time(seen):
    """At distance 0 the query leads its own ranking; a fixed id would show repeated queries."""
    firsts = {int(ranking[0]) for ranking in seen}
    expected = N_ROWS * (1 - (1 - 1 / N_ROWS) ** len(seen))
    assert len(firsts) > 0.7 * expected


@pytest.fixture(scope="module")
def rounded(federation):
    """What the aggregator sees in a separate design: one order per query and group."""
    params = Params(n_queries=100, seed=0, query_seed=0, all_rows=True, scheme="plain")
    nodes = vfps.build_nodes(federation.tables, federation.label_holder, federation.target, params)
    curious = CuriousAggregator()
    curious.watch()
    nodes[vfps.AGGREGATOR] = (curious,)
    kinds = tuple(m.declaration.kind for m in MESSAGES)
    policies = dict.fromkeys(nodes, Policy(may_reveal=kinds, min_security_bits=0))
    run_local(vfps.PROTOCOL, nodes, policies=policies, protected=False)
    return curious.rankings


def test_rounded_sums_are_not_linked_over_queries_either(federation, rounded):
    assert len(rounded) == 100
    rng = np.random.default_rng(0)
    readings = [np.arange(N_ROWS), *(rng.permutation(N_ROWS) for _ in range(10))]
    assert max(abs(linked(rounded, reading, federation)) for reading in readings) < 0.3
    counts = popularity(rounded, N_ROWS, DEPTH)
    share = DEPTH / N_ROWS
    assert counts.std() < 1.3 * np.sqrt(len(rounded) * share * (1 - share))


def test_nothing_the_aggregator_receives_names_rows():
    inbound = [m.declaration for m in MESSAGES if m.declaration.receiver == "aggregator"]
    assert "query-rows" not in {d.kind for d in inbound}
    assert [d.name for d in inbound if d.kind == "sub-rankings"] == ["SubRankings"]
    assert [d.name for d in inbound if d.kind == "rounded-sums"] == ["RoundedParts"]
