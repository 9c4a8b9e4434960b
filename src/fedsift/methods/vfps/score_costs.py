# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Cost of VF-PS with ``design="scores"``: sizes are known, the end of an ``auto`` search is not."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

import numpy as np

from fedsift.costs.counts import MASKING_KEY, Counts, frame
from fedsift.crypto.wire import Ciphertexts
from fedsift.methods.vfps import score_messages as sent
from fedsift.methods.vfps.distances import Params
from fedsift.methods.vfps.knn_mi import Estimate
from fedsift.methods.vfps.messages import Choice, Introduction, Joined
from fedsift.methods.vfps.score_asker import LIST_NUMBERS, lists_of
from fedsift.methods.vfps.score_lists import DRAW, list_length
from fedsift.methods.vfps.score_search import Pair, search_scores
from fedsift.methods.vfps.search import Group, Players
from fedsift.protocol import MaskedArray, PublicArray


def _open(count: int, dtype: type = np.float64) -> PublicArray:
    return PublicArray.of(np.zeros(count, dtype=dtype))


class ScoreWalk:
    """Goes through a run with made-up gains.

    Parameters
    ----------
    n_steps : int, optional
        Steps of an ``auto`` search in which somebody clearly adds; by default all.
    """

    def __init__(
        self,
        tally: Counts,
        params: Params,
        n_rows: int,
        columns: Mapping[str, int],
        own: str | None,
        n_steps: int | None = None,
    ) -> None:
        self._tally, self._params, self._n_rows = tally, params, n_rows
        self._columns, self._own = columns, own
        self._n_queries = min(params.n_queries, n_rows)
        self._lengths = [list_length(i, n_rows, self._n_queries) for i in range(self._n_queries)]
        self._known: set[Group] = set()
        self._next_run = 0
        self._steps_left = len(columns) if n_steps is None else n_steps

    def run(self) -> Counts:
        """Secret and queries, then lists and gains, then the choice."""
        params, tally = self._params, self._tally
        here = sum(name == self._own for name in self._columns)
        everybody = (len(self._columns) - here, here)
        hello = Introduction(self._n_rows, len(self._columns), params.k, params.strategy)
        tally.ask(hello, Joined(MASKING_KEY, 10), others=everybody)
        secret = Ciphertexts("x25519-chacha20poly1305", ())
        tally.ask(frame(sent.ShuffleSecret(MASKING_KEY, secret), (1, 48)), others=everybody)
        opening = sent.ScoreOpening(self._n_rows, self._n_queries, params.keep_own)
        tally.ask(opening, sent.Drawn(DRAW), others=1)
        tally.ask(sent.QueryDraw(DRAW, self._n_queries), others=len(self._columns))
        if params.keep_own:
            tally.ask(sent.LeaderScores(_open(self._n_queries)), others=1)
            self._measure(self._own or "")
        names = tuple(n for n in self._columns if not (params.keep_own and n == self._own))
        players = Players(names, None, params.keep_own or params.singles)
        rng = np.random.default_rng(params.seed)
        with contextlib.suppress(StopIteration):
            search_scores(params, players, rng, self._ask).send(None)  # nothing in it ever waits
        tally.ask(Choice(True), others=everybody)
        return tally

    async def _ask(self, pairs: Sequence[Pair]) -> dict[Pair, Estimate]:
        for group in lists_of(pairs, likelihood=self._params.likelihood):
            if group not in self._known:
                self._read(group)
        gains = sent.Gains(_open(len(pairs)), _open(len(pairs)))
        self._tally.ask(sent.GainsWanted(tuple(pairs)), gains, others=1)
        gain = 1.0 if self._steps_left > 0 else 0.0
        self._steps_left -= 1
        return {pair: Estimate(gain, 0.0, self._n_queries) for pair in pairs}

    def _read(self, group: Group) -> None:
        self._known.add(group)
        wanted = {*group, *([self._own] if self._params.keep_own else [])}
        members = tuple(name for name in self._columns if name in wanted)
        size = max(1, LIST_NUMBERS // self._n_rows)
        for first in range(0, self._n_queries, size):
            count = min(size, self._n_queries - first)
            numbers = sum(self._lengths[first : first + count])
            flags = _open(numbers, np.bool_)
            ask = sent.ListsWanted(group, self._next_run, first, flags, flags)
            self._tally.ask(ask, sent.ListsRead(), others=1)
            parts: sent.ListParts | sent.SingleListParts
            parts = sent.ListParts(MaskedArray.of(np.zeros(numbers, dtype=np.uint64)))
            if len(members) == 1:
                parts = sent.SingleListParts(_open(numbers))
            wants = sent.ListPartsWanted(members, self._next_run, first, count)
            self._tally.ask(wants, parts, others=len(members))
            self._next_run += count
        for name in members:
            self._measure(name)
            self._work("rank", "order")
            self._work("rank", "round")
        self._work("rank", "order")
        self._work("evaluate", "rank")

    def _measure(self, name: str) -> None:
        """Distances of all queries to all rows."""
        self._work("rank", "distance")
        cells = self._n_queries * self._n_rows * self._columns[name]
        self._tally.do("rank", "distance cell", cells)

    def _work(self, phase: str, unit: str) -> None:
        self._tally.do(phase, f"{unit} query", self._n_queries)
        self._tally.do(phase, f"{unit} row", self._n_queries * self._n_rows)
