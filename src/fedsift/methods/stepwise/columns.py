# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a party does with its own columns, and the label holder with its labels. Purely local."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from fedsift.data.table import Column, PartyTable
from fedsift.data.target import Target
from fedsift.errors import ParameterError, PolicyViolation
from fedsift.maths import binning
from fedsift.maths.unit import unit_columns
from fedsift.methods.checks import rows_with_variance
from fedsift.methods.stepwise.knockoffs import make_knockoffs
from fedsift.methods.stepwise.messages import ROWS_PER_PRODUCT

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_SMALLEST_DIRECTION = 1e-6

N_BINS = 5
"""Bins of a column of numbers, where the criterion counts rows."""


@dataclass(frozen=True, eq=False)
class Design:
    """Columns of length 1 that the features of a party make.

    Attributes
    ----------
    values : ndarray of shape (n_rows, n_columns)
    n_rows : int
        Rows of the party.
    widths : ndarray of shape (n_features,)
        Columns of each feature, one feature after the other.
    n_leaning : int
        Columns left out because fewer rows than allowed make up most of them.
    n_constant : int
        Features that have the same value in every row.
    sizes : ndarray of shape (n_columns,)
        Rows of each bin, where columns are bins.
    """

    values: Floats
    n_rows: int
    widths: Integers
    n_leaning: int = 0
    n_constant: int = 0
    sizes: Integers = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    @property
    def n_columns(self) -> int:
        """Columns of all features."""
        return int(self.values.shape[1])

    @cached_property
    def owners(self) -> Integers:
        """The feature of every column."""
        return np.repeat(np.arange(len(self.widths)), self.widths)

    def with_knockoffs(self, rng: np.random.Generator) -> Floats:
        """All columns, and behind them a made-up one like each of them, of length 1 too."""
        if not self.n_columns:
            return self.values
        made = unit_columns(make_knockoffs(self.values, rng))
        return np.concatenate([self.values, made], axis=1)

    def directions(self, rng: np.random.Generator) -> Floats:
        """Orthonormal columns that say together what all columns say; none where rows are few.

        They are turned at random, so that products with one of them tell of no single column.
        """
        if not 0 < self.n_columns <= self.n_rows // ROWS_PER_PRODUCT:
            return self.values[:, :0]
        left, sizes, _ = np.linalg.svd(self.values, full_matrices=False)
        kept = left[:, sizes > _SMALLEST_DIRECTION * sizes[0]]
        turn, _ = np.linalg.qr(rng.normal(size=(kept.shape[1],) * 2))
        return np.asarray(kept @ turn)


def make_design(
    table: PartyTable | None,
    n_rows: int,
    smallest: int,
    order: Integers | None = None,
    *,
    needed: tuple[str, ...] = (),
) -> Design:
    """Columns of all features, in an order of them.

    Parameters
    ----------
    smallest : int
        Rows that share the squared length of a column at least; one that fewer make up is left out.
    needed : tuple of str
        Features without which there is no run.
    """
    columns = () if table is None else table.columns
    places = range(len(columns)) if order is None else order.tolist()
    kept: list[Floats] = []
    widths, n_leaning, n_constant = np.zeros(len(columns), dtype=np.int64), 0, 0
    for position, place in enumerate(places):
        made = list(_columns_of(columns[place]))
        n_constant += not made
        for unit in made:
            if rows_with_variance(unit) < smallest:
                if columns[place].name in needed:
                    _refuse_leaning(columns[place].name, smallest)
                n_leaning += 1
                continue
            kept.append(unit)
            widths[position] += 1
    values = np.column_stack(kept) if kept else np.empty((n_rows, 0))
    return Design(values, n_rows, widths, n_leaning, n_constant)


def bin_codes(column: Column, smallest: int) -> Integers:
    """Bins of one feature, none of them with fewer rows; missing values are a bin, or join one."""
    if column.kind == "categorical":
        raw = binning.categories(column.values.astype(np.int64), len(column.categories))
        return binning.merge_small(raw, smallest, ordered=False).codes
    values = column.values.astype(np.float64)
    return _quantile_codes(values, smallest)


def _quantile_codes(values: Floats, smallest: int) -> Integers:
    edges = binning.quantile_edges(values, N_BINS)
    return binning.merge_small(binning.cut(values, edges), smallest, ordered=True).codes


