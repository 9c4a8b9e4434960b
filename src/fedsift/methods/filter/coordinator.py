# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Secure filters for parties that hold different rows of the same columns.

Setting   Every party holds rows and labels; a coordinator without data adds up.
Roles     *coordinator* (drives, neutral), *member* (any number, at least two).
Adversary Members are honest but curious. The coordinator may lie: between organisations it is at
          the hub. Sums travel under pairwise one-time masks, so the coordinator sees totals only,
          and members check the totals that decide what comes next. All members but one together
          with the coordinator learn the rest of that one's contribution: with two members each of
          them does, from any published total. A member that lies, or tells the coordinator the
          secret that members share, takes the minima away.

Who learns what
  coordinator  how many values lie below thresholds; whether sizes and cells are small, and whether
               any value is missing;
               bin-by-class counts of which none is small (unless all policies name
               ``bin-counts``), or sums of values and squares per class; the score of each (named)
               feature.
  member       counts below thresholds, which are rounded pooled quantiles, merged bins and the
               selected features. With a ``release_epsilon`` edges were known before, and the
               selection is drawn by the scores (:mod:`.filter_release`).

Steps
  1  members exchange masking keys through the coordinator,       Roster, CheckSecretDealt,
     and share a secret                                           CheckSecret
  2  sizes of pooled classes and numbers of values are compared   SizesWanted
     with the minimum; small classes end the run
  3  pooled quantiles by bisection on masked counts               CountsBelow
  4  cells (bins by classes) are compared with the minimum,       CellsWanted
     bins with small ones merged, until there is none
  5  pooled bin-by-class counts, or moments                       TablesWanted, MomentsWanted
  6  scores and ranking at the coordinator; the selection back    Chosen

What is asked in steps 2 to 5 follows from the answers before, and members find it themselves
(:mod:`.course`); answers come back to them with a proof (:mod:`fedsift.crypto.checked_sums`).

