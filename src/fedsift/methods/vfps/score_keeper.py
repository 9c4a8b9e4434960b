# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""VF-PS with ``design="scores"``, the aggregator: reads shuffled lists, hands out rounded means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.crypto.modular import random_integers
from fedsift.errors import UndeclaredFlow
from fedsift.methods.vfps import score_lists
from fedsift.methods.vfps import score_messages as messages
from fedsift.methods.vfps.distances import Params
from fedsift.protocol import Network, PublicArray, handles
from fedsift.protocol.resume import Resumable
from fedsift.protocol.role import errors_belong_to

Floats = npt.NDArray[np.float64]
Group = tuple[str, ...]


class ScoreKeeper(Resumable):
    """Keeps one score per query and group, and answers with means over all queries."""

    _params: Params
    _n_rows: int

    def start_scores(self) -> None:
        """Nothing is known yet."""
        self._n_queries = 0
        self._given = False
        self._terms: dict[Group, list[float]] = {}
        self._pairs: set[tuple[Group, Group]] = set()

    def scores_to_plain(self) -> dict[str, Any]:
        """What an interrupted run has to remember."""
        return {
            "terms": [[list(group), terms] for group, terms in self._terms.items()],
            "pairs": [[list(group), list(base)] for group, base in sorted(self._pairs)],
        }

    def load_scores(self, saved: dict[str, Any]) -> None:
        """Take over what :meth:`scores_to_plain` gave."""
        self._terms = {tuple(group): list(terms) for group, terms in saved["terms"]}
        self._pairs = {(tuple(group), tuple(base)) for group, base in saved["pairs"]}

    @handles(messages.ScoreOpening)
    async def draw(self, told: messages.ScoreOpening, net: Network) -> messages.Drawn:
        """Draw the queries' number after the leader has dealt the secret, and tell everybody."""
        self._n_rows, self._n_queries, self._given = told.n_rows, told.n_queries, told.given
        number = score_lists.DRAW + int(random_integers(61, 1)[0])
        await net.tell("participant", messages.QueryDraw(number, told.n_queries))
        if not told.given:
            self._terms[()] = [0.0] * told.n_queries
        return messages.Drawn(number)

    @handles(messages.LeaderScores)
    async def take_own(self, told: messages.LeaderScores, net: Network) -> None:
        """The leader's own scores, once."""
        values = told.values.array(shape=(self._n_queries,))
        if not self._given or values.dtype != np.float64:
            raise _refused("own scores", "They are told if every group holds the own columns.")
        if not np.array_equal(self._terms.setdefault((), values.tolist()), values, equal_nan=True):
            raise _refused("other own scores", "They are told once; gains are counted from them.")

    @handles(messages.ListsWanted)
    async def read(self, ask: messages.ListsWanted, net: Network) -> messages.ListsRead:
        """Collect and read some lists of one group."""
        known = self._terms.setdefault(ask.group, []) if ask.group else []
        leader = net.members("leader")[0]
        wanted = {*ask.group, *([leader] if self._given else [])}
        members = tuple(name for name in net.members("participant") if name in wanted)
        if not ask.group or len(members) != len(wanted) or ask.first != len(known):
            raise _refused("a group's lists", "Groups of known parties are read once, in order.")
        lengths = self._lengths(ask)
        alike = ask.alike.array(shape=(sum(lengths),)).astype(bool)
        counted = ask.counted.array(shape=(sum(lengths),)).astype(bool)
        sums = await self._sums(members, ask, lengths, net)
        ends = np.cumsum(lengths)[:-1]
        with self.clock("evaluate"):
            for part, same, kept in zip(
                *(np.split(a, ends) for a in (sums, alike, counted)), strict=True
            ):
                known.append(
                    score_lists.worth(
                        part[kept], same[kept], self._params.k, likelihood=self._params.likelihood
                    )
                )
        return messages.ListsRead()

    def _lengths(self, ask: messages.ListsWanted) -> list[int]:
        """Lengths of the lists that were asked for."""
        lengths: list[int] = []
        for number in range(ask.first, self._n_queries):
            if sum(lengths) >= ask.alike.shape[0]:
                break
            lengths.append(score_lists.list_length(number, self._n_rows, self._n_queries))
        if not lengths:
            raise _refused("no lists", f"{self._n_queries} queries are there.")
        return lengths

    async def _sums(
        self, members: Group, ask: messages.ListsWanted, lengths: Sequence[int], net: Network
    ) -> npt.NDArray[np.int64]:
        wanted = messages.ListPartsWanted(members, ask.first_run, ask.first, len(lengths))
        asks = dict.fromkeys(members, wanted)
        kind: Any = messages.SingleListParts if len(members) == 1 else messages.ListParts
        total = np.zeros(sum(lengths), dtype=np.uint64)
        for member, reply in zip(members, await net.ask("participant", asks, kind), strict=True):
            with errors_belong_to(member, "ListPartsWanted", 0):
                part = reply.parts.array(shape=total.shape)
                total += part.astype(np.uint64)
        return total.astype(np.int64)

    @handles(messages.GainsWanted)
    async def tell_gains(self, ask: messages.GainsWanted, net: Network) -> messages.Gains:
        """Means over all queries of what groups tell more than smaller ones."""
        self._pairs.update(ask.pairs)
        most = len(net.members("participant")) ** 2 + 2 * len(self._terms)
        if len(self._pairs) > most:
            raise _refused(f"{len(self._pairs)} comparisons", f"At most {most} are answered.")
        reach = score_lists.most_changed(self._n_rows, likelihood=self._params.likelihood)
        found = []
        for group, base in ask.pairs:
            if not set(base) < set(group):
                raise _refused("a comparison", "A group is compared with a part of itself.")
            found.append(score_lists.rounded_mean(self._scores(group) - self._scores(base), reach))
        values, errors = [f.value for f in found], [f.standard_error for f in found]
        return messages.Gains(PublicArray.of(np.array(values)), PublicArray.of(np.array(errors)))

    def _scores(self, group: Group) -> Floats:
        """Per query; of several participants the best score if likelihoods are compared."""
        names = [group]
        if self._params.likelihood:
            names = [(), *((name,) for name in group)]
        if any(len(self._terms.get(name, ())) != self._n_queries for name in names):
            raise _refused("the score of a group", "Its lists are read first, for all queries.")
        return np.max([self._terms[name] for name in names], axis=0)  # type: ignore[no-any-return]


def _refused(found: str, needed: str) -> UndeclaredFlow:
    return UndeclaredFlow(
        f"The leader asks for {found} out of turn.", needed, "Run the same job at every party."
    )
