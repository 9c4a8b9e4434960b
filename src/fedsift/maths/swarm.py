# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Bare-bones particle swarm over feature subsets, and a nearest-neighbour fitness for all at once.

Paper 004 (FPSO-FS), sections 3.3 and 3.4. A particle is a vector in [0, 1]^D; a feature is chosen
where it exceeds one half. The paper decodes at random, which gives the same quality and makes
runs irreproducible.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Masks = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]

GUIDED_PARTICLES = 8
"""Particles that start near the global subset (nummax of the paper)."""

GUIDANCE = 0.8
"""Pull of the global subset (alpha; the paper gives no value)."""

_CACHE_BYTES = 250_000_000


class KnnFitness:
    """Correctly classified rows of inner cross-validation, for many feature subsets at once.

    All particles share one table of squared differences per feature, so that the distances of all
    of them are one matrix product; one pass over the rows serves all folds, because rows of the
    same fold are set infinitely far apart. Ties of votes go to the smaller class, as in
    scikit-learn.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Scaled to [0, 1] per feature on these rows.
    y : ndarray of int of shape (n_samples,)
    folds : ndarray of int of shape (n_samples,)
    k : int
    """

    def __init__(self, X: Floats, y: Integers, folds: Integers, k: int) -> None:
        self._X = scaled(X)
        self._y = y
        self._n_classes = int(y.max()) + 1
        self._same_fold = folds[:, None] == folds[None, :]
        self._k = k
        self._known: dict[bytes, int] = {}
        self.n_lookups = self.n_hits = 0
        n, d = X.shape
        self._table: Floats | None = None
        if d * n * n * 8 <= _CACHE_BYTES:
            differences = self._X.T[:, :, None] - self._X.T[:, None, :]
            self._table = (differences**2).reshape(d, n * n)

    def correct(self, masks: Masks) -> Integers:
        """Number of correctly classified rows for each subset; an empty one has none."""
        keys = [np.packbits(mask).tobytes() for mask in masks]
        fresh = {key: i for i, key in enumerate(keys) if key not in self._known}
        self.n_lookups += len(keys)
        self.n_hits += len(keys) - len(fresh)
        if fresh:
            rows = list(fresh.values())
            for key, count in zip(fresh, self._evaluate(masks[rows]), strict=True):
                self._known[key] = int(count)
        return np.array([self._known[key] for key in keys], dtype=np.int64)

    def _evaluate(self, masks: Masks) -> list[int]:
        n = len(self._y)
        if self._table is not None:
            distances = (masks.astype(np.float64) @ self._table).reshape(-1, n, n)
            return [self._vote(d) if m.any() else 0 for d, m in zip(distances, masks, strict=True)]
        return [self._vote(self._gram(m)) if m.any() else 0 for m in masks]

    def _gram(self, mask: npt.NDArray[np.bool_]) -> Floats:
        """Distances by one matrix product, where the table would be too large."""
        chosen = self._X[:, mask]
        squares = (chosen**2).sum(axis=1)
        return np.asarray(np.maximum(squares[:, None] + squares - 2 * chosen @ chosen.T, 0.0))

    def _vote(self, distances: Floats) -> int:
        far = np.where(self._same_fold, np.inf, distances)
        k = min(self._k, int((~self._same_fold).sum(axis=1).min()))
        votes = np.zeros((len(self._y), self._n_classes))
        rows = np.arange(len(self._y))
        for _ in range(k):
            nearest = far.argmin(axis=1)
            votes[rows, self._y[nearest]] += 1
            far[rows, nearest] = np.inf
        return int((votes.argmax(axis=1) == self._y).sum())


class ClassifierFitness:
    """The same count with any scikit-learn classifier: one fit per fold, so much slower."""

    def __init__(self, X: Floats, y: Integers, folds: Integers, classifier: Any) -> None:
        self._X, self._y, self._folds = scaled(X), y, folds
        self._classifier = classifier
        self._known: dict[bytes, int] = {}

    def correct(self, masks: Masks) -> Integers:
        """Number of correctly classified rows for each subset; an empty one has none."""
        for mask in masks:
            key = np.packbits(mask).tobytes()
            if key not in self._known:
                self._known[key] = self._evaluate(mask) if mask.any() else 0
        return np.array([self._known[np.packbits(m).tobytes()] for m in masks], dtype=np.int64)

    def _evaluate(self, mask: npt.NDArray[np.bool_]) -> int:
        from sklearn.base import clone

        total = 0
        for fold in np.unique(self._folds):
            test = self._folds == fold
            model = clone(self._classifier).fit(self._X[~test][:, mask], self._y[~test])
            total += int((model.predict(self._X[test][:, mask]) == self._y[test]).sum())
        return total


def scaled(X: Floats) -> Floats:
    """Every column to [0, 1]; constant ones to 0."""
    low, span = X.min(axis=0), np.ptp(X, axis=0)
    return np.asarray((X - low) / np.where(span > 0, span, 1.0))


