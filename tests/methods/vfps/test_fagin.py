"""Fagin's candidates contain everything the estimator counts."""

import itertools

import numpy as np
import pytest

from fedsift.methods.vfps.fagin import SubRankings, candidate_rows, stop_depth, tie_end
from fedsift.methods.vfps.knn_mi import Alike, term


def parts_of(n, m, levels=None, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, m)) if levels is None else rng.integers(0, levels, (n, m))
    return [(x[:, i] - x[0, i]) ** 2 for i in range(m)], rng.integers(0, 3, n)


def term_on(rows, distances, y, k):
    labels = Alike(y)
    rows = np.setdiff1d(rows, [0])
    return term(distances[rows], (y == y[0])[rows], k, labels.n_rows, labels.size(0))


@pytest.mark.parametrize("levels", [None, 16, 4, 2])
@pytest.mark.parametrize("m", [2, 3, 5])
@pytest.mark.parametrize("seed", range(4))
def test_every_subgroup_gets_the_same_term_from_the_candidates(levels, m, seed):
    """The inclusion property, ties included: one run for all participants serves every group."""
    parts, y = parts_of(200, m, levels, seed)
    candidates = candidate_rows(parts, lambda row: row != 0 and y[row] == y[0], 3)
    everything = np.arange(200)
    for size in range(1, m + 1):
        for group in itertools.combinations(range(m), size):
            total = sum(parts[i] for i in group)
            assert term_on(candidates, total, y, 3) == term_on(everything, total, y, 3)


def test_candidates_are_few_for_two_lists_and_nearly_all_for_many():
    few, y = parts_of(2000, 2)
    many, z = parts_of(2000, 16)
    assert len(candidate_rows(few, lambda row: y[row] == y[0], 3)) < 400
    assert len(candidate_rows(many, lambda row: z[row] == z[0], 3)) > 1900


def test_common_rows_are_told_once_with_their_depth():
    seen = SubRankings(6, 2)
    seen.extend(0, np.array([5, 4]))
    seen.extend(1, np.array([4, 3]))
    rows, depths = seen.new_common()
    assert (rows.tolist(), depths.tolist()) == ([4], [2])
    seen.extend(0, np.array([3]))
    seen.extend(1, np.array([5]))
    rows, depths = seen.new_common()
    assert sorted(zip(rows.tolist(), depths.tolist(), strict=True)) == [(3, 3), (5, 3)]


def test_blocks_that_repeat_or_invent_rows_do_not_fit():
    seen = SubRankings(4, 1)
    assert seen.fits(0, np.array([0, 3]))
    assert not seen.fits(0, np.array([0, 0]))
    assert not seen.fits(0, np.array([4]))
    assert not seen.fits(0, np.array([-1]))
    seen.extend(0, np.array([1]))
    assert not seen.fits(0, np.array([1]))


def test_stop_depth_needs_enough_wanted_rows():
    depths, wanted = np.array([1, 4, 6, 9]), np.array([True, False, True, True])
    assert stop_depth(depths, wanted, 2) == 6
    assert stop_depth(depths, wanted, 4) is None


@pytest.mark.parametrize(("depth", "end"), [(0, 0), (1, 1), (2, 4), (3, 4), (5, 5), (99, 5)])
def test_lists_are_cut_behind_ties(depth, end):
    assert tie_end(np.array([1, 2, 2, 2, 5]), depth) == end
