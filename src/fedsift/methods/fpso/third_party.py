# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""FPSO-FS: every party searches subsets with a swarm, a third party finds the best for all.

Paper 004 (federated feature selection based on particle swarm optimisation).

Setting   Horizontal; every party holds rows and class labels.
Roles     *third party* (A of the paper; drives, neutral), *participant* (B; at least two).
Adversary Honest but curious. All participants but one together with the third party can compute
          that one's accuracies and subsets from the masked sums. Masks depend on what the third
          party told last: if it tells parties different things, nothing adds up.

Who learns what
  third party  the parties' best subsets without their owners, and the mean (or smallest) accuracy
               of each. With ``aggregation="third-party"`` (the paper) also whose a subset is, and
               every party's accuracy on every subset, which tells class mixes.
  participant  all best subsets of a round without their owners, and the one that won. With two
               participants the subset that is not one's own is the other's.

Algorithm 1, line by line
  3-8    local search                    Participant.search (maths.swarm)
  9-12   exchange and cross-evaluation   UnnamedSubset or LocalSubset, Candidates, and one of
                                         MaskedAccuracies, MaskedShortfalls, Accuracies
  13,18  integration                     ThirdParty._winner
  14     guided start of the next round  Participant.take (Algorithm 2)

Deviations, each with its reason (ADR 9)
  - A is trusted in the paper and sees an M x M matrix of accuracies on small samples, which
    profiles every party. By default only masked means appear, or with ``max-min`` the smallest.
  - A also sees whose every subset is, which tells over the rounds what matters at which party. By
    default subsets reach it as sums from which only all of them together can be read (`unnamed`).
  - Accuracies leave a party in steps of 1/1024: exact ratios would tell its number of rows, alone
    and, with two parties, even from the sum.
  - A position above one half chooses the feature (``decoding="threshold"``). Drawing it at random
    as the paper does is as good and visits more subsets, so costs more; both follow the seed.
  - ``federated-fitness`` (one swarm, masked fitness) shows no party's subset.
  - A party may keep its own subset where that is better on its own rows (``party_support_``).
  - With an ``epsilon`` blocks of rows vote instead, with noise: `methods.fpso_votes`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.crypto.identity import addressed
from fedsift.crypto.masking import MaskingKey, PairwiseMasks, to_limbs, unmask_sum
from fedsift.data.state_files import State
from fedsift.data.table import PartyTable
from fedsift.data.target import Target
from fedsift.errors import ProtocolError
from fedsift.methods.fpso import messages, subset_fitness, swarm, unnamed
from fedsift.methods.fpso import votes as fpso_votes
from fedsift.methods.fpso.local_search import (
    ACCURACY_STEPS,
    LocalSearch,
    Params,
    classes_of,
    digest_of,
    fitness_with,
    generator,
    numbers_of,
    same_columns,
    shortfalls_of,
)
from fedsift.protocol import (
    MaskedArray,
    Message,
    Network,
    Protocol,
    PublicArray,
    Role,
    handles,
    make_role,
)
from fedsift.protocol.resume import Resumable, ResumableDriver

Floats = npt.NDArray[np.float64]
Masks = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]

Subset = messages.UnnamedSubset | messages.LocalSubset
Answer = messages.MaskedAccuracies | messages.MaskedShortfalls | messages.Accuracies

THIRD_PARTY = "third-party"


def answer_type(params: Params) -> type[Answer]:
    """What participants say about subsets they were asked to try."""
    if params.aggregation == "third-party":
        return messages.Accuracies
    return (
        messages.MaskedShortfalls if params.integration == "max-min" else messages.MaskedAccuracies
    )


def subset_type(params: Params) -> type[Subset]:
    """How participants tell their best subsets."""
    openly = params.aggregation == "third-party"
    return messages.LocalSubset if openly else messages.UnnamedSubset


