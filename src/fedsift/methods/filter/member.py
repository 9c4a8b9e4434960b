# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The member of a horizontal filter: steps 1 to 4 of :mod:`.filters_horizontal` on its own rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.crypto.masking import MaskingKey, PairwiseMasks, to_limbs
from fedsift.data.table import PartyTable
from fedsift.data.target import Target
from fedsift.errors import ParameterError
from fedsift.maths import moments
from fedsift.methods.filter import features as local
from fedsift.methods.filter import horizontal_messages as messages
from fedsift.methods.filter.ranking import Params, contingency
from fedsift.privacy.mechanisms import Accountant
from fedsift.protocol import MaskedArray, Network, handles
from fedsift.protocol.policy import check_asked
from fedsift.protocol.resume import Resumable

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
_NO_CODES = np.empty(0, dtype=np.int64)
_NO_VALUES = np.empty(0)


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
        self._target = target
        self._params = params
        self._key = MaskingKey.generate()
        self._masks: PairwiseMasks | None = None
        self._codes: list[Integers] = []
        self._chosen: tuple[int, ...] = ()
        self._sizes_told = not params.checks_classes or self._has_numbers()
        self._n_bins = 0
        self._sorted: list[Floats] = []
        self.budget = Accountant(params.epsilon or 0.0, params.delta)

    @handles(messages.Hello)
    async def greet(self, ask: messages.Hello, net: Network) -> messages.Greeting:
        """Step 1: its own masking key."""
        counts = tuple(
            len(c.categories) if c.kind == "categorical" else 0 for c in self._table.columns
        )
        if ask.score in local.NUMERIC_SCORES:
            local.numeric_columns(self._table, ask.score)
        return messages.Greeting(
            self._key.announce(net, net.members("member")),
            counts,
            self._n_classes(),
            self._has_numbers(),
            not self._params.fixed_edges and local.are_frequencies(self._table),
        )

    @handles(messages.Roster)
    async def meet(self, told: messages.Roster, net: Network) -> None:
        """Step 1: agree on a mask with every other member."""
        self._masks = self._key.make_masks(net, told.keys, net.members("member"))

    @handles(messages.CountsBelow)
    async def counts_below(self, ask: messages.CountsBelow, net: Network) -> messages.MaskedSums:
        """Step 2: values at or below each threshold; the last number counts all present values."""
        self._refuse_exact("values below thresholds")
        thresholds = ask.thresholds.array()
        check_asked(net.party, net.policy, bins=_width(thresholds))
        columns = self._sorted_columns()
        if len(columns) != len(thresholds):
            raise ParameterError(
                f"Thresholds for {len(thresholds)} columns arrived.",
                f"This party has {len(columns)} numeric columns.",
                "Check that all members have the same columns.",
            )
        counts = [
            np.append(np.searchsorted(c, t, side="right"), len(c))
            for c, t in zip(columns, thresholds, strict=True)
        ]
        return self._sealed(np.concatenate(counts).tolist(), f"below {ask.step}")

    @handles(messages.ClassSizes)
    async def class_sizes(self, ask: messages.ClassSizes, net: Network) -> messages.MaskedSums:
        """Step 2: rows of each class; columns come after the coordinator has looked at them."""
        if self._params.noisy:
            self._refuse_exact("rows of classes")
        self._sizes_told = True
        assert self._target is not None  # noqa: S101 - scores of classes need a target
        sizes = np.bincount(self._target.codes, minlength=self._n_classes())
        return self._sealed(sizes.tolist(), "class sizes")

    @handles(messages.BinSizes)
    async def bin_sizes(self, ask: messages.BinSizes, net: Network) -> messages.MaskedSums:
        """Step 3: cut its own rows at the common edges."""
        check_asked(net.party, net.policy, bins=_width(ask.edges.array()) + 1)
        self._codes, width = self._cut(ask)
        self._n_bins = width
        sizes = [np.bincount(codes, minlength=width) for codes in self._codes]
        if self._params.fixed_edges:  # no bin is merged, and sizes are not told
            sizes = [np.zeros_like(own) for own in sizes]
        self._labels = self._label_codes(ask.target_edges.array())
        return self._sealed(np.concatenate(sizes).tolist(), "bin sizes")

    @handles(messages.Tables)
    async def tables(self, ask: messages.Tables, net: Network) -> messages.MaskedSums:
        """Step 4: count classes in the merged bins."""
        self._refuse_unknown_classes()
        plan = ask.merged.array(shape=(self._table.n_columns, self._n_bins))
        if not 0 <= plan.min() <= plan.max() < ask.n_bins <= self._n_bins:
            raise ParameterError(
                f"The coordinator asks for {ask.n_bins} merged bins.",
                f"This party has {self._n_bins}, and merging makes no more.",
                "Run the same job at every party.",
            )
        codes = np.stack([plan[f][c] for f, c in enumerate(self._codes)], axis=1)
        table = contingency(codes, ask.n_bins, self._labels, self._n_classes())
        if self._params.noisy:
            # Every member adds all the noise its own rows need, whatever the others do.
            noise = self._params.noise(len(table))
            noise.spend(self.budget, "tables of its rows")
            table = table + noise.draw(table.shape, self._params.noise_source(self._table.name))
        return self._sealed(table.ravel().tolist(), "tables")

    @handles(messages.Moments)
    async def moments(self, ask: messages.Moments, net: Network) -> messages.MaskedSums:
        """Step 4: sums per class, squares and products, exact enough to subtract later."""
        self._refuse_exact("sums of values")
        self._refuse_unknown_classes()
        numbers = local.numeric_columns(self._table, self._params.score)
        n_classes = self._n_classes()
        labels = self._target.codes if self._target and n_classes else _NO_CODES
        target = self._target_column()[0] if self._has_numbers() else _NO_VALUES
        counts: list[int] = [len(numbers), *np.bincount(labels, minlength=n_classes).tolist()]
        sums: list[int] = []
        if len(target):
            squares = moments.product_sum(target, target)
            sums += [moments.encode(moments.exact_sum(target)), moments.encode_squares(squares)]
        for column in numbers.T:
            own = moments.column_sums(column, labels, n_classes, target)
            counts += own[0]
            sums += own[1]
        sent = [*moments.pack_counts(counts), *sums]
        return self._sealed(sent, "moments", limbs=moments.LIMBS)

    @handles(messages.Chosen)
    async def choose(self, told: messages.Chosen, net: Network) -> None:
        """Step 5: remember the outcome."""
        self._chosen = told.features

    def facts(self) -> dict[str, Any]:
        """The outcome as this member knows it."""
        names = self._table.feature_names
        return {"selected": [names[i] for i in self._chosen]}

    def _refuse_exact(self, what: str) -> None:
        """A run with a budget of privacy never asks for these, so nobody may."""
        if self._params.fixed_edges:
            raise ParameterError(
                f"The coordinator asks for {what}.",
                "In a run with a budget of privacy this party sends counts between known edges.",
                "Run the same job at every party.",
            )

    def _refuse_unknown_classes(self) -> None:
        """Sizes of classes come first: sums over few rows would tell their values."""
        if not self._sizes_told:
            raise ParameterError(
                "The coordinator asks for counts or sums by class.",
                "It has to look at the sizes of the classes first.",
                "Run the same version of fedsift at every party.",
            )

    def _sealed(self, values: Sequence[int], context: str, limbs: int = 1) -> messages.MaskedSums:
        assert self._masks is not None  # noqa: S101 - the roster comes first
        if self._params.scheme == "plain":
            return messages.MaskedSums(MaskedArray.of(to_limbs(values, limbs)))
        return messages.MaskedSums(MaskedArray.of(self._masks.mask(list(values), context, limbs)))

    def _sorted_columns(self) -> list[Floats]:
        """Present values of every numeric column and of a numeric target, sorted once."""
        if not self._sorted:
            columns = [c for c in self._table.columns if c.kind == "numeric"]
            present = [np.asarray(c.values[~c.missing], dtype=np.float64) for c in columns]
            self._sorted = [np.sort(values) for values in (*present, *self._target_column())]
        return self._sorted

    def _has_numbers(self) -> bool:
        return (
            self._target is not None
            and self._target.kind == "numbers"
            and self._params.score != "variance"
        )

    def _target_column(self) -> list[Floats]:
        return [self._target.values] if self._target and self._has_numbers() else []

    def _n_classes(self) -> int:
        if self._target is None or self._params.score == "variance":
            return 0
        if self._target.kind == "classes":
            return len(self._target.classes)
        return 0 if self._params.score == "f" else self._params.target_bins

    def _cut(self, ask: messages.BinSizes) -> tuple[list[Integers], int]:
        """Bin codes per feature; missing values share the last bin of a common width."""
        edges = ask.edges.array()
        width = max([edges.shape[1] + 1, *(len(c.categories) for c in self._table.columns)]) + 1
        codes, numeric = [], 0
        for column in self._table.columns:
            if column.kind == "numeric":
                own = edges[numeric, : ask.n_edges[numeric]]
                found = np.searchsorted(own, column.values, side="left").astype(np.int64)
                numeric += 1
            else:
                found = column.values.astype(np.int64)
            codes.append(np.where(column.missing, width - 1, found))
        return codes, width

    def _label_codes(self, edges: Floats) -> Integers:
        assert self._target is not None  # noqa: S101 - binned scores need a target
        if self._target.kind == "classes":
            return self._target.codes
        return np.searchsorted(edges, self._target.values, side="left").astype(np.int64)


def _width(array: Floats) -> int:
    """Numbers per column of a table that arrived."""
    if array.ndim != 2:
        raise ParameterError(
            f"The coordinator sent an array of {array.ndim} dimensions.",
            "Edges are a table with a row per numeric column.",
            "Run the same job at every party.",
        )
    return int(array.shape[1])
