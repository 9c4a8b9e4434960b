"""Stability, splits, means and the verdict on shuffled labels, each against an independent rule."""

from itertools import combinations

import numpy as np
import pytest

import fedsift as fs
from fedsift.errors import ParameterError
from fedsift.lab.compare.cases import (
    Case,
    PooledData,
    copies_of,
    count_copies,
    joint_target,
    make_splits,
    take_rows,
    with_permuted_labels,
)
from fedsift.lab.compare.judge import class_scores, precision_and_recall, variance_of_guessing
from fedsift.lab.compare.measures import (
    check_chance,
    mean_over_splits,
    paired_difference,
    round_of,
    shuffles_of,
    stability,
)


def subsets(rng, n_runs, n_features, size, bias=0.0):
    """Selections of one size; with ``bias`` the first features are preferred."""
    weights = np.where(np.arange(n_features) < size, 1 + bias, 1.0)
    found = np.zeros((n_runs, n_features), dtype=bool)
    for row in found:
        row[rng.choice(n_features, size, replace=False, p=weights / weights.sum())] = True
    return found


class TestStability:
    @pytest.mark.parametrize("bias", [0.0, 3.0, 50.0])
    def test_equals_the_mean_of_kuncheva_for_equal_sizes(self, bias):
        """For selections of one size the index is the mean of corrected overlaps of pairs."""
        drawn = subsets(np.random.default_rng(3), 7, 20, 6, bias)
        expected_overlap = 6 * 6 / 20
        pairs = [
            ((a & b).sum() - expected_overlap) / (6 - expected_overlap)
            for a, b in combinations(drawn, 2)
        ]

        assert stability(drawn).index == pytest.approx(np.mean(pairs))

    def test_is_one_for_the_same_and_about_zero_by_chance(self):
        same = np.tile(np.arange(10) < 3, (4, 1))
        by_chance = subsets(np.random.default_rng(0), 200, 30, 10)

        assert stability(same).index == 1.0
        assert stability(same).standard_error == 0.0
        assert abs(stability(by_chance).index) < 0.02

    def test_standard_error_is_the_spread_over_repetitions(self):
        rng = np.random.default_rng(1)
        runs = [stability(subsets(rng, 40, 25, 8, 4.0)) for _ in range(150)]
        spread = np.std([run.index for run in runs], ddof=1)

        assert np.mean([run.standard_error for run in runs]) == pytest.approx(spread, rel=0.3)

    def test_interval_and_jaccard(self):
        found = stability(np.array([[1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 1, 0]], dtype=bool))

        assert found.jaccard == pytest.approx((1 / 3 + 2 / 3 + 2 / 3) / 3)
        assert found.low < found.index < found.high
        assert found.high - found.index == pytest.approx(1.96 * found.standard_error, rel=1e-3)

    @pytest.mark.parametrize("shape", [(1, 4), (3, 4)])
    def test_is_undefined_for_one_selection_or_all_features(self, shape):
        assert stability(np.ones(shape, dtype=bool)).index is None


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [50, 30, 7])
    return rng.normal(size=(87, 4)), y


class TestSplits:
    def test_every_row_is_tested_once_per_seed_and_classes_are_even(self, rows):
        X, y = rows
        case = Case("case", fs.split_vertical(X, y, 2))
        splits = make_splits(case, 5, (1, 2))

        assert len(splits) == 10
        for seed in (1, 2):
            tested = np.concatenate([s.test for s in splits if s.seed == seed])
            assert sorted(tested) == list(range(87))
        for split in splits:
            assert not set(split.train) & set(split.test)
            counts = np.bincount(y[split.test], minlength=3)
            assert abs(counts - np.array([10, 6, 1.4])).max() < 1
        assert not np.array_equal(splits[0].test, splits[5].test)

    def test_parties_of_a_horizontal_federation_are_even_too(self, rows):
        X, y = rows
        owners = np.where(np.arange(87) % 3 == 0, "north", "south")
        federation = fs.split_horizontal(X, y, owners)
        case = Case("case", federation)
        for split in make_splits(case, 3, (0,)):
            shares = np.bincount(case.pooled.row_party[split.test]) / [29, 58]
            assert shares == pytest.approx([1 / 3, 1 / 3], abs=0.05)
            train = take_rows(federation, split.train)
            assert train.n_rows == len(split.train)
            # Rows, labels and order agree with the pooled view.
            assert np.array_equal(PooledData.of(train).X, case.pooled.X[split.train])
            assert np.array_equal(joint_target(train).codes, case.pooled.y[split.train])

    def test_copies_are_counted_and_can_be_kept_together(self, rows):
        X, y = rows
        X = np.vstack([X, X[:20]])
        y = np.concatenate([y, y[:20]])
        federation = fs.split_vertical(X, y, 2)
        loose, kept = Case("a", federation), Case("b", federation, copies_together=True)
        found = count_copies(loose, make_splits(loose, 4, (0,)))

        assert found.n_copies == 20
        assert 0.15 < found.shared <= 40 / 107
        assert count_copies(kept, make_splits(kept, 4, (0,))).shared == 0.0

    def test_missing_values_and_zeros_are_alike(self):
        X = np.array([[np.nan, 0.0], [np.nan, -0.0], [np.nan, 1.0]])
        assert copies_of(X).tolist() == [0, 0, 2]

    def test_shuffles_move_labels_and_nothing_else(self, rows):
        X, y = rows
        for federation in (
            fs.split_vertical(X, y, 2),
            fs.split_horizontal(X, y, 2, random_state=0),
        ):
            shuffled = with_permuted_labels(federation, 5)
            before, after = joint_target(federation).codes, joint_target(shuffled).codes
            assert np.array_equal(np.bincount(before), np.bincount(after))
            assert (before != after).mean() > 0.2
            assert np.array_equal(PooledData.of(federation).X, PooledData.of(shuffled).X)
            again = joint_target(with_permuted_labels(federation, 5)).codes
            assert np.array_equal(after, again)

    def test_too_many_folds_are_refused(self, rows):
        with pytest.raises(ParameterError, match="100 folds for 87 different rows"):
            make_splits(Case("case", fs.split_vertical(*rows, 2)), 100, (0,))

    def test_categories_become_columns_of_one_feature(self):
        import pandas as pd

        frame = pd.DataFrame({"job": ["cook", "smith", None, "cook"], "age": [1.0, 2.0, 3.0, 4.0]})
        pooled = PooledData.of(fs.split_vertical(frame, [0, 1, 0, 1], 2))

        assert pooled.feature_of.tolist() == [0, 0, 1]
        assert pooled.columns_of([0]).tolist() == [0, 1]
        assert pooled.X[:, :2].tolist() == [[1, 0], [0, 1], [0, 0], [1, 0]]


