# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""VF-PS with ``design="scores"``, the leader: asks what groups tell more than smaller ones.

Neither the leader nor a participant receives a distance. The aggregator reads lists of distances
summed over a group, with marks for the query's label; rows are shuffled by a secret that it does
not have, anew for every query and group. It must not put what it has together with a participant
or the leader: they know the order of the lists, and with it the aggregator would have the sums row
by row, the masks, and which rows share a label.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fedsift.crypto.masking import MaskingKey
from fedsift.crypto.shuffle import SecretOrder, deal, new_secret
from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.data.state_files import State
from fedsift.data.table import PartyTable
from fedsift.methods.vfps import score_lists
from fedsift.methods.vfps import score_messages as messages
from fedsift.methods.vfps.distances import Distances, Params, check_size
from fedsift.methods.vfps.knn_mi import Alike, Estimate, estimate
from fedsift.methods.vfps.messages import Introduction, Joined
from fedsift.methods.vfps.score_search import Pair, search_scores
from fedsift.methods.vfps.search import Found, Group, Players
from fedsift.protocol import Network, PublicArray
from fedsift.protocol.resume import ResumableDriver
from fedsift.protocol.role import errors_belong_to

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

LIST_NUMBERS = 1 << 20
"""Numbers that travel in one message, about."""


