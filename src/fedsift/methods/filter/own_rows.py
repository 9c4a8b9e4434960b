# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What one member counts and adds up in its own rows of a horizontal filter; nothing is sent here.

Applied to the rows of all members in one table it gives what the coordinator opens: the plaintext
oracle of the protocol (:func:`walk`).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from fedsift.crypto.checked_sums import are_small
from fedsift.data.table import PartyTable
from fedsift.data.target import Target
from fedsift.maths import moments
from fedsift.methods.filter import features as local
from fedsift.methods.filter.course import (
    Below,
    Cells,
    Course,
    Moments,
    Request,
    Schema,
    Sizes,
    Tables,
)
from fedsift.methods.filter.ranking import Params, contingency

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
_NO_CODES = np.empty(0, dtype=np.int64)
_NO_VALUES = np.empty(0)


class OwnRows:
    """The rows of one member, as requests look at them."""

    def __init__(self, table: PartyTable, target: Target | None, params: Params) -> None:
        self._table, self._params = table, params
        self._target = None if params.score == "variance" else target
        self._sorted: dict[int, Floats] = {}

    @property
    def has_numbers(self) -> bool:
        """Whether the target is a number."""
        return self._target is not None and self._target.kind == "numbers"

    @property
    def n_classes(self) -> int:
        """Classes of the target; 0 if it has none, or is a number and stays one."""
        if self._target is None:
            return 0
        if self._target.kind == "classes":
            return len(self._target.classes)
        return 0 if self._params.score == "f" else self._params.target_bins

    @property
    def frequencies(self) -> bool:
        """Whether all columns can be read as frequencies, in runs that may do so."""
        return not self._params.fixed_edges and local.are_frequencies(self._table)

    def schema(self, *, frequencies: bool) -> Schema:
        """What this member has in common with the others."""
        columns = self._table.columns
        return Schema(
            tuple(len(c.categories) if c.kind == "categorical" else 0 for c in columns),
            self.n_classes,
            self.has_numbers,
            frequencies,
            tuple(local.bin_choice(self._params.bins, name) for name in self._table.feature_names),
        )

    def count(self, request: Request) -> Integers:
        """Counts that a request asks for, in one line."""
        match request:
            case Below():
                return self._below(request)
            case Sizes():
                return self._sizes(request)
            case Cells():
                return self._cells(request)
            case Tables():
                return self._tables(request).ravel()
        raise TypeError(type(request).__name__)

    def sums(self, request: Moments) -> list[int]:
        """Sums per class, squares and products, exact enough to subtract later."""
        numbers = local.numeric_columns(self._table, self._params.score)
        n_classes, labels = self.n_classes, self._labels(request.target_edges)
        stays = self._target is not None and self.has_numbers and not n_classes
        target = self._target.values if stays and self._target is not None else _NO_VALUES
        columns = numbers.T[list(request.columns)]
        return moments.table_sums(
            len(numbers), columns, labels, n_classes, target, complete=request.complete
        )

    def _below(self, request: Below) -> Integers:
        places = [*request.columns, *([-1] if request.target else [])]
        counts = [
            np.searchsorted(self._sorted_values(place), own, side="right")
            for place, own in zip(places, request.thresholds, strict=True)
            if len(own)
        ]
        rows = [np.array([self._table.n_rows])] if request.first else []
        return np.concatenate([*rows, *counts]).astype(np.int64)

    def _sorted_values(self, place: int) -> Floats:
        """Present values of a column, or of the target (-1), sorted once."""
        if place not in self._sorted:
            if place < 0:
                assert self._target is not None  # noqa: S101 - asked for numeric targets only
                values = self._target.values
            else:
                column = self._table.columns[place]
                values = column.values[~column.missing].astype(np.float64)
            self._sorted[place] = np.sort(values)
        return self._sorted[place]

    def _sizes(self, request: Sizes) -> Integers:
        labels, n_classes = self._labels(request.target_edges), self.n_classes
        parts = [np.bincount(labels, minlength=n_classes)] if request.classes else []
        parts += [np.array([self._table.columns[f].missing.sum()]) for f in request.missing]
        if request.lacking:
            parts.append(np.array([sum(c.missing.sum() for c in self._table.columns)]))
        if request.present:
            for column in self._table.columns:
                own = labels[~column.missing] if n_classes else np.zeros(
                    int((~column.missing).sum()), dtype=np.int64
                )  # fmt: skip
                parts.append(np.bincount(own, minlength=max(1, n_classes)))
        return np.concatenate(parts).astype(np.int64)

    def _cells(self, request: Cells) -> Integers:
        n_classes, found = self.n_classes, []
        labels = self._labels(request.target_edges)
        margin = len(request.smallest) > n_classes * sum(
            int(request.plan[f].max()) + 1 for f in request.columns
        )
        for f in request.columns:
            plan = request.plan[f]
            groups = plan[self._codes(f, request.edges, len(plan))]
            table = contingency(groups[:, None], int(plan.max()) + 1, labels, n_classes)[0]
            sizes = table.sum(axis=1, keepdims=True)
            found.append(np.hstack([table, sizes]) if margin else table)
        return np.concatenate([own.ravel() for own in found])

    def _tables(self, request: Tables) -> Integers:
        codes = [
            plan[self._codes(f, request.edges, len(plan))] for f, plan in enumerate(request.plan)
        ]
        labels = self._labels(request.target_edges)
        return contingency(np.stack(codes, axis=1), request.n_bins, labels, self.n_classes)

    def _codes(self, f: int, edges: dict[int, Floats], n_bins: int) -> Integers:
        """Bins of one column; missing values are in the last one."""
        column = self._table.columns[f]
        if column.kind == "numeric":
            found = np.searchsorted(edges[f], column.values, side="left").astype(np.int64)
        else:
            found = column.values.astype(np.int64)
        return np.where(column.missing, n_bins - 1, found)

    def _labels(self, edges: Floats) -> Integers:
        if self._target is None or not self.n_classes:
            return _NO_CODES
        if self._target.kind == "classes":
            return self._target.codes
        return np.searchsorted(edges, self._target.values, side="left").astype(np.int64)


def walk(course: Course, parts: Iterable[OwnRows]) -> tuple[Course, list[int]]:
    """The course of a run on open rows, and what is opened at its end."""
    members = list(parts)
    while not isinstance(request := course.request, Tables | Moments):
        total = np.sum([own.count(request) for own in members], axis=0)
        if isinstance(request, Below):
            course.take(total)
        else:
            course.take(are_small(total, request.smallest))
    if isinstance(request, Tables):
        return course, np.sum([own.count(request) for own in members], axis=0).tolist()
    sums = [own.sums(request) for own in members]
    return course, [sum(numbers) for numbers in zip(*sums, strict=True)]
