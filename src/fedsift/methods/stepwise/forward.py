# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Forward selection from inner products alone.

Columns of labels ``Q`` are orthonormal: contrasts of classes, or one number that is centred and
has length 1. With ``m_j`` the products of candidate ``j`` and ``Q``, ``t_j`` its squared length
and ``E`` the products of the label columns, all after the selected columns have been projected
out, candidate ``j`` explains the share ``m_j' E^-1 m_j / t_j`` of what is left. One minus the share
is Wilks' lambda, and ``share / (1 - share)`` in proportion an F statistic, of regression too.

Two such states go side by side. One is exact; statistics and p-values are read from it. The other
one says which candidate is best: where rows are few exact shares fit chance, and a ``ridge`` adds
``ridge * t_j`` of the start to ``t_j``, in the share and in each projection.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import fdtrc

from fedsift.maths.multiple_testing import q_values

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

TOLERANCE = 1e-7
"""A candidate of which the selected columns leave a smaller share counts as one of them."""

_LABELS_LEFT = 1e-10


@dataclass(frozen=True)
class Step:
    """What is known of a column when it is selected.

    Attributes
    ----------
    column : int
    forced : bool
        Whether it was not chosen but had to be in.
    statistic : float
        Partial F of a number, or the F of the partial Wilks' lambda of classes.
    p_value, q_value : float
        From the distribution of the statistic as if this column alone had been tried; after
        Benjamini and Hochberg over all candidates of the step.
    chance : float
        How often the best candidate of shuffled labels explains as much; NaN without these.
    adds : float
        Added share of the variance of the label columns: R2 of a number, Pillai's trace over the
        number of contrasts of classes.
    redundancy : float
        Largest absolute correlation with a column that was selected before.
    redundant_with : int or None
        That column.
    """

    column: int
    forced: bool
    statistic: float
    p_value: float
    q_value: float
    chance: float
    adds: float
    redundancy: float
    redundant_with: int | None


def default_ridge(n_columns: int, n_rows: int) -> float:
    """Columns over rows, at most 1: the more there is to choose from, the more chance fits.

    Examples
    --------
    >>> default_ridge(20, 1000), default_ridge(5000, 100)
    (0.02, 1.0)
    """
    return min(1.0, n_columns / max(n_rows, 1))