def messages_used(params: Params) -> tuple[type[Message], ...]:
    """The messages a run with these settings sends, for plan and policy."""
    if params.noisy:
        return fpso_votes.MESSAGES
    answer = answer_type(params)
    if params.mode == "federated-fitness":
        return (
            messages.Hello,
            messages.Greeting,
            messages.Roster,
            messages.Particles,
            answer,
            messages.GlobalSubset,
        )
    return (
        messages.Hello,
        messages.Greeting,
        messages.Roster,
        messages.SearchWanted,
        subset_type(params),
        messages.Candidates,
        answer,
        messages.GlobalSubset,
    )


class Participant(Resumable, name="participant", signals=messages.SIGNALS):
    """B of the paper: owns rows and labels, searches on them and tries others' subsets."""

    def __init__(
        self,
        table: PartyTable,
        target: Target,
        params: Params,
        known: subset_fitness.SubsetFitness | None = None,
        checkpoints: Path | None = None,
    ) -> None:
        self.keep_checkpoints(checkpoints, table.name, params, table, target)
        local = LocalSearch.over(table, target, params, known)
        self.fitness, self._swarm, self._n_rows = local.fitness, local.particles, local.n_rows
        self._rows = (numbers_of(table), target.codes)
        self._n_features = self._swarm.positions.shape[1]
        self._params = params
        self._key = MaskingKey.generate()
        self._masks: PairwiseMasks | None = None
        self._n_parties = 0
        self._global: Masks | None = None
        self._n_steps, self._highest = 0, 0
        self.history: list[dict[str, Any]] = []

    @handles(messages.Hello)
    async def greet(self, ask: messages.Hello, net: Network) -> messages.Greeting:
        """Offer its own masking key."""
        key = self._key.announce(net, net.members("participant"))
        return messages.Greeting(key, self._n_features)

    @handles(messages.Roster)
    async def meet(self, told: messages.Roster, net: Network) -> None:
        """Agree on a mask with every other participant."""
        self._masks = self._key.make_masks(net, told.keys, net.members("participant"))
        self._n_parties = len(told.keys)

    @handles(messages.SearchWanted)
    async def search(self, ask: messages.SearchWanted, net: Network) -> Subset:
        """Lines 3-8: a round of its own swarm."""
        with self.clock("train"):
            course = swarm.search(self._swarm, self.fitness.correct, self._params.n_iterations)
        for best in course:
            self._note(ask.round_number, net.party, best.fitness, int(best.mask.sum()))
        subset = course[-1].mask
        if subset_type(self._params) is messages.LocalSubset:
            return messages.LocalSubset(PublicArray.of(subset))
        summands = unnamed.summands(subset, self._n_parties)
        words = unnamed.words_needed(self._n_features, self._n_parties)
        context = f"subsets {ask.round_number}, guided by {digest_of(self._global)}"
        return messages.UnnamedSubset(self._sealed(summands, context, words))

    @handles(messages.Candidates)
    async def evaluate(self, ask: messages.Candidates, net: Network) -> Answer:
        """Lines 11-12: everybody's subsets on its own rows."""
        context = f"candidates {ask.step}: {digest_of(ask.masks.array())}"
        return self._answer(self._correct(ask.masks), context)

    @handles(messages.Particles)
    async def evaluate_particles(self, ask: messages.Particles, net: Network) -> Answer:
        """A step of the common swarm on its own rows."""
        correct = self._correct(ask.masks)
        self._highest = max(self._highest, int(correct.max()))
        self._note(ask.step // self._params.n_iterations + 1, net.party, self._highest)
        return self._answer(correct, f"particles {ask.step}: {digest_of(ask.masks.array())}")

    @handles(messages.GlobalSubset)
    async def take(self, told: messages.GlobalSubset, net: Network) -> None:
        """Lines 13-14: remember the winner and start the next round near it."""
        self._global = told.mask.array(shape=(self._n_features,)).astype(bool)
        best = self._swarm.best
        self._swarm.guide(self._global, None if best is None else best.mask)

    def facts(self) -> dict[str, Any]:
        """The subset this party would use: the common one, unless its own is better here."""
        assert self._global is not None  # noqa: S101 - every run ends with a global subset
        common = int(self.fitness.correct(self._global[None])[0])
        best = self._swarm.best
        keeps_own = best is not None and best.fitness > common
        kept = best.mask if best is not None and keeps_own else self._global
        return {
            "selected": np.flatnonzero(self._global).tolist(),
            "kept": kept,
            "keeps_own": keeps_own,
            "accuracy": common / self._n_rows,
            "history": self.history,
        }

    def checkpoint(self) -> State:
        """The swarm, what it has tried, and the curve so far."""
        return {
            "swarm": self._swarm.to_plain(),
            "folds": self.fitness.folds,
            "tried": self.fitness.to_plain(),
            "global": self._global,
            "highest": self._highest,
            "history": self.history,
        }

    def restore(self, saved: State) -> None:
        """Go on with the swarm of an interrupted run."""
        self._swarm.load(saved["swarm"])
        if not np.array_equal(saved["folds"], self.fitness.folds):
            # Without a seed other folds were drawn by now; what was tried belongs to the first.
            self.fitness = fitness_with(*self._rows, self._params, saved["folds"])
        self.fitness.load(saved["tried"])
        self._global, self._highest = saved["global"], saved["highest"]
        self.history = saved["history"]
        self._n_steps = len(self.history)

    def _correct(self, wanted: PublicArray) -> Integers:
        masks = wanted.array(shape=(wanted.shape[0], self._n_features)).astype(bool)
        with self.clock("evaluate"):
            return self.fitness.correct(masks)

    def _answer(self, correct: Integers, context: str) -> Answer:
        steps = np.rint(correct * (ACCURACY_STEPS / self._n_rows)).astype(np.int64)
        kind = answer_type(self._params)
        if kind is messages.Accuracies:
            return messages.Accuracies(PublicArray.of(steps / ACCURACY_STEPS))
        if kind is messages.MaskedAccuracies:
            return messages.MaskedAccuracies(self._sealed(steps, context))
        return messages.MaskedShortfalls(self._sealed(shortfalls_of(steps), context))

    def _sealed(self, values: Integers | list[int], context: str, words: int = 1) -> MaskedArray:
        assert self._masks is not None  # noqa: S101 - the roster comes first
        if not self._params.protected:
            return MaskedArray.of(to_limbs(values, words))
        return MaskedArray.of(self._masks.mask(values, context, words))

    def _note(self, round_number: int, party: str, correct: float, size: int | None = None) -> None:
        """One more point of the convergence curve."""
        self._n_steps += 1
        entry = {
            "round": round_number,
            "step": self._n_steps,
            "party": party,
            "accuracy": correct / self._n_rows,
        }
        self.history.append(entry if size is None else {**entry, "n_features": size})


@dataclass(frozen=True)
class Winner:
    """The outcome: the common subset and its mean accuracy by round.

    ``found_in`` counts for every feature in how many of ``n_subsets`` subsets it was: the best ones
    of all parties and rounds, or with a common swarm those of all particles in the last step.
    """

    mask: Masks
    accuracy: float
    history: list[dict[str, Any]] = field(default_factory=list)
    found_in: tuple[int, ...] = ()
    n_subsets: int = 0


class ThirdParty(ResumableDriver, name="third party", signals=messages.SIGNALS):
    """A of the paper: holds no data; compares subsets by what the participants report."""

    def __init__(self, params: Params, checkpoints: Path | None = None) -> None:
        self._params = params
        self.keep_checkpoints(checkpoints, THIRD_PARTY, params)
        self._subsets: Masks | None = None
        self._best: swarm.Best | None = None
        self._history: list[dict[str, Any]] = []
        self._found_in: list[int] = []
        self._n_subsets = 0
        self._particles: swarm.Swarm | None = None
        self._swarm_state: State | None = None

    async def drive(self, net: Network) -> Winner:
        """Algorithm 1, seen from A."""
        await self.begin(net)
        parties = net.members("participant")
        greetings = await net.ask("participant", messages.Hello(), messages.Greeting)
        keys = {party: g.key for party, g in zip(parties, greetings, strict=True)}
        await net.tell("participant", {p: messages.Roster(addressed(keys, p)) for p in keys})
        n_features = same_columns(greetings)
        if self._params.mode == "federated-fitness":
            await self._common_swarm(n_features, net)
        else:
            await self._exchange(n_features, net)
        await self.finish(net)
        assert self._best is not None  # noqa: S101 - there is at least one round
        found = (tuple(self._found_in), self._n_subsets)
        return Winner(self._best.mask, self._best.fitness, self._history, *found)

    async def _exchange(self, n_features: int, net: Network) -> None:
        """Rounds of local searches and comparisons; both are units that are not done twice."""
        for number in range(len(self._history) + 1, self._params.n_rounds + 1):
            if self._subsets is None:
                ask = messages.SearchWanted(number)
                replies = await net.ask("participant", ask, subset_type(self._params))
                self._subsets = self._read(replies, n_features)
                await self.done(net)
            found = await self._compare(self._subsets, number, net)
            self._count(self._subsets)
            if self._best is None or found.beats(self._best):
                self._best = found
            step = number * self._params.n_iterations
            self._history.append(self._point(number, step, self._best))
            self.note(**self._history[-1])
            told = messages.GlobalSubset(PublicArray.of(self._best.mask))
            await net.tell("participant", told)
            self._subsets = None
            await self.done(net)

    def _read(self, replies: Sequence[Subset], n_features: int) -> Masks:
        """All subsets of a round, in an order that tells nothing of their owners."""
        openly = [r.mask for r in replies if isinstance(r, messages.LocalSubset)]
        if openly:
            subsets = [mask.array(shape=(n_features,)).astype(bool) for mask in openly]
            return unnamed.in_order(np.stack(subsets))
        words = unnamed.words_needed(n_features, len(replies))
        shape = (2 * len(replies), words)
        sealed = [r.summands for r in replies if isinstance(r, messages.UnnamedSubset)]
        sums = unmask_sum([part.array(shape=shape) for part in sealed], words)
        return unnamed.subsets_in(sums, n_features)

    def checkpoint(self) -> State:
        """What the participants have told, and the common swarm if there is one."""
        best = self._best
        return {
            "subsets": self._subsets,
            "best": None if best is None else [best.mask, best.fitness],
            "history": self._history,
            "found_in": [self._found_in, self._n_subsets],
            "swarm": None if self._particles is None else self._particles.to_plain(),
        }

    def restore(self, saved: State) -> None:
        """Go on after the last finished search, comparison or round."""
        self._subsets = saved["subsets"]
        self._best = None if saved["best"] is None else swarm.Best(*saved["best"])
        self._history = saved["history"]
        self._found_in, self._n_subsets = saved["found_in"]
        self._swarm_state = saved["swarm"]

    def _count(self, subsets: Masks) -> None:
        """Note in how many subsets every feature is."""
        found = subsets.sum(axis=0).tolist()
        before = self._found_in or [0] * len(found)
        self._found_in = [a + b for a, b in zip(before, found, strict=True)]
        self._n_subsets += len(subsets)

    async def _compare(self, subsets: Masks, step: int, net: Network) -> swarm.Best:
        """Lines 16-18: let everybody try every subset; of equal ones, fewer features win."""
        values = await self._values(messages.Candidates(step, PublicArray.of(subsets)), net)
        winner = int(np.lexsort((subsets.sum(axis=1), -values))[0])
        return swarm.Best(subsets[winner], float(values[winner]))

    async def _values(self, ask: messages.Candidates | messages.Particles, net: Network) -> Floats:
        """Mean or smallest accuracy of every subset over the parties."""
        replies = await net.ask("participant", ask, answer_type(self._params))
        values = self._together(replies)
        if values.shape != (ask.masks.shape[0],) or not ((values >= 0) & (values <= 1)).all():
            raise ProtocolError(
                "The participants' accuracies do not add up to accuracies.",
                "Every participant must give one number from 0 to 1 for every subset.",
                "Check that all run the same version; one of them did not follow the protocol.",
            )
        return values

    def _together(self, replies: Sequence[Answer]) -> Floats:
        sums = [r.accuracies.array() for r in replies if isinstance(r, messages.MaskedAccuracies)]
        if sums:
            totals = np.array(unmask_sum(sums), dtype=np.float64)
            return totals / (ACCURACY_STEPS * len(replies))
        noise = [r.shortfalls.array() for r in replies if isinstance(r, messages.MaskedShortfalls)]
        if noise:
            *missed, left = unmask_sum(noise)
            n_subsets = len(missed) // ACCURACY_STEPS
            levels = np.array(missed[: n_subsets * ACCURACY_STEPS]).reshape(n_subsets, -1)
            return np.full(n_subsets, -1.0) if left else (levels == 0).sum(axis=1) / ACCURACY_STEPS
        matrix = np.stack(
            [r.accuracies.array() for r in replies if isinstance(r, messages.Accuracies)]
        )
        together = matrix.min if self._params.integration == "max-min" else matrix.mean
        return np.asarray(together(axis=0), dtype=np.float64)

    def _point(self, round_number: int, step: int, best: swarm.Best) -> dict[str, Any]:
        """A point of the common subset's convergence curve."""
        return {
            "round": round_number,
            "step": step,
            "party": "*",
            "accuracy": best.fitness,
            "n_features": int(best.mask.sum()),
        }

    async def _common_swarm(self, n_features: int, net: Network) -> None:
        """One swarm at A whose fitness is the pooled accuracy."""
        n_iterations = self._params.n_iterations
        particles = self._particles = swarm.Swarm(
            n_features,
            self._params.n_particles,
            generator(self._params.seed, THIRD_PARTY),
            self._params.max_features,
            self._params.decoding,
        )
        if self._swarm_state is not None:
            particles.load(self._swarm_state)
        for step in range(len(self._history), n_iterations * self._params.n_rounds):
            masks = particles.masks()
            values = await self._values(messages.Particles(step, PublicArray.of(masks)), net)
            particles.learn(values, masks)
            particles.move(step % n_iterations)
            assert particles.best is not None  # noqa: S101 - learn sets it
            self._best = particles.best
            self._history.append(self._point(step // n_iterations + 1, step + 1, particles.best))
            self.note(**self._history[-1])
            if (step + 1) % n_iterations == 0:
                self._found_in, self._n_subsets = [], 0
                self._count(masks)
                await self.done(net)
        assert self._best is not None  # noqa: S101 - at least one step ran
        told = messages.GlobalSubset(PublicArray.of(self._best.mask))
        await net.tell("participant", told)


PROTOCOL = Protocol(
    name="fpso",
    messages=messages.MESSAGES,
    roles=(ThirdParty, Participant),
)


def build_nodes(
    tables: Mapping[str, PartyTable],
    targets: Mapping[str, Target | None],
    params: Params,
    known: Mapping[str, subset_fitness.SubsetFitness] | None = None,
    checkpoints: Path | None = None,
) -> dict[str, Sequence[Role]]:
    """A neutral third party and one participant per party; ``known`` as in `LocalSearch`."""
    driver = fpso_votes.VoteCounter(params) if params.noisy else ThirdParty(params, checkpoints)
    nodes: dict[str, Sequence[Role]] = {THIRD_PARTY: (driver,)}
    for party, table in tables.items():
        target = classes_of(party, targets)
        if params.noisy:
            role = make_role(fpso_votes.Voter, table, target, params)
        else:
            own = (known or {}).get(party)
            role = make_role(Participant, table, target, params, own, checkpoints)
        nodes[party] = (role,)
    return nodes
