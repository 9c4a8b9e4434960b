# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""VF-PS, the roles that answer: participants with columns, and the aggregator with nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.crypto import shuffle, zero_shares
from fedsift.crypto.blinding import LoadedParts, alignment, join_sums, seal_vector
from fedsift.crypto.masking import MaskingKey
from fedsift.crypto.sums import VectorGuest
from fedsift.data.table import PartyTable
from fedsift.errors import AlignmentError, BadFrame, ParameterError, UndeclaredFlow
from fedsift.maths.fagin import SubRankings as SeenRows
from fedsift.maths.rounded_order import RoundedOrder
from fedsift.methods import vfps_local as local
from fedsift.methods.vfps_messages import (
    FORMS,
    BlockWanted,
    Candidates,
    CandidatesWanted,
    Choice,
    Collected,
    CommonRows,
    DepthWanted,
    GroupsWanted,
    Introduction,
    Joined,
    NearestRows,
    NearestWanted,
    Opening,
    PartialDistances,
    PartsWanted,
    Queries,
    RankingWanted,
    RoundedParts,
    RoundedWanted,
    SharedSecret,
    Stop,
    SubRankings,
    Sums,
    TieDepths,
    divided,
    joined,
)
from fedsift.protocol import MaskedArray, Network, PublicArray, Role, handles
from fedsift.protocol.network import blaming

Integers = npt.NDArray[np.int64]


