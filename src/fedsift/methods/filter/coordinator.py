# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Secure filters for parties that hold different rows of the same columns.

Setting   Every party holds rows and labels; a coordinator without data adds up.
Roles     *coordinator* (drives, neutral), *member* (any number, at least two).
Adversary Honest but curious. Sums travel under pairwise one-time masks, so the coordinator sees
          totals only. All members but one together with the coordinator learn the rest of that
          one's contribution: with two members each of them does, from any published total.

Who learns what
  coordinator  totals over all members: rows, bin sizes, bin-by-class counts, or sums of values
               and squares per class; the score of each (named) feature.
  member       the common bin edges (rounded pooled quantiles) and the selected features. With a
               ``release_epsilon`` edges were known before, and the selection is drawn by the
               scores (:mod:`.filter_release`).

Steps
  1  members exchange masking keys through the coordinator        Roster
  2  pooled classes; small ones end the run                       ClassSizes
     pooled quantiles by bisection on masked counts               CountsBelow
  3  pooled bin sizes; bins below the minimum are merged          BinSizes
  4  pooled bin-by-class counts, or moments                       Tables, Moments
  5  scores and ranking at the coordinator; the selection back    Chosen

A coordinator that swaps masking keys in step 1 is found out before anything is sent under them:
between organisations keys carry proofs (:mod:`fedsift.crypto.identity`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fedsift.crypto.identity import addressed
from fedsift.crypto.masking import unmask_sum
from fedsift.data.state_files import State
from fedsift.data.table import PartyTable
from fedsift.data.target import Target
from fedsift.errors import ParameterError
from fedsift.maths import binning, moments
from fedsift.methods.checks import check_sizes
from fedsift.methods.filter import features as local
from fedsift.methods.filter import horizontal_messages as messages
from fedsift.methods.filter import scores
from fedsift.methods.filter import uncertainty as filter_errors
from fedsift.methods.filter.member import Member
from fedsift.methods.filter.noise import account_of, chosen, sensitivity
from fedsift.methods.filter.ranking import Params, Ranking, rank, scores_of_noisy
from fedsift.protocol import Message, Network, Protocol, PublicArray, Role, make_role
from fedsift.protocol.resume import ResumableDriver

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class PooledRanking:
    """What the coordinator knows at the end: one score per common column."""

    scores: Floats | None
    selected: tuple[int, ...]
    ranks: Integers
    remarks: list[str]
    errors: Floats | None = None
    errors_are: str | None = None

    def for_parties(self, parties: Sequence[str]) -> tuple[Ranking, list[str]]:
        """The same outcome for every party."""
        ranking = Ranking(
            scores={} if self.scores is None else dict.fromkeys(parties, self.scores),
            selected=dict.fromkeys(parties, self.selected),
            ranks=dict.fromkeys(parties, self.ranks),
            errors={} if self.errors is None else dict.fromkeys(parties, self.errors),
            errors_are=self.errors_are,
        )
        return ranking, self.remarks


class Coordinator(ResumableDriver, name="coordinator", signals=messages.SIGNALS):
    """Holds no data; adds up masked numbers and ranks the columns."""

    def __init__(self, params: Params, checkpoints: Path | None = None) -> None:
        self._params = params
        self.keep_checkpoints(checkpoints, "coordinator", params)
        self._totals: dict[str, list[int]] = {}
        self._remarks: list[str] = []
        self._choices: list[int | Floats] = []
        self._n_rows = 0
        self._errors: Floats | None = None
        self.budget = account_of(params)

    def set_columns(self, names: Sequence[str]) -> None:
        """Column names, to look up given bin edges."""
        self._choices = [local.bin_choice(self._params.bins, name) for name in names]

    async def drive(self, net: Network) -> PooledRanking:
        """Steps 1 to 5."""
        await self.begin(net)
        greetings = await net.ask("member", messages.Hello(self._params.score), messages.Greeting)
        first = greetings[0]
        keys = {party: g.key for party, g in zip(net.members("member"), greetings, strict=True)}
        await net.tell("member", {p: messages.Roster(addressed(keys, p)) for p in keys})

        if self._params.checks_classes and not first.numeric_target:
            await self._check_classes(net)
        frequencies = all(g.frequencies for g in greetings)
        if self._params.score in local.BINNED_SCORES and not (
            self._params.score == "chi2" and frequencies and not self._params.noisy
        ):
            values = await self._table_scores(first, net)
        else:
            values = await self._moment_scores(first, net)

        ranking = self._ranked({"all": values}, first.n_classes)
        await net.tell("member", messages.Chosen(ranking.selected["all"]))
        await self.finish(net)
        told, kind = ranking.scores.get("all"), filter_errors.kind_of(self._params, "count")
        found = (ranking.selected["all"], ranking.ranks["all"], self._remarks, self._errors)
        return PooledRanking(told, *found, None if self._errors is None else kind)

    def _ranked(self, values: Mapping[str, Floats], n_classes: int) -> Ranking:
        """The best columns, or those that a private choice makes of the scores."""
        if not self._params.releases:
            return rank(values, self._params.score, self._params.n_features_to_select)
        reach = sensitivity(self._params, self._n_rows, n_classes)
        return chosen(values, self._params, reach, self.budget)

    async def _table_scores(self, schema: messages.Greeting, net: Network) -> Floats:
        """Steps 2-4 for scores of contingency tables."""
        edges, target_edges = await self._pooled_edges(schema, net)
        longest = max((len(e) for e in edges), default=0)
        padded = np.zeros((len(edges), longest))
        for row, own in zip(padded, edges, strict=True):
            row[: len(own)] = own
        ask = messages.BinSizes(
            PublicArray.of(padded), tuple(len(e) for e in edges), PublicArray.of(target_edges)
        )
        n_features = len(schema.category_counts)
        if "tables" not in self._totals:
            # Members cut their rows when they are asked for the sizes; tables need that.
            self._totals.pop("bin sizes", None)
        sizes = np.array(await self._total(net, ask, "bin sizes")).reshape(n_features, -1)
        if self._params.fixed_edges:
            plan = np.tile(np.arange(sizes.shape[1]), (n_features, 1))
        else:
            plan = self._merge(sizes, schema)
        n_bins = int(plan.max()) + 1
        totals = await self._total(net, messages.Tables(PublicArray.of(plan), n_bins), "tables")
        table = np.array(totals).reshape(n_features, n_bins, schema.n_classes)
        if self._params.noisy:
            return scores_of_noisy(table, self._params.score)
        self._n_rows = int(table[0].sum())
        used = table.sum(axis=(0, 1)) > 0  # a target with ties may leave quantile classes empty
        self._errors = filter_errors.errors_of_tables(table[:, :, used], self._params)
        return scores.TABLE_SCORES[self._params.score](table[:, :, used])

    async def _check_classes(self, net: Network) -> None:
        """Step 2: refuse small classes of all members together, before any column is asked for."""
        if not {"tables", "moments"} & set(self._totals):
            self._totals.pop("class sizes", None)  # members want to be asked before the rest
        sizes = await self._total(net, messages.ClassSizes(), "class sizes")
        check_sizes(sizes, self._params.min_class_size)

    def _merge(self, sizes: Integers, schema: messages.Greeting) -> Integers:
        plan = np.zeros(sizes.shape, dtype=np.int64)
        merged, smallest = 0, self._params.rows_of_bin(schema.n_classes)
        for f, row in enumerate(sizes):
            ordered = schema.category_counts[f] == 0
            plan[f] = binning.merge_plan(row.tolist(), smallest, ordered=ordered)
            merged += int((row > 0).sum()) - int(plan[f].max()) - 1
        if merged:
            self._remarks.append(
                f"{merged} pooled bins had fewer than {smallest} rows and were merged."
            )
        return plan

    async def _pooled_edges(
        self, schema: messages.Greeting, net: Network
    ) -> tuple[list[Floats], Floats]:
        """Step 2: order statistics of the pooled columns, bit by bit, for all columns at once."""
        numeric = [f for f, n in enumerate(schema.category_counts) if n == 0]
        choices = [self._choices[f] for f in numeric]
        if self._params.fixed_edges:
            return [c for c in choices if not isinstance(c, int)], np.empty(0)
        wanted = [c if isinstance(c, int) else 2 for c in choices]
        if schema.numeric_target:
            wanted = [*wanted, self._params.target_bins]
        found, below = await self._bisect(wanted, net) if wanted else ([], np.empty((0, 0)))
        given = [
            c if not isinstance(c, int) else np.unique(found[i]) for i, c in enumerate(choices)
        ]
        target = np.empty(0)
        if len(found) > len(choices):
            target = self._class_edges(found[-1], below[-1])
        return given, target

    def _class_edges(self, edges: Floats, below: Integers) -> Floats:
        """Edges between the classes of a number, without those of small classes."""
        edges, places = np.unique(edges, return_index=True)
        sizes = np.diff([0, *below[places], below[-1]])
        plan = binning.merge_plan(sizes.tolist(), self._params.min_class_size, ordered=True)
        return edges[np.diff(plan) > 0]

    async def _bisect(self, n_bins: Sequence[int], net: Network) -> tuple[list[Floats], Integers]:
        """The smallest rounded number with enough values at or below it, per inner edge.

        Also how many those are, and in the last column how many there are in all.
        """
        width = max(n_bins) - 1
        low = np.zeros((len(n_bins), width), dtype=np.uint64)
        ranks: Integers | None = None
        below = np.zeros((len(n_bins), width + 1), dtype=np.int64)
        for step in range(binning.KEPT_BITS):
            # Try the candidate whose next leading bit is 0 and all lower bits are 1.
            bit = np.uint64(1) << np.uint64(63 - step)
            candidate = low | (bit - np.uint64(1))
            thresholds = binning.finite_from_ordered(candidate)
            ask = messages.CountsBelow(step, PublicArray.of(thresholds))
            totals = await self._total(net, ask, f"below {step}")
            counts = np.array(totals).reshape(len(n_bins), width + 1)
            if ranks is None:
                ranks, below = _ranks(counts[:, -1], n_bins, width), below + counts[:, -1:]
            enough = counts[:, :-1] >= ranks
            below[:, :-1] = np.where(enough, counts[:, :-1], below[:, :-1])
            low = np.where(enough, low, low | bit)
        edges = binning.finite_from_ordered(low | binning.LOW_MASK)
        return [row[: n - 1] for row, n in zip(edges, n_bins, strict=True)], below

    async def _moment_scores(self, schema: messages.Greeting, net: Network) -> Floats:
        """Step 4 for scores of sums: f, variance, and chi2 of frequencies."""
        totals = iter(await self._total(net, messages.Moments(), "moments", moments.LIMBS))
        n_columns, n_classes = len(schema.category_counts), schema.n_classes
        counts = moments.unpack_counts(totals, 1 + n_classes + n_columns * max(1, n_classes))
        n_rows, sizes, present = counts[0], counts[1 : 1 + n_classes], iter(counts[1 + n_classes :])
        target = [moments.decode(next(totals)) for _ in range(2 * schema.numeric_target)]
        columns = [
            moments.read_column(present, totals, n_classes, with_target=schema.numeric_target)
            for _ in schema.category_counts
        ]
        self._remarks += local.rounding_remarks(sum(map(moments.rounded_only, columns)))
        if self._params.score == "variance":
            return np.array([moments.variance(column) for column in columns])
        if self._params.score == "chi2":
            sums = [[float(s) for s in column.sums] for column in columns]
            return scores.chi2_of_sums(sums, sizes)
        if n_classes:
            shares = [moments.explained_share(column, sizes) for column in columns]
        else:
            shares = [moments.squared_correlation(column, n_rows, *target) for column in columns]
        values = _capped(scores.anova_f(shares, n_rows, n_classes or 2))
        self._errors = filter_errors.of_scores(values, self._params, n_rows, n_classes, 0)
        return values

    async def _total(self, net: Network, ask: Message, name: str, limbs: int = 1) -> list[int]:
        """Ask everybody and add up; single answers mean nothing. Totals are asked for once."""
        if name not in self._totals:
            replies = await net.ask("member", ask, messages.MaskedSums)
            shape = replies[0].sums.shape
            parts = [reply.sums.array(shape=shape) for reply in replies]
            self._totals[name] = unmask_sum(parts, limbs)
            self.add_to_checkpoint(net, totals=self._totals)
        return self._totals[name]

    def checkpoint(self) -> State:
        """All totals so far."""
        return {"totals": self._totals}

    def restore(self, saved: State) -> None:
        """Go on after the last total."""
        self._totals = saved["totals"]


PROTOCOL = Protocol(
    name="filter",
    messages=messages.MESSAGES,
    roles=(Coordinator, Member),
)


def _ranks(present: Integers, n_bins: Sequence[int], width: int) -> Integers:
    """Rank of each wanted order statistic; short rows repeat their last one."""
    ranks = np.ones((len(n_bins), width), dtype=np.int64)
    for row, count, bins in zip(ranks, present, n_bins, strict=True):
        wanted = binning.quantile_ranks(int(count), bins)
        row[: bins - 1] = wanted
        row[bins - 1 :] = wanted[-1]
    return ranks


def _capped(values: Floats) -> Floats:
    """JSON knows no infinity."""
    return np.minimum(values, np.finfo(np.float64).max)


def build_nodes(
    tables: Mapping[str, PartyTable],
    targets: Mapping[str, Target | None],
    params: Params,
    checkpoints: Path | None = None,
) -> dict[str, Sequence[Role]]:
    """A neutral coordinator and one member per party."""
    if params.score != "variance" and any(targets.get(party) is None for party in tables):
        raise ParameterError(
            "A party of the federation has no label.",
            f"The score {params.score!r} compares features with a label.",
            "Give every party labels, or use score='variance'.",
        )
    coordinator = Coordinator(params, checkpoints)
    coordinator.set_columns(next(iter(tables.values())).feature_names)
    nodes: dict[str, Sequence[Role]] = {"coordinator": (coordinator,)}
    for party, table in tables.items():
        nodes[party] = (make_role(Member, table, targets.get(party), params, checkpoints),)
    return nodes
