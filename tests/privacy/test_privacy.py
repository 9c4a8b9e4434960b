"""Noise has the distribution it claims, tables the sensitivity, and the accountant adds up."""

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from fedsift.data import PartyTable
from fedsift.errors import ColumnError, ParameterError, PolicyViolation
from fedsift.methods.filter import features as filter_features
from fedsift.methods.filter.ranking import contingency
from fedsift.methods.filter.selector import FilterSelector
from fedsift.privacy import mechanisms as privacy
from fedsift.privacy.mechanisms import Accountant, CountNoise


def chi_squared(drawn, chance):
    """Per degree of freedom, over values that are expected at least ten times."""
    counts, n = Counter(drawn), len(drawn)
    values = [x for x in range(-60, 61) if n * chance(x) >= 10]
    terms = [(counts[x] - n * chance(x)) ** 2 / (n * chance(x)) for x in values]
    return sum(terms) / (len(terms) - 1)


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(3), Fraction(7, 3)])
def test_laplace_noise_has_its_distribution(scale):
    below = privacy.source_of([1])
    drawn = [privacy.discrete_laplace(scale, below) for _ in range(5000)]
    ratio = math.exp(-1 / float(scale))

    assert 0.3 < chi_squared(drawn, lambda x: (1 - ratio) / (1 + ratio) * ratio ** abs(x)) < 2.2
    assert abs(np.mean(drawn)) < 5 * math.sqrt(2) * float(scale) / math.sqrt(5000) + 0.05


def test_gaussian_noise_has_its_distribution():
    variance = Fraction(9, 2)
    below = privacy.source_of([2])
    drawn = [privacy.discrete_gaussian(variance, below) for _ in range(4000)]
    weights = {x: math.exp(-(x**2) / (2 * float(variance))) for x in range(-60, 61)}
    total = sum(weights.values())

    assert 0.2 < chi_squared(drawn, lambda x: weights[x] / total) < 2.5
    assert np.var(drawn) == pytest.approx(4.5, rel=0.15)


def test_noise_without_a_seed_is_never_the_same():
    noise = CountNoise(0.01, 0.0, 4)
    first, second = noise.draw((40,)), noise.draw((40,))

    assert (first != second).any()
    assert (noise.draw((40,), [3]) == noise.draw((40,), [3])).all()
    assert (noise.draw((40,), [3]) != noise.draw((40,), [4])).any()


def table_of(values):
    return PartyTable.from_any(values, name="own")


def counts_of(values, labels, edges):
    binned = filter_features.fixed_bins(table_of(values), edges)
    return contingency(binned.codes, binned.n_bins, labels, 2)


def test_one_row_changes_two_cells_of_every_table():
    rng = np.random.default_rng(0)
    worst = 0
    for _ in range(60):
        values = rng.normal(size=(30, 4))
        labels = rng.integers(0, 2, 30)
        before = counts_of(values, labels, [-1.0, 0.0, 1.0])
        changed, new_labels = values.copy(), labels.copy()
        changed[7] = rng.choice([np.nan, 3.0, -3.0, 0.5], 4)
        new_labels[7] = rng.integers(0, 2)
        after = counts_of(changed, new_labels, [-1.0, 0.0, 1.0])
        assert before.shape == after.shape  # no size depends on the rows
        by_table = np.abs(after - before).sum(axis=(1, 2))
        worst = max(worst, by_table.max())
        assert np.abs(after - before).max() <= 1
    assert worst == privacy.CELLS_CHANGED


def test_quantiles_move_with_a_single_row_and_are_refused():
    values = np.repeat([0.0, 1.0], 10)[:, None]
    before = filter_features.bin_table(table_of(values), 2, 1)
    values[9] = 1.0
    after = filter_features.bin_table(table_of(values), 2, 1)
    assert (before.n_bins, after.n_bins) == (2, 1)  # the other nineteen rows moved too

    with pytest.raises(ParameterError, match="depend on every row"):
        filter_features.check_edges(table_of(values), 10)
    with pytest.raises(ColumnError, match="depend on every row"):
        filter_features.check_edges(table_of(values), {"another": [0.5]})
    filter_features.check_edges(table_of(values), [0.5])