def inner_folds(y: Integers, n_folds: int, rng: np.random.Generator) -> Integers:
    """Stratified folds: every class is dealt out over the folds in random order."""
    folds = np.empty(len(y), dtype=np.int64)
    start = 0
    for label in np.unique(y):
        members = rng.permutation(np.flatnonzero(y == label))
        folds[members] = (np.arange(len(members)) + start) % n_folds
        start += len(members)
    return folds


Fitness = Callable[[Masks], npt.NDArray[np.generic]]


@dataclass(frozen=True, eq=False)
class Best:
    """The best subset so far: higher fitness first, then fewer features."""

    mask: Masks
    fitness: float

    def beats(self, other: Best | None) -> bool:
        """Whether this one is better."""
        if other is None or self.fitness != other.fitness:
            return other is None or self.fitness > other.fitness
        return bool(self.mask.sum() < other.mask.sum())


class Swarm:
    """Particles, their own best positions and the best of all (Algorithm 3).

    Parameters
    ----------
    n_features, n_particles : int
    rng : numpy.random.Generator
    max_features : int, optional
        Subsets with more features keep their highest positions only.
    """

    def __init__(
        self,
        n_features: int,
        n_particles: int,
        rng: np.random.Generator,
        max_features: int | None = None,
    ) -> None:
        self._rng = rng
        self._limit = max_features
        self.positions = rng.random((n_particles, n_features))
        self.own_best = self.positions.copy()
        self.own: list[Best | None] = [None] * n_particles
        self.best: Best | None = None
        self._best_position = self.positions[0]

    def masks(self) -> Masks:
        """Subsets the particles stand for now; never an empty one."""
        chosen = self.positions > 0.5
        empty = ~chosen.any(axis=1)
        chosen[empty, self.positions[empty].argmax(axis=1)] = True
        if self._limit is not None:
            order = np.argsort(-self.positions, axis=1, kind="stable")
            allowed = np.zeros_like(chosen)
            np.put_along_axis(allowed, order[:, : self._limit], True, axis=1)
            chosen &= allowed
        return chosen

    def guide(self, mask: Masks, local: Masks | None = None) -> None:
        """Start a new round near the global subset (Algorithm 2).

        The party the subset came from (``local`` missing) is pulled to it. Others draw its features
        from [alpha, 1], features that neither it nor their own subset has from [0, 1 - alpha],
        and features only their own subset has at random.
        """
        n, d = self.positions.shape
        self.positions = self._rng.random((n, d))
        guided = min(GUIDED_PARTICLES, n)
        noise = self._rng.random((guided, d))
        if local is None:
            self.positions[:guided] = (1 - GUIDANCE) * noise + GUIDANCE * mask
        else:
            low = np.where(mask, GUIDANCE, 0.0)
            high = np.where(mask | local, 1.0, 1.0 - GUIDANCE)
            self.positions[:guided] = low + noise * (high - low)
        self.own_best = self.positions.copy()
        self.own = [None] * n

    def learn(self, fitness: npt.NDArray[np.generic], masks: Masks) -> None:
        """Update every particle's own best and the best of all."""
        for i, value in enumerate(fitness):
            found = Best(masks[i].copy(), float(value))
            if found.beats(self.own[i]):
                self.own[i] = found
                # Half way to the decoded bits: the memory keeps a clear decision (see the page).
                self.own_best[i] = (self.positions[i] + masks[i]) / 2
            if found.beats(self.best):
                self.best = found
                self._best_position = self.own_best[i]

    def move(self, step: int) -> None:
        """Gaussian sampling between own and global best, then uniform mutation."""
        n, d = self.positions.shape
        centre = (self.own_best + self._best_position) / 2
        spread = np.abs(self.own_best - self._best_position)
        sampled = self._rng.normal(centre, spread)
        stay = self._rng.random((n, d)) >= 0.5
        self.positions = np.clip(np.where(stay, self.own_best, sampled), 0.0, 1.0)
        self._mutate(step)

    def _mutate(self, step: int) -> None:
        """Copy some elements of another particle's memory; rarer and smaller as time goes on."""
        n, d = self.positions.shape
        chance = 0.2 / (1 + np.exp(step - 5.0))
        for i in np.flatnonzero(self._rng.random(n) < chance):
            elements = self._rng.choice(d, size=min(d, int(np.ceil(chance * n))), replace=False)
            self.positions[i, elements] = self.own_best[self._rng.integers(n)][elements]


def search(swarm: Swarm, fitness: Fitness, n_iterations: int) -> Best:
    """Run a swarm on its own (one party, or pooled data) and return its best subset."""
    for step in range(n_iterations):
        masks = swarm.masks()
        swarm.learn(fitness(masks), masks)
        swarm.move(step)
    assert swarm.best is not None  # noqa: S101 - at least one iteration ran
    return swarm.best
