# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What members are asked in a horizontal filter, one thing after the other.

The coordinator and every member walk along the same course: what comes next follows from settings
that all agreed to and from totals that all can check (:mod:`fedsift.crypto.checked_sums`), and from
nothing else. A coordinator can therefore not ask for anything that is not due, nor skip a check.

A count that is compared with a minimum is not opened. A cell of a table that holds nobody may be
opened, as it says something of a group only; one that holds from 1 to the minimum less 1 may not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.errors import PolicyViolation
from fedsift.maths import binning
from fedsift.maths.edges import EdgeSearch
from fedsift.methods.checks import refuse_small_class
from fedsift.methods.filter import features as local
from fedsift.methods.filter.ranking import Params

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Schema:
    """What all members have in common.

    Attributes
    ----------
    category_counts : tuple of int
        Categories of each column; 0 for numbers.
    n_classes : int
        0 without labels, and for numbers that stay numbers.
    numeric_target : bool
    frequencies : bool
        Whether all columns of all members can be read as frequencies.
    bins : tuple
        Number of bins or edges of each column.
    """

    category_counts: tuple[int, ...]
    n_classes: int
    numeric_target: bool
    frequencies: bool
    bins: tuple[int | Floats, ...]

    @property
    def numeric(self) -> list[int]:
        """Columns of numbers."""
        return [f for f, n in enumerate(self.category_counts) if n == 0]


_NO_EDGES = np.empty(0)


@dataclass(frozen=True, eq=False)
class Below:
    """Counts values below thresholds: of columns, then of a numeric target; and rows, if first."""

    columns: tuple[int, ...]
    target: bool
    thresholds: list[Floats]
    first: bool


@dataclass(frozen=True, eq=False)
class Sizes:
    """Compares sizes of classes, rows without a value, or values by class with the minimum.

    If ``lacking``, it is asked last whether any value of any column is missing.
    """

    classes: bool
    missing: tuple[int, ...]
    lacking: bool
    present: bool
    target_edges: Floats
    smallest: Integers


@dataclass(frozen=True, eq=False)
class Cells:
    """Compares cells (bins by classes), and bins, of columns with their minima."""

    columns: tuple[int, ...]
    edges: dict[int, Floats]
    target_edges: Floats
    plan: list[Integers]
    smallest: Integers


@dataclass(frozen=True, eq=False)
class Tables:
    """Opens bin-by-class counts."""

    edges: dict[int, Floats]
    target_edges: Floats
    plan: list[Integers]
    n_bins: int


@dataclass(frozen=True, eq=False)
class Moments:
    """Opens sums of values, squares and products of columns; counts unless all are complete."""

    columns: tuple[int, ...]
    target_edges: Floats
    complete: bool


Request = Below | Sizes | Cells | Tables | Moments
Answer = npt.NDArray[np.generic]
"""Totals, or which counts are small."""
Steps = Generator[Request, Any, None]


