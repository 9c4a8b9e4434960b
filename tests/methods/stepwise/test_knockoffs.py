# SPDX-FileCopyrightText: The fedsift authors
"""Knockoffs look like their columns, and keep the share of false discoveries across parties."""

import numpy as np
import pytest
from scipy.stats import ks_2samp

from fedsift.errors import ParameterError
from fedsift.maths.unit import unit_columns
from fedsift.methods.stepwise import knockoffs, plain


def chain(rng, n_rows, n_columns, correlation):
    values = rng.normal(size=(n_rows, n_columns))
    for f in range(1, n_columns):
        values[:, f] *= np.sqrt(1 - correlation**2)
        values[:, f] += correlation * values[:, f - 1]
    return values


def test_swapping_a_column_and_its_knockoff_changes_no_covariance():
    rng = np.random.default_rng(0)
    values = 3.0 + 2.0 * chain(rng, 20_000, 6, 0.5)
    copies = knockoffs.make_knockoffs(values, rng)
    both = np.corrcoef(np.hstack([values, copies]), rowvar=False)
    own, cross, theirs = both[:6, :6], both[:6, 6:], both[6:, 6:]
    assert np.allclose(own, theirs, atol=0.03)
    outside = ~np.eye(6, dtype=bool)
    assert np.allclose(own[outside], cross[outside], atol=0.03)
    assert np.allclose(np.diag(cross), 1 - knockoffs.correlation_gap(own), atol=0.03)
    assert np.allclose(copies.mean(axis=0), values.mean(axis=0), atol=0.1)
    assert np.allclose(copies.std(axis=0), values.std(axis=0), rtol=0.03)


def test_constant_and_collinear_columns_and_few_rows_make_finite_knockoffs():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(30, 50))
    values[:, 1], values[:, 2] = 5.0, values[:, 0]
    copies = knockoffs.make_knockoffs(values, rng)
    assert np.isfinite(copies).all()
    assert (copies[:, 1] == 5.0).all()


def test_the_threshold_is_that_of_the_definition():
    rng = np.random.default_rng(0)
    for rate in (0.1, 0.2, 0.5):
        found = rng.normal(0.8, 1.0, size=60)
        found[:5] = 0.0

        def estimate(t, found=found):
            return (1 + (found <= -t).sum()) / max(1, (found >= t).sum())

        fits = [t for t in np.abs(found[found != 0]) if estimate(t) <= rate]
        expected = found >= min(fits, default=np.inf)
        assert knockoffs.kept_at(found, rate).tolist() == expected.tolist()


def test_no_further_entry_would_change_what_is_kept():
    rng = np.random.default_rng(2)
    values = chain(rng, 400, 40, 0.3)
    labels = plain.number_column(values[:, :12] @ rng.choice([-1, 1], 12) + rng.normal(size=400))
    copies = knockoffs.make_knockoffs(values, rng)
    search, columns = plain.search_plain(np.hstack([values, copies]), labels, ridge=0.0)
    kept = None
    while (best := search.best()) is not None:
        if kept is None and not knockoffs.goes_on(search, 0.2):
            kept = knockoffs.kept_at(knockoffs.entry_differences(search), 0.2)
        search.add(best, columns.T @ columns[:, best])
    assert kept is not None
    assert kept.sum() >= 10
    assert np.array_equal(kept, knockoffs.kept_at(knockoffs.entry_differences(search), 0.2))


@pytest.mark.parametrize("correlation", [0.0, 0.6])
def test_false_discoveries_stay_below_the_rate_across_parties(correlation):
    shares, powers, n_runs = [], [], 30
    for seed in range(n_runs):
        rng = np.random.default_rng(seed)
        values = chain(rng, 500, 60, correlation)
        causes = np.zeros(60, dtype=bool)
        causes[rng.choice(60, 15, replace=False)] = True
        effect = values @ (causes * rng.choice([-0.5, 0.5], 60))
        labels = plain.number_column(effect + rng.normal(size=500))
        owner = rng.integers(0, 3, 60)
        order = np.argsort(owner, kind="stable")
        parts = [values[:, owner == party] for party in range(3)]
        kept = np.zeros(60, dtype=bool)
        kept[order] = plain.keep_true(parts, labels, 0.2, rng)
        shares.append((kept & ~causes).sum() / max(1, kept.sum()))
        powers.append((kept & causes).sum() / 15)
    assert np.mean(shares) <= 0.2 + 2 * np.std(shares) / np.sqrt(n_runs)
    assert np.mean(powers) > 0.8


def test_one_by_one_without_knockoffs_would_keep_followers():
    """The failure that the search prevents: neighbours of causes pass any test of their own."""
    rng = np.random.default_rng(0)
    values = chain(rng, 1000, 60, 0.8)
    causes = np.arange(5, 60, 10)
    labels = plain.number_column(values[:, causes].sum(axis=1) + rng.normal(size=1000))
    _, p_values = plain.search_plain(values, labels)[0].statistics()
    small = np.flatnonzero(p_values < 1e-4)
    assert len(set(small) - set(causes)) > 10
    assert set(plain.select_plain(values, labels, 6, ridge=0.0).selected) == set(causes)