class ForwardSearch:
    """Selects one column after the other; all columns, own ones too, are rows of the arguments.

    Parameters
    ----------
    label_products : array of shape (n_columns, n_contrasts)
        Products of centred columns with orthonormal label columns.
    squared_norms : array of shape (n_columns,)
        Squared lengths of the centred columns; 0 of a constant.
    n_rows : int
    shuffled : array of shape (n_copies, n_columns, n_contrasts), optional
        Products with copies of the label columns whose rows were shuffled.
    ridge : float, optional
        From 0 (exact partial statistics) to large numbers (columns one by one); without one,
        :func:`default_ridge` of the columns that vary.
    n_means : int
        Means that were taken off each column: 1, or the number of sites.
    label_gram : array of shape (n_contrasts, n_contrasts), optional
        Products of the label columns where they are not orthonormal.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(100, 3))
    >>> rows[:, 1] = rows[:, 0] + 0.1 * rows[:, 1]
    >>> y = rows[:, 0] + 0.5 * rows[:, 2]
    >>> rows, y = rows - rows.mean(axis=0), y - y.mean()
    >>> gram = rows.T @ rows
    >>> search = ForwardSearch(rows.T @ y[:, None] / np.sqrt(y @ y), np.diag(gram), 100)
    >>> for _ in range(2):
    ...     best = search.best()
    ...     step = search.add(best, gram[best])
    >>> search.selected
    [0, 2]
    """

    def __init__(
        self,
        label_products: npt.ArrayLike,
        squared_norms: npt.ArrayLike,
        n_rows: int,
        *,
        shuffled: npt.ArrayLike | None = None,
        ridge: float | None = None,
        n_means: int = 1,
        label_gram: npt.ArrayLike | None = None,
    ) -> None:
        labels = np.asarray(label_products, dtype=np.float64)[None]
        norms = np.maximum(np.asarray(squared_norms, dtype=np.float64), 0.0)
        if shuffled is not None:
            labels = np.concatenate([labels, np.asarray(shuffled, dtype=np.float64)])
        if label_gram is not None:
            labels = labels @ _inverse_root(np.asarray(label_gram, dtype=np.float64)[None])
        self._exact = _Residuals(labels, norms)
        self._ridged = _Residuals(labels[:1], norms)
        self._norms = norms
        self.ridge = default_ridge(int((norms > 0).sum()), n_rows) if ridge is None else ridge
        self._degrees = n_rows - n_means - labels.shape[2]
        self._open = norms > 0
        self._closest = np.zeros(len(norms))
        self._closest_to = np.full(len(norms), -1)
        self.steps: list[Step] = []

    @property
    def selected(self) -> list[int]:
        """Columns that were chosen, in order, without those that were forced in."""
        return [step.column for step in self.steps if not step.forced]

    @property
    def candidates(self) -> Flags:
        """Which columns can still be chosen: neither in, nor constant, nor made of those in."""
        return self._open & (self._exact.left > TOLERANCE * self._norms)

    @property
    def explained(self) -> float:
        """Share of the variance of the label columns that the columns in explain."""
        scatter = self._exact.scatter[0]
        return float(1.0 - np.trace(scatter) / len(scatter))

    def exclude(self, columns: Sequence[int]) -> None:
        """Take columns out of the choice, but keep them as columns that can be forced in."""
        self._open[list(columns)] = False

    def statistics(self) -> tuple[Floats, Floats]:
        """Partial F of every column given those in, and its p-value; 0 and 1 where it has none."""
        return self._tests(self._exact.shares()[0])

    def adds(self) -> Floats:
        """What every column would add to :attr:`explained`."""
        found = (self._exact.labels[0] ** 2).sum(axis=1)
        return np.asarray(_divide(found, self._exact.left) / self._exact.labels.shape[2])

    def chances(self) -> Floats:
        """How often the best candidate of shuffled labels explains as much as each column."""
        shares = self._exact.shares()
        if len(shares) == 1:
            return np.full(shares.shape[1], np.nan)
        open_ones = self.candidates
        best = np.sort(np.max(shares[1:, open_ones], axis=1, initial=0.0))
        at_least = len(best) - np.searchsorted(best, shares[0], side="left")
        free = self._degrees > self._exact.removed
        return np.where(open_ones & free, (1 + at_least) / (1 + len(best)), 1.0)

    def best(self, level: float | None = None) -> int | None:
        """The candidate to go on with; with a ``level`` only one that chance seldom explains.

        None if there is no candidate, or none whose :meth:`chances` are at most ``level``.
        """
        open_ones = self.candidates
        if level is not None:
            open_ones = open_ones & (self.chances() <= level)
        if not open_ones.any():
            return None
        return int(np.argmax(np.where(open_ones, self._ridged.shares(self.ridge)[0], -1.0)))

    def add(self, column: int, products: npt.ArrayLike, *, forced: bool = False) -> Step:
        """Project a column out of all others.

        Parameters
        ----------
        column : int
        products : array of shape (n_columns,)
            Its inner products with all columns; its own one is known.
        forced : bool
            Without a ridge, and before any column is chosen: own columns, covariates.
        """
        gram = np.array(products, dtype=np.float64)
        gram[column] = self._norms[column]
        step = self._describe(column, forced=forced)
        self._open[column] = False
        self._note_correlations(column, gram)
        if self._exact.left[column] > TOLERANCE * self._norms[column]:
            self._exact.remove(column, gram)
        if forced:
            if self._ridged.left[column] > TOLERANCE * self._norms[column]:
                self._ridged.remove(column, gram)
            self._ridged.restart()
        else:
            self._ridged.remove(column, gram, self.ridge)
        self.steps.append(step)
        return step

    def _describe(self, column: int, *, forced: bool) -> Step:
        statistics, p_values = self.statistics()
        open_ones = self.candidates
        open_ones[column] = True
        found = q_values(np.where(open_ones, p_values, np.nan))
        near = int(self._closest_to[column])
        return Step(
            column=column,
            forced=forced,
            statistic=float(statistics[column]),
            p_value=float(p_values[column]),
            q_value=float(found[column]),
            chance=float(self.chances()[column]),
            adds=float(self.adds()[column]),
            redundancy=float(self._closest[column]),
            redundant_with=near if near >= 0 else None,
        )

    def _note_correlations(self, column: int, gram: Floats) -> None:
        lengths = np.sqrt(self._norms * self._norms[column])
        found = np.minimum(np.abs(_divide(gram, lengths)), 1.0)
        closer = found > self._closest
        self._closest[closer] = found[closer]
        self._closest_to[closer] = column

    def _tests(self, shares: Floats) -> tuple[Floats, Floats]:
        """F statistics of shares, and their p-values."""
        n_contrasts = self._exact.labels.shape[2]
        degrees = self._degrees - self._exact.removed
        usable = self._norms > 0
        usable &= self._exact.left > TOLERANCE * self._norms
        if degrees <= 0:
            return np.zeros(len(shares)), np.ones(len(shares))
        kept = np.where(usable, shares, 0.0)
        with np.errstate(divide="ignore"):
            found = kept / (1.0 - kept) * degrees / n_contrasts
        return found, np.where(usable, fdtrc(n_contrasts, degrees, found), 1.0)


