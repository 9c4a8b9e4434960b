# SPDX-FileCopyrightText: The fedsift authors
"""Forward selection from inner products equals what regressions and determinants of rows say."""

import numpy as np
import pytest
from scipy import stats
from sklearn.feature_selection import SequentialFeatureSelector, f_classif, f_regression
from sklearn.linear_model import LinearRegression

from fedsift.methods.stepwise import plain
from fedsift.methods.stepwise.forward import ForwardSearch, block_gain


def correlated(n_rows=150, n_columns=8, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n_rows, n_columns)) @ rng.normal(size=(n_columns, n_columns))
    return values, rng


def labels_of(values, rng, n_classes):
    effect = values @ rng.normal(size=(values.shape[1], max(1, n_classes)))
    effect += effect.std() * rng.normal(size=effect.shape)
    if not n_classes:
        return effect[:, 0], plain.number_column(effect[:, 0])
    codes = effect.argmax(axis=1)
    codes[:n_classes] = np.arange(n_classes)
    return codes, plain.class_contrasts(codes, n_classes)


def scatter(values, codes):
    """Within-class and total scatter of rows."""
    total = values - values.mean(axis=0)
    within = values.astype(float).copy()
    for code in np.unique(codes):
        within[codes == code] -= values[codes == code].mean(axis=0)
    return within.T @ within, total.T @ total


def partial_by_determinants(values, codes, inside, candidate):
    """F of Wilks' lambda of all columns over that of the columns inside."""

    def wilks(columns):
        if not columns:
            return 1.0
        within, total = scatter(values[:, columns], codes)
        return np.linalg.det(within) / np.linalg.det(total)

    n_classes = len(np.unique(codes))
    lam = wilks([*inside, candidate]) / wilks(inside)
    degrees = (n_classes - 1, len(values) - n_classes - len(inside))
    return (1 - lam) / lam * degrees[1] / degrees[0], degrees


def partial_by_regression(values, y, inside, candidate):
    """F of the drop of the residual sum of squares, by QR."""

    def left(columns):
        q, _ = np.linalg.qr(np.column_stack([np.ones(len(values)), values[:, columns]]))
        return float(((y - q @ (q.T @ y)) ** 2).sum())

    before, after = left(inside), left([*inside, candidate])
    degrees = (1, len(values) - 2 - len(inside))
    return (before - after) / after * degrees[1], degrees


@pytest.mark.parametrize("n_classes", [0, 2, 3, 7])
@pytest.mark.parametrize("inside", [[], [2], [5, 0, 3]])
def test_partial_statistics_equal_those_of_rows(n_classes, inside):
    values, rng = correlated()
    y, labels = labels_of(values, rng, n_classes)
    search, columns = plain.search_plain(values, labels, ridge=0.0)
    for column in inside:
        search.add(column, columns.T @ columns[:, column])
    found, p_values = search.statistics()
    expect = partial_by_determinants if n_classes else partial_by_regression
    for candidate in set(range(8)) - set(inside):
        statistic, degrees = expect(values, y, inside, candidate)
        assert found[candidate] == pytest.approx(statistic, rel=1e-6)
        assert p_values[candidate] == pytest.approx(stats.f.sf(statistic, *degrees), rel=1e-5)


def test_without_columns_it_is_the_f_of_scikit_learn():
    values, rng = correlated()
    codes, labels = labels_of(values, rng, 4)
    search, _ = plain.search_plain(values, labels)
    assert np.allclose(search.statistics(), f_classif(values, codes), rtol=1e-8)
    y, labels = labels_of(values, rng, 0)
    search, _ = plain.search_plain(values, labels)
    assert np.allclose(search.statistics(), f_regression(values, y), rtol=1e-8)


def test_numbers_are_selected_as_scikit_learn_selects_by_r2():
    values, rng = correlated(n_columns=10)
    y, labels = labels_of(values, rng, 0)
    found, rows = plain.select_plain(values, labels, 4, ridge=0.0), np.arange(len(values))
    theirs = SequentialFeatureSelector(
        LinearRegression(), n_features_to_select=4, scoring="r2", cv=[(rows, rows)]
    ).fit(values, y)
    assert sorted(found.selected) == list(np.flatnonzero(theirs.get_support()))
    chosen = values[:, found.selected]
    assert found.explained == pytest.approx(LinearRegression().fit(chosen, y).score(chosen, y))
    assert sum(step.adds for step in found.steps) == pytest.approx(found.explained)


def test_explained_share_of_classes_is_pillais_trace():
    values, rng = correlated()
    codes, labels = labels_of(values, rng, 3)
    found = plain.select_plain(values, labels, 3, ridge=0.0)
    within, total = scatter(values[:, found.selected], codes)
    pillai = np.trace(np.linalg.solve(total, total - within))
    assert found.explained == pytest.approx(pillai / 2)


