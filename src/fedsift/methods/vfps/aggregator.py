# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""VF-PS, the roles that answer: participants with columns, and the aggregator with nothing.

Participants have a file of their own, :mod:`fedsift.methods.vfps.participant`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fedsift.crypto.vectors.api import VectorEvaluator
from fedsift.data.state_files import State
from fedsift.errors import BadFrame, UndeclaredFlow
from fedsift.methods.vfps import messages, zero_shares
from fedsift.methods.vfps.blinding import LoadedParts, alignment, join_sums
from fedsift.methods.vfps.distances import Params
from fedsift.methods.vfps.fagin import SubRankings as SeenRows
from fedsift.methods.vfps.messages import divided, joined
from fedsift.methods.vfps.participant import Participant, known_members, padded, too_early
from fedsift.methods.vfps.rounded_order import RoundedOrder
from fedsift.methods.vfps.score_keeper import ScoreKeeper
from fedsift.protocol import Network, PublicArray, handles
from fedsift.protocol.role import errors_belong_to

Integers = npt.NDArray[np.int64]


@dataclass
class _Batch:
    """What the aggregator holds of one chunk of runs."""

    members: tuple[str, ...]
    seen: dict[int, SeenRows] = field(default_factory=dict)
    orders: dict[int, RoundedOrder] = field(default_factory=dict)
    rounded: bool = False
    n_distances: int = 0
    candidates: dict[int, Integers] = field(default_factory=dict)
    parts: LoadedParts | None = None
    segments: tuple[int, ...] = ()
    told: list[frozenset[str]] = field(default_factory=list)


