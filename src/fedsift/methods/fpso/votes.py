# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""FPSO-FS with differential privacy: blocks of rows vote, and only sums of noisy votes open.

Setting   Horizontal; every party holds rows and class labels.
Roles     *third party* (drives, neutral), *participant* (at least two).
Adversary Honest but curious. All participants but one together with the third party learn the noisy
          votes of that one, which the promise covers.

Who learns what
  third party  votes for every column, summed over all participants, with the noise of each.
  participant  the selected columns.

Steps
  1  participants exchange masking keys                                 Roster
  2  each divides its rows into blocks, a swarm searches in each        Voter.cast
  3  votes of all own blocks plus noise, under pairwise masks           NoisyVotes
  4  the third party opens the sum and takes the columns on top         VoteCounter

One row is in one block, which bounds what it changes (``maths.block_votes`` has the proof). Every
participant adds all the noise its own rows need, whatever the others do. No accuracy and no subset
of a party leaves it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.crypto.identity import addressed
from fedsift.crypto.masking import MaskingKey, PairwiseMasks, to_limbs, unmask_sum
from fedsift.data.table import PartyTable
from fedsift.data.target import Target
from fedsift.errors import ParameterError
from fedsift.methods.fpso import block_votes, messages
from fedsift.methods.fpso.local_search import (
    Params,
    fewest_rows,
    fitness_over,
    numbers_of,
    same_columns,
)
from fedsift.methods.fpso.subset_fitness import SubsetFitness
from fedsift.privacy.mechanisms import Accountant
from fedsift.protocol import DrivingRole, MaskedArray, Network, PublicArray, Role, handles

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Masks = npt.NDArray[np.bool_]

MESSAGES = (
    messages.Hello,
    messages.Greeting,
    messages.Roster,
    messages.VotesWanted,
    messages.NoisyVotes,
    messages.GlobalSubset,
)

ROWS_OF_A_BLOCK, ROWS_OF_A_CLASS = 20, 10
"""A block has so many rows, or so many for every class if that is more."""

FEWEST_BLOCKS, FEWEST_ROWS = 2, 10
"""Blocks of a party, and rows of a block, at least."""


class Blocks:
    """One party's rows in blocks that know nothing of each other.

    How many there are depends on numbers of rows and classes alone, and which rows they have on
    nothing but a seed: the bound on what one row changes rests on that.
    """

    def __init__(self, X: Floats, y: Integers, n_classes: int, params: Params, name: str) -> None:
        self._X, self._y, self._params = X, y, params
        self._seed = None if params.seed is None else [params.seed, *name.encode()]
        self.n_blocks = number_of_blocks(len(X), n_classes, params, name)
        self._n_votes = params.votes(X.shape[1])

    @classmethod
    def of(cls, table: PartyTable, target: Target, params: Params) -> Blocks:
        """Check a party's table and divide it."""
        return cls(numbers_of(table), target.codes, len(target.classes), params, table.name)

    def ballots(self) -> Masks:
        """What every block votes for; shape (n_blocks, n_features)."""
        return np.stack(
            [
                block_votes.block_vote(fitness, self._X.shape[1], self._n_votes, rng)
                for fitness, rng in self._searches()
            ]
        )

    def correct(self, masks: Masks) -> Integers:
        """Rows that subsets classify right inside their blocks; for the party itself only."""
        right = [fitness.correct(masks) for fitness, _ in self._searches()]
        return np.asarray(np.sum(right, axis=0))

    def _searches(self) -> Iterator[tuple[SubsetFitness, np.random.Generator]]:
        for rows, rng in block_votes.divide(len(self._X), self.n_blocks, self._seed):
            yield fitness_over(self._X[rows], self._y[rows], self._params, rng), rng