class Course:
    """The requests of one run; the answers of all members together lead to the next.

    Attributes
    ----------
    request : Request
        What is due.
    answers : list of ndarray
        Totals, or which counts are small, of all requests before.
    n_merged : int
        Bins that were merged because of small cells.
    left_out : tuple of int
        Columns that too few rows of a class have values of.
    coarse : int
        Columns of numbers that all fell into one bin.
    complete : bool
        Whether it is known that no value is missing.
    """

    def __init__(self, schema: Schema, params: Params) -> None:
        self.schema, self._params = schema, params
        self.answers: list[Answer] = []
        self.n_merged, self.coarse = 0, 0
        self.left_out: tuple[int, ...] = ()
        self.complete = False
        # All that follows from own settings and columns is the same anyway; this one was told.
        self._digest = hashlib.sha256(repr(schema.frequencies).encode())
        self._steps = self._walk()
        self.request: Request = next(self._steps)

    @property
    def step(self) -> int:
        """How many requests have been answered."""
        return len(self.answers)

    @property
    def digest(self) -> str:
        """Names the way so far; masks of members who went different ways do not cancel."""
        return self._digest.hexdigest()[:32]

    @property
    def context(self) -> str:
        """Names the sums that are due."""
        return context_of(type(self.request).__name__, self.step, self.digest)

    @property
    def opens_tables(self) -> bool:
        """Whether the run ends with tables; with sums of values otherwise."""
        params, schema = self._params, self.schema
        sums = params.score == "chi2" and schema.frequencies and not params.fixed_edges
        return params.score in local.BINNED_SCORES and not sums

    def take(self, answer: Answer) -> None:
        """Go on with the answer to what was due."""
        self.answers.append(answer)
        self._digest.update(type(self.request).__name__.encode() + answer.tobytes())
        self.request = self._steps.send(answer)

    def _walk(self) -> Steps:
        if self._params.noisy:
            yield self._final(self._given(), _NO_EDGES, self._raw_plan(self._given()))
            return
        missing_few = yield from self._check_sizes()
        if not self.opens_tables:
            _, target_edges = yield from self._search((), frozenset())
            yield from self._moments(target_edges)
            return
        wanted = tuple(f for f in self.schema.numeric if isinstance(self.schema.bins[f], int))
        edges, target_edges = yield from self._search(wanted, missing_few)
        edges |= self._given()
        plan = self._raw_plan(edges)
        if self._params.fixed_edges:
            yield self._final(edges, target_edges, plan)
            return
        before = sum(len(np.unique(own)) for own in plan)
        yield from self._merge(edges, target_edges, plan)
        self.n_merged = before - sum(len(np.unique(own)) for own in plan)
        yield self._final(edges, target_edges, plan)

    def _given(self) -> dict[int, Floats]:
        """Edges that nobody has to look for."""
        bins = self.schema.bins
        return {f: e for f in self.schema.numeric if not isinstance(e := bins[f], int)}

    def _cuts_target(self) -> bool:
        return self.schema.numeric_target and self.schema.n_classes > 0

    def _check_sizes(self) -> Generator[Sizes, Flags, frozenset[int]]:
        """Refuse small classes, leave out columns of few values; columns that few rows lack."""
        schema, smallest = self.schema, self._params.min_class_size
        classes = schema.n_classes if not schema.numeric_target else 0
        sums = not self.opens_tables
        missing = () if sums else self._told_if_missing()
        minima = np.array([smallest] * (classes + len(missing)) + [0] * sums, dtype=np.int64)
        if smallest == 1 or not len(minima):
            return frozenset()
        small = yield Sizes(classes > 0, missing, sums, False, _NO_EDGES, minima)
        if small[:classes].any():
            refuse_small_class(smallest)
        if not sums:
            few = zip(missing, small[classes:], strict=True)
            return frozenset(f for f, is_few in few if is_few)
        self.complete = not small[-1]
        if not self.complete and not self._cuts_target():
            yield from self._check_values(_NO_EDGES)
        return frozenset()

    def _check_values(self, target_edges: Floats) -> Generator[Sizes, Flags, None]:
        """Leave out columns that few rows of a class have values of, or that few rows lack."""
        missing, n_columns = self._told_if_missing(), len(self.schema.category_counts)
        n_counts = len(missing) + n_columns * max(1, self.schema.n_classes)
        minima = np.full(n_counts, self._params.min_class_size)
        small = yield Sizes(False, missing, False, True, target_edges, minima)
        by_column = np.array(small[len(missing) :].reshape(n_columns, -1).any(axis=1))
        by_column[list(missing)] |= small[: len(missing)]
        self._leave_out(by_column)

    def _told_if_missing(self) -> tuple[int, ...]:
        """Columns for which it matters whether only a few rows have no value.

        How many values there are is looked at to find quantiles. Sums of a numeric target over the
        rows that have a value, taken from its sum over all rows, are labels of the others.
        """
        schema = self.schema
        if not self.opens_tables:
            stays = schema.numeric_target and not schema.n_classes
            return tuple(range(len(schema.category_counts))) if stays else ()
        if self._params.fixed_edges:
            return ()
        return tuple(f for f in schema.numeric if isinstance(schema.bins[f], int))

    def _leave_out(self, small: Flags) -> None:
        self.left_out = tuple(np.flatnonzero(small).tolist())
        if len(self.left_out) == len(small):
            smallest = self._params.min_class_size
            raise PolicyViolation(
                f"In every column fewer than {smallest} rows of a class have a value, or lack one.",
                f"The parties want at least {smallest} (min_class_size): sums over fewer tell "
                "their values.",
                "Fill in missing values, merge classes, or let every party lower min_class_size.",
            )

    def _search(
        self, columns: tuple[int, ...], missing_few: frozenset[int]
    ) -> Generator[Below, Integers, tuple[dict[int, Floats], Floats]]:
        """Edges of columns, and between the classes of a number, from counts below thresholds."""
        params, target = self._params, self._cuts_target()
        wanted = [int(b) for f in columns if isinstance(b := self.schema.bins[f], int)]
        if not wanted and not target:
            return {}, _NO_EDGES
        complete = [f not in missing_few for f in columns]
        if target:
            wanted, complete = [*wanted, params.target_bins], [*complete, True]
        smallest = max(params.min_bin_size, params.min_class_size)
        search = EdgeSearch(wanted, complete, smallest)
        while search.thresholds:
            first = not search.n_rows
            search.take((yield Below(columns, target, search.thresholds, first)))
        found = search.edges
        edges = {f: own for f, (own, _) in zip(columns, found, strict=False)}
        self.coarse = sum(
            not len(own) and search.present(place) > 0 for place, own in enumerate(edges.values())
        )
        return edges, self._class_edges(search) if target else _NO_EDGES

    def _class_edges(self, search: EdgeSearch) -> Floats:
        """Edges between the classes of a number, without those of small classes."""
        edges, below = search.edges[-1]
        sizes = np.diff([0, *below, search.present(-1)])
        plan = binning.merge_plan(sizes.tolist(), self._params.min_class_size, ordered=True)
        return edges[np.diff(plan) > 0]

    def _moments(self, target_edges: Floats) -> Steps:
        if self._cuts_target() and not self.complete and self._params.min_class_size > 1:
            yield from self._check_values(target_edges)
        n_columns = len(self.schema.category_counts)
        kept = tuple(f for f in range(n_columns) if f not in self.left_out)
        yield Moments(kept, target_edges, self.complete)

    def _raw_plan(self, edges: dict[int, Floats]) -> list[Integers]:
        """Every bin by itself; the last one is for missing values."""
        counts = self.schema.category_counts
        sizes = [n or len(edges[f]) + 1 for f, n in enumerate(counts)]
        return [np.arange(size + 1) for size in sizes]

    def _merge(
        self, edges: dict[int, Floats], target_edges: Floats, plan: list[Integers]
    ) -> Generator[Cells, Flags, None]:
        """Merge bins until no cell is small; ``plan`` has the new bin of each old one."""
        n_classes, params = max(1, self.schema.n_classes), self._params
        cell, margin = [params.min_class_size] * n_classes, [params.min_bin_size]
        if params.small_cells:
            cell, margin = [1] * n_classes, [params.rows_of_bin(n_classes)]
        elif params.min_bin_size <= params.min_class_size:
            margin = []  # a cell that is large enough makes its bin large enough, too
        open_ones = list(range(len(plan))) if max(*cell, *margin, 1) > 1 else []
        while open_ones:
            groups = [int(plan[f].max()) + 1 for f in open_ones]
            minima = np.array((cell + margin) * sum(groups), dtype=np.int64)
            small = yield Cells(tuple(open_ones), edges, target_edges, plan, minima)
            by_group = small.reshape(sum(groups), -1).any(axis=1)
            parts = np.split(by_group, np.cumsum(groups)[:-1])
            unsafe = dict(zip(open_ones, parts, strict=True))
            open_ones = [f for f in open_ones if unsafe[f].any()]
            for f in open_ones:
                if len(unsafe[f]) == 1:
                    refuse_small_class(params.min_class_size)
                ordered = self.schema.category_counts[f] == 0
                plan[f] = join_groups(unsafe[f], ordered=ordered)[plan[f]]

    def _final(self, edges: dict[int, Floats], target: Floats, plan: list[Integers]) -> Tables:
        n_bins = max(int(own.max()) + 1 for own in plan)
        return Tables(edges, target, plan, n_bins)


