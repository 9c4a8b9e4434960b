# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""VF-PS with ``design="scores"``, the participant: shuffled and masked parts of distances."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fedsift.crypto import shuffle
from fedsift.crypto.masking import MaskingKey
from fedsift.errors import BadFrame, ParameterError, UndeclaredFlow
from fedsift.methods.vfps import score_lists, zero_shares
from fedsift.methods.vfps import score_messages as messages
from fedsift.methods.vfps.distances import Params
from fedsift.protocol import MaskedArray, Network, PublicArray, handles
from fedsift.protocol.resume import Resumable

Integers = npt.NDArray[np.int64]


class ScoreMember(Resumable):
    """What a participant answers if the leader gets scores only."""

    _params: Params
    _key: MaskingKey
    _secret: bytes
    _matrix: npt.NDArray[np.float64]
    _queries: Integers
    _last_run: int

    def _part(self, row: int) -> Integers:
        """This party's part of the distances to a row."""
        raise NotImplementedError

    @handles(messages.ShuffleSecret)
    async def take_shuffle(self, told: messages.ShuffleSecret, net: Network) -> None:
        """The secret of this run's shuffles and masks."""
        (leader,) = net.members("leader")
        self._secret = shuffle.receive(told.secret, self._key, net, leader, told.dealer)
        self._last_run = -1

    @handles(messages.QueryDraw)
    async def take_draw(self, told: messages.QueryDraw, net: Network) -> None:
        """Query rows that the leader did not choose; those of an interrupted run stay."""
        n_rows = len(self._matrix)
        wanted = min(self._params.n_queries, n_rows)
        if not self._secret or told.n_queries != wanted or told.number < score_lists.DRAW:
            raise BadFrame(
                f"A draw of {told.n_queries} queries came in.",
                f"{wanted} are drawn, once the secret of the run is known.",
                "Run the same job at every party.",
            )
        if not len(self._queries):
            self._queries = score_lists.draw_queries(
                self._secret, told.number, self._params.query_seed, n_rows, wanted
            )

    @handles(messages.ListPartsWanted)
    async def list_parts(
        self, ask: messages.ListPartsWanted, net: Network
    ) -> messages.ListParts | messages.SingleListParts:
        """Parts of some lists, each in its own order, under masks that cancel in the sum."""
        parties = net.members("participant")
        members = tuple(party for party in parties if party in ask.members)
        end = ask.first + ask.count
        fits = ask.first >= 0 and ask.count > 0 and end <= len(self._queries)
        if net.party not in members or len(members) != len(ask.members) or not fits:
            raise UndeclaredFlow(
                f"Distances of {ask.count} queries are wanted, over {len(ask.members)} parties.",
                f"Groups of known parties with this one; {len(self._queries)} queries are there.",
                "Run the same job at every party.",
            )
        if ask.first_run <= self._last_run or ask.first_run + ask.count >= score_lists.DRAW:
            raise ParameterError(
                "The aggregator asks for distances under masks that were used before.",
                "Every list of a run has a number of its own, in rising order.",
                "Run the same job at every party.",
            )
        self._last_run = ask.first_run + ask.count - 1
        with self.clock("rank"):
            lists = [self._shuffled(ask.first + i, ask.first_run + i) for i in range(ask.count)]
            if len(members) == 1:
                return messages.SingleListParts(PublicArray.of(np.concatenate(lists)))
            words = [part.astype(np.uint64) for part in lists]
            if self._params.scheme != "plain":
                words = [
                    zero_shares.masked_words(
                        part, self._secret, f"list {ask.first_run + i}", members, net.party
                    )
                    for i, part in enumerate(lists)
                ]
            return messages.ListParts(MaskedArray.of(np.concatenate(words)))

    def _shuffled(self, number: int, run: int) -> Integers:
        rows = score_lists.listed_rows(self._queries, number, len(self._matrix))
        order = shuffle.SecretOrder(self._secret, run, len(rows)).row_of
        return self._part(int(self._queries[number]))[rows[order]]
