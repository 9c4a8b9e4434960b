# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Cost of VF-PS: known per query; how many rows become candidates is an expected number."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.costs.counts import MASKING_KEY, Counts, Expected, frame
from fedsift.crypto.wire import Ciphertexts
from fedsift.data import Federation
from fedsift.methods.vfps import messages, search
from fedsift.methods.vfps.candidates import PILOT_QUERIES, WORTHWHILE_SHARE, CandidateBook
from fedsift.methods.vfps.distances import Params, most_distances, size_bits
from fedsift.methods.vfps.fagin import FIRST_BLOCK
from fedsift.methods.vfps.score_costs import ScoreWalk
from fedsift.methods.vfps.search import Group, Players
from fedsift.methods.vfps.vector_costs import vectors_of
from fedsift.methods.vfps.zero_shares import n_words
from fedsift.protocol import MaskedArray, PublicArray

Floats = npt.NDArray[np.float64]

_GROUP_NUMBERS = 1 << 21


def expect_vfps(_selector: Any, federation: Federation, params: Params) -> Expected:
    """Walk through a run, with a mean number of candidates or of participants that clearly add."""
    if not params.scores:
        remark = "How many rows become candidates depends on the data; a mean number is assumed."
        return Expected(_Walk(federation, params).run(), remarks=(remark,))
    columns = {party: table.n_columns for party, table in federation.tables.items()}
    own = federation.label_holder if federation.label_holder in columns else None

    def count(n_steps: int | None = None) -> Counts:
        return ScoreWalk(Counts(), params, federation.n_rows, columns, own, n_steps).run()

    if not params.auto:
        return Expected(count())
    n_judged = len(columns) - (params.keep_own and own is not None)
    expected = max(1, n_judged // 2)
    remark = f"The data decides how many participants clearly add; assumed: {expected}."
    return Expected(count(expected), count(0), count(n_judged), (remark,))


def _array(count: float, dtype: type = np.int64) -> PublicArray:
    return PublicArray.of(np.zeros(max(0, round(count)), dtype=dtype))


class _Walk:
    def __init__(self, federation: Federation, params: Params) -> None:
        self._params = params
        self._n_rows = federation.n_rows
        self._columns = {p: t.n_columns for p, t in federation.tables.items()}
        self._own = federation.label_holder if federation.label_holder in self._columns else None
        self._names = tuple(self._columns)
        target = federation.target
        self._n_alike = 4
        if target is not None and target.kind == "classes":
            self._n_alike = len(target.classes)
        self._players = Players(self._names, self._own, params.singles)
        self.tally = Counts()
        self._vectors = vectors_of(self.tally, params.scheme, params.security_bits)
        self._rng = np.random.default_rng(params.seed)
        self._book = CandidateBook(params, self._n_rows)
        self._left = most_distances(
            [size_bits(n) for p, n in self._columns.items() if p != self._own], self._n_rows
        )

    def run(self) -> Counts:
        """Keys, then groups and queries, then the choice."""
        params, everybody = self._params, self._members(self._names)
        self._introduce(everybody)
        n_queries = min(params.n_queries, self._n_rows)
        self._rng.permutation(self._n_rows)  # the leader draws its queries first
        if params.split_queries:
            groups = search.random_groups(self._players, params.n_groups, self._rng)
            served = search.assign(self._players, groups, n_queries, self._rng)
            for number, (group, queries) in enumerate(served.items()):
                self._group(group, len(queries), len(served) - number)
        else:
            self._together(self._steps(), n_queries)
        self.tally.ask(messages.Choice(True), others=everybody)
        return self.tally

    def _members(self, group: Sequence[str]) -> tuple[int, int]:
        """Members elsewhere, and at the leader's own organisation."""
        here = sum(name == self._own for name in group)
        return len(group) - here, here

    def _introduce(self, everybody: tuple[int, int]) -> None:
        keys, sizes = self._vectors.keys, self._vectors.key_bytes
        secret = Ciphertexts("x25519-chacha20poly1305", ())
        hello = messages.Introduction(
            self._n_rows, len(self._names), self._params.k, self._params.strategy
        )
        self.tally.ask(hello, messages.Joined(MASKING_KEY, 10), others=everybody)
        shared = messages.SharedSecret(MASKING_KEY, secret, keys)
        self.tally.ask(frame(shared, (1, 48), keys=sizes), others=everybody)
        self.tally.ask(
            frame(messages.Opening(self._n_rows, self._left, keys), keys=sizes), others=1
        )
        self._vectors.set_up(len(self._names) + 1)

    # Separate groups, found by rounded sums

    def _group(self, group: Group, n_queries: int, n_waiting: int) -> None:
        """Test one group on queries of its own, as far as its share of distances goes."""
        if self._book.search_by(len(group)) != "rounded":
            self._chunks(group, [group], n_queries)
            return
        expected = min(self._n_rows, self._params.k * self._n_alike + 1)
        quota = self._left // n_waiting
        if not self._params.unlimited:
            kept = min(n_queries, max(1, quota // max(1, expected - 1)))
        else:
            kept = n_queries
        size, done = self._book.chunk_size(len(group)), 0
        while done < n_queries:
            runs = min(size, n_queries - done)
            used = min(runs, kept - done)
            self._rounded_chunk(group, runs, max(0, used), expected)
            self._left -= max(0, used) * (expected - 1)
            done += runs
            if used < runs:
                break

    def _rounded_chunk(self, group: Group, runs: int, used: int, expected: int) -> None:
        tally, everybody, m = self.tally, self._members(group), len(group)
        numbers = _array(runs)
        tally.ask(messages.Queries(100, numbers), others=everybody)
        depth = self._params.k * self._n_alike
        asks = 1 + max(0, math.ceil(math.log2(max(1, depth / FIRST_BLOCK))))
        read = min(self._n_rows, FIRST_BLOCK << (asks - 1))
        for number in range(asks):
            block = min(self._n_rows, FIRST_BLOCK << number) - (
                min(self._n_rows, FIRST_BLOCK << (number - 1)) if number else 0
            )
            nearest = messages.NearestRows(_array(runs * block), numbers)
            tally.ask(messages.NearestWanted(10, group, numbers, read), nearest, others=1)
        words = MaskedArray.of(np.zeros((runs, n_words(self._n_rows)), dtype=np.uint64))
        tally.ask(messages.RoundedWanted(group, numbers), messages.RoundedParts(words), others=m)
        candidates = messages.Candidates(_array(runs * expected), numbers)
        tally.ask(messages.Stop(10, numbers, numbers), candidates, others=1)
        self._local(group, runs, passes=2)
        self._rows("rank", "round", m * runs)
        self._rows("evaluate", "rank", runs)
        length = used * self._padded(expected)
        self._parts(group, used, length, used * expected, all_rows=False)
        self._sums([group], length, used * expected)

    def _local(self, group: Group, runs: float, passes: int) -> None:
        """Distances and secret orders at the members; the leader needs the orders too."""
        for name in group:
            self._rows("rank", "distance", passes * runs)
            self._rows("rank", "order", passes * runs)
            cells = passes * runs * self._n_rows * self._columns[name]
            self.tally.do("rank", "distance cell", cells)
        self._rows("rank", "order", runs)

    def _rows(self, phase: str, unit: str, n_queries: float) -> None:
        """Work on all rows of some queries."""
        self.tally.do(phase, f"{unit} query", n_queries)
        self.tally.do(phase, f"{unit} row", n_queries * self._n_rows)

    # Encrypted distances and their sums

    def _padded(self, n_rows: float) -> int:
        """Numbers that the rows of one query take."""
        step = self._vectors.step
        return math.ceil(round(n_rows) / step) * step

    def _parts(
        self, group: Group, runs: float, length: int, n_candidates: float, *, all_rows: bool
    ) -> None:
        m, numbers = len(group), _array(runs)
        self.tally.ask(
            messages.PartsWanted(10, group, numbers, all_rows), messages.Collected(), others=1
        )
        ids = _array(0 if all_rows else n_candidates)
        lengths = _array(0 if all_rows else runs)
        wanted = messages.CandidatesWanted(numbers, ids, lengths, all_rows)
        empty = Ciphertexts(self._params.scheme, ())
        sealed = frame(messages.PartialDistances(empty), self._vectors.fresh(length))
        self.tally.ask(wanted, sealed, others=m)
        self._vectors.encrypt(length, m)

    def _sums(self, groups: Sequence[Group], length: int, n_candidates: float) -> None:
        count, size = self._vectors.result(length)
        at_once = max(1, _GROUP_NUMBERS // max(1, length))
        empty = Ciphertexts(self._params.scheme, ())
        for form, some in search.by_form(self._players, groups, self._params, at_once):
            ask = messages.GroupsWanted(10, tuple(some), form, True)
            reply = messages.GroupDistances((empty,) * len(some))
            self.tally.ask(ask, frame(reply, (len(some) * count, size)), others=1)
            self._vectors.blind(length, len(some), sum(map(len, some)))
            self._vectors.decrypt(length, len(some))
            self.tally.do("decrypt", "rank row", len(some) * n_candidates)

    # Groups that share queries

    def _steps(self) -> list[list[Group]]:
        """Groups that are asked about together, as the search goes with made-up scores."""
        params, asked = self._params, list[list[Group]]()
        made_up = np.random.default_rng(0)

        async def evaluate(groups: Sequence[Group]) -> dict[Group, Floats]:
            if groups:
                asked.append(list(groups))
            # More participants know more; which of them know most is up to chance.
            return {g: made_up.normal(len(g), 0.1, 2) for g in groups}

        walk = search.search(
            params.strategy,
            self._players,
            params.n_participants,
            params.n_groups,
            self._rng,
            evaluate,
        )
        with contextlib.suppress(StopIteration):
            walk.send(None)  # nothing in it ever waits
        return asked

    def _together(self, steps: list[list[Group]], n_queries: int) -> None:
        """All groups on all queries: distances are sent once, or group by group."""
        if not self._params.batching:
            for group in (group for groups in steps for group in groups):
                self._chunks(group, [group], n_queries)
            return
        self._chunks(self._names, steps[0], n_queries, later=steps[1:])

    def _chunks(
        self,
        members: Group,
        groups: Sequence[Group],
        n_queries: int,
        later: Sequence[Sequence[Group]] = (),
    ) -> None:
        share = self._fagin_share(len(members))
        fagin = self._params.fagin
        done = 0
        while done < n_queries:
            pilot = fagin and done < PILOT_QUERIES
            searching = pilot or (fagin and share <= WORTHWHILE_SHARE)
            size = PILOT_QUERIES if pilot else max(1, min(128, (1 << 19) // self._n_rows))
            if searching and not pilot:
                size = max(1, min(128, (1 << 20) // self._n_rows))
            runs = min(size, n_queries - done)
            self.tally.ask(messages.Queries(100, _array(runs)), others=self._members(members))
            candidates = self._n_rows * (share if searching else 1.0)
            length = runs * self._padded(candidates)
            if searching:
                self._read_rankings(members, runs, share)
            self._local(members, runs, passes=1)
            self._parts(members, runs, length, runs * candidates, all_rows=not searching)
            for some in (groups, *later):
                self._sums(some, length, runs * candidates)
            done += runs

    def _fagin_share(self, n_members: int) -> float:
        """Candidates as a share of the rows, if the participants' rankings are independent."""
        wanted = min(self._n_rows, self._params.k * self._n_alike)
        depth = float((wanted / self._n_rows) ** (1 / n_members))
        return 1.0 - float((1.0 - depth) ** n_members)

    def _read_rankings(self, members: Group, runs: int, share: float) -> None:
        """Blocks of all sub-rankings until enough rows were seen in all of them."""
        n, m = self._n_rows, len(members)
        depth = n * (1.0 - (1.0 - share) ** (1 / m))
        asks = 1 + max(0, math.ceil(math.log2(max(1.0, depth / FIRST_BLOCK))))
        numbers, told = _array(runs), 0
        for number in range(asks):
            block = min(n, FIRST_BLOCK << number) - told
            told += block
            common = runs * block * depth / n
            rows = messages.CommonRows(_array(common), _array(common), numbers)
            self.tally.ask(messages.RankingWanted(10, members, numbers, told), rows, others=1)
            ranking = messages.SubRankings(_array(runs * block), numbers)
            self.tally.ask(messages.BlockWanted(numbers, told), ranking, others=m)
        candidates = messages.Candidates(_array(runs * n * share), numbers)
        self.tally.ask(messages.Stop(10, numbers, numbers), candidates, others=1)
        self.tally.ask(
            messages.DepthWanted(numbers, numbers), messages.TieDepths(numbers), others=m
        )
        self._rows("rank", "sub-ranking", m * runs)
        self.tally.do("evaluate", "rank row", runs * told * m)
