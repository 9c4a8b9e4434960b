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

Whoever knows the products of all columns needs no rows. Products of fixed-X knockoffs with columns
and with each other follow from those of the columns; what is random in their products with labels
has a known distribution, given all that is known, and is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import wishart

from fedsift.errors import ParameterError
from fedsift.methods.stepwise.forward import ForwardSearch

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

_FIRM = 1e-3

_LEAST_LEFT = 1e-6
"""A column of which those before leave a smaller share has no knockoff and takes no part."""


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


@dataclass(frozen=True, eq=False)
class Moments:
    """Products of columns of length 1 over all rows, around all means that were taken off.

    Parameters
    ----------
    gram : ndarray of shape (n_columns, n_columns)
    label_products : ndarray of shape (n_columns, n_labels)
    label_gram : ndarray of shape (n_labels, n_labels)
    n_free : int
        Rows, less the means.
    """

    gram: Floats
    label_products: Floats
    label_gram: Floats
    n_free: int

    def with_knockoffs(self, forced: Flags, rng: np.random.Generator) -> tuple[Moments, Floats]:
        """The same of all columns and a knockoff of each, and the squared lengths of both.

        Columns that are forced in, or that those before them make up, have no knockoffs; the
        latter have length 0, too.

        Parameters
        ----------
        forced : ndarray of bool of shape (n_columns,)
        rng : Generator
            Private: whoever knows its state can tell columns from knockoffs.
        """
        usable = independent(self.gram, forced)
        inside, made = np.flatnonzero(usable & forced), np.flatnonzero(usable & ~forced)
        n_rest = self.n_free - len(inside) - len(made)
        n_labels = len(self.label_gram)
        if n_rest < len(made) + n_labels:
            _refuse_few_rows(self.n_free, len(inside) + 2 * len(made) + n_labels)
        own, given = self.gram[np.ix_(made, made)], self.gram[np.ix_(made, inside)]
        weights = np.linalg.solve(self.gram[np.ix_(inside, inside)], given.T).T
        left = own - weights @ given.T
        scale = np.sqrt(np.diag(left))
        gaps = correlation_gap(left / scale[:, None] / scale) * scale**2
        kept = gaps[:, None] * np.linalg.inv(left)
        # What labels have beyond all columns lies in a direction that no knockoff knows.
        labels = self.label_products[made] - weights @ self.label_products[inside]
        rest = self.label_gram - _fitted(self.gram, self.label_products, usable)
        noise = _root(2 * np.diag(gaps) - kept * gaps)
        drawn = noise @ _part_of_frame(len(made), n_labels, n_rest, rng) @ _root(rest).T
        both, like = np.tile(self.gram, (2, 2)), np.zeros(len(self.gram))
        like[made] = gaps
        n_columns = len(like)
        both[:n_columns, n_columns:] -= np.diag(like)
        both[n_columns:, :n_columns] -= np.diag(like)
        theirs = self.label_products.copy()
        theirs[made] += drawn - kept @ labels
        lengths = np.concatenate([usable, usable & ~forced]).astype(np.float64)
        products = np.concatenate([self.label_products, theirs])
        return Moments(both, products, self.label_gram, self.n_free), lengths


def independent(gram: Floats, first: Flags) -> Flags:
    """Columns of which those before leave something; these come first."""
    left, usable = gram.copy(), np.zeros(len(gram), dtype=np.bool_)
    for column in np.argsort(~first, kind="stable"):
        if left[column, column] > _LEAST_LEFT:
            usable[column] = True
            left -= np.outer(left[column], left[column]) / left[column, column]
    return usable


def _refuse_few_rows(found: int, needed: int) -> None:
    raise ParameterError(
        f'n_features_to_select="fdr" with {found} rows, less a mean for each party.',
        f"Knockoffs of these columns need {needed}: two for every column, and one for every label.",
        'Use "auto" or a number, or fewer columns.',
    )


def _fitted(gram: Floats, products: Floats, usable: Flags) -> Floats:
    """Products of what the columns explain of the labels."""
    own = products[usable]
    return np.asarray(own.T @ np.linalg.solve(gram[np.ix_(usable, usable)], own))


def _part_of_frame(n_rows: int, n_columns: int, size: int, rng: np.random.Generator) -> Floats:
    """The first rows of orthonormal columns of this size, drawn at random."""
    first = rng.standard_normal((n_rows, n_columns))
    others = wishart.rvs(size - n_rows, np.eye(n_columns), random_state=rng)
    values, vectors = np.linalg.eigh(first.T @ first + np.reshape(others, (n_columns,) * 2))
    return np.asarray(first @ (vectors / np.sqrt(values)) @ vectors.T)


def _shrunk(correlations: Floats, n_rows: int) -> Floats:
    """Correlations drawn to zero where rows are few, and always a little."""
    share = min(1.0, max(_FIRM, len(correlations) / max(n_rows, 1) - 0.5))
    return (1.0 - share) * correlations + share * np.eye(len(correlations))


def _root(matrix: Floats) -> Floats:
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def search_with_knockoffs(
    moments: Moments, forced: Flags, n_means: int, rng: np.random.Generator
) -> tuple[ForwardSearch, Floats]:
    """A search that is about to begin, and products of columns and knockoffs with all."""
    both, lengths = moments.with_knockoffs(forced, rng)
    search = ForwardSearch(
        both.label_products,
        lengths,
        moments.n_free + n_means,
        ridge=0.0,
        n_means=n_means,
        label_gram=both.label_gram,
    )
    return search, both.gram


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
    [True, True, True, True, True, False, True]
    """
    found = np.asarray(differences, dtype=np.float64)
    for threshold in np.unique(np.abs(found[found != 0])):
        positive, negative = int((found >= threshold).sum()), int((found <= -threshold).sum())
        if (1 + negative) / max(positive, 1) <= rate:
            return np.asarray(found >= threshold)
    return np.zeros(len(found), dtype=np.bool_)
