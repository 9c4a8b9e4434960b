# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""How many of the selected columns are there by chance: knockoffs of columns, and their threshold.

A knockoff of a column is made up so that it goes with all other columns as the column itself does,
and says nothing of the label. Every party makes them of its own columns, with normal noise and the
covariance of its own columns. A forward search without a ridge takes both as candidates. A column
that is no cause beats its knockoff as often as it loses to it, so that knockoffs which win count
the columns that win by chance.

Across parties knockoffs do not go with columns quite as the columns do: a column that follows a
cause at another party does so more closely than its knockoff. The search therefore matters:
columns enter given those that are in, and a follower of a cause that is in has nothing to add.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fedsift.methods.stepwise.forward import ForwardSearch

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

_FIRM = 1e-3


def make_knockoffs(values: Floats, rng: np.random.Generator) -> Floats:
    """Knockoffs of second order with equal correlations to their columns.

    Parameters
    ----------
    values : array of shape (n_rows, n_columns)
        Without missing values; a constant is its own knockoff.
    rng : Generator
        Private: whoever knows its state can tell columns from knockoffs.

    Returns
    -------
    array of shape (n_rows, n_columns)
        With the means and standard deviations of the columns, up to the noise.
    """
    mean, spread = values.mean(axis=0), values.std(axis=0)
    around = np.divide(values - mean, spread, out=np.zeros_like(values), where=spread > 0)
    correlations = around.T @ around / len(values)
    np.fill_diagonal(correlations, 1.0)
    correlations = _shrunk(correlations, len(values))
    gap = correlation_gap(correlations)
    kept = np.eye(len(correlations)) - gap * np.linalg.inv(correlations)
    noise = gap * (np.eye(len(correlations)) + kept)
    drawn = rng.standard_normal(values.shape) @ _root(noise).T
    return np.asarray(mean + spread * (around @ kept + drawn))


def correlation_gap(correlations: Floats) -> float:
    """One minus the correlation that every column may have with its own knockoff."""
    smallest = float(np.linalg.eigvalsh(correlations)[0]) if len(correlations) else 0.5
    return min(1.0, 2.0 * max(smallest, 0.0)) * (1.0 - 1e-6)


def _shrunk(correlations: Floats, n_rows: int) -> Floats:
    """Correlations drawn to zero where rows are few, and always a little."""
    share = min(1.0, max(_FIRM, len(correlations) / max(n_rows, 1) - 0.5))
    return (1.0 - share) * correlations + share * np.eye(len(correlations))


def _root(matrix: Floats) -> Floats:
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def goes_on(search: ForwardSearch, rate: float) -> bool:
    """Whether one more entry could change what :func:`kept_at` keeps.

    Each knockoff that enters asks for more columns that are kept; there are only so many.
    """
    n_columns = len(search.candidates) // 2
    won = sum(column >= n_columns for column in search.selected)
    return bool(search.candidates.any()) and 1 + won <= rate * (n_columns - won)


def entry_differences(search: ForwardSearch) -> Floats:
    """How much earlier every column entered than its knockoff; negative if it entered later.

    Candidates of the search are columns and, behind them in the same order, their knockoffs.
    What never entered counts by what it would still add, which is less than any entry.
    """
    strength = search.statistics()[0]
    strength = strength / (1.0 + strength.max(initial=0.0))
    chosen = search.selected
    strength[chosen] = 1.0 + np.arange(len(chosen))[::-1]
    columns, knockoffs = np.split(strength, 2)
    return np.asarray(np.sign(columns - knockoffs) * np.maximum(columns, knockoffs))


def kept_at(differences: npt.ArrayLike, rate: float) -> Flags:
    """Columns to keep so that at most this share of them is false, on the mean (knockoff+).

    Examples
    --------
    >>> kept_at([9, 8, 7, 6, 5, -1, 0.5, 4, 3, 2, 1.5], 0.2).tolist()[:7]
    [True, True, True, True, True, False, False]
    """
    found = np.asarray(differences, dtype=np.float64)
    for threshold in np.unique(np.abs(found[found != 0])):
        positive, negative = int((found >= threshold).sum()), int((found <= -threshold).sum())
        if (1 + negative) / max(positive, 1) <= rate:
            return np.asarray(found >= threshold)
    return np.zeros(len(found), dtype=np.bool_)
