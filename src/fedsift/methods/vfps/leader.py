# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""VF-PS: which participants are worth having, by mutual information with the label.

Paper 002 (VF-PS), sections 3.1 to 3.3 and Algorithm 1.

Setting   Parties hold different columns of the same rows; one of them, the leader, the label.
Roles     *leader* (drives, the only one with the secret key), *participant* (every party with
          columns, the leader's own organisation among them if it has any), *aggregator* (a neutral
          node without data and without key). No key server: the leader makes its own key.
Adversary Honest but curious, single parties. Excluded: the aggregator together with a participant
          (it could undo pseudo-ids and masks) or with the leader (it could decrypt every part).

Who learns what
  participant  the query rows, the pseudo-ids of candidates, whether it was selected.
  aggregator   under pseudo-ids that change with every query: rounded distances summed over a group
               (separate designs) or participants' sub-rankings (the others); how deep they were
               read, which groups are tested. It holds ciphertexts it cannot open.
  leader       which rows are nearest, and for every tested group the order (with differences: a
               factor can be found as a common divisor) of their summed distances, over at least
               two other participants. ``design="separate"``: no participant is in two sums of one
               query, and all distances together are at most half as many as the participants have
               values. ``greedy``, ``shapley``, ``brute-force`` and ``design="shared"`` compare
               overlapping groups; the sums then form a linear system that gives single
               participants' distances away. They are refused unless every participant's policy
               names ``paired-groups``.

By default (``design="scores"``, see :mod:`fedsift.methods.vfps.score_asker`) the leader reads no
distance. The aggregator reads distances summed over two or more parties between unnamed rows,
shuffled anew for every query and group, with marks for the query's label; the leader reads means
over all queries, rounded to what one query can change. Excluded there too: the aggregator together
with a participant or the leader, who know the order of the rows. What follows is the paper's way.

Algorithm 1, line by line
  keys   leader only                          Leader._introduce
  G      groups                               vfps_search
  I_k    candidates (Figure 2)                Leader._read, Aggregator.rank and .nearest
  1-2    encrypt and send partial distances   Participant.parts
  3      sums per group                       Aggregator.add_up
  4-6    decrypt, order, score                Leader._open

Deviations, each with its reason
  - Lines 3-5 hand sums to random participants that hold the key; here the leader alone decrypts,
    blinded sums only, and needs no help to sort them.
  - Groups of one are tested only where every participant's policy names them.
  - The paper tests all groups on all queries. With more groups than participants that reveals
    every participant's distances, blinded or not (see
    fedsift.lab.attacks.vfps.techniques), so by default every query serves groups
    without common members.
  - Candidates are searched by a fresh shuffle per query, in doubling blocks; the leader names the
    exact depth, lists are cut behind ties.
  - Fagin's candidates, let alone all rows, are far more than the estimator needs; over many queries
    they are coordinates. Separate designs search by rounded sums instead and show the leader the
    nearest rows only (see :mod:`fedsift.methods.vfps.rounded_order`).
  - The importance is the mean score of a participant's groups (the text), not the sum (the
    formula); counts include ties, so that constant columns score 0.
  - Numeric targets: see :mod:`fedsift.methods.vfps.knn_mi`.

A malicious participant can send wrong distances or rankings unnoticed; a malicious leader could ask
for a query again under another number (participants refuse that in separate designs), or announce
more columns than there are to see more distances.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.crypto.shuffle import SecretOrder, new_secret
from fedsift.data.state_files import State
from fedsift.data.table import PartyTable
from fedsift.data.target import Target
from fedsift.methods.vfps import blinding, messages, search
from fedsift.methods.vfps.aggregator import Aggregator, Participant
from fedsift.methods.vfps.candidates import CandidateBook, ScoreBook, too_few_rows
from fedsift.methods.vfps.distances import Params, most_distances
from fedsift.methods.vfps.fagin import FIRST_BLOCK, stop_depth
from fedsift.methods.vfps.knn_mi import Alike, neighbours_wanted, term
from fedsift.methods.vfps.messages import divided
from fedsift.methods.vfps.score_asker import ScoreAsker
from fedsift.methods.vfps.search import Found, Group, Players
from fedsift.protocol import Network, Protocol, PublicArray, Role, make_role
from fedsift.protocol.role import errors_belong_to

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