class Aggregator(ScoreKeeper, name="aggregator", signals=messages.AGGREGATOR_SIGNALS):
    """Neutral: no data, no key. Adds up ciphertexts and sees rankings of pseudo-ids only."""

    def __init__(
        self,
        params: Params | None = None,
        party: str = "aggregator",
        checkpoints: Path | None = None,
    ) -> None:
        self.keep_checkpoints(checkpoints, party, params)
        self._params = Params() if params is None else params
        self.start_scores()
        self._evaluator: VectorEvaluator | None = None
        self._n_rows = 0
        self._batches: dict[int, _Batch] = {}
        self._left = 0
        self._left_before: int | None = None

    @handles(messages.Opening)
    async def open(self, told: messages.Opening, net: Network) -> None:
        """Take the leader's public key."""
        self._evaluator = join_sums(told.keys)
        self._n_rows = told.n_rows
        before = self._left_before
        self._left = told.most_distances if before is None else min(before, told.most_distances)

    def checkpoint(self) -> State:
        """How many distances the leader may still see."""
        left = None if self._evaluator is None else self._left
        return {"left": left, "scores": self.scores_to_plain()}

    def restore(self, saved: State) -> None:
        """A resumed run has no larger budget."""
        self._left_before = saved["left"]
        self.load_scores(saved["scores"])

    @handles(messages.RankingWanted)
    async def rank(self, ask: messages.RankingWanted, net: Network) -> messages.CommonRows:
        """Read the sub-rankings further down; tell which rows all members have listed by now."""
        runs = ask.runs.array().tolist()
        members = known_members(ask.members, net)
        batch = self._batches.setdefault(ask.chunk, _Batch(members))
        wanted = messages.BlockWanted(ask.runs, ask.depth)
        replies = await net.ask("participant", dict.fromkeys(members, wanted), messages.SubRankings)
        with self.clock("evaluate"):
            for number, (member, reply) in enumerate(zip(members, replies, strict=True)):
                with errors_belong_to(member, "BlockWanted", 0):
                    blocks = divided(reply.ids, reply.lengths, len(runs))
                    for run, block in zip(runs, blocks, strict=True):
                        self._extend(batch, run, number, block, ask.depth)
            common = [batch.seen[run].new_common() for run in runs]
        ids, lengths = joined([rows for rows, _ in common])
        depths, _ = joined([depths for _, depths in common])
        return messages.CommonRows(ids, depths, lengths)

    def _extend(self, batch: _Batch, run: int, number: int, block: Integers, depth: int) -> None:
        seen = batch.seen.setdefault(run, SeenRows(self._n_rows, len(batch.members)))
        # A long tie may have carried the last block beyond this depth: then nothing comes.
        enough = seen.lengths[number] + len(block) >= min(depth, self._n_rows)
        if not enough or (len(block) and not seen.fits(number, block)):
            raise BadFrame(
                "A block of a sub-ranking is too short, or lists rows twice or unknown rows.",
                "Every row stands in a ranking once, and a block goes down to the asked depth.",
                "Check that all parties run the same job on aligned rows.",
            )
        seen.extend(number, block)

    @handles(messages.NearestWanted)
    async def nearest(self, ask: messages.NearestWanted, net: Network) -> messages.NearestRows:
        """Name the next rows in the order of the group's rounded distances."""
        runs = ask.runs.array().tolist()
        batch = self._batches.setdefault(
            ask.chunk, _Batch(known_members(ask.members, net), rounded=True)
        )
        new = [run for run in runs if run not in batch.orders]
        if new:
            await self._add_rounded(batch, new, net)
        return messages.NearestRows(*joined([batch.orders[run].block(ask.depth) for run in runs]))

    async def _add_rounded(self, batch: _Batch, runs: list[int], net: Network) -> None:
        wanted = messages.RoundedWanted(
            batch.members, PublicArray.of(np.array(runs, dtype=np.int64))
        )
        replies = await net.ask(
            "participant", dict.fromkeys(batch.members, wanted), messages.RoundedParts
        )
        shape = (len(runs), zero_shares.n_words(self._n_rows))
        arrays = []
        for member, reply in zip(batch.members, replies, strict=True):
            with errors_belong_to(member, "RoundedWanted", 0):
                arrays.append(reply.parts.array(shape=shape))
        with self.clock("evaluate"):
            for line, run in enumerate(runs):
                sums = zero_shares.total([array[line] for array in arrays], self._n_rows)
                batch.orders[run] = RoundedOrder(sums, len(batch.members))

    @handles(messages.Stop)
    async def cut(self, ask: messages.Stop, net: Network) -> messages.Candidates:
        """The lists are long enough: say what stands in them."""
        batch, runs = self._batch(ask.chunk), ask.runs.array().tolist()
        if not set(runs) <= set(batch.orders if batch.rounded else batch.seen):
            raise too_early("candidates", "rankings of those queries")
        if batch.rounded:
            depths = ask.depths.array(shape=(len(runs),)).tolist()
            candidates = [
                batch.orders.pop(run).candidates(depth)
                for run, depth in zip(runs, depths, strict=True)
            ]
        else:
            candidates = await self._between_ties(batch, ask, runs, net)
        batch.candidates |= dict(zip(runs, candidates, strict=True))
        return messages.Candidates(*joined(candidates))

    async def _between_ties(
        self, batch: _Batch, ask: messages.Stop, runs: list[int], net: Network
    ) -> list[Integers]:
        """Rows seen in any sub-ranking, which is cut between different distances."""
        wanted = messages.DepthWanted(ask.runs, ask.depths)
        replies = await net.ask(
            "participant", dict.fromkeys(batch.members, wanted), messages.TieDepths
        )
        ends = np.stack([reply.depths.array(shape=(len(runs),)) for reply in replies])
        candidates = []
        for position, run in enumerate(runs):
            seen = batch.seen.pop(run)
            # A list may end before a tie of the deepest one; what was sent ends between ties too.
            cuts = [min(int(e), n) for e, n in zip(ends[:, position], seen.lengths, strict=True)]
            candidates.append(seen.candidates(cuts))
        return candidates

    @handles(messages.PartsWanted)
    async def collect(self, ask: messages.PartsWanted, net: Network) -> messages.Collected:
        """Have the members send their parts of the distances to the candidates, or to all rows."""
        runs = ask.runs.array().tolist()
        batch = self._batches.setdefault(ask.chunk, _Batch(known_members(ask.members, net)))
        if ask.all_rows:
            batch.rounded = False
            sizes = [self._n_rows] * len(runs)
            ids, lengths = joined([])
        else:
            if not set(runs) <= set(batch.candidates):
                raise too_early("distances", "the search for candidates")
            candidates = [batch.candidates[run] for run in runs]
            sizes = [len(rows) for rows in candidates]
            ids, lengths = joined(candidates)
        batch.n_distances = sum(sizes) - len(runs)  # that of a query to itself says nothing
        wanted = messages.CandidatesWanted(ask.runs, ids, lengths, ask.all_rows)
        await self._load(batch, wanted, sizes, net)
        batch.candidates.clear()
        return messages.Collected()

    async def _load(
        self, batch: _Batch, wanted: messages.CandidatesWanted, sizes: Sequence[int], net: Network
    ) -> None:
        evaluator = self._joined_evaluator()
        replies = await net.ask(
            "participant", dict.fromkeys(batch.members, wanted), messages.PartialDistances
        )
        batch.segments = tuple(padded(size, alignment(evaluator)) for size in sizes)
        sealed = {m: r.distances for m, r in zip(batch.members, replies, strict=True)}
        with self.clock("evaluate"):
            batch.parts = LoadedParts(evaluator, sealed, sum(batch.segments))

    @handles(messages.GroupsWanted)
    async def add_up(self, ask: messages.GroupsWanted, net: Network) -> messages.Sums:
        """Blinded sums of groups, if what they have in common is what was declared."""
        batch = self._batch(ask.chunk)
        if batch.parts is None or ask.form not in messages.FORMS:
            raise too_early("sums", "the distances of that chunk")
        leader = net.members("leader")[0]
        others = [frozenset(group) - {leader} for group in ask.groups]
        self._check_form(ask.form, others, batch)
        batch.told += others
        if ask.form == "separate":
            self._left -= batch.n_distances * len(ask.groups)
        with self.clock("evaluate"):
            sums = tuple(batch.parts.blinded(group, batch.segments) for group in ask.groups)
        if ask.last:
            del self._batches[ask.chunk]
        return messages.FORMS[ask.form](sums)

    def _check_form(self, form: str, groups: Sequence[frozenset[str]], batch: _Batch) -> None:
        """The leader cannot have more than it declares: policies rely on the declared form."""
        alone = any(len(group) == 1 for group in groups)
        before = set[str]().union(*batch.told)
        shared = any(
            group & before or any(group & other for other in groups[:i])
            for i, group in enumerate(groups)
        )
        found = None
        if alone and form != "single":
            found = "a group of one participant"
        elif shared and form in ("separate", "all rows"):
            found = "overlapping groups of one query"
        elif form == "separate" and not batch.rounded:
            found = "more rows than the nearest ones"
        elif form == "separate" and batch.n_distances * len(groups) > self._left:
            found = "more distances than half the participants' values"
        if found is not None:
            raise UndeclaredFlow(
                f"The leader asks for {found} as {form!r}.",
                "Sums over one participant are declared 'single', overlapping ones 'paired', and "
                "those of more rows than may be shown 'all rows'.",
                "Run the same job at every party, with policies that allow it.",
            )

    def _batch(self, number: int) -> _Batch:
        if number not in self._batches:
            raise too_early("sums", "rankings of that chunk")
        return self._batches[number]

    def _joined_evaluator(self) -> VectorEvaluator:
        if self._evaluator is None:
            raise too_early("distances", "the leader's key")
        return self._evaluator


__all__ = ["Aggregator", "Participant"]
