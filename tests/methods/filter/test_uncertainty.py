"""Standard errors of filter scores: against leaving out rows, and against drawing rows anew."""

import numpy as np
import pytest

from fedsift.methods.filter import scores, uncertainty

SEEDS = range(8)
SHAPES = [(2, 2), (10, 2), (4, 3), (25, 5)]


def random_table(rng, n_bins, n_classes, n_rows):
    """Counts of a random population: some cells are empty, classes are of any size."""
    weights = rng.dirichlet(np.full(n_bins, 0.7))[:, None] * rng.dirichlet(
        np.full(n_classes, rng.choice([0.3, 1.0, 10.0])), size=n_bins
    )
    return rng.multinomial(n_rows, (weights / weights.sum()).ravel()).reshape(n_bins, n_classes)


def left_out_row_by_row(table, score):
    """The textbook jackknife: score every table with one row less, row after row."""
    cells = np.repeat(np.arange(table.size), table.ravel())
    values = []
    for cell in cells:
        fewer = table.copy().ravel()
        fewer[cell] -= 1
        values.append(scores.TABLE_SCORES[score](fewer.reshape(1, *table.shape))[0])
    n = len(values)
    return np.sqrt((n - 1) / n * ((values - np.mean(values)) ** 2).sum())


@pytest.mark.parametrize("score", scores.TABLE_SCORES)
@pytest.mark.parametrize("shape", SHAPES)
def test_errors_of_tables_equal_a_jackknife_over_rows(score, shape):
    tables = [random_table(np.random.default_rng(seed), *shape, 40 + 30 * seed) for seed in SEEDS]
    expected = [left_out_row_by_row(table, score) for table in tables]

    found = [uncertainty.of_tables(table[None], score)[0] for table in tables]

    assert found == pytest.approx(expected, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("score", scores.TABLE_SCORES)
def test_tables_with_rare_cells_classes_and_bins_have_errors_too(score):
    tables = np.array([
        [[1, 0, 0], [0, 1, 0], [20, 20, 5]],
        [[47, 0, 0], [0, 0, 0], [0, 0, 0]],
        [[1, 1, 1], [1, 1, 1], [41, 0, 0]],
        [[23, 0, 0], [0, 23, 0], [0, 0, 1]],
    ])  # fmt: skip
    found = uncertainty.of_tables(tables, score)

    expected = [left_out_row_by_row(table, score) for table in tables]
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("score", scores.TABLE_SCORES)
def test_errors_of_tables_tell_how_scores_vary_between_samples(score):
    rng = np.random.default_rng(0)
    shares = np.array([[0.30, 0.05], [0.10, 0.15], [0.05, 0.35]])
    samples = rng.multinomial(800, shares.ravel(), size=4000).reshape(-1, 3, 2)

    spread = scores.TABLE_SCORES[score](samples).std()
    told = uncertainty.of_tables(samples[:500], score)

    assert np.median(told) == pytest.approx(spread, rel=0.1)


@pytest.mark.parametrize("score", ["gini", "mi", "chi2"])
def test_a_feature_that_tells_nothing_gets_no_error_of_zero(score):
    # The first order of the error vanishes here; leaving out rows still finds the second one.
    samples = np.random.default_rng(1).multinomial(600, [0.125] * 8, size=3000).reshape(-1, 4, 2)

    spread = scores.TABLE_SCORES[score](samples).std()
    told = uncertainty.of_tables(samples[:1000], score).mean()

    assert 0.5 < told / spread < 2.5


@pytest.mark.parametrize("n_classes", [2, 3, 10])
@pytest.mark.parametrize("n_rows", [60, 500, 20000])
def test_no_table_has_a_larger_error_than_its_impurity_admits(n_classes, n_rows):
    rng = np.random.default_rng([n_classes, n_rows])
    for n_bins in (2, 5, 20):
        tables = np.stack([random_table(rng, n_bins, n_classes, n_rows) for _ in range(200)])
        impurities = scores.gini(tables)

        most = uncertainty.of_gini_at_most(impurities, n_rows, n_classes, n_bins)

        assert (uncertainty.of_tables(tables, "gini") <= most).all()


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("n_rows", [100, 2000])
def test_the_largest_error_covers_what_drawing_rows_anew_shows(n_classes, n_rows):
    rng = np.random.default_rng([7, n_classes, n_rows])
    for population in range(12):
        evenly = np.full(5 * n_classes, 1 / (5 * n_classes))
        shares = evenly if population == 0 else rng.dirichlet(evenly * rng.choice([3, 30, 300]))
        samples = rng.multinomial(n_rows, shares, size=2000).reshape(-1, 5, n_classes)
        impurities = scores.gini(samples)

        most = uncertainty.of_gini_at_most([impurities.mean()], n_rows, n_classes, 5)[0]

        assert impurities.std() <= 1.03 * most  # 2000 draws know a deviation to about 2%


def test_the_largest_error_is_near_the_true_one_if_bins_are_alike():
    table = np.array([[[60, 40]] * 4]) * 20

    most = uncertainty.of_gini_at_most(scores.gini(table), int(table.sum()), 2, 4)

    assert uncertainty.of_tables(table, "gini") == pytest.approx(most, rel=0.15)


def test_random_shares_vary_by_no_more_than_the_remainder_allows():
    # The two parts of a bin's remainder, over many random shares of classes.
    rng = np.random.default_rng(3)
    for n_classes in (2, 3, 5, 30):
        q = np.concatenate([rng.dirichlet(np.full(n_classes, a), size=4000) for a in (0.1, 1, 9)])
        s, cubes = (q**2).sum(axis=1), (q**3).sum(axis=1)
        assert (4 * (cubes - s**2)).max() <= 0.5
        assert (2 * (s - 2 * cubes + s**2)).max() <= 0.5 + 1e-12


@pytest.mark.parametrize("gap", [0.0, 0.3, 1.5])
def test_errors_of_f_tell_how_statistics_vary_between_samples(gap):
    rng = np.random.default_rng(2)
    groups = np.repeat([0, 1, 2], [60, 30, 50])
    values = rng.normal(size=(3000, 140)) + gap * groups

    found = f_of_groups(values, groups)
    told = uncertainty.of_f([found.mean()], 140, 3)[0]

    assert told == pytest.approx(found.std(), rel=0.08)


@pytest.mark.parametrize("slope", [0.0, 0.3, 2.0])
def test_errors_of_a_regression_count_the_spread_of_the_feature(slope):
    rng = np.random.default_rng(4)
    x = rng.normal(size=(4000, 120))
    y = slope * x + rng.normal(size=x.shape)
    x, y = x - x.mean(axis=1, keepdims=True), y - y.mean(axis=1, keepdims=True)
    shares = (x * y).sum(axis=1) ** 2 / (x**2).sum(axis=1) / (y**2).sum(axis=1)

    found = scores.regression_f(shares, 120)
    told = uncertainty.of_f([found.mean()], 120, 2, regression=True)[0]

    assert told == pytest.approx(found.std(), rel=0.1)


def test_too_few_rows_have_no_error():
    assert np.isnan(uncertainty.of_f([3.0], 6, 2)).all()
    assert np.isnan(uncertainty.of_f([np.finfo(float).max], 100, 2)).all()
    assert np.isnan(uncertainty.of_tables([[[1, 0]]], "gini")).all()


def f_of_groups(values, groups):
    columns = values - values.mean(axis=1, keepdims=True)
    columns /= np.sqrt((columns**2).sum(axis=1, keepdims=True))
    sums = columns @ np.eye(3)[groups]
    shares = scores.explained_share(sums, np.bincount(groups))
    return scores.anova_f(shares, values.shape[1], 3)
