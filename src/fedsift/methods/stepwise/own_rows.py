# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What members of a horizontal run do with their own rows, and the course that all of them follow.

Every number makes two columns, its values and whether they are missing; every category one, and
missing ones another. All members have the same columns. Each takes its own means off, so that sites
may differ from each other, and what varies between sites alone says nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from fedsift.crypto.checked_course import Compare, Give, Open, Request, Steps
from fedsift.data.table import Column, PartyTable
from fedsift.data.target import Target
from fedsift.errors import PolicyViolation
from fedsift.maths import moments
from fedsift.maths.unit import constant_columns
from fedsift.methods.checks import refuse_small_class

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_PART_BITS = 16
_PARTS = 64 * moments.LIMBS // _PART_BITS
"""Parts of a squared length, whose sums stay below the modulus of checked sums."""

PRODUCT_BITS = 50
"""Fraction bits of products; columns have length 1 over all members."""


@dataclass(frozen=True)
class Schema:
    """What all members have in common; no classes if the label is a number."""

    category_counts: tuple[int, ...]
    n_classes: int

    @property
    def widths(self) -> Integers:
        """Columns of every feature."""
        return np.array([max(1, n) + 1 for n in self.category_counts], dtype=np.int64)

    @property
    def counted(self) -> Flags:
        """Which columns say yes or no."""
        flags = [
            np.arange(w) >= (not n) for n, w in zip(self.category_counts, self.widths, strict=True)
        ]
        return np.concatenate(flags) if flags else np.empty(0, dtype=np.bool_)


@dataclass(eq=False)
class Agreed:
    """What the members found out together.

    Attributes
    ----------
    kept : ndarray of bool of shape (n_columns,)
        Columns that take part: enough rows make them up, and they vary within sites.
    lengths : ndarray of shape (n_columns + 1,)
        Squared lengths over all members; of a numeric label last.
    n_rows : int
    n_rare : int
        Columns that say yes or no of too few rows.
    n_leaning : int
        Columns that few rows make up.
    """

    kept: Flags
    lengths: Floats
    n_rows: int = 0
    n_rare: int = 0
    n_leaning: int = 0
    opened: Flags = field(default_factory=lambda: np.empty(0, dtype=np.bool_))


def begin(schema: Schema) -> Agreed:
    """Before anything is known."""
    n_columns = int(schema.widths.sum())
    return Agreed(np.ones(n_columns, dtype=np.bool_), np.zeros(n_columns + 1))


def walk(schema: Schema, agreed: Agreed, smallest: int, n_members: int) -> Steps:
    """The requests of a run; notes in ``agreed`` what their answers say."""
    numeric = not schema.n_classes
    if smallest > 1:
        counted = np.flatnonzero(schema.counted)
        few = yield Compare("sizes", np.full(schema.n_classes + 2 * len(counted), smallest))
        if few[: schema.n_classes].any():
            refuse_small_class(smallest)
        rare = counted[few[schema.n_classes :].reshape(2, -1).any(axis=0)]
        agreed.kept[rare] = False
        agreed.n_rare = len(rare)
    agreed.opened = np.append(agreed.kept, numeric)
    n_lengths = int(agreed.opened.sum())
    totals = yield Open("lengths", 1 + _PARTS * n_lengths)
    agreed.n_rows = int(totals[0])
    agreed.lengths[agreed.opened] = _lengths_of(totals[1:])
    if smallest > 1:
        leaning = yield Compare("leaning", np.full(n_lengths, n_members + 1))
        if numeric and leaning[-1]:
            _refuse_leaning(smallest)
        flagged = np.flatnonzero(agreed.opened)[leaning]
        agreed.kept[flagged] = False
        agreed.n_leaning = len(flagged)
    agreed.kept &= agreed.lengths[:-1] > 0
    yield Give("labels")


def _lengths_of(totals: Integers) -> list[float]:
    parts = totals.reshape(-1, _PARTS).tolist()
    sums = [sum(part << (_PART_BITS * k) for k, part in enumerate(own)) for own in parts]
    return [float(moments.decode(number)) for number in sums]


def _refuse_leaning(smallest: int) -> None:
    raise PolicyViolation(
        f"One row carries more than a share of 1/{smallest} of the variance of the label.",
        f"The parties want at least {smallest} rows to share it (min_class_size): products with a "
        "label that marks single rows tell the values of these rows.",
        "Cap or transform extreme labels, drop these rows, or let every party lower "
        "min_class_size in its policy. No product was sent.",
    )


