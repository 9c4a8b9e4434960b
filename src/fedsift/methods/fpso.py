# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""FPSO-FS: every party searches subsets with a swarm, a third party finds the best for all.

Paper 004 (federated feature selection based on particle swarm optimisation).

Setting   Horizontal; every party holds rows and class labels.
Roles     *third party* (A of the paper; drives, neutral), *participant* (B; at least two).
Adversary Honest but curious. All participants but one together with the third party can compute
          that one's accuracies from the masked sums.

Who learns what
  third party  the parties' best subsets; with ``aggregation="masked"`` mean accuracies only, with
               ``"third-party"`` (the paper) every party's accuracy on every subset.
  participant  all best subsets of a round without their owners, and the one that won.

Algorithm 1, line by line
  3-8    local search                    Participant.search (maths.swarm)
  9-12   exchange and cross-evaluation   LocalSubset, Candidates, MaskedAccuracies / Accuracies
  13,18  integration                     ThirdParty._winner
  14     guided start of the next round  Participant.take (Algorithm 2)

Deviations, each with its reason
  - A is trusted in the paper and sees an M x M matrix of accuracies on small samples, which
    profiles every party. By default only masked means appear.
  - Decoding is deterministic, so that a seed fixes the result.
  - ``best-of-local`` (one exchange) and ``federated-fitness`` (one swarm, masked fitness) are
    cheaper or more private and, as far as measured, as good.
  - A party keeps its own subset where that is better on its own rows (``party_support_``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.crypto.masking import MaskingKey, PairwiseMasks, to_limbs, unmask_sum
from fedsift.data.table import PartyTable
from fedsift.data.target import Target
from fedsift.errors import ColumnError, ParameterError, PartyError, ValueProblem
from fedsift.maths import swarm
from fedsift.methods.fpso_messages import (
    Accuracies,
    Candidates,
    GlobalSubset,
    Greeting,
    Hello,
    LocalSubset,
    MaskedAccuracies,
    Particles,
    Roster,
    SearchWanted,
)
from fedsift.protocol import (
    DrivingRole,
    MaskedArray,
    Message,
    Network,
    Protocol,
    PublicArray,
    Role,
    handles,
)

Floats = npt.NDArray[np.float64]
Masks = npt.NDArray[np.bool_]

ACCURACY_BITS = 40
THIRD_PARTY = "third-party"


@dataclass(frozen=True)
class Params:
    """Settings of one run, the same at every party.

    Parameters
    ----------
    max_features : int, optional
        Largest subset; any size if missing.
    n_particles, n_iterations, n_rounds : int
        Swarm size, steps per round, rounds.
    integration : {"mean", "max-min"}
    aggregation : {"masked", "third-party"}
    mode : {"rounds", "best-of-local", "federated-fitness"}
    k, n_folds : int
        Neighbours and inner folds of the fitness.
    classifier : scikit-learn classifier, optional
        Replaces the nearest neighbours, more slowly.
    protected : bool
        False sends sums without masks (``security="plain"``).
    """

    max_features: int | None = None
    n_particles: int = 20
    n_iterations: int = 25
    n_rounds: int = 4
    integration: str = "mean"
    aggregation: str = "masked"
    mode: str = "rounds"
    k: int = 3
    n_folds: int = 5
    classifier: Any = None
    protected: bool = True
    seed: int | None = None


def messages_used(params: Params) -> tuple[type[Message], ...]:
    """The messages a run with these settings sends, for plan and policy."""
    answer = MaskedAccuracies if params.aggregation == "masked" else Accuracies
    if params.mode == "federated-fitness":
        return (Hello, Greeting, Roster, Particles, answer, GlobalSubset)
    return (Hello, Greeting, Roster, SearchWanted, LocalSubset, Candidates, answer, GlobalSubset)


class Participant(Role, name="participant"):
    """B of the paper: owns rows and labels, searches on them and tries others' subsets."""

    def __init__(self, table: PartyTable, target: Target, params: Params) -> None:
        X = _numbers(table)
        _check_rows(table, params)
        rng = _rng(params.seed, table.name)
        folds = swarm.inner_folds(target.codes, params.n_folds, rng)
        self._fitness: swarm.KnnFitness | swarm.ClassifierFitness
        if params.classifier is None:
            self._fitness = swarm.KnnFitness(X, target.codes, folds, params.k)
        else:
            self._fitness = swarm.ClassifierFitness(X, target.codes, folds, params.classifier)
        self._n_rows, self._n_features = X.shape
        self._params = params
        self._key = MaskingKey.generate()
        self._masks: PairwiseMasks | None = None
        self._swarm = swarm.Swarm(X.shape[1], params.n_particles, rng, params.max_features)
        self._global: Masks | None = None
        self.history: list[dict[str, Any]] = []

    @handles(Hello)
    async def greet(self, ask: Hello, net: Network) -> Greeting:
        """Offer the own masking key."""
        return Greeting(self._key.public, self._n_features)

    @handles(Roster)
    async def meet(self, told: Roster, net: Network) -> None:
        """Agree on a mask with every other participant."""
        self._masks = PairwiseMasks(net.party, self._key, told.keys)

    @handles(SearchWanted)
    async def search(self, ask: SearchWanted, net: Network) -> LocalSubset:
        """Lines 3-8: a round of the own swarm."""
        steps = self._params.n_iterations
        if self._params.mode == "best-of-local":
            steps *= self._params.n_rounds
        with self.clock("train"):
            best = swarm.search(self._swarm, self._fitness.correct, steps)
        self.history.append(
            {
                "round": ask.round_number,
                "party": net.party,
                "accuracy": best.fitness / self._n_rows,
                "n_features": int(best.mask.sum()),
            }
        )
        return LocalSubset(PublicArray.of(best.mask))

    @handles(Candidates)
    async def evaluate(self, ask: Candidates, net: Network) -> MaskedAccuracies | Accuracies:
        """Lines 11-12: everybody's subsets on the own rows."""
        return self._answer(ask.masks, f"candidates {ask.step}")

    @handles(Particles)
    async def evaluate_particles(
        self, ask: Particles, net: Network
    ) -> MaskedAccuracies | Accuracies:
        """A step of the common swarm on the own rows."""
        return self._answer(ask.masks, f"particles {ask.step}")

    @handles(GlobalSubset)
    async def take(self, told: GlobalSubset, net: Network) -> None:
        """Lines 13-14: remember the winner and start the next round near it."""
        self._global = told.mask.array(shape=(self._n_features,)).astype(bool)
        best = self._swarm.best
        local = None if told.own or best is None else best.mask
        self._swarm.guide(self._global, local)

    def facts(self) -> dict[str, Any]:
        """The subset this party would use: the common one, unless its own is better here."""
        assert self._global is not None  # noqa: S101 - every run ends with a global subset
        common = int(self._fitness.correct(self._global[None])[0])
        best = self._swarm.best
        keeps_own = best is not None and best.fitness > common
        kept = best.mask if best is not None and keeps_own else self._global
        return {"kept": kept, "keeps_own": keeps_own, "accuracy": common / self._n_rows}

    def _answer(self, wanted: PublicArray, context: str) -> MaskedAccuracies | Accuracies:
        masks = wanted.array(shape=(wanted.shape[0], self._n_features)).astype(bool)
        with self.clock("evaluate"):
            accuracies = self._fitness.correct(masks) / self._n_rows
        if self._params.aggregation == "third-party":
            return Accuracies(PublicArray.of(accuracies))
        fixed = np.rint(np.ldexp(accuracies, ACCURACY_BITS)).astype(np.int64).tolist()
        assert self._masks is not None  # noqa: S101 - the roster comes first
        sealed = self._masks.mask(fixed, context) if self._params.protected else to_limbs(fixed, 1)
        return MaskedAccuracies(MaskedArray.of(sealed))


@dataclass(frozen=True)
class Winner:
    """The outcome: the common subset and its mean accuracy by round."""

    mask: Masks
    accuracy: float
    history: list[dict[str, Any]] = field(default_factory=list)


class ThirdParty(DrivingRole, name="third party"):
    """A of the paper: holds no data; compares subsets by what the participants report."""

    def __init__(self, params: Params) -> None:
        self._params = params

    async def drive(self, net: Network) -> Winner:
        """Algorithm 1, seen from A."""
        parties = net.members("participant")
        greetings = await net.ask("participant", Hello(), Greeting)
        keys = {party: g.key for party, g in zip(parties, greetings, strict=True)}
        await net.tell("participant", Roster(keys))
        if self._params.mode == "federated-fitness":
            return await self._common_swarm(greetings[0].n_features, net)
        rounds = 1 if self._params.mode == "best-of-local" else self._params.n_rounds
        best: swarm.Best | None = None
        owner = 0
        history: list[dict[str, Any]] = []
        for number in range(1, rounds + 1):
            replies = await net.ask("participant", SearchWanted(number), LocalSubset)
            shape = (greetings[0].n_features,)
            subsets = [reply.mask.array(shape=shape).astype(bool) for reply in replies]
            winner, accuracy = await self._compare(subsets, number, net)
            found = swarm.Best(subsets[winner], accuracy)
            if best is None or found.beats(best):
                best, owner = found, winner
            history.append({"round": number, "party": "*", "accuracy": best.fitness})
            mask = PublicArray.of(best.mask)
            told = {p: GlobalSubset(mask, i == owner) for i, p in enumerate(parties)}
            await net.tell("participant", told)
        assert best is not None  # noqa: S101 - there is at least one round
        return Winner(best.mask, best.fitness, history)

    async def _compare(
        self, subsets: Sequence[Masks], step: int, net: Network
    ) -> tuple[int, float]:
        """Lines 16-18: let everybody try every subset; a shuffled list hides whose is whose."""
        order = np.random.default_rng().permutation(len(subsets))
        ask = Candidates(step, PublicArray.of(np.stack([subsets[i] for i in order])))
        values = await self._values(ask, net)
        sizes = np.array([subsets[i].sum() for i in order])
        # Equal accuracies: fewer features win, then the earlier party, whatever the shuffle was.
        winner = min(range(len(order)), key=lambda j: (-values[j], sizes[j], order[j]))
        return int(order[winner]), float(values[winner])

    async def _values(self, ask: Message, net: Network) -> Floats:
        """Mean or smallest accuracy of every subset over the parties."""
        n_parties = len(net.members("participant"))
        if self._params.aggregation == "masked":
            masked = await net.ask("participant", ask, MaskedAccuracies)
            totals = unmask_sum([reply.accuracies.array() for reply in masked])
            return np.ldexp(np.array(totals, dtype=np.float64), -ACCURACY_BITS) / n_parties
        replies = await net.ask("participant", ask, Accuracies)
        matrix = np.stack([reply.accuracies.array() for reply in replies])
        together = matrix.min if self._params.integration == "max-min" else matrix.mean
        return np.asarray(together(axis=0), dtype=np.float64)

    async def _common_swarm(self, n_features: int, net: Network) -> Winner:
        """One swarm at A whose fitness is the pooled accuracy."""
        particles = swarm.Swarm(
            n_features,
            self._params.n_particles,
            _rng(self._params.seed, THIRD_PARTY),
            self._params.max_features,
        )
        history = []
        for step in range(self._params.n_iterations * self._params.n_rounds):
            masks = particles.masks()
            values = await self._values(Particles(step, PublicArray.of(masks)), net)
            particles.learn(values, masks)
            particles.move(step % self._params.n_iterations)
            assert particles.best is not None  # noqa: S101 - learn sets it
            history.append({"round": step + 1, "party": "*", "accuracy": particles.best.fitness})
        assert particles.best is not None  # noqa: S101 - at least one step ran
        best = particles.best
        await net.tell("participant", GlobalSubset(PublicArray.of(best.mask), own=False))
        return Winner(best.mask, best.fitness, history)


PROTOCOL = Protocol(
    name="fpso",
    messages=(
        Hello,
        Greeting,
        Roster,
        SearchWanted,
        LocalSubset,
        Candidates,
        Particles,
        MaskedAccuracies,
        Accuracies,
        GlobalSubset,
    ),
    roles=(ThirdParty, Participant),
)


def build_nodes(
    tables: Mapping[str, PartyTable], targets: Mapping[str, Target | None], params: Params
) -> dict[str, Sequence[Role]]:
    """A neutral third party and one participant per party."""
    if THIRD_PARTY in tables or len(tables) < 2:
        raise PartyError(
            f"The federation has {len(tables)} parties"
            + (f", one named {THIRD_PARTY!r}." if THIRD_PARTY in tables else "."),
            "FPSO-FS needs at least two parties, none of them with the third party's name.",
            "Add or rename a party.",
        )
    nodes: dict[str, Sequence[Role]] = {THIRD_PARTY: (ThirdParty(params),)}
    for party, table in tables.items():
        target = targets.get(party)
        if target is None or target.kind != "classes":
            raise ValueProblem(
                f"Party {party!r} has {'no' if target is None else 'numeric'} labels.",
                "FPSO-FS compares subsets by classification accuracy and needs classes.",
                "Give every party class labels.",
            )
        nodes[party] = (Participant(table, target, params),)
    return nodes


def _numbers(table: PartyTable) -> Floats:
    for column in table.columns:
        if column.kind != "numeric" or column.missing.any():
            problem = "categories" if column.kind != "numeric" else "missing values (NaN)"
            error = ColumnError if column.kind != "numeric" else ValueProblem
            raise error(
                f"Column {column.name!r} of party {table.name!r} has {problem}.",
                "FPSO-FS measures distances and needs complete numbers.",
                "Encode, fill or drop the column at every party.",
            )
    return table.numeric_matrix()


def _check_rows(table: PartyTable, params: Params) -> None:
    needed = max(params.n_folds, params.k + 1)
    if table.n_rows < needed:
        raise ParameterError(
            f"Party {table.name!r} has {table.n_rows} rows.",
            f"{params.n_folds} inner folds and {params.k} neighbours need at least {needed}.",
            "Lower k, leave the party out, or give it more rows.",
        )


def _rng(seed: int | None, party: str) -> np.random.Generator:
    return np.random.default_rng(None if seed is None else [seed, *party.encode()])