def context_of(request: str, step: int, digest: str) -> str:
    """Names sums, the same at all members and for nothing else in a run."""
    return f"{request} {step} after {digest}"


def count_of(request: Below) -> int:
    """Numbers in the answer."""
    return request.first + sum(map(len, request.thresholds))


def answers_as_state(answers: Sequence[Answer]) -> dict[str, Answer]:
    """Answers as a checkpoint can hold them."""
    return {str(step): answer for step, answer in enumerate(answers)}


def answers_of_state(saved: Mapping[str, Answer]) -> list[Answer]:
    """Inverse of :func:`answers_as_state`."""
    return [saved[str(step)] for step in range(len(saved))]


def join_groups(unsafe: Flags, *, ordered: bool) -> Integers:
    """New group of each group, so that none that has a small cell stays as it is.

    Neighbours go together if groups are ordered; otherwise all that have one do, and if it is one
    alone, its neighbour joins it.

    Examples
    --------
    >>> join_groups(np.array([False, True, False, False, True]), ordered=True)
    array([0, 1, 1, 2, 2])
    >>> join_groups(np.array([False, True, False, False, True]), ordered=False)
    array([0, 3, 1, 2, 3])
    """
    n_groups = len(unsafe)
    if not ordered:
        joined = unsafe.copy()
        if joined.sum() == 1:
            joined[np.flatnonzero(joined)[0] - 1] = True  # of the first group, the last one
        new = np.cumsum(~joined) - 1
        return np.where(joined, int((~joined).sum()), new).astype(np.int64)
    starts = np.ones(n_groups, dtype=np.bool_)
    group = 0
    while group < n_groups:
        if unsafe[group] and group + 1 < n_groups:
            starts[group + 1] = False
            group += 1
        elif unsafe[group]:
            starts[group] = False
        group += 1
    return np.cumsum(starts) - 1