def test_a_large_ridge_ranks_one_by_one_and_a_small_one_does_not():
    values, rng = correlated()
    values[:, 1] = values[:, 0] + 0.05 * values[:, 1]
    y = 3 * values[:, 0] / values[:, 0].std() + values[:, 2] / values[:, 2].std()
    labels = plain.number_column(y + 0.1 * rng.normal(size=len(y)))
    one_by_one = np.argsort(-plain.search_plain(values, labels)[0].statistics()[0])
    assert plain.select_plain(values, labels, 8, ridge=1e9).selected == one_by_one.tolist()
    assert set(one_by_one[:2]) == {0, 1}
    assert 2 in plain.select_plain(values, labels, 2, ridge=0.0).selected


def test_the_ridge_changes_the_order_and_no_statistic():
    values, rng = correlated()
    _, labels = labels_of(values, rng, 3)
    ways = [plain.search_plain(values, labels, ridge=ridge) for ridge in (0.0, 5.0)]
    for search, columns in ways:
        search.add(4, columns.T @ columns[:, 4])
    (exact, _), (ridged, _) = ways
    assert np.allclose(exact.statistics(), ridged.statistics())


def test_what_is_forced_in_takes_its_copies_along():
    values, rng = correlated(n_rows=400)
    values[:, 1] = values[:, 0] + 0.3 * values[:, 0].std() * rng.normal(size=400)
    y = values[:, 0] / values[:, 0].std() + 0.5 * rng.normal(size=400)
    new = rng.normal(size=400)
    values[:, 2] = new
    labels = plain.number_column(y + 0.3 * new)
    search = plain.select_plain(values, labels, 1, forced=(0,))
    assert search.selected == [2]
    assert [step.forced for step in search.steps] == [True, False]
    alone = plain.search_plain(values, labels)[0].statistics()[0]
    assert alone[1] > alone[2]


def test_redundancy_is_the_largest_correlation_with_what_is_in():
    values, rng = correlated()
    _, labels = labels_of(values, rng, 0)
    search = plain.select_plain(values, labels, 4, ridge=0.0)
    correlations = np.abs(np.corrcoef(values, rowvar=False))
    for place, step in enumerate(search.steps[1:], start=1):
        before = search.selected[:place]
        assert step.redundancy == pytest.approx(correlations[step.column, before].max())
        assert step.redundant_with == before[correlations[step.column, before].argmax()]
    assert search.steps[0].redundant_with is None


def test_constants_and_sums_of_columns_are_no_candidates():
    values, rng = correlated()
    values[:, 3] = 7.1
    values[:, 4] = values[:, 0] - 2 * values[:, 1]
    _, labels = labels_of(values[:, :2], rng, 2)
    search = plain.select_plain(values, labels, 8, ridge=0.0)
    assert len(search.selected) == 6
    assert 3 not in search.selected
    assert len({0, 1, 4} & set(search.selected)) == 2
    left = ({0, 1, 4} - set(search.selected)).pop()
    assert search.statistics()[0][[3, left]].tolist() == [0.0, 0.0]
    assert search.statistics()[1][[3, left]].tolist() == [1.0, 1.0]
    assert search.best() is None


def test_more_columns_than_rows_give_no_statistic_that_is_not_one():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(20, 60))
    labels = plain.class_contrasts(np.arange(20) % 3, 3)
    search = plain.select_plain(values, labels, 30)
    assert len(search.selected) <= 19
    assert all(np.isfinite(step.adds) and 0 <= step.p_value <= 1 for step in search.steps)
    assert 0 <= search.explained <= 1 + 1e-9


def test_nearly_collinear_columns_keep_their_digits():
    rng = np.random.default_rng(1)
    base = rng.normal(size=300)
    values = np.column_stack([base + 1e-3 * rng.normal(size=300) for _ in range(6)])
    y = values[:, 0] - values[:, 1] + 1e-4 * rng.normal(size=300)
    search, columns = plain.search_plain(values, plain.number_column(y), ridge=0.0)
    for column in (0, 1, 2):
        search.add(column, columns.T @ columns[:, column])
    for candidate in (3, 4, 5):
        expected, _ = partial_by_regression(values, y, [0, 1, 2], candidate)
        assert search.statistics()[0][candidate] == pytest.approx(expected, rel=1e-4)