class ScoreAsker(ResumableDriver):
    """The leader's part; it has the label, and its own columns if they are given."""

    _params: Params
    _labels: Alike
    _n_rows: int
    _own: str | None
    _own_table: PartyTable | None
    _rng: np.random.Generator
    _queries: Integers

    def start_scores(self) -> None:
        """Nothing has been asked yet."""
        self._read_groups: dict[Group, int] = {}
        self._gains: dict[Pair, list[float]] = {}
        self._next_run = 0

    def scores_to_plain(self) -> State:
        """What an interrupted run has to remember."""
        return {
            "queries": self._queries,
            "read": [[list(group), count] for group, count in self._read_groups.items()],
            "gains": [[list(g), list(b), found] for (g, b), found in self._gains.items()],
        }

    def load_scores(self, saved: State) -> None:
        """Take over what :meth:`scores_to_plain` gave."""
        self._queries = saved["queries"]
        self._read_groups = {tuple(group): count for group, count in saved["read"]}
        self._gains = {(tuple(g), tuple(b)): found for g, b, found in saved["gains"]}

    @property
    def given(self) -> bool:
        """Whether the leader's own columns belong to every group."""
        return self._params.keep_own and self._own_table is not None

    async def find_by_scores(self, net: Network) -> Found:
        """Agree on queries nobody chose, then follow the strategy."""
        await self._begin_scores(net)
        names = net.members("participant")
        candidates = tuple(name for name in names if not (self.given and name == self._own))
        players = Players(candidates, None, self.given or self._params.singles)
        own = await self._tell_own(net) if self.given else None

        async def ask(pairs: Sequence[Pair]) -> dict[Pair, Estimate]:
            return await self._ask_gains(pairs, net)

        found = await search_scores(self._params, players, self._rng, ask)
        if own is None:
            return found
        importances = {name: found.importances.get(name, own) for name in names}
        return Found(found.selected, importances, found.history, found.remarks)

    async def _begin_scores(self, net: Network) -> None:
        """Deal the secret, then have the queries drawn from it and the aggregator's number."""
        params, secret = self._params, new_secret()
        dealt = await self._dealt(secret, net)
        sent = {
            name: messages.ShuffleSecret(key, sealed) for name, (_, key, sealed) in dealt.items()
        }
        await net.tell("participant", sent)
        wanted = min(params.n_queries, self._n_rows)
        opening = messages.ScoreOpening(self._n_rows, wanted, self.given)
        number = (await net.ask("aggregator", opening, messages.Drawn))[0].number
        self._order_secret = secret
        if not len(self._queries):
            self._queries = score_lists.draw_queries(
                secret, number, params.query_seed, self._n_rows, wanted
            )

    async def _dealt(
        self, secret: bytes, net: Network
    ) -> dict[str, tuple[int, PublicKeys, Ciphertexts]]:
        """Begin the job: every participant's announced size, and the secret sealed for it."""
        names, dealt = net.members("participant"), {}
        hello = Introduction(self._n_rows, len(names), self._params.k, self._params.strategy)
        replies, key = await net.ask("participant", hello, Joined), MaskingKey.generate()
        for name, reply in zip(names, replies, strict=True):
            with errors_belong_to(name, "Introduction", 1):
                check_size(reply.size_bits)
                sealed = deal(secret, key, net, name, reply.key)
            dealt[name] = (reply.size_bits, key.announce(net, [name]), sealed)
        return dealt

    async def _tell_own(self, net: Network) -> Estimate:
        """Score the own columns alone, on the same lists."""
        assert self._own_table is not None  # noqa: S101 - given
        own = Distances(self._own_table, self._params, len(net.members("participant")))
        scores = []
        with self.clock("rank"):
            for number, query in enumerate(self._queries.tolist()):
                rows, alike, counted = self._marks(number)
                part = own.part(query)[rows]
                scores.append(
                    score_lists.worth(
                        part[counted],
                        alike[counted],
                        self._params.k,
                        likelihood=self._params.likelihood,
                    )
                )
        values = np.array(scores)
        # Without a row of the query's label a list says nothing, of any group.
        told = np.nan_to_num(values, nan=0.0)
        await net.tell("aggregator", messages.LeaderScores(PublicArray.of(told)))
        return estimate(values[~np.isnan(values)])

    def _marks(self, number: int) -> tuple[Integers, npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Rows of a query's list, which share its label, and which count."""
        query = int(self._queries[number])
        rows = score_lists.listed_rows(self._queries, number, self._n_rows)
        counted = self._labels.usable[rows]
        return rows, self._labels.rows(query)[rows] & counted, counted

    async def _ask_gains(self, pairs: Sequence[Pair], net: Network) -> dict[Pair, Estimate]:
        """Gains of groups over smaller ones; lists are read once per group."""
        wanted = [pair for pair in dict.fromkeys(pairs) if pair not in self._gains]
        if wanted:
            for group in lists_of(wanted, likelihood=self._params.likelihood):
                await self._read_lists(group, net)
            reply = (
                await net.ask("aggregator", messages.GainsWanted(tuple(wanted)), messages.Gains)
            )[0]
            values = reply.values.array(shape=(len(wanted),)).tolist()
            errors = reply.errors.array(shape=(len(wanted),)).tolist()
            for pair, value, error in zip(wanted, values, errors, strict=True):
                self._gains[pair] = [value, error]
            await self.done(net)
        n = len(self._queries)
        return {pair: Estimate(self._gains[pair][0], self._gains[pair][1], n) for pair in pairs}

    async def _read_lists(self, group: Group, net: Network) -> None:
        n_queries = len(self._queries)
        size = max(1, LIST_NUMBERS // self._n_rows)
        for first in range(self._read_groups.get(group, 0), n_queries, size):
            alike, counted = [], []
            numbers = range(first, min(n_queries, first + size))
            start, self._next_run = self._next_run, self._next_run + len(numbers)
            with self.clock("rank"):
                for i, number in enumerate(numbers):
                    rows, same, kept = self._marks(number)
                    order = SecretOrder(self._order_secret, start + i, len(rows)).row_of
                    alike.append(same[order])
                    counted.append(kept[order])
            ask = messages.ListsWanted(
                group,
                start,
                first,
                PublicArray.of(np.concatenate(alike)),
                PublicArray.of(np.concatenate(counted)),
            )
            await net.ask("aggregator", ask, messages.ListsRead)
        self._read_groups[group] = n_queries


def lists_of(pairs: Sequence[Pair], *, likelihood: bool) -> list[Group]:
    """Groups whose lists answer these pairs: for likelihoods, those of single participants."""
    groups = [group for pair in pairs for group in pair if group]
    if likelihood:
        groups = [(name,) for group in groups for name in group]
    return list(dict.fromkeys(groups))
