# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Sums that can be added over parties as integers and still subtracted without losing digits.

A variance from pooled sums is a small difference of large numbers. Parties therefore send exact-ish
rationals in 384-bit fixed point: the sum of squares as ``spread + sum^2 / n`` with a spread around
the own mean, so that no mean has to be published first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from fedsift.errors import FixedPointOverflow

FRACTION_BITS = 256
LIMBS = 6
"""64-bit words of one masked number: sums range to about 2**126 in magnitude."""

SMALLEST_BITS = 200
"""A sum of squares below two to minus this has lost digits that a score would need."""

_LARGEST = 2.0**63
"""Squares of larger values do not fit, and could not be added as floats."""

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


def encode(value: float | Fraction) -> int:
    """Fixed point with 256 fraction bits."""
    number = round(Fraction(value) * (1 << FRACTION_BITS))
    if abs(number) >= 1 << (64 * LIMBS - 2):
        raise _too_large()
    return number


def _too_large() -> FixedPointOverflow:
    return FixedPointOverflow(
        "A sum of a column is too large for the agreed fixed-point range.",
        "Sums and sums of squares must stay below 2**126.",
        "Divide the column by a power of ten at every party.",
    )


def encode_squares(value: Fraction) -> int:
    """As :func:`encode`, for a sum of squares, which must keep enough digits."""
    if 0 < value < Fraction(1, 1 << SMALLEST_BITS):
        raise FixedPointOverflow(
            "The values of a column are too small for the agreed fixed-point range.",
            f"Sums of squares must be 0, or at least 2**-{SMALLEST_BITS}.",
            "Multiply the column by a power of ten at every party.",
        )
    return encode(value)


def decode(number: int) -> Fraction:
    """Inverse of :func:`encode`."""
    return Fraction(number, 1 << FRACTION_BITS)


def exact_sum(x: Floats) -> Fraction:
    """Sum of floats as mean plus deviations: keeps digits that a single float would drop."""
    if not len(x):
        return Fraction(0)
    if np.abs(x).max() >= _LARGEST:
        raise _too_large()
    mean = math.fsum(x) / len(x)
    return len(x) * Fraction(mean) + Fraction(math.fsum(x - mean))


def product_sum(x: Floats, y: Floats) -> Fraction:
    """Sum of ``x * y``, accurate even if both means are far from zero."""
    if not len(x):
        return Fraction(0)
    if max(np.abs(x).max(), np.abs(y).max()) >= _LARGEST:
        raise _too_large()
    mean_x, mean_y = math.fsum(x) / len(x), math.fsum(y) / len(y)
    around_x, around_y = x - mean_x, y - mean_y
    spread = Fraction(math.fsum(around_x * around_y))
    left, right = Fraction(mean_x), Fraction(mean_y)
    linear = right * Fraction(math.fsum(around_x)) + left * Fraction(math.fsum(around_y))
    return spread + linear + len(x) * left * right


@dataclass(frozen=True)
class ColumnSums:
    """Pooled sums of one column; missing values are left out.

    Attributes
    ----------
    counts, sums : per class (one entry if there are no classes)
    squares : sum of squares
    target_sum, product : with a numeric target, over rows where the column is present
    """

    counts: tuple[int, ...]
    sums: tuple[Fraction, ...]
    squares: Fraction
    target_sum: Fraction = Fraction(0)
    product: Fraction = Fraction(0)

    @property
    def spread(self) -> Fraction:
        """Sum of squared deviations from the mean."""
        count, total = sum(self.counts), sum(self.sums, Fraction(0))
        return self.squares - total * total / count if count else Fraction(0)


def pack_counts(counts: Sequence[int]) -> list[int]:
    """Counts as numbers that may be masked and added, as many side by side as there are words."""
    groups = (counts[start : start + LIMBS] for start in range(0, len(counts), LIMBS))
    return [sum(count << (64 * place) for place, count in enumerate(group)) for group in groups]


def unpack_counts(totals: Iterator[int], n_counts: int) -> list[int]:
    """Take the totals of counts from the stream that :func:`pack_counts` begins."""
    packed = [next(totals) for _ in range(0, n_counts, LIMBS)]
    digits = (total >> (64 * place) for total in packed for place in range(LIMBS))
    return [next(digits) & ((1 << 64) - 1) for _ in range(n_counts)]


@dataclass(frozen=True)
class TableSums:
    """Pooled sums of a table.

    Attributes
    ----------
    n_rows : int
    sizes : rows of each class
    target : sum of a numeric target and of its squares, or nothing
    columns : sums of each column
    """

    n_rows: int
    sizes: tuple[int, ...]
    target: tuple[Fraction, ...]
    columns: tuple[ColumnSums, ...]