def moments_of(values, labels):
    """Products around one mean, of columns of length 1."""
    columns, labels = unit_columns(values), labels - labels.mean(axis=0)
    moments = knockoffs.Moments(
        columns.T @ columns, columns.T @ labels, labels.T @ labels, len(values) - 1
    )
    return moments, columns, labels


class TestMoments:
    @pytest.fixture
    def rows(self):
        rng = np.random.default_rng(4)
        values = chain(rng, 60, 5, 0.6)
        return values, np.stack([values[:, 0] + rng.normal(size=60), rng.normal(size=60)], axis=1)

    def test_they_are_those_of_knockoffs_made_of_rows(self, rows):
        """Columns that somebody with all rows makes, with the means of products over many draws."""
        moments, columns, labels = moments_of(*rows)
        forced, rng = np.arange(5) == 2, np.random.default_rng(0)
        both, lengths = moments.with_knockoffs(forced, rng)
        assert lengths.tolist() == [1] * 7 + [0] + [1] * 2
        inside, made = columns[:, forced], columns[:, ~forced]
        rest = made - inside @ np.linalg.lstsq(inside, made, rcond=None)[0]
        gaps = np.diag(both.gram[:5, 5:] * -1 + both.gram[:5, :5])[~forced]
        assert (gaps > 0.01).all()
        assert np.diag(both.gram[:5, 5:])[2] == pytest.approx(1)
        weights = np.linalg.solve(rest.T @ rest, np.diag(gaps))
        root = np.linalg.cholesky(2 * np.diag(gaps) - gaps[:, None] * weights)
        taken = np.column_stack([np.ones(60), columns])

        def draw():
            noise = rng.normal(size=(60, 4))
            noise -= taken @ np.linalg.lstsq(taken, noise, rcond=None)[0]
            frame, _ = np.linalg.qr(noise)
            frame *= rng.choice([-1, 1], 4)
            return made - rest @ weights + frame @ root.T

        copies = draw()
        kept = [0, 1, 3, 4]
        np.testing.assert_allclose(both.gram[5:, 5:][np.ix_(kept, kept)], copies.T @ copies)
        np.testing.assert_allclose(both.gram[:5, 5:][:, kept], columns.T @ copies, atol=1e-9)

        theirs = [(draw().T @ labels).ravel() for _ in range(3000)]
        ours = [
            moments.with_knockoffs(forced, rng)[0].label_products[5:][kept].ravel()
            for _ in range(3000)
        ]
        for mine, real in zip(np.transpose(ours), np.transpose(theirs), strict=True):
            assert ks_2samp(mine, real).pvalue > 1e-4
        spread = np.sqrt(np.outer(np.var(theirs, axis=0), np.var(theirs, axis=0)))
        assert (
            np.abs((np.cov(ours, rowvar=False) - np.cov(theirs, rowvar=False)) / spread).max()
            < 0.12
        )

    def test_columns_that_others_make_up_take_no_part(self, rows):
        values, labels = rows
        values = np.column_stack([values, values[:, 0] - values[:, 3], values[:, 1]])
        moments, *_ = moments_of(values, labels)
        both, lengths = moments.with_knockoffs(np.zeros(7, dtype=bool), np.random.default_rng(0))
        assert lengths.tolist() == [1] * 5 + [0] * 2 + [1] * 5 + [0] * 2
        assert np.isfinite(both.label_products).all()

    def test_rows_that_do_not_suffice_are_refused(self, rows):
        values, labels = rows
        moments, *_ = moments_of(values[:12], labels[:12])
        with pytest.raises(ParameterError, match="with 11 rows") as error:
            moments.with_knockoffs(np.zeros(5, dtype=bool), np.random.default_rng(0))
        assert "need 12" in str(error.value)
        moments, *_ = moments_of(values[:13], labels[:13])
        moments.with_knockoffs(np.zeros(5, dtype=bool), np.random.default_rng(0))

    @pytest.mark.parametrize("n_classes", [0, 3])
    def test_the_share_of_false_ones_is_kept(self, n_classes):
        shares, powers = [], []
        for seed in range(60):
            rng = np.random.default_rng(seed)
            values = chain(rng, 500, 25, 0.4)
            true = rng.choice(25, 10, replace=False)
            effect = values[:, true] @ rng.choice([-0.3, 0.3], 10) + rng.normal(size=500)
            labels = effect[:, None]
            if n_classes:
                codes = np.argsort(np.argsort(effect)) * n_classes // 500
                labels = np.eye(n_classes)[codes][:, :-1]
            moments, *_ = moments_of(values, labels)
            nothing = np.zeros(25, dtype=bool)
            search, pairs = knockoffs.search_with_knockoffs(moments, nothing, 1, rng)
            while knockoffs.goes_on(search, 0.2) and (best := search.best()) is not None:
                search.add(best, pairs[best])
            kept = np.flatnonzero(knockoffs.kept_at(knockoffs.entry_differences(search), 0.2))
            shares.append(np.isin(kept, true, invert=True).sum() / max(1, len(kept)))
            powers.append(np.isin(true, kept).mean())
        assert np.mean(shares) < 0.2 + 2 * np.std(shares) / 60**0.5
        assert np.mean(powers) > 0.7
