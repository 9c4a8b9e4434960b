# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The member of a horizontal run: answers what is due on its own rows, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedsift.crypto.checked_course import (
    Answer,
    CheckedCourse,
    CheckedParty,
    Compare,
    Give,
    Open,
    not_due,
)
from fedsift.data.table import PartyTable
from fedsift.data.target import Target
from fedsift.methods.checks import check_rows
from fedsift.methods.stepwise import horizontal_messages as messages
from fedsift.methods.stepwise.feature_holder import secret_source
from fedsift.methods.stepwise.messages import Params
from fedsift.methods.stepwise.own_rows import OwnRows, begin, walk
from fedsift.protocol import MaskedArray, Network, handles
from fedsift.protocol.resume import Resumable


class Member(Resumable, name="member", signals=messages.SIGNALS):
    """Owns rows; tells only masked sums over them."""

    def __init__(
        self, table: PartyTable, target: Target, params: Params, checkpoints: Path | None = None
    ) -> None:
        self.keep_checkpoints(checkpoints, table.name, params, table, target)
        self._table, self._params = table, params
        self._rows = OwnRows(table, target)
        self._agreed = begin(self._rows.schema)
        self._sums = CheckedParty(open_masks=params.scheme == "plain")
        self._course: CheckedCourse | None = None
        self._answered = -1
        self._columns_told: list[int] = []
        self._chosen: tuple[int, ...] = ()

    @handles(messages.Hello)
    async def greet(self, ask: messages.Hello, net: Network) -> messages.Greeting:
        """Its masking key and the kinds of its columns."""
        check_rows(self._table.n_rows, self._params.min_class_size)
        schema = self._rows.schema
        key = self._sums.announce(net, net.members("member"))
        return messages.Greeting(key, schema.category_counts, schema.n_classes)

    @handles(messages.Roster)
    async def meet(self, told: messages.Roster, net: Network) -> messages.CheckSecretDealt:
        """Agree on masks with every other member; the first one deals a secret."""
        members = net.members("member")
        sealed = self._sums.meet(net, told.keys, members)
        steps = walk(self._rows.schema, self._agreed, self._params.min_class_size, len(members))
        self._course = CheckedCourse(steps, repr(self._rows.schema))
        return messages.CheckSecretDealt(sealed)

    @handles(messages.CheckSecret)
    async def take_secret(self, told: messages.CheckSecret, net: Network) -> None:
        """Open the dealt secret; the coordinator that carried it cannot."""
        self._sums.take_secret(net, told.sealed)

    @handles(messages.SizesWanted)
    async def compare_sizes(self, ask: messages.SizesWanted, net: Network) -> messages.HiddenCounts:
        """Sizes of classes and categories, against the minimum."""
        return messages.HiddenCounts(self._counted(ask, "sizes"))

    @handles(messages.LengthsWanted)
    async def lengths(self, ask: messages.LengthsWanted, net: Network) -> messages.MaskedLengths:
        """Rows, and squared lengths of columns."""
        return messages.MaskedLengths(self._counted(ask, "lengths"))

    @handles(messages.LeaningWanted)
    async def compare_rows(
        self, ask: messages.LeaningWanted, net: Network
    ) -> messages.HiddenCounts:
        """Whether one of its rows makes up too much of a column."""
        return messages.HiddenCounts(self._counted(ask, "leaning"))

    @handles(messages.LabelsWanted)
    async def label_products(
        self, ask: messages.LabelsWanted, net: Network
    ) -> messages.MaskedLabelProducts:
        """Products with its labels, as they are and in random orders."""
        course = self._due(ask, "labels")
        rng = secret_source(self._params.seed, self._table.name)
        values = self._rows.label_products(self._agreed, copies_of(self._params), rng)
        return messages.MaskedLabelProducts(MaskedArray.of(self._sums.give(values, course.context)))

    @handles(messages.ColumnWanted)
    async def products(self, ask: messages.ColumnWanted, net: Network) -> messages.MaskedProducts:
        """Products of one column with all; each column once, after the labels."""
        course, n_kept = self._walked(), int(self._agreed.kept.sum())
        due = isinstance(course.request, Give) and self._answered == course.step
        fits = 0 <= ask.column < n_kept and ask.column not in self._columns_told
        if self._params.knockoffs or not due or not fits or ask.round != len(self._columns_told):
            raise not_due(f"column {ask.column}")
        self._columns_told.append(ask.column)
        values = self._rows.products_with(ask.column, self._agreed)
        context = f"column {ask.column} in round {ask.round} of {course.context}"
        return messages.MaskedProducts(MaskedArray.of(self._sums.give(values, context)))

    @handles(messages.PairsWanted)
    async def all_products(self, ask: messages.PairsWanted, net: Network) -> messages.MaskedPairs:
        """Products of all columns with all, once, after the labels; only for knockoffs."""
        course = self._walked()
        due = isinstance(course.request, Give) and self._answered == course.step
        if not due or not self._params.knockoffs or self._columns_told:
            raise not_due("all products")
        self._columns_told.append(-1)
        values = self._rows.products_of_pairs(self._agreed)
        context = f"all products of {course.context}"
        return messages.MaskedPairs(MaskedArray.of(self._sums.give(values, context)))

    @handles(messages.Chosen)
    async def choose(self, told: messages.Chosen, net: Network) -> None:
        """Remember the outcome."""
        self._chosen = told.features

    def facts(self) -> dict[str, Any]:
        """The outcome as this member knows it."""
        names = list(self._table.feature_names)
        return {"names": names, "selected": [names[i] for i in self._chosen], "remarks": []}

    def _counted(self, ask: messages.Due, what: str) -> MaskedArray:
        course = self._due(ask, what)
        request, smallest = course.request, self._params.min_class_size
        counts = self._rows.count(request, self._agreed, smallest)
        if isinstance(request, Compare):
            return MaskedArray.of(self._sums.compare(counts, request.smallest, course.context))
        return MaskedArray.of(self._sums.open(counts, course.context))

    def _due(self, ask: messages.Due, what: str) -> CheckedCourse:
        """Check the answer to the last request, go on, and see that this one is due, once."""
        course = self._walked()
        if ask.step == course.step + 1 and self._answered == course.step:
            course.take(self._checked_answer(ask, course))
        if ask.step != course.step or ask.after != course.digest or self._answered >= ask.step:
            raise not_due(f"step {ask.step}")
        if course.request.what != what:
            raise not_due(type(ask).__name__)
        self._answered = ask.step
        return course

    def _checked_answer(self, ask: messages.Due, course: CheckedCourse) -> Answer:
        request, context = course.request, course.context
        if isinstance(request, Compare):
            told = (ask.small.array(), ask.proof.array())
            return self._sums.check_small(*told, request.smallest, context)
        n_totals = request.n_totals if isinstance(request, Open) else -1
        return self._sums.check_totals(ask.totals.array(), n_totals, context)

    def _walked(self) -> CheckedCourse:
        if self._course is None:
            raise not_due("numbers before keys")
        return self._course


def copies_of(params: Params) -> int:
    """Labels in random orders that a run needs; nobody knows the orders of all members."""
    return params.n_shuffles if params.shuffles else 0


__all__ = ["Member", "copies_of"]
