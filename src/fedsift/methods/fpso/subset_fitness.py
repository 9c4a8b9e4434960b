# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""How well a subset of features classifies: correct rows of an inner cross-validation.

Wrapper methods ask this question thousands of times on the same rows, so the nearest-neighbour
fitness answers it with matrix products, and nothing is computed twice.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
Masks = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]

_BLOCK = 1 << 20
"""Distances kept at a time (4 MiB): few enough to be searched while still in a cache, and enough
for parties in threads to compute side by side instead of handing Python's lock to each other."""


class SubsetFitness(ABC):
    """Counts correct rows for subsets, each of them once.

    The count of a subset depends on the subset alone, not on what else is asked at the same time:
    runs that ask in another order get the same numbers.
    """

    def __init__(self, folds: Integers) -> None:
        self.folds = folds
        self._known: dict[bytes, int] = {}
        self.n_lookups = self.n_hits = 0

    def correct(self, masks: Masks) -> Integers:
        """Number of correctly classified rows for each subset; an empty one has none."""
        keys = [row.tobytes() for row in np.packbits(masks, axis=1)]
        fresh = {key: i for i, key in enumerate(keys) if key not in self._known}
        self.n_lookups += len(keys)
        self.n_hits += len(keys) - len(fresh)
        if fresh:
            counts = self._evaluate(masks[list(fresh.values())])
            self._known.update(zip(fresh, counts, strict=True))
        return np.array([self._known[key] for key in keys], dtype=np.int64)

    def to_plain(self) -> dict[str, npt.NDArray[Any]]:
        """Subsets asked so far, one row of bits each, and their counts."""
        bits = np.frombuffer(b"".join(self._known), dtype=np.uint8)
        counts = np.array(list(self._known.values()), dtype=np.int64)
        return {"bits": bits.reshape(len(counts), -1 if len(counts) else 0), "counts": counts}

    def load(self, saved: dict[str, npt.NDArray[Any]]) -> None:
        """Take over what :meth:`to_plain` gave; nothing of it is computed again."""
        keys = [row.tobytes() for row in saved["bits"]]
        self._known.update(zip(keys, saved["counts"].tolist(), strict=True))

    @abstractmethod
    def _evaluate(self, masks: Masks) -> list[int]:
        """Counts of subsets that were never asked before, all different."""


