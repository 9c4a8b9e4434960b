# SPDX-FileCopyrightText: The fedsift authors
"""Knockoffs look like their columns, and keep the share of false discoveries across parties."""

import numpy as np
import pytest

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