def number_of_blocks(n_rows: int, n_classes: int, params: Params, name: str) -> int:
    """Blocks of a party: as many as were asked for, or as many as rows and classes allow."""
    fewest = max(FEWEST_ROWS, fewest_rows(params.n_folds, params.k))
    usual = max(ROWS_OF_A_BLOCK, ROWS_OF_A_CLASS * n_classes, fewest)
    wanted = params.n_blocks or max(FEWEST_BLOCKS, n_rows // usual)
    if n_rows < wanted * fewest:
        raise ParameterError(
            f"Party {name!r} has {n_rows} rows for {wanted} blocks.",
            f"With an epsilon every block of rows votes, and needs at least {fewest} of them.",
            "Lower n_blocks or k, give the party more rows, or leave it out.",
        )
    return wanted


class Voter(Role, name="participant"):
    """Owns rows and labels; tells noisy votes of their blocks, once."""

    def __init__(self, table: PartyTable, target: Target, params: Params) -> None:
        self._table, self._params = table, params
        self._blocks = Blocks.of(table, target, params)
        self._key = MaskingKey.generate()
        self._masks: PairwiseMasks | None = None
        self._votes: Integers = np.zeros(table.n_columns, dtype=np.int64)
        self._common: Masks | None = None
        self.budget = Accountant(params.epsilon or 0.0, params.delta)

    @handles(messages.Hello)
    async def greet(self, ask: messages.Hello, net: Network) -> messages.Greeting:
        """Step 1: offer its own masking key."""
        key = self._key.announce(net, net.members("participant"))
        return messages.Greeting(key, self._table.n_columns)

    @handles(messages.Roster)
    async def meet(self, told: messages.Roster, net: Network) -> None:
        """Step 1: agree on a mask with every other participant."""
        self._masks = self._key.make_masks(net, told.keys, net.members("participant"))

    @handles(messages.VotesWanted)
    async def cast(self, ask: messages.VotesWanted, net: Network) -> messages.NoisyVotes:
        """Steps 2 and 3; a second answer would cost a second budget, and is refused."""
        assert self._masks is not None  # noqa: S101 - the roster comes first
        noise = self._params.noise(self._table.n_columns)
        noise.spend(self.budget, "votes of its rows")
        with self.clock("train"):
            self._votes = self._blocks.ballots().sum(axis=0)
        drawn = noise.draw(self._votes.shape, self._params.noise_source(self._table.name))
        noisy = self._votes + drawn
        if not self._params.protected:
            return messages.NoisyVotes(MaskedArray.of(to_limbs(noisy, 1)))
        return messages.NoisyVotes(MaskedArray.of(self._masks.mask(noisy, "votes")))

    @handles(messages.GlobalSubset)
    async def take(self, told: messages.GlobalSubset, net: Network) -> None:
        """Step 4: remember the outcome."""
        self._common = told.mask.array(shape=(self._table.n_columns,)).astype(bool)

    def facts(self) -> dict[str, Any]:
        """The subset this party would use: the common one, or what its own blocks voted for.

        Both are tried on this party's rows, and nobody learns which one was better.
        """
        assert self._common is not None  # noqa: S101 - every run ends with a selection
        own = block_votes.chosen(self._votes, self._params.max_features)
        common, alone = self._blocks.correct(np.stack([self._common, own])).tolist()
        return {
            "selected": np.flatnonzero(self._common).tolist(),
            "kept": own if alone > common else self._common,
            "keeps_own": alone > common,
            "accuracy": common / self._table.n_rows,
            "history": [],
        }


@dataclass(frozen=True, eq=False)
class Elected:
    """The outcome: the common subset, and the noisy votes it was chosen by."""

    mask: Masks
    votes: Integers
    accuracy: float | None = None
    history: list[dict[str, Any]] = field(default_factory=list)


class VoteCounter(DrivingRole, name="third party"):
    """Holds no data; adds up noisy votes."""

    def __init__(self, params: Params) -> None:
        self._params = params

    async def drive(self, net: Network) -> Elected:
        """Steps 1 to 4."""
        parties = net.members("participant")
        greetings = await net.ask("participant", messages.Hello(), messages.Greeting)
        keys = {party: g.key for party, g in zip(parties, greetings, strict=True)}
        await net.tell("participant", {p: messages.Roster(addressed(keys, p)) for p in keys})
        n_features = same_columns(greetings)
        replies = await net.ask("participant", messages.VotesWanted(), messages.NoisyVotes)
        parts = [reply.votes.array(shape=(n_features, 1)) for reply in replies]
        votes = np.array(unmask_sum(parts), dtype=np.int64)
        mask = block_votes.chosen(votes, self._params.max_features)
        await net.tell("participant", messages.GlobalSubset(PublicArray.of(mask)))
        return Elected(mask, votes)
