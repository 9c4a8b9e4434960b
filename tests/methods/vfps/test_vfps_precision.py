"""VF-PS keeps the order of distances at both ends of their fixed-point range."""

import numpy as np
import pytest

from fedsift.crypto.shuffle import SecretOrder
from fedsift.data import split_vertical
from fedsift.engine import run_local
from fedsift.methods.vfps import leader as vfps
from fedsift.methods.vfps.distances import (
    CAP_BITS,
    MOST_COLUMNS,
    Params,
    Ranking,
    fewest_columns,
    part_bits,
    size_bits,
    standardised,
)
from fedsift.methods.vfps.knn_mi import Alike, exact_terms
from helpers.vfps import ALLOWING


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
    params = Params(
        n_queries=60, seed=0, query_seed=0, strategy="shapley", n_groups=12, scheme="plain"
    )
    nodes = vfps.build_nodes(federation.tables, "label-holder", federation.target, params)
    policies = dict.fromkeys(nodes, ALLOWING)
    outcome = run_local(vfps.PROTOCOL, nodes, policies=policies, protected=False)
    queries = [q for q in nodes["label-holder"][0]._queries.tolist() if q >= 5]
    assert len(queries) >= 50
    labels = Alike(federation.target.codes)
    parts = {name: standardised(table)[0] for name, table in federation.tables.items()}
    for entry in outcome.value.found.history:
        columns = [parts[name] for name in entry["group"]]
        exact = exact_terms(columns, labels, nodes["label-holder"][0]._queries.tolist(), 3).mean()
        assert entry["mutual_information"] == pytest.approx(exact, abs=0.05)


def test_the_order_of_magnitude_of_a_number_of_columns():
    assert size_bits(1) < size_bits(100) < size_bits(10_000)
    assert all(
        fewest_columns(size_bits(n)) <= n < 3 * fewest_columns(size_bits(n)) for n in (1, 2, 9, 600)
    )


def test_very_wide_parties_weigh_as_much_as_wide_ones():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 60)
    federation = split_vertical(rng.normal(size=(60, 2000)), y, 2, label_holder=None)
    for table in federation.tables.values():
        matrix, _ = standardised(table)
        assert matrix.shape[1] == 1000
        assert matrix.var(axis=0).sum() == pytest.approx(MOST_COLUMNS)
        assert ((matrix - matrix[0]) ** 2).sum(axis=1).max() < 2**CAP_BITS