def padded(size: int, step: int) -> int:
    """Slots of a segment that starts and ends at multiples of ``step``."""
    return -(-size // step) * step


class Participant(Role, name="participant"):
    """Owns columns; ranks rows and encrypts its part of distances under the leader's key."""

    def __init__(self, table: PartyTable, params: local.Params) -> None:
        self._table = table
        self._params = params
        self._key = MaskingKey.generate()
        self._matrix, self._remarks = local.standardised(table)
        self._n_participants = 0
        self._secret = b""
        self._cap = local.CAP_BITS
        self._guest: VectorGuest | None = None
        self._rows: dict[int, int] = {}
        self._rankings: dict[int, local.Ranking] = {}
        self._rounded: set[int] = set()
        self._selected: bool | None = None

    @handles(Introduction)
    async def join(self, ask: Introduction, net: Network) -> Joined:
        """Check that the job fits the own table and settings; make a key for the shuffle."""
        if ask.n_rows != self._table.n_rows:
            raise AlignmentError(
                f"The leader has {ask.n_rows} rows, this party {self._table.n_rows}.",
                "Vertical methods need the same rows in the same order at every party.",
                "Align the parties by id first.",
            )
        agreed = (self._params.strategy, self._params.k, len(net.members("participant")))
        if (ask.strategy, ask.k, ask.n_participants) != agreed:
            raise ParameterError(
                "The leader announces another strategy, other neighbours or other participants.",
                f"This party agreed to {agreed[0]}, k={agreed[1]} and {agreed[2]} participants.",
                "Run the same job at every party.",
            )
        self._n_participants = ask.n_participants
        return Joined(self._key.public, local.cap_bits(self._matrix.shape[1]))

    @handles(SharedSecret)
    async def take_secret(self, told: SharedSecret, net: Network) -> None:
        """The secret of all shuffles, and the key to encrypt under."""
        self._secret = shuffle.receive(told.secret, self._key, told.dealer)
        self._guest = join_sums(told.keys)
        self._cap = local.check_cap(told.cap_bits)
        if not 0 < self._cap < local.part_bits(self._n_participants):
            raise ParameterError(
                f"The leader announces distances of {self._cap} bits before the point.",
                f"Fewer than {local.part_bits(self._n_participants)} are possible.",
                "Use fewer columns, or run the same job at every party.",
            )

    @handles(Queries)
    async def take_queries(self, told: Queries, net: Network) -> None:
        """Note the next query rows; a row comes once where groups must stay separate."""
        rows = told.rows.array()
        known = set(self._rows.values())
        if (
            rows.ndim != 1
            or rows.dtype != np.int64
            or (len(rows) and (rows.min() < 0 or rows.max() >= self._table.n_rows))
            or told.first_run <= max(self._rows, default=-1)
        ):
            raise BadFrame(
                "Queries arrived that are no rows of the table, or out of order.",
                f"Rows run from 0 to {self._table.n_rows - 1}, runs are numbered upwards.",
                "Check that all parties run the same job.",
            )
        # The leader's own columns are no secret from it and may stand in several groups.
        own = net.party in net.members("leader")
        separate = not own and not self._params.paired and not self._params.singles
        if separate and (known & set(rows.tolist()) or len(set(rows.tolist())) < len(rows)):
            # The same query under two shuffles would serve overlapping groups after all.
            raise ParameterError(
                "The leader asks for a query row a second time.",
                "With separate groups every row is a query once.",
                "Run the same job at every party.",
            )
        for number, row in enumerate(rows.tolist()):
            self._rows[told.first_run + number] = row

    @handles(BlockWanted)
    async def block(self, ask: BlockWanted, net: Network) -> SubRankings:
        """The next block of every sub-ranking."""
        with self.clock("rank"):
            runs = ask.runs.array().tolist()
            return SubRankings(*joined([self._ranking(run).block(ask.depth) for run in runs]))

    @handles(DepthWanted)
    async def tie_depths(self, ask: DepthWanted, net: Network) -> TieDepths:
        """Depths moved to the end of their ties."""
        runs = ask.runs.array().tolist()
        depths = ask.depths.array(shape=(len(runs),)).tolist()
        ends = [self._ranking(run).tie_end(d) for run, d in zip(runs, depths, strict=True)]
        return TieDepths(PublicArray.of(np.array(ends, dtype=np.int64)))

    @handles(RoundedWanted)
    async def rounded_parts(self, ask: RoundedWanted, net: Network) -> RoundedParts:
        """Rounded parts of all distances, masked so that only the group's sum can be read."""
        runs, members = ask.runs.array().tolist(), _known(ask.members, net)
        if self._rounded & set(runs) or len(set(runs)) < len(runs):
            # Sums over two groups of one run would differ by single participants' parts.
            raise ParameterError(
                "The aggregator asks for rounded distances of a run a second time.",
                "Every run serves one group, once.",
                "Run the same job at every party.",
            )
        self._rounded |= set(runs)
        with self.clock("rank"):
            lines = []
            for run in runs:
                order = self._order(run)
                numbers = local.rounded(self._distances(run))[order.row_of]
                context = f"rounded distances of run {run}"
                lines.append(zero_shares.masked(numbers, self._secret, context, members, net.party))
            width = zero_shares.n_words(self._table.n_rows)
            return RoundedParts(MaskedArray.of(np.stack(lines).reshape(len(runs), width)))

    @handles(CandidatesWanted)
    async def parts(self, ask: CandidatesWanted, net: Network) -> PartialDistances:
        """Encrypt the own part of the distances to the candidates, many queries together."""
        runs = ask.runs.array().tolist()
        guest = self._joined_guest()
        step, pieces = alignment(guest), []
        lists = [None] * len(runs) if ask.all_rows else divided(ask.ids, ask.lengths, len(runs))
        with self.clock("rank"):
            for run, ids in zip(runs, lists, strict=True):
                values = self._all_parts(run) if ids is None else self._ranking(run).of_ids(ids)
                piece = np.zeros(padded(len(values), step), dtype=np.int64)
                piece[: len(values)] = values
                pieces.append(piece)
                self._rankings.pop(run, None)
        with self.clock("encrypt"):
            flat = np.concatenate(pieces) if pieces else np.empty(0, dtype=np.int64)
            return PartialDistances(seal_vector(guest, flat))

    @handles(Choice)
    async def take_choice(self, told: Choice, net: Network) -> None:
        """Remember whether the own party was selected."""
        self._selected = told.selected

    def facts(self) -> dict[str, Any]:
        """What this party may keep: whether it was selected, and remarks about its columns."""
        return {
            "names": list(self._table.feature_names),
            "selected": bool(self._selected),
            "remarks": self._remarks,
        }

    def _joined_guest(self) -> VectorGuest:
        if self._guest is None:
            raise _too_early("distances", "the leader's key")
        return self._guest

    def _order(self, run: int) -> shuffle.SecretOrder:
        if not self._secret or run not in self._rows:
            raise _too_early("a ranking", "the shared secret and the query")
        return shuffle.SecretOrder(self._secret, run, self._table.n_rows)

    def _distances(self, run: int) -> Integers:
        row = self._rows[run]
        return local.part_of_distance(self._matrix, row, self._n_participants, self._cap)

    def _ranking(self, run: int) -> local.Ranking:
        if run not in self._rankings:
            order = self._order(run)
            self._rankings[run] = local.Ranking(self._distances(run), order)
        return self._rankings[run]

    def _all_parts(self, run: int) -> Integers:
        """Parts of all rows, in row order: the aggregator sees ciphertexts and no pseudo-ids."""
        if run not in self._rows:
            raise _too_early("distances", "the query")
        return self._distances(run)


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


class Aggregator(Role, name="aggregator"):
    """Neutral: no data, no key. Adds up ciphertexts and sees rankings of pseudo-ids only."""

    def __init__(self) -> None:
        self._guest: VectorGuest | None = None
        self._n_rows = 0
        self._batches: dict[int, _Batch] = {}
        self._left = 0

    @handles(Opening)
    async def open(self, told: Opening, net: Network) -> None:
        """Take the leader's public key."""
        self._guest = join_sums(told.keys)
        self._n_rows = told.n_rows
        self._left = told.most_distances

    @handles(RankingWanted)
    async def rank(self, ask: RankingWanted, net: Network) -> CommonRows:
        """Read the sub-rankings further down; tell which rows all members have listed by now."""
        runs = ask.runs.array().tolist()
        members = _known(ask.members, net)
        batch = self._batches.setdefault(ask.chunk, _Batch(members))
        wanted = BlockWanted(ask.runs, ask.depth)
        replies = await net.ask("participant", dict.fromkeys(members, wanted), SubRankings)
        with self.clock("evaluate"):
            for number, (member, reply) in enumerate(zip(members, replies, strict=True)):
                with blaming(member, "BlockWanted", 0):
                    blocks = divided(reply.ids, reply.lengths, len(runs))
                    for run, block in zip(runs, blocks, strict=True):
                        self._extend(batch, run, number, block, ask.depth)
            common = [batch.seen[run].new_common() for run in runs]
        ids, lengths = joined([rows for rows, _ in common])
        depths, _ = joined([depths for _, depths in common])
        return CommonRows(ids, depths, lengths)

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

    @handles(NearestWanted)
    async def nearest(self, ask: NearestWanted, net: Network) -> NearestRows:
        """Name the next rows in the order of the group's rounded distances."""
        runs = ask.runs.array().tolist()
        batch = self._batches.setdefault(ask.chunk, _Batch(_known(ask.members, net), rounded=True))
        new = [run for run in runs if run not in batch.orders]
        if new:
            await self._add_rounded(batch, new, net)
        return NearestRows(*joined([batch.orders[run].block(ask.depth) for run in runs]))

    async def _add_rounded(self, batch: _Batch, runs: list[int], net: Network) -> None:
        wanted = RoundedWanted(batch.members, PublicArray.of(np.array(runs, dtype=np.int64)))
        replies = await net.ask("participant", dict.fromkeys(batch.members, wanted), RoundedParts)
        shape = (len(runs), zero_shares.n_words(self._n_rows))
        arrays = []
        for member, reply in zip(batch.members, replies, strict=True):
            with blaming(member, "RoundedWanted", 0):
                arrays.append(reply.parts.array(shape=shape))
        with self.clock("evaluate"):
            for line, run in enumerate(runs):
                sums = zero_shares.total([array[line] for array in arrays], self._n_rows)
                batch.orders[run] = RoundedOrder(sums, len(batch.members))

    @handles(Stop)
    async def cut(self, ask: Stop, net: Network) -> Candidates:
        """The lists are long enough: say what stands in them."""
        batch, runs = self._batch(ask.chunk), ask.runs.array().tolist()
        if not set(runs) <= set(batch.orders if batch.rounded else batch.seen):
            raise _too_early("candidates", "rankings of those queries")
        if batch.rounded:
            depths = ask.depths.array(shape=(len(runs),)).tolist()
            candidates = [
                batch.orders.pop(run).candidates(depth)
                for run, depth in zip(runs, depths, strict=True)
            ]
        else:
            candidates = await self._between_ties(batch, ask, runs, net)
        batch.candidates |= dict(zip(runs, candidates, strict=True))
        return Candidates(*joined(candidates))

    async def _between_ties(
        self, batch: _Batch, ask: Stop, runs: list[int], net: Network
    ) -> list[Integers]:
        """Rows seen in any sub-ranking, which is cut between different distances."""
        wanted = DepthWanted(ask.runs, ask.depths)
        replies = await net.ask("participant", dict.fromkeys(batch.members, wanted), TieDepths)
        ends = np.stack([reply.depths.array(shape=(len(runs),)) for reply in replies])
        candidates = []
        for position, run in enumerate(runs):
            seen = batch.seen.pop(run)
            # A list may end before a tie of the deepest one; what was sent ends between ties too.
            cuts = [min(int(e), n) for e, n in zip(ends[:, position], seen.lengths, strict=True)]
            candidates.append(seen.candidates(cuts))
        return candidates

    @handles(PartsWanted)
    async def collect(self, ask: PartsWanted, net: Network) -> Collected:
        """Have the members send their parts of the distances to the candidates, or to all rows."""
        runs = ask.runs.array().tolist()
        batch = self._batches.setdefault(ask.chunk, _Batch(_known(ask.members, net)))
        if ask.all_rows:
            batch.rounded = False
            sizes = [self._n_rows] * len(runs)
            ids, lengths = joined([])
        else:
            if not set(runs) <= set(batch.candidates):
                raise _too_early("distances", "the search for candidates")
            candidates = [batch.candidates[run] for run in runs]
            sizes = [len(rows) for rows in candidates]
            ids, lengths = joined(candidates)
        batch.n_distances = sum(sizes) - len(runs)  # that of a query to itself says nothing
        wanted = CandidatesWanted(ask.runs, ids, lengths, ask.all_rows)
        await self._load(batch, wanted, sizes, net)
        batch.candidates.clear()
        return Collected()

    async def _load(
        self, batch: _Batch, wanted: CandidatesWanted, sizes: Sequence[int], net: Network
    ) -> None:
        guest = self._joined_guest()
        replies = await net.ask(
            "participant", dict.fromkeys(batch.members, wanted), PartialDistances
        )
        batch.segments = tuple(padded(size, alignment(guest)) for size in sizes)
        sealed = {m: r.distances for m, r in zip(batch.members, replies, strict=True)}
        with self.clock("evaluate"):
            batch.parts = LoadedParts(guest, sealed, sum(batch.segments))

    @handles(GroupsWanted)
    async def add_up(self, ask: GroupsWanted, net: Network) -> Sums:
        """Blinded sums of groups, if what they have in common is what was declared."""
        batch = self._batch(ask.chunk)
        if batch.parts is None or ask.form not in FORMS:
            raise _too_early("sums", "the distances of that chunk")
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
        return FORMS[ask.form](sums)

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
            raise _too_early("sums", "rankings of that chunk")
        return self._batches[number]

    def _joined_guest(self) -> VectorGuest:
        if self._guest is None:
            raise _too_early("distances", "the leader's key")
        return self._guest


def _known(members: Sequence[str], net: Network) -> tuple[str, ...]:
    """Members in party order, all of them participants."""
    parties = net.members("participant")
    if not members or not set(members) <= set(parties):
        raise ParameterError(
            "A group names parties that do not take part.",
            f"Participants: {', '.join(parties)}.",
            "Run the same job at every party.",
        )
    return tuple(party for party in parties if party in set(members))


def _too_early(what: str, lacking: str) -> UndeclaredFlow:
    return UndeclaredFlow(
        f"The leader asks for {what} before {lacking} came in.",
        "Messages come in the order of the protocol.",
        "Check that all parties run the same version of fedsift.",
    )
