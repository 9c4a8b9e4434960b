# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Cost of FPSO-FS: few bytes, and as many trained classifiers as the swarms find new subsets."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from fedsift.costs.counting import count_run, extrapolate, sample_federation
from fedsift.costs.counts import Counts, Expected
from fedsift.data import Federation
from fedsift.data.federation import is_remote
from fedsift.methods.fpso import swarm
from fedsift.methods.fpso.block_votes import N_PARTICLES, N_STEPS
from fedsift.methods.fpso.local_search import Params, fewest_rows
from fedsift.methods.fpso.votes import FEWEST_BLOCKS, FEWEST_ROWS, number_of_blocks

_LANDSCAPES = 3
_SMOOTH = 0.5


def expect_fpso(selector: Any, federation: Federation, params: Params) -> Expected:
    """Messages of one and two rounds on a few rows, and subsets that swarms try on all rows."""
    remarks = ["Subsets are tried once; how many different ones a swarm meets is an estimate."]
    if params.classifier is not None:
        remarks.append("Seconds are those of nearest neighbours, not of the given classifier.")
    n_rows = FEWEST_BLOCKS * max(FEWEST_ROWS, fewest_rows(params.n_folds, params.k))
    few = sample_federation(federation, n_rows)
    if params.noisy:
        voting = clone(selector).set_params(n_blocks=FEWEST_BLOCKS)
        counts = count_run(voting._prepare(few, simulated=True).nodes)
        _count_votes(counts, federation, params)
    else:
        shorter = [clone(selector).set_params(n_iterations=1, n_rounds=n) for n in (1, 2)]
        one, two = (count_run(run._prepare(few, simulated=True).nodes) for run in shorter)
        steps = params.n_iterations * params.n_rounds
        counts = extrapolate(one, two, params.n_rounds if params.mode == "rounds" else steps)
        _count_subsets(counts, federation, params)
    counts.side_by_side = len(federation.tables)
    return Expected(counts, remarks=tuple(remarks))


def _count_subsets(counts: Counts, federation: Federation, params: Params) -> None:
    """Subsets that every party's classifier tries."""
    n_subsets, size = different_subsets(federation.n_features, params)
    rounds = params.n_rounds if params.mode == "rounds" else 1
    n_tried = n_subsets + (len(federation.tables) - 1) * rounds
    for table in federation.tables.values():
        distances = n_tried * table.n_rows**2
        counts.do("train", "subset", n_tried)
        counts.do("train", "swarm subset", n_tried)
        counts.do("train", "subset distance", distances * (1 + params.k) / 4)
        counts.do("train", "subset distance column", distances * size)


def _count_votes(counts: Counts, federation: Federation, params: Params) -> None:
    """A short search in every block."""
    swarms = Params(n_particles=N_PARTICLES, n_iterations=N_STEPS, n_rounds=1)
    n_subsets, size = different_subsets(federation.n_features, swarms)
    target = next(iter(federation.targets.values()), None)
    n_classes = 2 if target is None or is_remote(target) else len(target.classes)
    for party, table in federation.tables.items():
        n_blocks = number_of_blocks(table.n_rows, n_classes, params, party)
        # The party itself tries two subsets more, to know which one it would use.
        n_tried = n_blocks * (n_subsets + 2)
        distances = n_tried * (table.n_rows / n_blocks) ** 2
        counts.do("train", "subset", n_tried)
        counts.do("train", "swarm subset", n_blocks * n_subsets)
        counts.do("train", "subset distance", distances * (1 + params.k) / 4)
        counts.do("train", "subset distance column", distances * size)


def different_subsets(n_features: int, params: Params) -> tuple[float, float]:
    """How many different subsets a swarm tries, and their mean size.

    Subsets are not tried twice. How often a swarm comes back to one depends on how fast it
    converges, which swarms on made-up landscapes show.
    """
    counts, sizes = [], []
    for seed in range(_LANDSCAPES):
        rng = np.random.default_rng(seed)
        landscape = _Landscape(n_features, rng)
        particles = swarm.Swarm(
            n_features, params.n_particles, rng, params.max_features, params.decoding
        )
        steps = params.n_iterations
        if params.mode == "rounds":
            for _ in range(params.n_rounds):
                best = swarm.search(particles, landscape.fitness, steps)[-1]
                particles.guide(best.mask)
        else:
            swarm.search(particles, landscape.fitness, steps * params.n_rounds)
        counts.append(len(landscape.seen))
        sizes.append(landscape.mean_size)
    return float(np.mean(counts)), float(np.mean(sizes))


class _Landscape:
    """Some features help, most do not; accuracies come in steps, as those of rows do."""

    def __init__(self, n_features: int, rng: np.random.Generator) -> None:
        self._worth = rng.normal(0.0, 1.0, n_features) / np.sqrt(n_features)
        self._rng = np.random.default_rng(rng.integers(1 << 32))
        self.seen: dict[bytes, tuple[float, int]] = {}

    @property
    def mean_size(self) -> float:
        """Features of a subset."""
        return float(np.mean([size for _, size in self.seen.values()]))

    def fitness(self, masks: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
        """Fitness of some subsets, the same whenever they are asked."""
        found = []
        for mask in masks:
            key = np.packbits(mask).tobytes()
            if key not in self.seen:
                value = float(self._worth @ mask) + self._rng.normal(0.0, _SMOOTH)
                self.seen[key] = (round(value, 2), int(mask.sum()))
            found.append(self.seen[key][0])
        return np.array(found)
