"""Edges of pooled columns from counts below thresholds: few digits, near their places."""

import numpy as np
import pytest

from fedsift.maths.edges import EDGE_BITS, EdgeSearch


def search_in(columns, n_bins, smallest=5, complete=None):
    """The search, and the thresholds that it asked for by column."""
    complete = complete or [True] * len(columns)
    search, asked = EdgeSearch([n_bins] * len(columns), complete, smallest), []
    while search.thresholds:
        asked.append([list(own) for own in search.thresholds])
        below = [
            [int((column <= t).sum()) for t in own]
            for column, own in zip(columns, search.thresholds, strict=True)
        ]
        rows = [] if search.n_rows else [len(columns[0])]
        search.take(np.array([*rows, *(n for own in below for n in own)]))
    return search, asked


DRAWS = {
    "normal": lambda rng: rng.normal(size=1000),
    "skewed": lambda rng: np.exp(3 * rng.normal(size=1000)),
    "negative": lambda rng: -50 - rng.random(1000) * 30,
    "tiny": lambda rng: 1e-200 * rng.normal(size=1000),
    "huge": lambda rng: 1e200 * rng.normal(size=1000),
}


@pytest.mark.parametrize("draw", DRAWS)
def test_bins_are_about_equal(draw):
    values = DRAWS[draw](np.random.default_rng(0))
    search, _ = search_in([values], 10)
    edges, below = search.edges[0]
    assert below.tolist() == [int((values <= edge).sum()) for edge in edges]
    assert np.abs(below - 100 * np.arange(1, 10)).max() <= 1000 // 80


def test_edges_have_ten_bits_at_most_and_no_value_of_a_row():
    columns = list(np.random.default_rng(1).normal(size=(20, 300)))
    search, asked = search_in(columns, 10)
    for column, (edges, _) in zip(columns, search.edges, strict=True):
        digits = np.frexp(edges)[0] * 2**11
        assert np.abs(digits - np.rint(digits)).max() < 1e-9
        assert np.abs(column[:, None] - edges).min() > 1e-6
    assert len(asked) <= EDGE_BITS


def test_a_range_is_cut_in_two_only_while_it_holds_more_than_twice_the_tolerance():
    values = np.sort(np.random.default_rng(2).normal(size=400))
    _, asked = search_in([values], 4, smallest=12)
    known = [-np.inf, np.inf]
    for round_ in asked:
        for threshold in round_[0]:
            low = max(t for t in known if t < threshold)
            high = min(t for t in known if t >= threshold)
            assert ((values > low) & (values <= high)).sum() > 24 or high == threshold
        known += round_[0]


def test_values_that_many_share_are_found():
    values = np.repeat([0.0, 1.0, 7.0], 100)
    search, asked = search_in([values], 3)
    bins = np.searchsorted(search.edges[0][0], values)
    assert np.bincount(bins).tolist() == [100, 100, 100]
    assert len(asked) <= EDGE_BITS


def test_each_threshold_is_asked_for_once_in_a_column():
    columns = list(np.random.default_rng(3).normal(size=(4, 500)))
    _, asked = search_in(columns, 10)
    for column in range(4):
        thresholds = [t for round_ in asked for t in round_[column]]
        assert len(thresholds) == len(set(thresholds))
    assert [len(own) for own in asked[0]] == [2] * 4


def test_how_many_values_there_are_is_not_asked_if_it_may_not_be_known():
    values = np.random.default_rng(4).normal(size=203)
    values[:3] = np.nan
    search, asked = search_in([values, values], 4, complete=[True, False])
    assert [len(own) for own in asked[0]] == [2, 1]
    assert (search.present(0), search.present(1)) == (200, 203)
    (first, _), (second, _) = search.edges
    assert len(first) == len(second) == 3


def test_columns_without_values_or_differences_have_one_bin():
    search, _ = search_in([np.full(50, np.nan), np.full(50, 3.25)], 4)
    assert [len(edges) for edges, _ in search.edges] == [0, 0]
