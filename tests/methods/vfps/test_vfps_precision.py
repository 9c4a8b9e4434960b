"""VF-PS keeps the order of distances at both ends of their fixed-point range."""

import numpy as np
import pytest

from fedsift.crypto.shuffle import SecretOrder
from fedsift.data import split_vertical
from fedsift.engine import run_local
from fedsift.methods.vfps import leader as vfps
from fedsift.methods.vfps.blinding import SUM_BITS
from fedsift.methods.vfps.distances import Params, Ranking, cap_bits, part_bits, standardised
from fedsift.methods.vfps.knn_mi import Alike, exact_terms


@pytest.mark.parametrize("m", [2, 3, 20])
def test_rankings_hold_up_to_the_largest_distance(m):
    largest = (1 << part_bits(m)) - 1
    distances = np.array([largest, 0, largest - 1, 1, largest, 2**20])
    ranking = Ranking(distances, SecretOrder(bytes(32), 0, len(distances)))
    ids = ranking.block(len(distances))
    assert ranking.of_ids(ids).tolist() == sorted(distances.tolist())


def test_distances_beyond_the_cap_do_not_disturb_near_ones():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    X = rng.normal(size=(300, 3)) + y[:, None]
    X[:5] *= 1e4  # five rows far away squeeze all others into a tiny part of the range
    federation = split_vertical(X, y, 3, label_holder=None)
    params = Params(n_queries=60, seed=0, strategy="shapley", n_groups=12, scheme="plain")
    nodes = vfps.build_nodes(federation.tables, "label-holder", federation.target, params)
    outcome = run_local(vfps.PROTOCOL, nodes, protected=False)
    queries = [q for q in nodes["label-holder"][0]._queries.tolist() if q >= 5]
    assert len(queries) >= 50
    labels = Alike(federation.target.codes)
    parts = {name: standardised(table)[0] for name, table in federation.tables.items()}
    for entry in outcome.value.found.history:
        columns = [parts[name] for name in entry["group"]]
        exact = exact_terms(columns, labels, nodes["label-holder"][0]._queries.tolist(), 3).mean()
        assert entry["mutual_information"] == pytest.approx(exact, abs=0.05)


def test_fewer_columns_leave_more_digits():
    assert cap_bits(1) < cap_bits(100) < cap_bits(10_000) < SUM_BITS - 6
