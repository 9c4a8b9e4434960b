# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""VF-PS, the participant: what a party with columns answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.crypto import shuffle
from fedsift.crypto.masking import MaskingKey
from fedsift.crypto.vectors.api import VectorEvaluator
from fedsift.data.state_files import State
from fedsift.data.table import PartyTable
from fedsift.errors import BadFrame, ParameterError, UndeclaredFlow
from fedsift.methods.checks import check_row_count
from fedsift.methods.vfps import distances as local
from fedsift.methods.vfps import messages, zero_shares
from fedsift.methods.vfps.blinding import alignment, join_sums, seal_vector
from fedsift.methods.vfps.messages import divided, joined
from fedsift.methods.vfps.score_member import ScoreMember
from fedsift.protocol import MaskedArray, Network, PublicArray, handles

Integers = npt.NDArray[np.int64]


def padded(size: int, step: int) -> int:
    """Slots of a segment that starts and ends at multiples of ``step``."""
    return -(-size // step) * step


class Participant(ScoreMember, name="participant", signals=messages.PARTICIPANT_SIGNALS):
    """Owns columns; ranks rows and encrypts its part of distances under the leader's key."""

    def __init__(
        self, table: PartyTable, params: local.Params, checkpoints: Path | None = None
    ) -> None:
        self.keep_checkpoints(checkpoints, table.name, params, table)
        self._table = table
        self._params = params
        self._key = MaskingKey.generate()
        self._parts = local.Distances(table, params, 0)
        self._matrix = self._parts.matrix
        self._queries = np.empty(0, dtype=np.int64)
        self._secret = b""
        self._evaluator: VectorEvaluator | None = None
        self._rows: dict[int, int] = {}
        self._rankings: dict[int, local.Ranking] = {}
        self._rounded: set[int] = set()
        self._finished: set[int] = set()
        self._groups: dict[int, list[str]] = {}
        self._selected: bool | None = None

    @handles(messages.Introduction)
    async def join(self, ask: messages.Introduction, net: Network) -> messages.Joined:
        """Check that the job fits its own table and settings; make a key for the shuffle."""
        check_row_count("leader", ask.n_rows, self._table.n_rows)
        agreed = (self._params.strategy, self._params.k, len(net.members("participant")))
        if (ask.strategy, ask.k, ask.n_participants) != agreed:
            raise ParameterError(
                "The leader announces another strategy, other neighbours or other participants.",
                f"This party agreed to {agreed[0]}, k={agreed[1]} and {agreed[2]} participants.",
                "Run the same job at every party.",
            )
        self._parts.n_participants = ask.n_participants
        key = self._key.announce(net, net.members("leader"))
        return messages.Joined(key, local.size_bits(self._matrix.shape[1]))

    @handles(messages.SharedSecret)
    async def take_secret(self, told: messages.SharedSecret, net: Network) -> None:
        """The secret of all shuffles, and the key to encrypt under."""
        (leader,) = net.members("leader")
        self._secret = shuffle.receive(told.secret, self._key, net, leader, told.dealer)
        self._evaluator = join_sums(told.keys)

    @handles(messages.Queries)
    async def take_queries(self, told: messages.Queries, net: Network) -> None:
        """Note the next query rows; a row comes once where groups must stay separate."""
        rows = told.rows.array()
        known = self._finished.union(self._rows.values())
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
        if self._separate(net) and (
            known & set(rows.tolist()) or len(set(rows.tolist())) < len(rows)
        ):
            # The same query under two shuffles would serve overlapping groups after all.
            raise ParameterError(
                "The leader asks for a query row a second time.",
                "With separate groups every row is a query once.",
                "Run the same job at every party.",
            )
        for number, row in enumerate(rows.tolist()):
            self._rows[told.first_run + number] = row

    def _separate(self, net: Network) -> bool:
        """Whether a query row may serve one group only, once."""
        # The leader's own columns are no secret from it and may stand in several groups.
        return self._params.separate and net.party not in net.members("leader")

    @handles(messages.BlockWanted)
    async def block(self, ask: messages.BlockWanted, net: Network) -> messages.SubRankings:
        """The next block of every sub-ranking."""
        with self.clock("rank"):
            runs = ask.runs.array().tolist()
            return messages.SubRankings(
                *joined([self._ranking(run).block(ask.depth) for run in runs])
            )

    @handles(messages.DepthWanted)
    async def tie_depths(self, ask: messages.DepthWanted, net: Network) -> messages.TieDepths:
        """Depths moved to the end of their ties."""
        runs = ask.runs.array().tolist()
        depths = ask.depths.array(shape=(len(runs),)).tolist()
        ends = [self._ranking(run).tie_end(d) for run, d in zip(runs, depths, strict=True)]
        return messages.TieDepths(PublicArray.of(np.array(ends, dtype=np.int64)))

    @handles(messages.RoundedWanted)
    async def rounded_parts(
        self, ask: messages.RoundedWanted, net: Network
    ) -> messages.RoundedParts:
        """Rounded parts of all distances, masked so that only the group's sum can be read."""
        runs, members = ask.runs.array().tolist(), known_members(ask.members, net)
        if self._rounded & set(runs) or len(set(runs)) < len(runs):
            # Sums over two groups of one run would differ by single participants' parts.
            raise ParameterError(
                "The aggregator asks for rounded distances of a run a second time.",
                "Every run serves one group, once.",
                "Run the same job at every party.",
            )
        self._rounded |= set(runs)
        if self._separate(net):
            self._note_groups([self._rows.get(run, -1) for run in runs], list(members), net)
        with self.clock("rank"):
            lines = []
            for run in runs:
                order = self._order(run)
                numbers = local.rounded(self._distances(run))[order.row_of]
                context = f"rounded distances of run {run}"
                lines.append(zero_shares.masked(numbers, self._secret, context, members, net.party))
            width = zero_shares.n_words(self._table.n_rows)
            return messages.RoundedParts(MaskedArray.of(np.stack(lines).reshape(len(runs), width)))

    def _note_groups(self, rows: list[int], members: list[str], net: Network) -> None:
        """Refuse another group for a query that an interrupted run had begun."""
        if any(self._groups.get(row, members) != members for row in rows):
            raise ParameterError(
                "The leader asks for a query of an interrupted run with another group.",
                "A resumed run continues with the groups it had.",
                "Run the same job at every party.",
            )
        self._groups |= dict.fromkeys(rows, members)
        self.add_to_checkpoint(net, groups=self._groups)  # before the answer leaves

    @handles(messages.CandidatesWanted)
    async def parts(
        self, ask: messages.CandidatesWanted, net: Network
    ) -> messages.PartialDistances:
        """Encrypt its own part of the distances to the candidates, many queries together."""
        runs = ask.runs.array().tolist()
        evaluator = self._joined_evaluator()
        step, pieces = alignment(evaluator), []
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
            return messages.PartialDistances(seal_vector(evaluator, flat))

    @handles(messages.Choice)
    async def take_choice(self, told: messages.Choice, net: Network) -> None:
        """Remember whether its own party was selected."""
        self._selected = told.selected

    def checkpoint(self) -> State:
        """Query rows that were finished, and the groups they served."""
        rows = self._finished.union(self._rows.values())
        return {"finished": sorted(rows), "groups": self._groups, "queries": self._queries}

    def restore(self, saved: State) -> None:
        """Go on after the last chunk; a query that was finished is not answered again."""
        self._finished, self._groups = set(saved["finished"]), saved["groups"]
        self._queries = saved["queries"]

    def facts(self) -> dict[str, Any]:
        """What this party may keep: whether it was selected, and remarks about its columns."""
        return {
            "names": list(self._table.feature_names),
            "selected": bool(self._selected),
            "remarks": self._parts.remarks,
        }

    def _joined_evaluator(self) -> VectorEvaluator:
        if self._evaluator is None:
            raise too_early("distances", "the leader's key")
        return self._evaluator

    def _order(self, run: int) -> shuffle.SecretOrder:
        if not self._secret or run not in self._rows:
            raise too_early("a ranking", "the shared secret and the query")
        return shuffle.SecretOrder(self._secret, run, self._table.n_rows)

    def _distances(self, run: int) -> Integers:
        return self._part(self._rows[run])

    def _part(self, row: int) -> Integers:
        return self._parts.part(row)

    def _ranking(self, run: int) -> local.Ranking:
        if run not in self._rankings:
            order = self._order(run)
            self._rankings[run] = local.Ranking(self._distances(run), order)
        return self._rankings[run]

    def _all_parts(self, run: int) -> Integers:
        """Parts of all rows, in row order: the aggregator sees ciphertexts and no pseudo-ids."""
        if run not in self._rows:
            raise too_early("distances", "the query")
        return self._distances(run)


def known_members(members: Sequence[str], net: Network) -> tuple[str, ...]:
    """Members in party order, all of them participants."""
    parties = net.members("participant")
    if not members or not set(members) <= set(parties):
        raise ParameterError(
            "A group names parties that do not take part.",
            f"Participants: {', '.join(parties)}.",
            "Run the same job at every party.",
        )
    return tuple(party for party in parties if party in set(members))


def too_early(what: str, lacking: str) -> UndeclaredFlow:
    """The error of a request that comes out of order."""
    return UndeclaredFlow(
        f"The leader asks for {what} before {lacking} came in.",
        "Messages come in the order of the protocol.",
        "Check that all parties run the same version of fedsift.",
    )