class _Residuals:
    """Products of columns and labels, with what was removed projected out."""

    def __init__(self, labels: Floats, norms: Floats) -> None:
        self.labels = labels.copy()
        self.left = norms.copy()
        self.scatter = np.tile(np.eye(labels.shape[2]), (len(labels), 1, 1))
        self._norms, self._start = norms, norms.copy()
        self._factors: list[Floats] = []

    @property
    def removed(self) -> int:
        """Columns that were projected out."""
        return len(self._factors)

    def restart(self) -> None:
        """Let ridges count from here."""
        self._start = self.left.copy()

    def shares(self, ridge: float = 0.0) -> Floats:
        """Share of the labels that every column explains, of each copy of them."""
        white = self.labels @ _inverse_root(self.scatter)
        lengths = np.where(self.left > TOLERANCE * self._norms, self.left, 0.0)
        lengths = lengths + ridge * self._start
        return np.clip(_divide((white**2).sum(axis=2), lengths), 0.0, 1.0)

    def remove(self, column: int, gram: Floats, ridge: float = 0.0) -> None:
        """Project a column out of all others and of the labels."""
        inner = gram.copy()
        for factor in self._factors:
            inner -= factor[column] * factor
        pivot = self.left[column] + ridge * self._start[column]
        if pivot <= 0.0:
            return
        most = np.sqrt(self.left * self.left[column])
        factor = np.clip(inner, -most, most) / np.sqrt(pivot)
        factor[column] = self.left[column] / np.sqrt(pivot)
        own = self.labels[:, column] / np.sqrt(pivot)
        self.labels -= factor[:, None] * own[:, None, :]
        self.scatter -= own[:, :, None] * own[:, None, :]
        self.left = np.maximum(self.left - factor**2, 0.0)
        self._factors.append(factor)


def _inverse_root(scatter: Floats) -> Floats:
    """``E^-1/2`` of each matrix, without directions of which nothing is left."""
    values, vectors = np.linalg.eigh(scatter)
    kept = values > _LABELS_LEFT
    roots = np.where(kept, 1.0 / np.sqrt(np.where(kept, values, 1.0)), 0.0)
    return np.asarray(vectors * roots[:, None, :])


def _divide(found: Floats, by: Floats) -> Floats:
    return np.divide(
        found, by, out=np.zeros_like(found + by), where=np.broadcast_to(by > 0, found.shape)
    )


@dataclass(frozen=True)
class BlockGain:
    """What all columns of a party add together, and how far that may be off."""

    adds: float
    standard_error: float


def block_gain(
    grams: npt.ArrayLike, rows: npt.ArrayLike, *, n_labels: int, n_held: int
) -> BlockGain:
    """What a block of columns adds to columns that are held already.

    Parameters
    ----------
    grams : array of shape (n_parts, n, n)
        For each part of the rows, products of all columns with all: label columns first, then held
        ones, then the block. All were centred over all rows, and need not be over a part.
    rows : array of shape (n_parts,)
        Rows of each part.
    n_labels, n_held : int

    Returns
    -------
    BlockGain
        Added R2 (of classes: Pillai's trace over the number of contrasts), less what as many
        columns of noise would add, with a standard error from leaving out one part at a time.

    Notes
    -----
    A party that turns its columns into orthonormal ones first keeps their correlations to itself;
    over a part of the rows they are not orthonormal, and their products there are needed.
    """
    products, sizes = np.asarray(grams, dtype=np.float64), np.asarray(rows)
    total, n_rows, n_parts = products.sum(axis=0), int(sizes.sum()), len(sizes)
    without = [
        _added(total - part, n_rows - int(size), n_labels, n_held)
        for part, size in zip(products, sizes, strict=True)
    ]
    spread = ((np.array(without) - np.mean(without)) ** 2).sum()
    error = float(np.sqrt((n_parts - 1) / n_parts * spread)) if n_parts > 1 else float("nan")
    return BlockGain(_added(total, n_rows, n_labels, n_held), error)


def _added(gram: Floats, n_rows: int, n_labels: int, n_held: int) -> float:
    return _adjusted(gram, n_rows, n_labels) - _adjusted(
        gram[: n_labels + n_held, : n_labels + n_held], n_rows, n_labels
    )


def _adjusted(gram: Floats, n_rows: int, n_labels: int) -> float:
    """Explained share of the label columns by all others, less what chance explains."""
    labels, cross, own = (
        gram[:n_labels, :n_labels],
        gram[:n_labels, n_labels:],
        gram[n_labels:, n_labels:],
    )
    if not own.size:
        return 0.0
    lengths = np.sqrt(np.maximum(np.diag(own), 0.0))
    scale = _divide(np.ones_like(lengths), lengths)
    values, vectors = np.linalg.eigh(own * scale[:, None] * scale)
    kept = values > TOLERANCE * len(values)
    roots = (cross * scale) @ vectors[:, kept] / np.sqrt(values[kept])
    share = float(np.trace(np.linalg.pinv(labels) @ (roots @ roots.T))) / n_labels
    free = n_rows - 1 - int(kept.sum())
    return 1.0 - (1.0 - min(share, 1.0)) * (n_rows - 1) / free if free > 0 else float("nan")