def table_sums(
    n_rows: int,
    columns: Iterable[Floats],
    labels: Integers,
    n_classes: int,
    target: Floats,
    *,
    complete: bool,
) -> list[int]:
    """One party's part of :class:`TableSums`, to be masked and added.

    Of complete columns of all parties nothing is counted: every row has a value.
    """
    counts = [n_rows, *np.bincount(labels, minlength=n_classes).tolist()]
    sums: list[int] = []
    if len(target):
        sums += [encode(exact_sum(target)), encode_squares(product_sum(target, target))]
    for column in columns:
        present, own = column_sums(column, labels, n_classes, target, complete=complete)
        counts += [] if complete else present
        sums += own
    return [*pack_counts(counts), *sums]


def read_sums(
    totals: Sequence[int], n_columns: int, n_classes: int, *, numeric: bool, complete: bool
) -> TableSums:
    """Read the totals of what :func:`table_sums` lays down."""
    stream, per_column = iter(totals), max(1, n_classes)
    n_counts = 1 + n_classes + n_columns * per_column * (not complete)
    counts = unpack_counts(stream, n_counts)
    n_rows, sizes, present = counts[0], counts[1 : 1 + n_classes], iter(counts[1 + n_classes :])
    target = tuple(decode(next(stream)) for _ in range(2 * numeric))
    columns = [
        read_column(
            iter(sizes or [n_rows]) if complete else present,
            stream,
            n_classes,
            with_target=numeric,
            target_sum=target[0] if numeric and complete else None,
        )
        for _ in range(n_columns)
    ]
    return TableSums(n_rows, tuple(sizes), target, tuple(columns))


def column_sums(
    column: Floats,
    classes: Integers,
    n_classes: int,
    target: Floats,
    *,
    complete: bool = False,
) -> tuple[list[int], list[int]]:
    """One party's part of :class:`ColumnSums`: counts, and sums that may be masked and added.

    The target's sum over the rows with a value is left out where all rows of all parties have one.
    """
    present = ~np.isnan(column)
    values = column[present]
    counts: list[int] = []
    out: list[int] = []
    for k in range(max(1, n_classes)):
        own = values[classes[present] == k] if n_classes else values
        counts.append(len(own))
        out.append(encode(exact_sum(own)))
    out.append(encode_squares(product_sum(values, values)))
    if len(target):
        labels = target[present]
        out += [] if complete else [encode(exact_sum(labels))]
        out.append(encode(product_sum(values, labels)))
    return counts, out


def read_column(
    counts: Iterator[int],
    totals: Iterator[int],
    n_classes: int,
    *,
    with_target: bool,
    target_sum: Fraction | None = None,
) -> ColumnSums:
    """Take one column's totals from the streams that :func:`column_sums` lays down.

    ``target_sum`` is given where it was left out.
    """
    own = [next(counts) for _ in range(max(1, n_classes))]
    sums = [decode(next(totals)) for _ in own]
    squares = decode(next(totals))
    if target_sum is None:
        target_sum = decode(next(totals)) if with_target else Fraction(0)
    product = decode(next(totals)) if with_target else Fraction(0)
    return ColumnSums(tuple(own), tuple(sums), squares, target_sum, product)


def variance(column: ColumnSums) -> float:
    """Population variance of the present values."""
    count = sum(column.counts)
    return float(column.spread / count) if count else 0.0


def explained_share(column: ColumnSums, class_sizes: Sequence[int]) -> float:
    """Eta squared; missing values count as the mean."""
    count, total = sum(column.counts), sum(column.sums, Fraction(0))
    spread = column.spread
    if not count or spread <= _noise(column):
        return 0.0
    mean = total / count
    between = sum(
        (s - c * mean) ** 2 / size
        for s, c, size in zip(column.sums, column.counts, class_sizes, strict=True)
        if size
    )
    return float(between / spread)


def rounded_only(column: ColumnSums) -> bool:
    """Whether a column varies, but by no more than rounding, so that it counts as constant."""
    return 0 < column.spread <= _noise(column)


def squared_correlation(
    column: ColumnSums, n_rows: int, target_total: Fraction, target_squares: Fraction
) -> float:
    """Squared correlation with a numeric target; missing values count as the mean."""
    count = sum(column.counts)
    target_spread = target_squares - target_total * target_total / n_rows
    if not count or column.spread <= _noise(column) or target_spread <= 0:
        return 0.0
    mean, target_mean = column.sums[0] / count, target_total / n_rows
    covariance = (
        column.product
        - mean * column.target_sum
        - target_mean * column.sums[0]
        + count * mean * target_mean
    )
    return float(covariance**2 / (column.spread * target_spread))


def _noise(column: ColumnSums) -> Fraction:
    """Below this spread a column is constant up to rounding of its values: two units in 2**53."""
    return column.squares / (1 << 102)