class OwnRows:
    """One member's columns and labels, each with its own mean taken off.

    Attributes
    ----------
    columns : ndarray of shape (n_rows, n_columns)
    labels : ndarray of shape (n_rows, n_labels)
    counts : ndarray of shape (n_counted,)
        Rows of each category, and rows without each value.
    sizes : ndarray of shape (n_classes,)
    """

    def __init__(self, table: PartyTable, target: Target) -> None:
        n_classes = target.n_classes if target.kind == "classes" else 0
        self.schema = Schema(
            tuple(len(c.categories) if c.kind == "categorical" else 0 for c in table.columns),
            n_classes,
        )
        self.n_rows = table.n_rows
        raw = [column for feature in table.columns for column in _columns_of(feature)]
        values = np.column_stack(raw) if raw else np.empty((table.n_rows, 0))
        self.counts = np.nansum(values[:, self.schema.counted], axis=0).astype(np.int64)
        self.sizes = np.bincount(target.codes, minlength=n_classes) if n_classes else np.empty(0)
        self.columns = centred(values)
        # The last class says what all others leave.
        labels = np.eye(n_classes)[target.codes][:, :-1] if n_classes else target.values[:, None]
        self.labels = centred(labels)

    def count(self, request: Request, agreed: Agreed, smallest: int) -> Integers:
        """This member's part of an answer that all members learn or compare."""
        if request.what == "sizes":
            rest = self.n_rows - self.counts
            return np.concatenate([self.sizes, self.counts, rest]).astype(np.int64)
        if request.what == "lengths":
            return np.array([self.n_rows, *self._length_parts(agreed)], dtype=np.int64)
        opened = self._opened(agreed)
        widest = (opened**2).max(axis=0, initial=0.0)
        return np.asarray(widest * smallest > agreed.lengths[agreed.opened]).astype(np.int64)

    def label_products(self, agreed: Agreed, n_copies: int, rng: np.random.Generator) -> Integers:
        """Products with the labels, of the labels, and with labels in random orders."""
        columns, labels = self.scaled(agreed), self.labels
        length = agreed.n_rows if self.schema.n_classes else agreed.lengths[-1]
        labels = labels / np.sqrt(length) if length > 0 else np.zeros_like(labels)
        shuffled = [columns.T @ labels[rng.permutation(len(labels))] for _ in range(n_copies)]
        parts = [columns.T @ labels, labels.T @ labels, *shuffled]
        return as_integers(np.concatenate([part.ravel() for part in parts]))

    def products_with(self, column: int, agreed: Agreed) -> Integers:
        """Products of one of the columns that are kept with all of them."""
        columns = self.scaled(agreed)
        return as_integers(columns.T @ columns[:, column])

    def products_of_pairs(self, agreed: Agreed) -> Integers:
        """Products of the columns that are kept with those before them, and with themselves."""
        columns = self.scaled(agreed)
        gram = columns.T @ columns
        return as_integers(gram[np.tril_indices(len(gram))])

    def scaled(self, agreed: Agreed) -> Floats:
        """Columns that are kept, with length 1 over all members."""
        lengths = agreed.lengths[:-1][agreed.kept]
        return np.asarray(self.columns[:, agreed.kept] / np.sqrt(lengths))

    def _opened(self, agreed: Agreed) -> Floats:
        columns = self.columns[:, agreed.opened[:-1]]
        return np.column_stack([columns, self.labels]) if agreed.opened[-1] else columns

    def _length_parts(self, agreed: Agreed) -> list[int]:
        mask = (1 << _PART_BITS) - 1
        return [
            (number >> (_PART_BITS * k)) & mask
            for column in self._opened(agreed).T
            for number in [moments.encode_squares(_squared_length(column))]
            for k in range(_PARTS)
        ]


def _squared_length(column: Floats) -> Fraction:
    return moments.product_sum(column, column)


def _columns_of(column: Column) -> list[Floats]:
    missing = column.missing.astype(np.float64)
    if column.kind == "numeric":
        return [column.values.astype(np.float64), missing]
    return [
        *((column.values == code).astype(np.float64) for code in range(len(column.categories))),
        missing,
    ]


def centred(values: Floats) -> Floats:
    """Columns with mean 0; missing values count as the mean, what rounding leaves as nothing."""
    gone = np.isnan(values)
    filled = np.where(gone, 0.0, values)
    n_present = np.maximum((~gone).sum(axis=0), 1)
    around = np.where(gone, 0.0, filled - filled.sum(axis=0) / n_present)
    around = np.where(gone, 0.0, around - around.sum(axis=0) / n_present)
    none = gone.all(axis=0)
    flat = constant_columns(np.where(none, 0.0, values))
    return np.asarray(np.where(flat, 0.0, around))


def as_integers(products: Floats) -> Integers:
    """Fixed point; products of columns of length 1 are at most 1."""
    return np.rint(np.ldexp(products, PRODUCT_BITS)).astype(np.int64)


def as_gram(totals: Floats, n_columns: int) -> Floats:
    """Products of all columns with all, from those with the columns before them."""
    gram = np.zeros((n_columns, n_columns))
    gram[np.tril_indices(n_columns)] = totals
    return np.asarray(gram + np.tril(gram, -1).T)


def as_products(totals: list[int]) -> Floats:
    """Inverse of :func:`as_integers`, of sums."""
    return np.ldexp(np.array(totals, dtype=np.float64), -PRODUCT_BITS)
