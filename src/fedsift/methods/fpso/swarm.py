# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Bare-bones particle swarm over feature subsets.

Paper 004 (FPSO-FS), sections 3.3 and 3.4. A particle is a vector of chances in [0, 1]^D. What was
tried and how good it was belongs to the decoded subset, not to the vector: the memory of a
particle keeps both and moves its vector half way to the subset.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Masks = npt.NDArray[np.bool_]

GUIDED_PARTICLES = 8
"""Particles that start near the global subset (nummax of the paper)."""

GUIDANCE = 0.8
"""Pull of the global subset (alpha; the paper gives no value)."""


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
        Everything random comes from here, so that a seed fixes the search.
    max_features : int, optional
        Subsets with more features keep their highest positions only.
    decoding : {"threshold", "random"}
        A feature is chosen where the position exceeds one half, or a random number (the paper).
    """

    def __init__(
        self,
        n_features: int,
        n_particles: int,
        rng: np.random.Generator,
        max_features: int | None = None,
        decoding: str = "threshold",
    ) -> None:
        self._rng = rng
        self._limit = max_features
        self._random = decoding == "random"
        self.positions = rng.random((n_particles, n_features))
        self.best: Best | None = None
        self._best_position = self.positions[0].copy()
        self._forget()

    def _forget(self) -> None:
        """A new round: particles have no memory yet, the best of all stays."""
        n = len(self.positions)
        self._memory = self.positions.copy()
        self._memory_fitness = np.full(n, -np.inf)
        self._memory_size = np.zeros(n, dtype=np.int64)

    def masks(self) -> Masks:
        """Subsets the particles stand for now; never an empty one."""
        threshold = self._rng.random(self.positions.shape) if self._random else 0.5
        chosen = self.positions > threshold
        empty = ~chosen.any(axis=1)
        chosen[empty, self.positions[empty].argmax(axis=1)] = True
        if self._limit is not None:
            # Among the chosen ones, those with the highest positions stay.
            order = np.argsort(-np.where(chosen, self.positions, -1.0), axis=1, kind="stable")
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
        self._forget()

    def learn(self, fitness: npt.NDArray[np.generic], masks: Masks) -> None:
        """Update every particle's own best and the best of all."""
        values = np.asarray(fitness, dtype=np.float64)
        sizes = masks.sum(axis=1)
        better = values > self._memory_fitness
        better |= (values == self._memory_fitness) & (sizes < self._memory_size)
        self._memory[better] = (self.positions[better] + masks[better]) / 2
        self._memory_fitness[better] = values[better]
        self._memory_size[better] = sizes[better]
        first = int(np.lexsort((sizes, -values))[0])
        found = Best(masks[first].copy(), float(values[first]))
        if found.beats(self.best):
            self.best = found
            self._best_position = self._memory[first].copy()

    def move(self, step: int) -> None:
        """Gaussian sampling between own and global best, then uniform mutation."""
        n, d = self.positions.shape
        centre = (self._memory + self._best_position) / 2
        spread = np.abs(self._memory - self._best_position)
        sampled = centre + spread * self._rng.standard_normal((n, d))
        stay = self._rng.random((n, d)) >= 0.5
        self.positions = np.clip(np.where(stay, self._memory, sampled), 0.0, 1.0)
        self._mutate(step)

    def to_plain(self) -> dict[str, Any]:
        """Plain values and arrays, to go on from later."""
        return {
            "rng": self._rng.bit_generator.state,
            "positions": self.positions,
            "memory": [self._memory, self._memory_fitness, self._memory_size],
            "best": None if self.best is None else [self.best.mask, self.best.fitness],
            "best_position": self._best_position,
        }

    def load(self, saved: dict[str, Any]) -> None:
        """Take over what :meth:`to_plain` gave."""
        self._rng.bit_generator.state = saved["rng"]
        self.positions = saved["positions"]
        self._memory, self._memory_fitness, self._memory_size = saved["memory"]
        self.best = None if saved["best"] is None else Best(*saved["best"])
        self._best_position = saved["best_position"]

    def _mutate(self, step: int) -> None:
        """Copy some elements of another particle's memory; rarer and smaller as time goes on."""
        n, d = self.positions.shape
        chance = 0.2 / (1 + np.exp(step - 5.0))
        for i in np.flatnonzero(self._rng.random(n) < chance):
            elements = self._rng.choice(d, size=min(d, int(np.ceil(chance * n))), replace=False)
            self.positions[i, elements] = self._memory[self._rng.integers(n)][elements]


def search(swarm: Swarm, fitness: Fitness, n_iterations: int) -> list[Best]:
    """Run a swarm on its own (one party, or pooled data); its best subset after every step."""
    course = []
    for step in range(n_iterations):
        masks = swarm.masks()
        swarm.learn(fitness(masks), masks)
        swarm.move(step)
        assert swarm.best is not None  # noqa: S101 - learn sets it
        course.append(swarm.best)
    return course
