"""Why interactions and participants have no private release: bounds that hold, and are reached."""

import math

import numpy as np
import pytest

from benchmarks.suites.dp.bounds import (
    a_hub,
    a_pair,
    interaction_reaches,
    odds,
    participant_reach,
    without_hub,
)
from fedsift.methods.interaction.measures import Moments
from fedsift.methods.vfps import knn_mi
from fedsift.privacy.mechanisms import source_of
from fedsift.privacy.release import Release, choose


def neighbour(columns, codes, rng):
    """Another row with other signs and maybe another label."""
    moved, labels = columns.copy(), codes.copy()
    row = rng.integers(len(codes))
    moved[row] = rng.choice([-1.0, 1.0], columns.shape[1])
    labels[row] = rng.integers(labels.max() + 1)
    return moved, labels


class TestInteractions:
    @pytest.mark.parametrize("n_rows", [6, 30, 400])
    def test_no_neighbours_differ_by_more_than_the_bound(self, n_rows):
        rng = np.random.default_rng(n_rows)
        first, second = interaction_reaches(n_rows, 2)
        largest = 0.0
        for _ in range(300):
            shares = rng.choice([0.05, 0.5, 0.9], 2)
            columns = np.where(rng.random((n_rows, 2)) < shares, 1.0, -1.0)
            if rng.random() < 0.5:
                columns[:, 1] = columns[:, 0]
            codes = (rng.random(n_rows) < rng.choice([0.1, 0.5])).astype(int)
            codes[:2] = 0, 1
            other, labels = neighbour(columns, codes, rng)
            if len(set(labels.tolist())) < 2:
                continue
            before, after = Moments(columns, codes), Moments(other, labels)
            relevance = np.abs(np.log1p(after.relevance()) - np.log1p(before.relevance()))
            weight = np.log(after.weights_with(0, [1])) - np.log(before.weights_with(0, [1]))
            assert relevance.max() <= first + 1e-12
            assert abs(float(weight[0])) <= second - first + 1e-12
            largest = max(largest, float(relevance.max()))
        assert largest > 0.1 * first

    def test_relevance_comes_near_its_bound(self):
        # A row of a rare class, whose others are at one end, goes there from the other end.
        n_rows = 2000
        codes = np.r_[np.ones(40), np.zeros(n_rows - 40)].astype(int)
        here = np.where(codes == 1, 1.0, -1.0)[:, None]
        there = here.copy()
        there[0] = -1.0
        change = np.log1p(Moments(here, codes).relevance()) - np.log1p(
            Moments(there, codes).relevance()
        )
        assert change[0] > 0.8 * interaction_reaches(n_rows, 1)[0]

    def test_weights_reach_a_seventh_of_their_bound_and_add_up(self):
        n_rows = 2000
        here, there, codes = a_pair(n_rows)
        assert (here != there).sum() == 1
        changes = []
        for copies in (1, 3):  # copies of the selected feature change all at once
            worlds = [np.c_[data[:, :1], np.repeat(data[:, 1:], copies, axis=1)]
                      for data in (here, there)]  # fmt: skip
            logs = [
                sum(float(np.log(Moments(world, codes).weights_with(s, [0]))[0])
                    for s in range(1, 1 + copies))
                for world in worlds
            ]  # fmt: skip
            changes.append(logs[0] - logs[1])
        first, second = interaction_reaches(n_rows, 2)
        assert 1 / 7.5 < changes[0] / (second - first) < 1
        assert changes[1] == pytest.approx(3 * changes[0])

    def test_a_strong_feature_is_drawn_hardly_more_often_with_a_few_thousand_rows(self):
        reaches = interaction_reaches(2000, 10)
        assert odds(math.log1p(0.2), reaches, Release(1.0)) < 1.5
        assert odds(math.log1p(0.05), reaches, Release(10.0)) < 2.0


class TestParticipants:
    @pytest.mark.parametrize("k", [1, 3])
    def test_one_row_can_take_all_information_away(self, k):
        n_rows = 600
        columns, codes = a_hub(n_rows, k)
        labels = knn_mi.Alike(codes=codes)
        queries = np.flatnonzero(codes == 0)[k:]
        near, far = (
            knn_mi.estimate(knn_mi.exact_terms([one], labels, queries, k)).value
            for one in (columns, without_hub(columns))
        )
        bound = participant_reach(n_rows, k)
        assert (columns != without_hub(columns)).any(axis=1).sum() == 1
        assert 0.6 * bound < near - far <= bound + 1e-9
        assert near - far > 4 * math.log(2)  # more than a label of two classes has

    def test_noise_for_importances_drowns_them(self):
        for n_rows in (2000, 100_000):
            reach = participant_reach(n_rows, 3)
            noise = Release(10.0).noise(4 * reach, 2 * reach).spread(4)
            assert noise > 4 * math.log(2)
            assert odds(math.log(2), [reach] * 2, Release(10.0)) < 1.5


def test_odds_are_those_of_the_draws():
    reaches, lead = [0.2, 0.2], 0.3
    budget = Release(2.0)
    below, n_draws = source_of([1]), 4000
    price = budget.prices(reaches)[0]
    first = sum(choose([lead, 0.0], 0.2, price, below) == 0 for _ in range(n_draws))
    expected = odds(lead, reaches, budget)
    assert first / (n_draws - first) == pytest.approx(expected, rel=0.12)