A coordinator that swaps masking keys in step 1 is found out before anything is sent under them:
between organisations keys carry proofs (:mod:`fedsift.crypto.identity`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fedsift.crypto.checked_course import add_compared, add_opened
from fedsift.crypto.identity import addressed
from fedsift.crypto.masking import unmask_sum
from fedsift.data.state_files import State
from fedsift.data.table import PartyTable
from fedsift.data.target import Target
from fedsift.errors import ParameterError
from fedsift.maths import moments
from fedsift.methods.filter import features as local
from fedsift.methods.filter import horizontal_messages as messages
from fedsift.methods.filter import uncertainty as filter_errors
from fedsift.methods.filter.course import (
    Answer,
    Below,
    Cells,
    Course,
    Moments,
    Schema,
    Sizes,
    Tables,
    answers_as_state,
    answers_of_state,
    count_of,
)
from fedsift.methods.filter.member import Member
from fedsift.methods.filter.noise import chosen, sensitivity
from fedsift.methods.filter.pooled import read_totals
from fedsift.methods.filter.ranking import Params, Ranking, rank
from fedsift.methods.filter.significance import refuse_no_law, with_tests
from fedsift.privacy.mechanisms import Accountant
from fedsift.protocol import Network, Protocol, PublicArray, Role, make_role
from fedsift.protocol.resume import ResumableDriver

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
_NOTHING = PublicArray.of(np.empty(0))


@dataclass(frozen=True)
class PooledRanking:
    """What the coordinator knows at the end: one score per common column."""

    scores: Floats | None
    selected: tuple[int, ...]
    ranks: Integers
    remarks: list[str]
    errors: Floats | None = None
    errors_are: str | None = None
    p_values: Floats | None = None
    q_values: Floats | None = None

    def for_parties(self, parties: Sequence[str]) -> tuple[Ranking, list[str]]:
        """The same outcome for every party."""

        def of_all(values: Floats | None) -> dict[str, Floats]:
            return {} if values is None else dict.fromkeys(parties, values)

        ranking = Ranking(
            scores=of_all(self.scores),
            selected=dict.fromkeys(parties, self.selected),
            ranks=dict.fromkeys(parties, self.ranks),
            errors=of_all(self.errors),
            errors_are=self.errors_are,
            p_values=of_all(self.p_values),
            q_values=of_all(self.q_values),
        )
        return ranking, self.remarks


class Coordinator(ResumableDriver, name="coordinator", signals=messages.SIGNALS):
    """Holds no data; adds up masked numbers and ranks the columns."""

    def __init__(self, params: Params, checkpoints: Path | None = None) -> None:
        self._params = params
        self.keep_checkpoints(checkpoints, "coordinator", params)
        self._answers: list[Answer] = []
        self._totals: list[int] = []
        self._names: tuple[str, ...] = ()
        self.course: Course | None = None
        self._news = (_NOTHING, _NOTHING, _NOTHING)
        self.budget = Accountant(params.release_epsilon or 0.0, params.release_delta)

    def set_columns(self, names: Sequence[str]) -> None:
        """Column names, to look up given bin edges."""
        self._names = tuple(names)

    async def drive(self, net: Network) -> PooledRanking:
        """Steps 1 to 6."""
        await self.begin(net)
        self.course = course = await self._agree(net)
        for answer in self._answers:
            course.take(answer)
        while not isinstance(course.request, Tables | Moments):
            answer = await self._answer(course, net)
            # Members have written down all answers before this one.
            self.add_to_checkpoint(net, answers=answers_as_state(self._answers))
            self._answers = [*self._answers, answer]
            course.take(answer)
        if not self._totals:
            self._totals = await self._open(course, net)
            answers = answers_as_state(self._answers)
            self.add_to_checkpoint(net, answers=answers, totals=self._totals)
        found = read_totals(course, self._totals, self._params, self._names)

        ranking = self._ranked({"all": found.values}, found.n_rows, course.schema.n_classes)
        tested = {} if found.p_values is None else {"all": found.p_values}
        if self._params.fdr is not None and not tested:
            refuse_no_law(shuffles=False)
        ranking = with_tests(ranking, tested, self._params)
        await net.tell("member", messages.Chosen(ranking.selected["all"]))
        await self.finish(net)
        told, kind = ranking.scores.get("all"), filter_errors.kind_of(self._params, "count")
        return PooledRanking(
            told,
            ranking.selected["all"],
            ranking.ranks["all"],
            found.remarks,
            found.errors,
            None if found.errors is None else kind,
            ranking.p_values.get("all"),
            ranking.q_values.get("all"),
        )

    async def _agree(self, net: Network) -> Course:
        """Step 1; the course of the run, at its beginning."""
        greetings = await net.ask("member", messages.Hello(self._params.score), messages.Greeting)
        first, members = greetings[0], net.members("member")
        keys = {party: g.key for party, g in zip(members, greetings, strict=True)}
        frequencies = all(g.frequencies for g in greetings)
        rosters = {p: messages.Roster(addressed(keys, p), frequencies) for p in keys}
        dealt = await net.ask("member", rosters, messages.CheckSecretDealt)
        sealed = {party: blob for one in dealt for party, blob in one.sealed.items()}
        await net.tell("member", {p: messages.CheckSecret(blob) for p, blob in sealed.items()})
        schema = Schema(
            first.category_counts,
            first.n_classes,
            first.numeric_target,
            frequencies,
            tuple(local.bin_choice(self._params.bins, name) for name in self._names),
        )
        return Course(schema, self._params)

    async def _answer(self, course: Course, net: Network) -> Answer:
        """Steps 2 to 4: add up one answer, and have its proof ready for the next request."""
        request = course.request
        if isinstance(request, Below):
            ask = self._due(messages.CountsBelow, course)
            counted = await net.ask("member", ask, messages.MaskedCounts)
            parts = [reply.residues.array() for reply in counted]
            totals = add_opened(parts, count_of(request))
            self._news = (PublicArray.of(totals), _NOTHING, _NOTHING)
            return totals[:-1]
        assert isinstance(request, Sizes | Cells)  # noqa: S101 - totals of others are opened last
        # What comes first carries no answer, and tells nothing.
        first = isinstance(request, Sizes) and not course.step
        kind = messages.SizesWanted if first else messages.CellsWanted
        compared = await net.ask("member", self._due(kind, course), messages.HiddenCounts)
        parts = [reply.residues.array() for reply in compared]
        small, proof = add_compared(parts, request.smallest)
        self._news = (_NOTHING, PublicArray.of(small), PublicArray.of(proof))
        return small

    async def _open(self, course: Course, net: Network) -> list[int]:
        """Step 5: the totals that scores are made of."""
        tables = isinstance(course.request, Tables)
        kind = messages.TablesWanted if tables else messages.MomentsWanted
        small = tables and messages.opens_small_cells(self._params)
        sealed: type[messages.OpenTables | messages.MaskedSums]
        sealed = messages.OpenTables if small else messages.MaskedSums
        replies = await net.ask("member", self._due(kind, course), sealed)
        shape = replies[0].sums.shape
        parts = [reply.sums.array(shape=shape) for reply in replies]
        return unmask_sum(parts, 1 if tables else moments.LIMBS)

    def _due(self, kind: type[messages.Due], course: Course) -> messages.Due:
        return kind(course.step, course.digest, *self._news)

    def _ranked(self, values: Mapping[str, Floats], n_rows: int, n_classes: int) -> Ranking:
        """The best columns, or those that a private choice makes of the scores."""
        if not self._params.releases:
            return rank(values, self._params.score, self._params.n_features_to_select)
        reach = sensitivity(self._params, n_rows, n_classes)
        return chosen(values, self._params, reach, self.budget)

    def checkpoint(self) -> State:
        """All answers that members have, and the totals at the end."""
        return {"answers": answers_as_state(self._answers), "totals": self._totals}

    def restore(self, saved: State) -> None:
        """Go on after the last answer that all members have."""
        self._answers, self._totals = answers_of_state(saved["answers"]), saved["totals"]


PROTOCOL = Protocol(
    name="filter",
    messages=messages.MESSAGES,
    roles=(Coordinator, Member),
)


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
