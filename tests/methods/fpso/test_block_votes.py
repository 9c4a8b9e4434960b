"""Votes of blocks: one row changes one block's vote, and noise covers as much as that."""

import math

import numpy as np
import pytest

from fedsift.methods.fpso import block_votes
from fedsift.methods.fpso.local_search import Params
from fedsift.methods.fpso.subset_fitness import KnnFitness
from fedsift.methods.fpso.votes import Blocks


def rows(n_rows=120, n_features=6, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n_rows) % 2
    X = rng.normal(size=(n_rows, n_features))
    X[:, 2] += 2 * y
    return X, y


def params(**settings):
    return Params(max_features=2, seed=3, epsilon=1.0, **settings)


def ballots(X, y, settings):
    return Blocks(X, y, 2, settings, "own").ballots()


class TestSensitivity:
    @pytest.mark.parametrize("n_votes", [1, 2, 6])
    def test_one_row_changes_the_vote_of_its_block_alone(self, n_votes):
        X, y = rows()
        settings = params(n_votes=n_votes)
        before = ballots(X, y, settings)
        most = block_votes.most_changed(n_votes, X.shape[1])
        rng = np.random.default_rng(1)
        changes = []
        for row in (0, 17, 119):
            other, labels = X.copy(), y.copy()
            other[row] = rng.choice([-1e9, 0.0, 1e9], X.shape[1])
            labels[row] = 1 - labels[row]
            after = ballots(other, labels, settings)
            assert (before != after).any(axis=1).sum() <= 1
            changes.append(int(np.abs(after.sum(axis=0) - before.sum(axis=0)).sum()))
        assert max(changes) <= most
        if n_votes == 1:
            assert max(changes) > 0  # a row can matter

    def test_no_block_votes_for_more_than_it_may(self):
        X, y = rows()
        for n_votes in (1, 3):
            assert ballots(X, y, params(n_votes=n_votes)).sum(axis=1).max() <= n_votes

    def test_blocks_share_neither_rows_nor_randomness(self):
        parts = block_votes.divide(50, 7, [1])
        together = np.concatenate([own for own, _ in parts])
        assert sorted(together.tolist()) == list(range(50))
        assert {len(own) for own, _ in parts} <= {7, 8}
        assert len({rng.random() for _, rng in parts}) == 7

    def test_the_division_depends_on_numbers_and_a_seed_alone(self):
        first, again, other = (
            [own.tolist() for own, _ in block_votes.divide(40, 4, seed)] for seed in ([1], [1], [2])
        )
        assert first == again != other

    def test_what_one_row_can_change(self):
        assert block_votes.most_changed(1, 10) == 2
        assert block_votes.most_changed(3, 10) == 6
        assert block_votes.most_changed(8, 10) == 10


class TestThePromise:
    """Votes of neighbours that differ as much as they can, and the event that tells most."""

    @staticmethod
    def ratio(noise, n_draws=6000):
        counts = []
        for seed, votes in ((1, [1, 0]), (2, [0, 1])):
            told = np.array(votes) + noise.draw((n_draws, 2), [seed])
            counts.append(int(((told[:, 0] >= 1) & (told[:, 1] <= 0)).sum()))
        return math.log(counts[0] / counts[1]), math.sqrt(1 / counts[0] + 1 / counts[1])

    def test_neighbours_tell_nearly_the_same(self):
        ratio, error = self.ratio(params(n_votes=1).noise(10))
        assert 0.8 < ratio < 1.0 + 3 * error

    def test_half_the_noise_would_break_the_promise(self):
        ratio, error = self.ratio(Params(max_features=2, epsilon=2.0, n_votes=1).noise(10))
        assert ratio > 1.0 + 3 * error

    def test_noise_grows_with_votes_and_stops_at_the_number_of_features(self):
        scales = [float(params(n_votes=v).noise(6).scale) for v in (1, 2, 3, 4, 6)]
        assert scales == [2.0, 4.0, 6.0, 6.0, 6.0]
        gaussian = Params(epsilon=1.0, delta=1e-6, n_votes=30).noise(60)
        assert gaussian.mechanism == "discrete Gaussian"


class TestVotes:
    def test_a_block_votes_for_what_helps(self):
        X, y = rows(60)
        folds = np.arange(60) % 5
        vote = block_votes.block_vote(KnnFitness(X, y, folds, 3), 6, 1, np.random.default_rng(0))
        assert np.flatnonzero(vote).tolist() == [2]

    def test_nothing_helps_where_all_is_constant(self):
        y = np.arange(30) % 2
        fitness = KnnFitness(np.ones((30, 4)), y, np.arange(30) % 5, 3)
        vote = block_votes.block_vote(fitness, 4, 4, np.random.default_rng(0))
        assert not vote.any()

    @pytest.mark.parametrize("shape", [(40, 5), (5, 40)])
    def test_effects_are_those_of_a_ridge_regression(self, shape):
        from sklearn.linear_model import Ridge

        rng = np.random.default_rng(0)
        masks, correct = rng.integers(0, 2, shape).astype(float), rng.integers(0, 20, shape[0])
        expected = Ridge(alpha=1.0).fit(masks, correct).coef_
        found = block_votes.feature_effects(masks, correct.astype(float))
        np.testing.assert_allclose(found, expected, atol=1e-9)

    def test_the_most_votes_win(self):
        votes = np.array([3, 9, -2, 9, 4])
        assert np.flatnonzero(block_votes.chosen(votes, 2)).tolist() == [1, 3]
        assert np.flatnonzero(block_votes.chosen(votes, 1)).tolist() == [1]
        assert np.flatnonzero(block_votes.chosen(votes, None)).tolist() == [1, 3]
        nothing = np.zeros(4, dtype=np.int64)
        assert np.flatnonzero(block_votes.chosen(nothing, None)).tolist() == [0]
