# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The member of a horizontal filter: answers what is due on its own rows, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.crypto.checked_course import CheckedParty, not_due
from fedsift.data.state_files import State
from fedsift.data.table import PartyTable
from fedsift.data.target import Target
from fedsift.maths import moments
from fedsift.methods.checks import check_rows
from fedsift.methods.filter import features as local
from fedsift.methods.filter import horizontal_messages as messages
from fedsift.methods.filter.course import (
    Answer,
    Below,
    Cells,
    Course,
    Moments,
    Request,
    Sizes,
    Tables,
    answers_as_state,
    answers_of_state,
    count_of,
)
from fedsift.methods.filter.own_rows import OwnRows
from fedsift.methods.filter.ranking import Params
from fedsift.privacy.mechanisms import Accountant
from fedsift.protocol import MaskedArray, Network, handles
from fedsift.protocol.resume import Resumable

Integers = npt.NDArray[np.int64]


class Member(Resumable, name="member", signals=messages.SIGNALS):
    """Owns rows; tells only masked sums over them."""

    def __init__(
        self,
        table: PartyTable,
        target: Target | None,
        params: Params,
        checkpoints: Path | None = None,
    ) -> None:
        self.keep_checkpoints(checkpoints, table.name, params, table, target)
        self._table = table
        self._params = params
        self._rows = OwnRows(table, target, params)
        self._sums = CheckedParty(open_masks=params.scheme == "plain")
        self._course: Course | None = None
        self._known: list[Answer] = []
        self._answered = -1
        self._chosen: tuple[int, ...] = ()
        self.budget = Accountant(params.epsilon or 0.0, params.delta)

    @handles(messages.Hello)
    async def greet(self, ask: messages.Hello, net: Network) -> messages.Greeting:
        """Step 1: its own masking key."""
        if ask.score in local.NUMERIC_SCORES:
            local.numeric_columns(self._table, ask.score)
        if not self._params.noisy:
            check_rows(self._table.n_rows, self._params.min_class_size)
        schema = self._rows.schema(frequencies=self._rows.frequencies)
        return messages.Greeting(
            self._sums.announce(net, net.members("member")),
            schema.category_counts,
            schema.n_classes,
            schema.numeric_target,
            schema.frequencies,
        )

    @handles(messages.Roster)
    async def meet(self, told: messages.Roster, net: Network) -> messages.CheckSecretDealt:
        """Step 1: agree on a mask with every other member; the first one deals a secret."""
        sealed = self._sums.meet(net, told.keys, net.members("member"))
        if told.frequencies and not self._rows.frequencies:
            raise not_due("sums of frequencies, and the columns of this party are none")
        self._course = Course(self._rows.schema(frequencies=told.frequencies), self._params)
        return messages.CheckSecretDealt(sealed)

    @handles(messages.CheckSecret)
    async def take_secret(self, told: messages.CheckSecret, net: Network) -> None:
        """Step 1: open the dealt secret; the coordinator that carried it cannot."""
        self._sums.take_secret(net, told.sealed)

    @handles(messages.SizesWanted)
    async def compare_sizes(self, ask: messages.SizesWanted, net: Network) -> messages.HiddenCounts:
        """Step 2: sizes of classes, and how many rows have values, against the minimum."""
        kinds = () if ask.step else (Sizes,)  # this message tells nothing
        return messages.HiddenCounts(self._hidden(self._due(ask, kinds, net)))

    @handles(messages.CountsBelow)
    async def counts_below(self, ask: messages.CountsBelow, net: Network) -> messages.MaskedCounts:
        """Step 3: values at or below each threshold."""
        counts = self._rows.count(self._due(ask, Below, net))
        return messages.MaskedCounts(
            MaskedArray.of(self._sums.open(counts, self._walked().context))
        )

    @handles(messages.CellsWanted)
    async def compare_cells(self, ask: messages.CellsWanted, net: Network) -> messages.HiddenCounts:
        """Step 4: cells of its own rows between the common edges, against the minimum."""
        kinds = (Cells, Sizes) if ask.step else (Cells,)
        return messages.HiddenCounts(self._hidden(self._due(ask, kinds, net)))

    @handles(messages.TablesWanted)
    async def tables(
        self, ask: messages.TablesWanted, net: Network
    ) -> messages.MaskedSums | messages.OpenTables:
        """Step 5: count classes in the merged bins."""
        table = self._rows.count(self._due(ask, Tables, net))
        if self._params.noisy:
            # Every member adds all the noise its own rows need, whatever the others do.
            noise = self._params.noise(self._table.n_columns)
            noise.spend(self.budget, "tables of its rows")
            table = table + noise.draw(table.shape, self._params.noise_source(self._table.name))
        if messages.opens_small_cells(self._params):
            return messages.OpenTables(self._sealed(table.tolist()))
        return messages.MaskedSums(self._sealed(table.tolist()))

    @handles(messages.MomentsWanted)
    async def moments(self, ask: messages.MomentsWanted, net: Network) -> messages.MaskedSums:
        """Step 5: sums per class, squares and products."""
        request = self._due(ask, Moments, net)
        assert isinstance(request, Moments)  # noqa: S101 - checked by what is due
        return messages.MaskedSums(self._sealed(self._rows.sums(request), moments.LIMBS))

    @handles(messages.Chosen)
    async def choose(self, told: messages.Chosen, net: Network) -> None:
        """Step 6: remember the outcome."""
        self._chosen = told.features

    def facts(self) -> dict[str, Any]:
        """The outcome as this member knows it."""
        names = self._table.feature_names
        return {"selected": [names[i] for i in self._chosen]}

    def checkpoint(self) -> State:
        """The answers so far, which all members know."""
        return {"answers": answers_as_state(self._known)}

    def restore(self, saved: State) -> None:
        """Take over the answers; whoever asks again has to give the same."""
        self._known = answers_of_state(saved["answers"])

    def _due(
        self, ask: messages.Due, kind: type[Request] | tuple[type[Request], ...], net: Network
    ) -> Request:
        """Check the answer to the last request, go on, and see that this one is due, once."""
        course = self._walked()
        if self._answered < 0:  # after an interruption: what this member knows need not be told
            for answer in self._known[: max(0, ask.step)]:
                course.take(answer)
        elif ask.step == course.step + 1 and self._answered == course.step:
            course.take(self._checked_answer(ask, course))
            self._remember(course, net)
        if ask.step != course.step or ask.after != course.digest or self._answered >= ask.step:
            raise not_due(f"step {ask.step}")
        if not isinstance(course.request, kind):
            raise not_due(type(ask).__name__)
        self._answered = ask.step
        return course.request

    def _checked_answer(self, ask: messages.Due, course: Course) -> Answer:
        request, context = course.request, course.context
        if isinstance(request, Sizes | Cells):
            told = (ask.small.array(), ask.proof.array())
            return self._sums.check_small(*told, request.smallest, context)
        n_totals = count_of(request) if isinstance(request, Below) else -1
        return self._sums.check_totals(ask.totals.array(), n_totals, context)

    def _remember(self, course: Course, net: Network) -> None:
        """Write the answer down; in a resumed run it must be the one that came before."""
        place = course.step - 1
        if place < len(self._known):
            if not np.array_equal(self._known[place], course.answers[place]):
                raise not_due("to go on with other totals than before the interruption")
            return
        self._known = list(course.answers)
        self.add_to_checkpoint(net, answers=answers_as_state(self._known))

    def _hidden(self, request: Request) -> MaskedArray:
        assert isinstance(request, Sizes | Cells)  # noqa: S101 - checked by what is due
        counts, context = self._rows.count(request), self._walked().context
        return MaskedArray.of(self._sums.compare(counts, request.smallest, context))

    def _sealed(self, values: list[int], limbs: int = 1) -> MaskedArray:
        return MaskedArray.of(self._sums.give(values, self._walked().context, limbs))

    def _walked(self) -> Course:
        if self._course is None:
            raise not_due("numbers before keys")
        return self._course
