"""Rounded sums leave out no row that counts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsift.methods.vfps.knn_mi import Alike, term, term_of_row
from fedsift.methods.vfps.rounded_order import RoundedOrder


@settings(max_examples=200, deadline=None)
@given(
    n_rows=st.integers(4, 60),
    n_members=st.integers(1, 20),
    step=st.sampled_from([1, 4, 64, 1024]),
    levels=st.sampled_from([2, 5, 10_000]),
    k=st.integers(1, 5),
    seed=st.integers(0, 2**32 - 1),
)
def test_candidates_give_the_term_of_all_rows(n_rows, n_members, step, levels, k, seed):
    rng = np.random.default_rng(seed)
    parts = rng.integers(0, levels, size=(n_members, n_rows))
    labels = Alike(np.arange(n_rows) % 2)
    parts[:, 0] = 0  # row 0 is the query
    order = RoundedOrder((parts // step).sum(axis=0), n_members)
    alike = labels.rows(0).copy()
    alike[0] = False
    listed = order.block(n_rows)
    wanted = min(k, labels.size(0) - 1)
    depth = int(np.flatnonzero(alike[listed])[wanted - 1]) + 1
    rows = order.candidates(depth)
    rows = rows[rows != 0]
    distances = parts.sum(axis=0)
    found = term(distances[rows], alike[rows], k, n_rows, labels.size(0))
    assert found == pytest.approx(term_of_row(distances, labels, 0, k))


def test_blocks_list_every_row_once_nearest_first():
    sums = np.random.default_rng(0).integers(0, 20, 300)
    order = RoundedOrder(sums, 3)
    listed = np.concatenate([order.block(depth) for depth in (64, 128, 100, 256, 512)])
    assert sorted(listed.tolist()) == list(range(300))
    assert (np.diff(sums[listed]) >= 0).all()
    assert order.block(1000).size == 0


def test_finer_steps_leave_fewer_candidates():
    rng = np.random.default_rng(0)
    parts = rng.integers(0, 2**20, size=(4, 2000))
    counts = [
        len(RoundedOrder((parts >> bits).sum(axis=0), 4).candidates(20)) for bits in (4, 14, 17)
    ]
    assert counts[0] <= counts[1] < counts[2] < 2000
    assert counts[0] < 25
