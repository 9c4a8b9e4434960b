"""Private choices and numbers: what one row can change, how often each is drawn, what is spent."""

import itertools
import math

import numpy as np
import pytest

from fedsift.errors import PolicyViolation
from fedsift.maths.information import mutual_information
from fedsift.methods.filter import scores
from fedsift.privacy.mechanisms import epsilon_of, source_of
from fedsift.privacy.release import (
    Release,
    choose,
    gini_gain,
    gini_gain_sensitivity,
    gini_sensitivity,
    mutual_information_sensitivity,
)


def neighbours(table):
    """All tables in which one row is in another cell."""
    for full, other in itertools.permutations(list(np.ndindex(table.shape)), 2):
        if table[full] > 0:
            moved = table.copy()
            moved[full] -= 1
            moved[other] += 1
            yield moved


def largest_change(score, table):
    exact = score(table[None])[0]
    others = np.stack(list(neighbours(table)))
    return float(np.abs(score(others) - exact).max())


def small_tables(n_rows, shape):
    """Every table with so many rows."""
    cells = math.prod(shape)
    for cuts in itertools.combinations(range(n_rows + cells - 1), cells - 1):
        edges = [-1, *cuts, n_rows + cells - 1]
        yield np.diff(edges).reshape(shape) - 1


@pytest.mark.parametrize("shape", [(2, 2), (3, 2), (2, 3)])
@pytest.mark.parametrize("score", ["gini", "mi"])
def test_no_small_table_changes_by_more_than_the_bound(score, shape):
    n_rows = 5
    bound = _bound(score, n_rows, shape[1])
    worst = max(
        largest_change(scores.TABLE_SCORES[score], table) for table in small_tables(n_rows, shape)
    )
    assert 0.4 * bound < worst <= bound + 1e-12


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("score", ["gini", "mi"])
def test_no_large_table_changes_by_more_than_the_bound(score, n_classes):
    rng = np.random.default_rng(n_classes)
    for _ in range(60):
        shares = rng.dirichlet(np.full(4 * n_classes, rng.choice([0.02, 0.2, 2.0])))
        n_rows = int(rng.choice([20, 300, 5000]))
        table = rng.multinomial(n_rows, shares).reshape(4, n_classes)
        bound = _bound(score, n_rows, n_classes)
        assert largest_change(scores.TABLE_SCORES[score], table) <= bound + 1e-12


def test_the_bounds_are_reached_nearly():
    # A row of its own bin and class goes to a cell where it is alone of its kind.
    n_rows = 1001
    lone = np.array([[500, 0, 0], [0, 500, 0], [0, 0, 1]])
    split = np.array([[500, 1, 0], [0, 500, 0], [0, 0, 0]])
    change = np.diff(mutual_information(np.stack([lone, split])))[0]
    assert abs(change) > 0.9 * mutual_information_sensitivity(n_rows, 3)
    pure = np.array([[500, 0], [0, 501]])
    mixed = np.array([[500, 1], [0, 500]])
    assert np.diff(scores.gini(np.stack([pure, mixed])))[0] > 0.95 * gini_sensitivity(n_rows) / 1.0


def _bound(score, n_rows, n_classes):
    if score == "gini":
        return gini_sensitivity(n_rows)
    return mutual_information_sensitivity(n_rows, n_classes)


def test_noisy_counts_of_any_total_keep_the_bound_of_the_gain():
    rng = np.random.default_rng(5)
    n_rows, bound = 40, gini_gain_sensitivity(40)
    for _ in range(60):
        table = rng.multinomial(n_rows, rng.dirichlet(np.full(8, 0.3))).reshape(4, 2)
        noise = rng.integers(-30, 30, size=(4, 2))
        exact = gini_gain((table + noise)[None], n_rows)[0]
        moved = np.stack(list(neighbours(table))) + noise
        assert np.abs(gini_gain(moved, n_rows) - exact).max() <= bound + 1e-12
    counts = rng.multinomial(n_rows, np.full(8, 1 / 8)).reshape(1, 4, 2)
    before = scores.gini(counts.sum(axis=1, keepdims=True))
    assert gini_gain(counts, n_rows) == pytest.approx(before - scores.gini(counts))


def test_choices_have_the_probabilities_of_the_exponential_mechanism():
    values, epsilon, sensitivity = [0.0, 0.3, 1.0], 1.5, 0.5
    below, n_draws = source_of([3]), 3000
    found = np.bincount(
        [choose(values, sensitivity, epsilon, below) for _ in range(n_draws)], minlength=3
    )
    weights = np.exp(epsilon * np.array(values) / (2 * sensitivity))
    expected = weights / weights.sum()
    errors = np.sqrt(expected * (1 - expected) / n_draws)
    assert (np.abs(found / n_draws - expected) < 5 * errors).all()


def test_neighbours_are_chosen_about_as_often():
    # All scores move against each other by as much as they can.
    release, sensitivity, n_draws = Release(1.0), 0.1, 1500
    counts = [
        np.bincount(
            [
                3 * a + b
                for a, b in (release.top(data, sensitivity, 2, [i, j]) for i in range(n_draws))
            ],
            minlength=9,
        )
        for j, data in enumerate(([0.4, 0.4, 0.3], [0.5, 0.3, 0.4]))
    ]
    usual = (counts[0] > 0) & (counts[1] > 0)
    assert usual.sum() == 6
    ratios = np.abs(np.log(counts[0][usual] / counts[1][usual]))
    errors = np.sqrt(1 / counts[0][usual] + 1 / counts[1][usual])
    assert (ratios < 1.0 + 4 * errors).all()
    assert ratios.max() > 0.3


def test_the_budget_is_divided_and_noted():
    release = Release(1.0, 0.0)
    prices = release.prices([0.1] * 4)
    assert prices == pytest.approx([0.25] * 4)
    account = release.account()
    release.spend(account, "choices", prices)
    assert account.total == pytest.approx(1.0)
    with pytest.raises(PolicyViolation, match="would spend more"):
        release.spend(account, "choices", prices)

    many = Release(1.0, 1e-6).prices([0.1] * 40)
    assert many[0] > 1.0 / 40  # concentrated accounting pays with many choices
    account = Release(1.0, 1e-6).account()
    Release(1.0, 1e-6).spend(account, "choices", many)
    assert account.total == pytest.approx(1.0)
    assert epsilon_of(sum(p**2 / 8 for p in many), 1e-6) == pytest.approx(1.0)
    # Choices of larger sensitivity get more of it, so that all have the same noise.
    assert Release(1.0).prices([0.1, 0.3]) == pytest.approx([0.25, 0.75])


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_numbers_carry_the_noise_that_is_announced(delta):
    noise = Release(2.0, delta).noise(total=0.4, length=0.1)
    told = np.array(noise.told([0.25] * 800, seed=[1]))
    n = len(told)
    assert noise.mechanism(n) == ("discrete Gaussian" if delta else "discrete Laplace")
    assert told.std() == pytest.approx(noise.spread(n), rel=0.2)
    assert told.mean() == pytest.approx(0.25, abs=5 * noise.spread(n) / math.sqrt(n))
    account = Release(2.0, delta).account()
    noise.spend(account, "importances", n)
    assert account.total == pytest.approx(2.0)
    with pytest.raises(PolicyViolation):
        noise.spend(account, "importances", n)


def test_without_a_seed_choices_differ():
    drawn = {tuple(Release(0.01).top([0.0] * 30, 0.1, 3)) for _ in range(8)}
    assert len(drawn) > 1