@pytest.mark.parametrize("epsilon", [0.5, 1.5])
def test_neighbours_cannot_be_told_apart(epsilon):
    """Any event is at most e^epsilon times as likely for neighbours, within sampling error."""
    n_draws = 4000
    noise = CountNoise(epsilon, 0.0, n_tables=1)
    ours, theirs = np.array([5, 9]), np.array([6, 8])  # a row left one cell for the other
    with_row = ours + noise.draw((n_draws, 2), [11])
    without = theirs + noise.draw((n_draws, 2), [12])
    for event in (
        lambda t: t[:, 0] <= 5,
        lambda t: t[:, 1] >= 9,
        lambda t: (t[:, 0] <= 5) & (t[:, 1] >= 9),
        lambda t: t[:, 1] - t[:, 0] >= 4,
        lambda t: t[:, 0] <= 2,
    ):
        for a, b in ((event(with_row), event(without)), (event(without), event(with_row))):
            here, there = a.mean(), b.mean()
            error = math.sqrt(here * (1 - here) / n_draws) + math.exp(epsilon) * math.sqrt(
                there * (1 - there) / n_draws
            )
            assert here <= math.exp(epsilon) * there + 4 * error
    # The bound is not met by noise of half the size: the test can fail.
    weak = CountNoise(4 * epsilon, 0.0, n_tables=1)
    event = (ours + weak.draw((n_draws, 2), [13])) @ [-1, 1] >= 4
    other = (theirs + weak.draw((n_draws, 2), [14])) @ [-1, 1] >= 4
    assert event.mean() > math.exp(epsilon) * other.mean()


def test_budgets_of_all_tables_add_up():
    pure = Accountant(1.0)
    CountNoise(1.0, 0.0, 7).spend(pure, "counts")
    assert pure.total == pytest.approx(1.0)
    assert len(pure.spent) == 7
    with pytest.raises(PolicyViolation, match="would spend more than epsilon 1"):
        CountNoise(1.0, 0.0, 7).spend(pure, "counts")
    assert pure.total == pytest.approx(1.0)  # what was refused is not counted


def test_a_delta_buys_less_noise_for_many_tables():
    many = CountNoise(1.0, 1e-6, 200)
    few = CountNoise(1.0, 1e-6, 2)

    assert many.gaussian
    assert many.mechanism == "discrete Gaussian"
    assert many.spread < CountNoise(1.0, 0.0, 200).spread / 2
    assert not few.gaussian
    spent = Accountant(1.0, 1e-6)
    many.spend(spent, "counts")
    assert spent.total == pytest.approx(1.0)


def test_concentrated_privacy_composes_better_than_sums():
    account = Accountant(10.0, 1e-6)
    for _ in range(100):
        account.spend("a count", epsilon=0.1)

    assert account.total < 100 * 0.1
    assert account.total == pytest.approx(privacy.epsilon_of(100 * 0.005, 1e-6))
    assert privacy.epsilon_of(privacy.rho_of(0.7, 1e-5), 1e-5) == pytest.approx(0.7)


def test_noise_keeps_to_its_bits():
    for noise in (CountNoise(0.1, 0.0, 5), CountNoise(0.5, 1e-6, 500)):
        drawn = noise.draw((400,), [5])
        assert np.abs(drawn).max() < 1 << noise.bits
        assert drawn.std() == pytest.approx(noise.spread, rel=0.3)


@pytest.mark.parametrize("bad", [0, -1.0, math.inf, math.nan, "1", True])
def test_budgets_that_mean_nothing_are_refused(bad):
    with pytest.raises(ParameterError, match="epsilon="):
        FilterSelector(epsilon=bad)._checked()
    with pytest.raises(ParameterError, match="delta="):
        FilterSelector(epsilon=1.0, delta=-0.5 if bad is True else 1.0)._checked()