class KnnFitness(SubsetFitness):
    """The k nearest neighbours, for many subsets at once.

    One product of matrices per subset, of many subsets in one call, gives all distances (up to a
    constant per row, which does not matter for the order) and at the same time puts rows of the
    same fold out of reach, so that a single pass serves all folds. Single precision: distances that
    agree to about six digits count as a tie, and the earlier row wins. Ties of votes go to the
    smaller class, as in scikit-learn.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Scaled here to [0, 1] per feature.
    y : ndarray of int of shape (n_samples,)
    folds : ndarray of int of shape (n_samples,)
    k : int
        Fewer if the other folds have fewer rows.
    """

    def __init__(self, X: Floats, y: Integers, folds: Integers, k: int) -> None:
        super().__init__(folds)
        n_rows, n_features = X.shape
        columns: Singles = np.ascontiguousarray(scaled(X).T, dtype=np.float32)
        numbers = np.unique(folds)
        in_fold: Singles = (folds == numbers[:, None]).astype(np.float32)
        ones: Singles = np.ones((1, n_rows), dtype=np.float32)
        # Farther than any two rows can be, and small enough to leave the others' digits alone.
        penalty = np.float32(4 * (n_features + 1))
        self._left: Singles = np.concatenate([columns, ones, in_fold])
        self._right: Singles = np.concatenate([-2 * columns, ones, penalty * in_fold])
        self._always = np.arange(n_features, len(self._left))
        self._y = y
        largest = int(np.bincount(np.searchsorted(numbers, folds)).max())
        self._k = min(k, n_rows - largest)
        self._ballots = _ballots(y, self._k)
        self._together = max(1, _BLOCK // (n_rows * n_rows))
        self._height = min(n_rows, max(1, _BLOCK // n_rows))
        self._buffer: Singles = np.empty((0, 0, 0), dtype=np.float32)

    def predictions(self, masks: Masks) -> Integers:
        """Class of every row by its neighbours in other folds, shape (n_subsets, n_samples)."""
        if not self._buffer.size:
            shape = (self._together, self._height, len(self._y))
            self._buffer = np.empty(shape, dtype=np.float32)
        found = np.empty((len(masks), len(self._y)), dtype=np.int64)
        for start in range(0, len(masks), self._together):
            some = slice(start, start + self._together)
            self._predict(masks[some], found[some])
        return found

    def _evaluate(self, masks: Masks) -> list[int]:
        if self._k < 1:
            return [0] * len(masks)
        # Without features all rows are equally near; nothing was learned from them.
        right = (self.predictions(masks) == self._y).sum(axis=1) * masks.any(axis=1)
        return [int(count) for count in right]

    def _predict(self, masks: Masks, found: Integers) -> None:
        n_rows = len(self._y)
        left, right = self._factors(masks)
        for top in range(0, n_rows, self._height):
            rows = slice(top, min(top + self._height, n_rows))
            values = self._buffer[: len(masks), : rows.stop - top]
            np.matmul(left[:, :, rows].transpose(0, 2, 1), right, out=values)
            found[:, rows] = self._vote(values.reshape(-1, n_rows)).reshape(len(masks), -1)

    def _factors(self, masks: Masks) -> tuple[Singles, Singles]:
        """Two matrices per subset whose product is the squared distance minus the row's own square.

        Zeros fill smaller subsets up to the size of the largest.
        """
        widest = int(masks.sum(axis=1).max())
        shape = (len(masks), widest + len(self._always), len(self._y))
        left, right = np.zeros(shape, dtype=np.float32), np.zeros(shape, dtype=np.float32)
        for ours, theirs, mask in zip(left, right, masks, strict=True):
            chosen = np.flatnonzero(mask)
            own = slice(len(chosen))
            ours[own], theirs[own] = self._left[chosen], self._right[chosen]
            theirs[widest] = -0.5 * np.einsum("ij,ij->j", ours[own], theirs[own])
        left[:, widest:] = self._left[self._always]
        right[:, widest + 1 :] = self._right[self._always[1:]]
        return left, right

    def _vote(self, values: Singles) -> Integers:
        """Class of most of the k nearest; uses up the distances."""
        rows = np.arange(len(values))
        votes = np.zeros((len(values), self._ballots.shape[1]), dtype=np.uint64)
        for left in reversed(range(self._k)):
            nearest = values.argmin(axis=1)
            votes += self._ballots[nearest]
            if left:
                values[rows, nearest] = np.inf
        counts = votes.view(_counter(self._k))
        return np.asarray(counts.argmax(axis=1), dtype=np.int64)


class ClassifierFitness(SubsetFitness):
    """The same count with any scikit-learn classifier: one fit per fold, so much slower."""

    def __init__(self, X: Floats, y: Integers, folds: Integers, classifier: Any) -> None:
        super().__init__(folds)
        self._X, self._y = scaled(X), y
        self._classifier = classifier

    def _evaluate(self, masks: Masks) -> list[int]:
        return [self._count(mask) if mask.any() else 0 for mask in masks]

    def _count(self, mask: npt.NDArray[np.bool_]) -> int:
        from sklearn.base import clone

        total = 0
        for fold in np.unique(self.folds):
            test = self.folds == fold
            known = self._y[~test]
            if len(known) and (known == known[0]).all():
                # Many classifiers refuse a single class; there is only one answer anyway.
                total += int((self._y[test] == known[0]).sum())
                continue
            model = clone(self._classifier).fit(self._X[~test][:, mask], known)
            total += int((model.predict(self._X[test][:, mask]) == self._y[test]).sum())
        return total


def _ballots(y: Integers, k: int) -> npt.NDArray[np.uint64]:
    """Every row's vote as whole words, one small counter per class inside: adding words counts.

    A word holds the counters of up to eight classes, so that k additions of a word replace k
    scattered writes into a table.
    """
    counter = _counter(k)
    in_a_word = 8 // counter.itemsize
    n_classes = int(y.max()) + 1
    width = -(-n_classes // in_a_word) * in_a_word
    one_vote = np.zeros((len(y), width), dtype=counter)
    one_vote[np.arange(len(y)), y] = 1
    return one_vote.view(np.uint64)


def _counter(k: int) -> np.dtype[Any]:
    """The smallest integer that can count to k."""
    return np.min_scalar_type(k)


def scaled(X: Floats) -> Floats:
    """Every column to [0, 1]; constant ones to 0."""
    low, span = X.min(axis=0), np.ptp(X, axis=0)
    return np.asarray((X - low) / np.where(span > 0, span, 1.0))


def stratified_folds(y: Integers, n_folds: int, rng: np.random.Generator) -> Integers:
    """Folds of equal size: every class is dealt out over them in random order."""
    folds = np.empty(len(y), dtype=np.int64)
    start = 0
    for label in np.unique(y):
        members = rng.permutation(np.flatnonzero(y == label))
        folds[members] = (np.arange(len(members)) + start) % n_folds
        start += len(members)
    return folds