def make_bins(
    table: PartyTable | None,
    n_rows: int,
    smallest: int,
    rng: np.random.Generator,
    order: Integers | None = None,
) -> Design:
    """A column for each bin of each feature but one, bins in random order.

    The last bin of a feature has the rows that no other one has.
    """
    columns = () if table is None else table.columns
    places = range(len(columns)) if order is None else order.tolist()
    kept: list[Floats] = []
    widths: list[int] = []
    for place in places:
        codes = bin_codes(columns[place], smallest)
        n_bins = int(codes.max(initial=0)) + 1
        kept.append(np.eye(n_bins)[rng.permutation(n_bins)[codes]][:, :-1])
        widths.append(n_bins - 1)
    flags = np.concatenate(kept, axis=1) if kept else np.empty((n_rows, 0))
    return Design(
        unit_columns(flags),
        n_rows,
        np.array(widths, dtype=np.int64),
        n_constant=widths.count(0),
        sizes=flags.sum(axis=0).astype(np.int64),
    )


def label_bins(target: Target, smallest: int) -> Target:
    """Classes as they are; numbers in bins of equally many rows."""
    if target.kind == "classes":
        return target
    codes = _quantile_codes(target.values, smallest)
    return Target("classes", codes, tuple(map(str, range(int(codes.max(initial=0)) + 1))))


def _columns_of(column: Column) -> Iterator[Floats]:
    """A number and whether it is missing, or one column for each category; none if constant."""
    missing = column.missing
    raw: list[npt.NDArray[np.float64]] = []
    if column.kind == "categorical":
        codes = column.values.astype(np.int64)
        counts = np.bincount(codes[~missing], minlength=len(column.categories))
        present = np.flatnonzero(counts)
        # Of two kinds of rows, one column says all.
        last = len(present) if len(present) + bool(missing.any()) > 2 else 1
        raw += [(codes == code).astype(np.float64) for code in present[:last]]
    elif not missing.all():
        raw.append(column.values.astype(np.float64))
    if missing.any() and (column.kind == "numeric" or len(raw) > 1):
        raw.append(missing.astype(np.float64))
    for values in raw:
        unit = unit_columns(values[:, None])[:, 0]
        if unit.any():
            yield unit


def _refuse_leaning(name: str, smallest: int) -> None:
    raise PolicyViolation(
        f"One row carries more than a share of 1/{smallest} of the squared length of {name!r}, "
        "around its mean.",
        f"The parties want at least {smallest} rows to share it (min_class_size): products with a "
        "column that marks single rows tell the values of these rows.",
        "Cap or transform extreme values, leave the column out, or let every party lower "
        "min_class_size in its policy. Nothing was sent for this.",
    )


def label_columns(target: Target) -> Floats:
    """Orthonormal contrasts of the classes, or the numbers with mean 0 and length 1."""
    if target.kind == "numbers":
        unit = unit_columns(target.values[:, None])
        if not unit.any():
            raise ParameterError(
                "The label is the same number in every row.",
                "Features can only explain what varies.",
                "Check the label column.",
            )
        return unit
    present, codes, sizes = np.unique(target.codes, return_inverse=True, return_counts=True)
    if len(present) < 2:
        raise ParameterError(
            "The label has a single class.",
            "Features are compared with at least two.",
            "Check the label column.",
        )
    roots = np.sqrt(sizes / len(codes))
    basis, _ = np.linalg.qr(np.column_stack([roots, np.eye(len(sizes))[:, :-1]]))
    return np.asarray((basis[:, 1:] / np.sqrt(sizes)[:, None])[codes])


def shuffle_rows(columns: Floats, n_copies: int, rng: np.random.Generator) -> Floats:
    """Copies side by side, the rows of each in an order of its own."""
    copies = [columns[rng.permutation(len(columns))] for _ in range(n_copies)]
    return np.concatenate(copies, axis=1)


def remarks(party: str, table: PartyTable, design: Design) -> list[str]:
    """What the result should say about a party's columns; counts only."""
    missing = sum(bool(c.missing.any()) for c in table.columns if c.kind == "numeric")
    notes = []
    if missing:
        notes.append(f"{party}: missing values of {missing} features count as their mean.")
    if design.n_leaning:
        notes.append(f"{party}: {design.n_leaning} columns that too few rows make up take no part.")
    return notes
