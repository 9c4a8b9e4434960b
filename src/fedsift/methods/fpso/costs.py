# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Cost of FPSO-FS: few bytes, and as many trained classifiers as the swarms find new subsets."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fedsift.costs.counts import MASKING_KEY, Counts
from fedsift.data import Federation
from fedsift.data.remote_table import is_remote
from fedsift.methods.fpso import messages, swarm
from fedsift.methods.fpso.block_votes import N_PARTICLES, N_STEPS
from fedsift.methods.fpso.local_search import Params
from fedsift.methods.fpso.third_party import ACCURACY_STEPS, Answer, answer_type
from fedsift.methods.fpso.votes import number_of_blocks
from fedsift.protocol import MaskedArray, PublicArray

_LANDSCAPES = 3
_SMOOTH = 0.5


def tally_fpso(federation: Federation, params: Params) -> Counts:
    """Walk through a run; the number of different subsets is that of swarms on made-up data."""
    tally, n, m = Counts(), len(federation.tables), federation.n_features
    tally.side_by_side = n
    tally.ask(messages.Hello(), messages.Greeting(MASKING_KEY, m), others=n)
    tally.ask(messages.Roster(dict.fromkeys(federation.tables, MASKING_KEY)), others=n)
    mask = PublicArray.of(np.zeros(m, dtype=bool))
    chosen = messages.GlobalSubset(mask, False)
    if params.noisy:
        _votes(tally, federation, params)
        tally.ask(chosen, others=n)
        return tally
    if params.mode == "federated-fitness":
        steps = params.n_iterations * params.n_rounds
        masks = PublicArray.of(np.zeros((params.n_particles, m), dtype=bool))
        asked = messages.Particles(40, masks)
        tally.ask(asked, _answer(params, params.n_particles), others=n, times=steps)
        tally.ask(chosen, others=n)
        numbers = params.n_particles * steps
    else:
        rounds = params.n_rounds
        masks = PublicArray.of(np.zeros((n, m), dtype=bool))
        tally.ask(messages.SearchWanted(1), messages.LocalSubset(mask), others=n, times=rounds)
        tally.ask(messages.Candidates(1, masks), _answer(params, n), others=n, times=rounds)
        tally.ask(chosen, others=n, times=rounds)
        numbers = n * rounds
    tally.mask(numbers, n)
    n_subsets, size = different_subsets(m, params)
    rounds = params.n_rounds if params.mode == "rounds" else 1
    n_tried = n_subsets + (n - 1) * rounds
    for table in federation.tables.values():
        distances = n_tried * table.n_rows**2
        tally.do("train", "subset", n_tried)
        tally.do("train", "swarm subset", n_tried)
        tally.do("train", "subset distance", distances * (1 + params.k) / 4)
        tally.do("train", "subset distance column", distances * size)
    return tally


def _votes(tally: Counts, federation: Federation, params: Params) -> None:
    """Blocks that vote: a short search in each, and one exchange."""
    n, m = len(federation.tables), federation.n_features
    votes = MaskedArray.of(np.zeros((m, 1), dtype=np.uint64))
    tally.ask(messages.VotesWanted(), messages.NoisyVotes(votes), others=n)
    tally.mask(m, n)
    tally.do("mask", "noise number", n * m)
    swarms = Params(n_particles=N_PARTICLES, n_iterations=N_STEPS, n_rounds=1)
    n_subsets, size = different_subsets(m, swarms)
    target = next(iter(federation.targets.values()), None)
    n_classes = 2 if target is None or is_remote(target) else len(target.classes)
    for party, table in federation.tables.items():
        n_blocks = number_of_blocks(table.n_rows, n_classes, params, party)
        # The party itself tries two subsets more, to know which one it would use.
        n_tried = n_blocks * (n_subsets + 2)
        distances = n_tried * (table.n_rows / n_blocks) ** 2
        tally.do("train", "subset", n_tried)
        tally.do("train", "swarm subset", n_blocks * n_subsets)
        tally.do("train", "subset distance", distances * (1 + params.k) / 4)
        tally.do("train", "subset distance column", distances * size)


def _answer(params: Params, n_subsets: int) -> Answer:
    kind = answer_type(params)
    if kind is messages.Accuracies:
        return messages.Accuracies(PublicArray.of(np.zeros(n_subsets)))
    if kind is messages.MaskedShortfalls:
        masked = np.zeros((n_subsets * ACCURACY_STEPS, 1), dtype=np.uint64)
        return messages.MaskedShortfalls(MaskedArray.of(masked))
    return messages.MaskedAccuracies(MaskedArray.of(np.zeros((n_subsets, 1), dtype=np.uint64)))


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
