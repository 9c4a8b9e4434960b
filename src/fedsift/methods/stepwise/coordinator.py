# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Stepwise selection for parties that hold different rows of the same columns.

Setting   Every party holds rows and labels; a coordinator without data adds up.
Roles     *coordinator* (drives, neutral), *member* (any number, at least two).
Adversary Members are honest but curious. The coordinator may lie: between organisations it is at
          the hub. Sums travel under pairwise one-time masks, and members check the totals that
          decide what comes next. All members but one together with the coordinator learn the rest
          of that one's contribution: with two members each of them does, from a published total.

Who learns what
  coordinator  which classes and categories few rows have, which columns few rows make up; number
               of rows, squared length of every column, its products with the labels and with each
               selected column (with ``"fdr"`` of all columns with all): all over all members,
               around the means of each site.
  member       numbers of rows and squared lengths over all members, what is left out, and what is
               selected.

Steps
  1  members exchange masking keys through the coordinator,        Roster, CheckSecretDealt,
     and share a secret                                            CheckSecret
  2  sizes of classes and categories are compared with the         SizesWanted
     minimum; small classes end the run, rare categories stay out
  3  number of rows, squared lengths of columns                    LengthsWanted
  4  columns of which one row carries more than its share          LeaningWanted
     stay out; such a label ends the run
  5  products with labels, as they are and in random orders        LabelsWanted
  6  for each column that enters, its products with all others     ColumnWanted
     or, with ``"fdr"``, products of all columns with all          PairsWanted
  7  the selection                                                 Chosen

Second moments of all pairs would always do with one exchange. Column by column fewer of them are
opened, wide tables take no more than narrow ones, and rounds are as many as columns enter.
Knockoffs need all pairs, and nothing else: the coordinator draws what is random in their products
with labels. They are exact for labels of numbers with normal noise.