AGGREGATOR = "aggregator"
_MOST_KEPT_NUMBERS = 1 << 24  # 48 bytes each under BGV


@dataclass(frozen=True)
class _Chunk:
    """Some runs whose distances the aggregator holds."""

    number: int
    queries: Sequence[int]
    rows: list[Integers | None]
    segments: list[int]


@dataclass(frozen=True)
class Selection:
    """What the leader knows at the end."""

    found: Found
    stats: dict[str, Any]
    remarks: tuple[str, ...]


class Leader(
    ScoreAsker,
    name="leader",
    signals=(messages.PARTICIPANT_SIGNALS, messages.AGGREGATOR_SIGNALS),
):
    """Owns the label and the only secret key; scores groups and chooses participants."""

    def __init__(
        self,
        target: Target,
        own: str | None,
        params: Params,
        party: str = "leader",
        checkpoints: Path | None = None,
        table: PartyTable | None = None,
    ) -> None:
        self.keep_checkpoints(checkpoints, party, params, target)
        self._own_table = table
        self._queries = np.empty(0, dtype=np.int64)
        self.start_scores()
        classes = target.kind == "classes"
        self._labels = Alike(target.codes) if classes else Alike(values=target.values)
        self._n_rows = target.n_rows
        self._own = own
        self._params = params
        self._rng = np.random.default_rng(params.seed)
        self._own_rng = np.random.default_rng()
        self._first_draw = self._draws()
        # Scores are worked out under masks, without a key.
        scheme = "plain" if params.scores else params.scheme
        self._owner = blinding.own_sums(scheme, security_bits=params.security_bits)
        self._step = blinding.alignment(blinding.join_sums(self._owner.keys))
        self._secret = new_secret()
        self._n_runs = self._n_chunks = self._n_slots = 0
        self._book = CandidateBook(params, target.n_rows)
        self._scores = ScoreBook()
        self.served: dict[Group, list[int]] = {}
        self._kept: list[_Chunk] = []
        self._too_large = False

    async def drive(self, net: Network) -> Selection:
        """Sections 3.2 and 3.3: score groups of participants, choose, tell everybody."""
        await self.begin(net)
        by_sums = self._find_by_sums
        found = await (self.find_by_scores if self._params.scores else by_sums)(net)
        for entry in found.history:
            self.note(**entry)
        names = net.members("participant")
        kept = {self._own} if self._params.scores and self.given else set()
        chosen = {name: messages.Choice(name in {*found.selected, *kept}) for name in names}
        await net.tell("participant", chosen)
        await self.finish(net)
        stats = {
            "slots": self._n_slots,
            "runs": self._n_runs,
            "candidate_share": self._book.mean_share,
            "n_queries": len(self._queries),
        }
        return Selection(found, stats, (*found.remarks, *self._remarks()))

    async def _find_by_sums(self, net: Network) -> Found:
        """As in the paper: the leader reads distances summed over groups."""
        await self._introduce(net)
        names = net.members("participant")
        self._players = Players(names, self._own, self._params.singles)
        usable = np.flatnonzero(self._labels.usable)
        n_queries = min(self._params.n_queries, len(usable))
        # Groups are public, queries are not: the aggregator knows the seed. What the seed says of
        # them is drawn all the same, so that groups are those of a simulation.
        told, own = self._rng.permutation(usable), self._own_rng.permutation(usable)
        self._queries = (own if self._params.query_seed is None else told)[:n_queries]

        return await self._search(net)

    def checkpoint(self) -> State:
        """Scores, budget, and where the draws began: a resumed run draws the same again."""
        return {
            "first_draw": self._first_draw,
            "counts": [self._n_runs, self._n_chunks, self._n_slots],
            "book": self._book.to_plain(),
            "scores": self._scores.to_plain(),
            "too_large": self._too_large,
            "by_scores": self.scores_to_plain(),
        }

    def restore(self, saved: State) -> None:
        """Go on after the last chunk of queries; keys and shuffles are new."""
        self._first_draw = saved["first_draw"]
        self._rng.bit_generator.state, self._own_rng.bit_generator.state = self._first_draw
        self._n_runs, self._n_chunks, self._n_slots = saved["counts"]
        self._book.load(saved["book"])
        self._scores.load(saved["scores"])
        self._too_large = saved["too_large"]
        self.load_scores(saved["by_scores"])

    def _draws(self) -> list[Any]:
        return [self._rng.bit_generator.state, self._own_rng.bit_generator.state]

    async def _introduce(self, net: Network) -> None:
        """Make keys, and deal the secret of the shuffles under pairwise keys."""
        dealt = await self._dealt(self._secret, net)
        sizes = {name: size for name, (size, _, _) in dealt.items()}
        secrets = {
            name: messages.SharedSecret(key, sealed, self._owner.keys)
            for name, (_, key, sealed) in dealt.items()
        }
        await net.tell("participant", secrets)
        sizes.pop(self._own or "", None)
        most = most_distances(sizes.values(), self._n_rows)
        self._book.grant(most)
        await net.tell(AGGREGATOR, messages.Opening(self._n_rows, most, self._owner.keys))

    async def _search(self, net: Network) -> Found:
        params, players, wanted = self._params, self._players, self._params.n_participants

        async def evaluate(groups: Sequence[Group]) -> dict[Group, Floats]:
            return await self._on_all_queries(groups, net, keep=params.strategy == "greedy")

        if not params.split_queries:
            return await search.search(
                params.strategy, players, wanted, params.n_groups, self._rng, evaluate
            )
        groups = search.random_groups(players, params.n_groups, self._rng)
        served = search.assign(players, groups, len(self._queries), self._rng)
        parts: dict[Group, Floats] = {}
        for number, (group, numbers) in enumerate(served.items()):
            if not self._scores.begun([group]):
                self._book.next_group(len(served) - number)
            terms = await self._score(group, [group], self._queries[numbers].tolist(), net)
            parts.update(terms)
            # Some may have been left out; the rest was tested in this order.
            self.served[group] = self._queries[numbers][: len(terms[group])].tolist()
        return search.from_separate(players, wanted, parts)

    async def _on_all_queries(
        self, groups: Sequence[Group], net: Network, *, keep: bool
    ) -> dict[Group, Floats]:
        """Terms of groups that are all tested on the same queries."""
        queries = self._queries.tolist()
        if not groups:
            return {}
        if not self._params.batching:
            terms: dict[Group, Floats] = {}
            for group in groups:
                terms.update(await self._score(group, [group], queries, net))
            return terms
        # Inclusion property: the complete group's candidates serve every group.
        members = self._players.names
        if not keep or self._too_large:
            return await self._score(members, groups, queries, net)
        if not self._scores.begun(groups):
            if not self._kept and not await self._keep_parts(members, queries, net):
                return await self._score(members, groups, queries, net)
            scored = self._scores[groups]
            for chunk in self._kept:
                terms = await self._open(chunk, groups, net, last=False)
                scored.add(len(chunk.queries), terms)
            await self.done(net)
        return self._scores[groups].terms

    async def _keep_parts(self, members: Group, queries: list[int], net: Network) -> bool:
        """Have all parts sent once for the whole search, unless they fill the memory."""
        # A resumed run begins anew here: nobody can open what was sent under another key.
        self._n_runs = self._n_chunks = self._n_slots = start = 0
        self._book = CandidateBook(self._params, self._n_rows)
        while start < len(queries):
            part = queries[start : start + self._book.chunk_size(len(members))]
            self._kept.append(await self._collect(members, part, net))
            start += len(part)
            share = sum(self._kept[-1].segments) / len(part) * len(queries)
            if share * len(members) > _MOST_KEPT_NUMBERS:
                self._kept, self._too_large = [], True
                return False
        return True

    def _remarks(self) -> list[str]:
        if not self._too_large:
            return self._book.remarks()
        return [
            *self._book.remarks(),
            "The encrypted distances were too many to keep and were sent again for every step of "
            "the search; fewer queries make it faster.",
        ]

    async def _score(
        self, members: Group, groups: Sequence[Group], queries: list[int], net: Network
    ) -> dict[Group, Floats]:
        """Collect and open chunk by chunk, so that memory does not grow with the queries."""
        scored = self._scores[groups]
        while scored.n_queries < len(queries) and not self._book.is_full(members):
            size = self._book.chunk_size(len(members))
            some = queries[scored.n_queries : scored.n_queries + size]
            chunk = await self._collect(members, some, net)
            if not chunk.queries:
                break
            scored.add(len(some), await self._open(chunk, groups, net, last=True))
            await self.done(net)
        return scored.terms

    # How candidates are found

    async def _collect(self, members: Group, queries: list[int], net: Network) -> _Chunk:
        """Have the aggregator hold the encrypted distances of some queries."""
        first, number = self._n_runs, self._n_chunks
        self._n_runs += len(queries)
        self._n_chunks += 1
        told = messages.Queries(first, PublicArray.of(np.array(queries, dtype=np.int64)))
        await net.tell("participant", dict.fromkeys(members, told))
        runs = np.arange(first, first + len(queries))
        rows: list[Integers | None] = [None] * len(queries)
        sizes = [self._n_rows] * len(queries)
        search = self._book.search_by(len(members))
        if search != "all rows":
            found = await self._read(
                number, members, dict(zip(runs.tolist(), queries, strict=True)), net
            )
            found = self._book.within_quota(members, found)
            self._book.note(len(members), found)
            rows, sizes = list(found), [len(part) for part in found]
        if not sizes:
            return _Chunk(number, [], [], [])
        wanted = PublicArray.of(runs[: len(sizes)])
        ask = messages.PartsWanted(number, members, wanted, search == "all rows")
        await net.ask(AGGREGATOR, ask, messages.Collected)
        segments = [-(-size // self._step) * self._step for size in sizes]
        self._n_slots += sum(segments) * len(members)
        return _Chunk(number, queries[: len(sizes)], rows, segments)

    async def _read(
        self, number: int, members: Group, queries: Mapping[int, int], net: Network
    ) -> list[Integers]:
        """Read on in doubling blocks until every query has seen enough rows of its label.

        Fagin counts the rows seen in all sub-rankings and how deep; rounded sums have one order.
        """
        rounded = self._book.search_by(len(members)) == "rounded"
        wanted = messages.NearestWanted if rounded else messages.RankingWanted
        answer: type[messages.NearestRows | messages.CommonRows] = (
            messages.NearestRows if rounded else messages.CommonRows
        )
        orders = {run: SecretOrder(self._secret, run, self._n_rows).row_of for run in queries}
        alike = {run: self._alike(query) for run, query in queries.items()}
        found: dict[int, list[Integers]] = {run: [] for run in queries}
        n_read, depths = dict.fromkeys(queries, 0), dict[int, int]()
        depth, pending = FIRST_BLOCK, list(queries)
        while pending:
            if depth >= 2 * max(FIRST_BLOCK, self._n_rows):
                raise too_few_rows()
            ask = wanted(number, members, PublicArray.of(np.array(pending)), depth)
            reply = (await net.ask(AGGREGATOR, ask, answer))[0]
            with self.clock("rank"), errors_belong_to(AGGREGATOR, wanted.__name__, 0):
                ids = divided(reply.ids, reply.lengths, len(pending))
                ranks = [
                    n_read[run] + np.arange(1, len(some) + 1)
                    for run, some in zip(pending, ids, strict=True)
                ]
                if isinstance(reply, messages.CommonRows):
                    ranks = divided(reply.depths, reply.lengths, len(pending))
                for run, some, rank in zip(pending, ids, ranks, strict=True):
                    n_read[run] += len(some)
                    found[run].append(rank[alike[run][orders[run][some]]])
                    seen = np.sort(np.concatenate(found[run]))
                    enough = neighbours_wanted(self._params.k, self._labels.size(queries[run]))
                    stop = stop_depth(seen, np.ones(len(seen), dtype=bool), enough)
                    if stop is not None:
                        depths[run] = stop
            pending = [run for run in pending if run not in depths]
            depth *= 2
        runs = np.array(list(queries), dtype=np.int64)
        cut = PublicArray.of(np.array([depths[run] for run in queries]))
        stopped = messages.Stop(number, PublicArray.of(runs), cut)
        told = (await net.ask(AGGREGATOR, stopped, messages.Candidates))[0]
        with errors_belong_to(AGGREGATOR, "Stop", 0):
            ids = divided(told.ids, told.lengths, len(runs))
        return [orders[run][some] for run, some in zip(queries, ids, strict=True)]

    def _alike(self, query: int) -> npt.NDArray[np.bool_]:
        """Rows that count as neighbours of the query's label."""
        rows = self._labels.rows(query).copy()
        rows[query] = False
        return rows

    # What the sums say

    async def _open(
        self, chunk: _Chunk, groups: Sequence[Group], net: Network, *, last: bool
    ) -> dict[Group, Floats]:
        """Lines 4-6: decrypt the groups' sums and turn the order of distances into terms."""
        cases = [self._case(q, rows) for q, rows in zip(chunk.queries, chunk.rows, strict=True)]
        length = sum(chunk.segments)
        starts = np.cumsum([0, *chunk.segments])
        terms: dict[Group, Floats] = {}
        batches = self._batches(groups, max(1, (1 << 21) // max(1, length)))
        for i, (form, batch) in enumerate(batches):
            ask = messages.GroupsWanted(
                chunk.number, tuple(batch), form, last and i == len(batches) - 1
            )
            reply = (await net.ask(AGGREGATOR, ask, messages.FORMS[form]))[0]
            with self.clock("decrypt"), errors_belong_to(AGGREGATOR, "GroupsWanted", 0):
                for group, sealed in zip(batch, reply.sums, strict=True):
                    vector = blinding.open_vector(self._owner, sealed, length)
                    terms[group] = np.array(
                        [
                            term(
                                vector[start + kept], alike, self._params.k, self._labels.n_rows, n
                            )
                            for start, (kept, alike, n) in zip(starts, cases, strict=False)
                        ]
                    )
        return terms

    def _batches(self, groups: Sequence[Group], most: int) -> list[tuple[str, list[Group]]]:
        return search.by_form(self._players, groups, self._params, most)

    def _case(
        self, query: int, rows: Integers | None
    ) -> tuple[Integers, npt.NDArray[np.bool_], int]:
        """Positions of a query's candidates that count, which are alike, and the class size."""
        rows = np.arange(self._n_rows) if rows is None else rows
        kept = np.flatnonzero(self._labels.usable[rows] & (rows != query))
        return kept, self._labels.rows(query)[rows[kept]], self._labels.size(query)


PROTOCOL = Protocol(
    name="vfps", messages=messages.MESSAGES, roles=(Leader, Participant, Aggregator)
)


def build_nodes(
    tables: Mapping[str, PartyTable],
    label_holder: str,
    target: Target,
    params: Params,
    checkpoints: Path | None = None,
) -> dict[str, Sequence[Role]]:
    """One node per party and one for the aggregator; the label holder leads."""
    own = label_holder if label_holder in tables else None
    table = tables.get(label_holder)
    leader = make_role(Leader, target, own, params, label_holder, checkpoints, table)
    nodes: dict[str, Sequence[Role]] = {label_holder: (leader,)}
    for party, table in tables.items():
        role = make_role(Participant, table, params, checkpoints)
        nodes[party] = (*nodes.get(party, ()), role)
    nodes[AGGREGATOR] = (Aggregator(params, AGGREGATOR, checkpoints),)
    return nodes