def test_auto_stops_at_what_is_true():
    rng = np.random.default_rng(3)
    values = rng.normal(size=(300, 20))
    codes = (values[:, 4] + values[:, 7] + rng.normal(size=300) > 0).astype(np.int64)
    labels = plain.class_contrasts(codes, 2)
    copies = plain.shuffled_copies(labels, 50, rng)
    search = plain.select_plain(values, labels, 20, copies=copies, level=0.05)
    assert sorted(search.selected) == [4, 7]
    assert all(step.chance == pytest.approx(1 / 51) for step in search.steps)
    nothing = plain.class_contrasts(rng.permutation(codes), 2)
    copies = plain.shuffled_copies(nothing, 50, rng)
    assert plain.select_plain(values, nothing, 20, copies=copies, level=0.05).selected == []


def test_greedy_maxima_without_their_null_select_noise():
    """What ``auto`` protects from: a p-value of the best of many, read as if it were one."""
    rng = np.random.default_rng(4)
    naive = shuffled = 0
    for _ in range(40):
        values = rng.normal(size=(100, 60))
        labels = plain.number_column(rng.normal(size=100))
        copies = plain.shuffled_copies(labels, 50, rng)
        search, _ = plain.search_plain(values, labels, copies=copies)
        naive += search.statistics()[1].min() < 0.05
        shuffled += search.best(0.05) is not None
    assert naive >= 30
    assert shuffled <= 6


def test_labels_need_not_be_orthonormal():
    values, rng = correlated()
    codes, labels = labels_of(values, rng, 4)
    indicators = np.eye(4)[codes][:, :-1]
    indicators -= indicators.mean(axis=0)
    around = values - values.mean(axis=0)
    gram = around.T @ around
    search = ForwardSearch(
        around.T @ indicators, np.diag(gram), 150, ridge=0.0, label_gram=indicators.T @ indicators
    )
    expected = plain.select_plain(values, labels, 5, ridge=0.0)
    for _ in range(5):
        best = search.best()
        search.add(best, gram[best])
    assert search.selected == expected.selected
    for mine, theirs in zip(search.steps, expected.steps, strict=True):
        assert mine.statistic == pytest.approx(theirs.statistic, rel=1e-8)
        assert mine.adds == pytest.approx(theirs.adds, rel=1e-8)


def test_q_values_are_those_of_all_candidates_of_the_step():
    values, rng = correlated()
    _, labels = labels_of(values, rng, 2)
    search, columns = plain.search_plain(values, labels, ridge=0.0)
    for column in (3, 6):
        _, p_values = search.statistics()
        expected = stats.false_discovery_control(p_values[search.candidates])
        step = search.add(column, columns.T @ columns[:, column])
        place = np.flatnonzero(p_values == step.p_value)[0]
        assert step.q_value == pytest.approx(expected[place - (place > 3) * (column == 6)])


class TestBlock:
    def parts(self, labels, held, block, n_parts=20):
        columns = np.column_stack([labels, held, block])
        columns = columns - columns.mean(axis=0)
        rows = np.array_split(np.arange(len(columns)), n_parts)
        return np.stack([columns[r].T @ columns[r] for r in rows]), [len(r) for r in rows]

    def test_it_is_the_added_adjusted_r2(self):
        values, rng = correlated()
        y, labels = labels_of(values, rng, 0)
        grams, sizes = self.parts(labels, values[:, :2], values[:, 2:5])
        found = block_gain(grams, sizes, n_labels=1, n_held=2)

        def adjusted(columns):
            share = LinearRegression().fit(columns, y).score(columns, y)
            return 1 - (1 - share) * 149 / (149 - columns.shape[1])

        assert found.adds == pytest.approx(adjusted(values[:, :5]) - adjusted(values[:, :2]))

    def test_the_error_is_that_of_repeated_samples(self):
        rng = np.random.default_rng(0)
        gains, errors = [], []
        for _ in range(60):
            held, block = rng.normal(size=(400, 2)), rng.normal(size=(400, 3))
            y = held[:, 0] + 0.6 * block[:, 0] + rng.normal(size=400)
            grams, sizes = self.parts(plain.number_column(y), held, block)
            found = block_gain(grams, sizes, n_labels=1, n_held=2)
            gains.append(found.adds)
            errors.append(found.standard_error)
        assert np.mean(errors) == pytest.approx(np.std(gains), rel=0.3)
        assert np.mean(gains) == pytest.approx(0.36 / 2.36, abs=0.01)

    def test_noise_adds_nothing_on_the_mean(self):
        rng = np.random.default_rng(1)
        gains = []
        for _ in range(40):
            held, block = rng.normal(size=(100, 2)), rng.normal(size=(100, 10))
            y = held[:, 0] + rng.normal(size=100)
            grams, sizes = self.parts(plain.number_column(y), held, block, 10)
            gains.append(block_gain(grams, sizes, n_labels=1, n_held=2).adds)
        assert abs(np.mean(gains)) < 3 * np.std(gains) / np.sqrt(40) + 0.002