Members find steps 2 to 5 themselves (:mod:`fedsift.crypto.checked_course`), so that a lying
coordinator cannot skip a check. In step 6 it can name other columns than it should: it gets sums
over all members of columns that enough rows make up. Keys that it swaps in step 1 are found out
before anything is sent under them (:mod:`fedsift.crypto.identity`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.crypto.checked_course import (
    CheckedCourse,
    Compare,
    Give,
    Open,
    add_compared,
    add_opened,
)
from fedsift.crypto.identity import addressed
from fedsift.crypto.masking import unmask_sum
from fedsift.data.table import PartyTable
from fedsift.data.target import Target
from fedsift.errors import ParameterError
from fedsift.methods.stepwise import horizontal_messages as messages
from fedsift.methods.stepwise.feature_holder import secret_source
from fedsift.methods.stepwise.forward import ForwardSearch
from fedsift.methods.stepwise.knockoffs import Moments
from fedsift.methods.stepwise.member import Member, copies_of
from fedsift.methods.stepwise.messages import ALL, Params
from fedsift.methods.stepwise.own_rows import (
    Agreed,
    Schema,
    as_gram,
    as_products,
    begin,
    walk,
)
from fedsift.methods.stepwise.selection import Features, Found, Selection, select_true
from fedsift.protocol import Network, Protocol, PublicArray, Role, make_role
from fedsift.protocol.resume import ResumableDriver

Floats = npt.NDArray[np.float64]

_NOTHING = PublicArray.of(np.empty(0))

_REQUESTS: dict[str, tuple[type[messages.Due], type[Any]]] = {
    "sizes": (messages.SizesWanted, messages.HiddenCounts),
    "lengths": (messages.LengthsWanted, messages.MaskedLengths),
    "leaning": (messages.LeaningWanted, messages.HiddenCounts),
}


class Coordinator(ResumableDriver, name="coordinator", signals=messages.SIGNALS):
    """Holds no data; adds up masked numbers and searches."""

    def __init__(
        self, params: Params, forced: Sequence[int] = (), checkpoints: Path | None = None
    ) -> None:
        self._params, self._forced = params, frozenset(forced)
        self.keep_checkpoints(checkpoints, "coordinator", params)
        self._news = (_NOTHING, _NOTHING, _NOTHING)
        self._n_told = 0
        self._pairs: Floats | None = None
        self.agreed: Agreed | None = None

    async def drive(self, net: Network) -> Found:
        """Steps 1 to 7."""
        await self.begin(net)
        schema = await self._agree(net)
        agreed = self.agreed = begin(schema)
        n_members = len(net.members("member"))
        steps = walk(schema, agreed, self._params.min_class_size, n_members)
        course = CheckedCourse(steps, repr(schema))
        while not isinstance(course.request, Give):
            course.take(await self._answer(course, net))
        selection = await self._begin_search(schema, agreed, course, net)
        for column in selection.features.kept_columns():
            await self._enter(selection, column, net, forced=True)
        while (best := selection.next_column()) is not None:
            await self._enter(selection, best, net)
        found = selection.finish()
        await net.tell("member", messages.Chosen(found.selected[ALL]))
        await self.finish(net)
        return found

    def facts(self) -> dict[str, Any]:
        """What the result should say about columns that take no part; counts only."""
        agreed = self.agreed
        if agreed is None or not agreed.n_rare + agreed.n_leaning:
            return {}
        return {
            "remarks": [
                f"{agreed.n_rare} categories or missing values of few rows, and {agreed.n_leaning} "
                "columns that few rows make up, take no part."
            ]
        }

    async def _agree(self, net: Network) -> Schema:
        """Step 1."""
        greetings = await net.ask("member", messages.Hello(), messages.Greeting)
        keys = {p: g.key for p, g in zip(net.members("member"), greetings, strict=True)}
        schemas = {Schema(g.category_counts, g.n_classes) for g in greetings}
        if len(schemas) > 1:
            raise ParameterError(
                "Members announce columns or classes of different kinds.",
                "All members have the same columns and classes.",
                "Agree on one table layout, and run the same version everywhere.",
            )
        rosters = {p: messages.Roster(addressed(keys, p)) for p in keys}
        dealt = await net.ask("member", rosters, messages.CheckSecretDealt)
        sealed = {party: blob for one in dealt for party, blob in one.sealed.items()}
        await net.tell("member", {p: messages.CheckSecret(blob) for p, blob in sealed.items()})
        return schemas.pop()

    async def _answer(self, course: CheckedCourse, net: Network) -> Any:
        """Steps 2 to 4: add up one answer, and have its proof ready for the next request."""
        ask, reply = _REQUESTS[course.request.what]
        told = await net.ask("member", self._due(ask, course), reply)
        parts, request = [one.residues.array() for one in told], course.request
        if isinstance(request, Open):
            totals = add_opened(parts, request.n_totals)
            self._news = (PublicArray.of(totals), _NOTHING, _NOTHING)
            return totals[:-1]
        assert isinstance(request, Compare)  # noqa: S101 - nothing else is answered
        small, proof = add_compared(parts, request.smallest)
        self._news = (_NOTHING, PublicArray.of(small), PublicArray.of(proof))
        return small

    def _due(self, kind: type[messages.Due], course: CheckedCourse) -> messages.Due:
        return kind(course.step, course.digest, *self._news)

    async def _begin_search(
        self, schema: Schema, agreed: Agreed, course: CheckedCourse, net: Network
    ) -> Selection:
        """Step 5."""
        ask = self._due(messages.LabelsWanted, course)
        replies = await net.ask("member", ask, messages.MaskedLabelProducts)
        widths = schema.widths
        kept_by_feature = np.add.reduceat(agreed.kept, np.cumsum(widths) - widths)
        n_columns, n_labels = int(agreed.kept.sum()), max(1, schema.n_classes - 1)
        n_copies, size = copies_of(self._params), n_columns * n_labels
        totals = self._summed(replies, size + n_labels**2 + n_copies * size)
        own, gram, copies = np.split(totals, [size, size + n_labels**2])
        own, gram = own.reshape(n_columns, n_labels), gram.reshape(n_labels, n_labels)
        features = Features({ALL: kept_by_feature.astype(np.int64)}, {ALL: self._forced})
        params = self._params
        if params.knockoffs:
            pairs = await self._all_products(n_columns, net)
            moments = Moments(pairs, own, gram, agreed.n_rows - len(replies))
            rng = secret_source(params.seed, "coordinator")
            selection, self._pairs = select_true(moments, features, len(replies), params.fdr, rng)
            return selection
        search = ForwardSearch(
            own,
            np.ones(n_columns),
            agreed.n_rows,
            shuffled=copies.reshape(n_copies, n_columns, n_labels) if n_copies else None,
            ridge=params.ridge,
            n_means=len(replies),
            label_gram=gram,
        )
        return Selection(search, features, params.n_features_to_select, params.level, n_copies)

    async def _enter(
        self, selection: Selection, column: int, net: Network, *, forced: bool = False
    ) -> None:
        """Step 6."""
        if self._pairs is None:
            products = await self._products_with(column, len(selection.features.owners), net)
        else:
            products = self._pairs[column]
        step = selection.search.add(column, products, forced=forced)
        self.note(step="keep" if forced else "add", feature=column, score=step.statistic)

    async def _products_with(self, column: int, n_columns: int, net: Network) -> Floats:
        ask = messages.ColumnWanted(self._n_told, column)
        replies = await net.ask("member", ask, messages.MaskedProducts)
        self._n_told += 1
        return self._summed(replies, n_columns)

    async def _all_products(self, n_columns: int, net: Network) -> Floats:
        replies = await net.ask("member", messages.PairsWanted(), messages.MaskedPairs)
        return as_gram(self._summed(replies, n_columns * (n_columns + 1) // 2), n_columns)

    def _summed(self, replies: Sequence[Any], size: int) -> Floats:
        parts = [reply.sums.array(shape=(size, 1)) for reply in replies]
        return as_products(unmask_sum(parts))


def for_parties(found: Found, parties: Sequence[str]) -> Found:
    """The same outcome for every party."""

    def same(values: Mapping[str, Any]) -> dict[str, Any]:
        return dict.fromkeys(parties, values[ALL])

    return replace(
        found,
        scores=same(found.scores),
        ranks=same(found.ranks),
        p_values=same(found.p_values),
        q_values=same(found.q_values),
        selected=same(found.selected),
    )


PROTOCOL = Protocol(name="stepwise", messages=messages.MESSAGES, roles=(Coordinator, Member))


def build_nodes(
    tables: Mapping[str, PartyTable],
    targets: Mapping[str, Target | None],
    params: Params,
    forced: Sequence[int] = (),
    checkpoints: Path | None = None,
) -> dict[str, Sequence[Role]]:
    """A neutral coordinator and one member per party."""
    if any(targets.get(party) is None for party in tables):
        raise ParameterError(
            "A party of the federation has no label.",
            "What a column adds, it adds to what is known of the label.",
            "Give every party labels.",
        )
    nodes: dict[str, Sequence[Role]] = {
        "coordinator": (make_role(Coordinator, params, forced, checkpoints),)
    }
    for party, table in tables.items():
        nodes[party] = (make_role(Member, table, targets[party], params, checkpoints),)
    return nodes