class TestMeans:
    def test_corrected_standard_error(self):
        mean = mean_over_splits([0.8, 0.9, 0.7, 0.8], 0.25)
        assert mean.value == pytest.approx(0.8)
        assert mean.standard_error == pytest.approx(np.sqrt((1 / 4 + 0.25) * (0.02 / 3)))

    def test_one_split_has_no_standard_error_and_none_has_no_mean(self):
        assert mean_over_splits([0.5], 0.25).standard_error is None
        assert mean_over_splits([], 0.25) is None

    def test_differences_pair_the_splits_that_both_have(self):
        left = {(0, 0): 0.9, (0, 1): 0.8, (1, 0): 0.7}
        right = {(0, 1): 0.5, (0, 0): 0.4}
        assert paired_difference(left, right, 0.0).value == pytest.approx(0.4)
        assert paired_difference(left, {}, 0.0) is None

    def test_scores_of_classes(self):
        codes = np.array([0, 0, 0, 1, 2])
        shares = np.eye(3)[[0, 0, 1, 1, 2]]
        found = class_scores(codes, np.array([0, 0, 1, 1, 2]), shares)
        assert found["accuracy"] == 0.8
        assert found["balanced_accuracy"] == pytest.approx((2 / 3 + 1 + 1) / 3)
        assert 0.8 < found["auc"] < 1
        assert precision_and_recall([], [1]) == (None, 0.0)


class TestLeakCheck:
    def test_guesses_pass_and_knowledge_does_not(self):
        rng = np.random.default_rng(0)
        codes = np.repeat([0, 1], 50)
        passed = 0
        for _ in range(200):
            guesses = [rng.integers(0, 2, 100) for _ in range(8)]
            values = [class_scores(codes, g, None)["balanced_accuracy"] for g in guesses]
            variances = [variance_of_guessing(codes, g) for g in guesses]
            passed += check_chance(values, 0.5, variances).passed
        assert passed > 180
        assert not check_chance([0.62, 0.66, 0.6, 0.64], 0.5, [0.0025] * 4).passed

    def test_always_the_same_class_is_chance(self):
        codes = np.repeat([0, 1], 50)
        always = np.zeros(100, dtype=int)
        value = class_scores(codes, always, None)["balanced_accuracy"]
        assert check_chance([value] * 3, 0.5, [variance_of_guessing(codes, always)] * 3).passed

    def test_r2_may_be_bad_but_not_good(self):
        assert check_chance([-0.5, -0.3, -0.4], 0.0, metric="r2").passed
        assert not check_chance([0.5, 0.3, 0.4], 0.0, metric="r2").passed

    def test_a_single_shuffle_decides_nothing(self):
        assert check_chance([0.9], 0.5) is None

    @pytest.mark.parametrize("permutations", [1, 2, 5])
    def test_rounds_of_shuffles_do_not_overlap(self, permutations):
        rounds = [shuffles_of(number, permutations) for number in range(3)]
        numbers = [number for own in rounds for number in own]
        assert numbers == list(range(1, 5 * permutations + 1))
        for place, own in enumerate(rounds):
            assert {round_of(number, permutations) for number in own} == {place}
