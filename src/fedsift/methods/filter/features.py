# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a party does with its own columns before any filter: bin them, or bring them to one scale.

Purely local. Used by both filter protocols and, on pooled data, as their plaintext oracle.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.data.table import Column, PartyTable
from fedsift.errors import ColumnError, ParameterError, ValueProblem
from fedsift.maths import binning
from fedsift.maths.binning import Bins
from fedsift.maths.unit import constant_columns as constant_columns
from fedsift.maths.unit import to_integers as to_integers
from fedsift.maths.unit import unit_columns as unit_columns

BINNED_SCORES = frozenset({"gini", "mi", "chi2", "iv"})
NUMERIC_SCORES = frozenset({"f", "variance"})
_KEPT_EXPONENT = 10

Floats = npt.NDArray[np.float64]
BinChoice = int | Sequence[float] | Mapping[str, Any]
"""Number of quantile bins, inner edges for every numeric column, or either one per column name."""


@dataclass(frozen=True, eq=False)
class BinnedTable:
    """All columns of a table as bin codes."""

    codes: npt.NDArray[np.int64]
    n_bins: int
    n_merged: npt.NDArray[np.int64]
    smallest: int = 1


def bin_choice(bins: BinChoice, column: str) -> int | Floats:
    """What to do with one column: a number of quantile bins, or its edges."""
    if isinstance(bins, Mapping):
        bins = bins.get(column, 10)
    if isinstance(bins, (int, np.integer)):
        if bins < 2:
            raise ParameterError(
                f"bins={bins}.", "At least 2 bins are needed.", "Choose a larger number."
            )
        return int(bins)
    try:
        edges = np.unique(np.asarray(bins, dtype=np.float64))
    except (TypeError, ValueError):
        edges = np.empty(0)
    if edges.ndim != 1 or not edges.size or not np.isfinite(edges).all():
        raise ParameterError(
            f"The bin edges of column {column!r} are empty or not finite.",
            "Inner edges are a non-empty list of numbers.",
            "Give the edges between bins, or a number of bins.",
        )
    return edges


def check_table(table: PartyTable, score: str, bins: BinChoice) -> None:
    """Refuse before any message what a score cannot use: categories on a number line, bad bins."""
    if score in NUMERIC_SCORES:
        numeric_columns(table, score)
    for column in table.columns:
        if score in BINNED_SCORES and column.kind == "numeric":
            bin_choice(bins, column.name)


def check_bin_names(bins: BinChoice, tables: Iterable[PartyTable]) -> None:
    """Refuse bins for columns that nobody has: they would silently do nothing."""
    if not isinstance(bins, Mapping):
        return
    known = {name for table in tables for name in table.feature_names}
    unknown = sorted(str(name) for name in set(bins) - known)
    if unknown:
        raise ParameterError(
            f"bins names a column {unknown[0]!r}.",
            "Every named column must exist at some party.",
            "Correct the name, or leave it out to get 10 quantile bins.",
        )


def bin_column(column: Column, bins: BinChoice, min_bin_size: int) -> Bins:
    """Quantiles or given edges for numbers, categories as they are, small bins merged."""
    if column.kind == "categorical":
        raw = binning.categories(column.values.astype(np.int64), len(column.categories))
        return binning.merge_small(raw, min_bin_size, ordered=False)
    values = column.values.astype(np.float64)
    choice = bin_choice(bins, column.name)
    edges = binning.quantile_edges(values, choice) if isinstance(choice, int) else choice
    return binning.merge_small(binning.cut(values, edges), min_bin_size, ordered=True)


def bin_table(table: PartyTable, bins: BinChoice, min_bin_size: int) -> BinnedTable:
    """Every column binned; the number of bins is that of the finest one."""
    binned = [bin_column(column, bins, min_bin_size) for column in table.columns]
    n_bins = max((b.n_bins for b in binned), default=1)
    codes = np.stack([b.codes for b in binned], axis=1)
    return BinnedTable(codes, n_bins, np.array([b.n_merged for b in binned]), min_bin_size)


def fixed_bins(table: PartyTable, bins: BinChoice) -> BinnedTable:
    """Every column cut at given edges: no edge and no number of bins depends on the rows.

    The last bin of every column is for missing values, whether there are any or not.
    """
    codes, n_bins = [], 1
    for column in table.columns:
        if column.kind == "categorical":
            found, size = column.values.astype(np.int64), len(column.categories)
        else:
            edges = bin_choice(bins, column.name)
            assert not isinstance(edges, int)  # noqa: S101 - check_edges has refused it
            found = np.searchsorted(edges, column.values, side="left").astype(np.int64)
            size = len(edges) + 1
        codes.append(np.where(column.missing, size, found))
        n_bins = max(n_bins, size + 1)
    return BinnedTable(np.stack(codes, axis=1), n_bins, np.zeros(len(codes), dtype=np.int64))


def check_edges(table: PartyTable, bins: BinChoice) -> None:
    """Refuse quantiles where noise is to hide single rows: one row can move them."""
    needed = "With a budget of privacy, bins need edges that are known without the data."
    action = "Give inner edges as bins=[...], or by column name."
    for column in table.columns:
        if column.kind != "numeric" or not isinstance(bin_choice(bins, column.name), int):
            continue
        if isinstance(bins, int):
            found = f"bins={bins} cuts columns at quantiles, which depend on every row."
            raise ParameterError(found, needed, action)
        found = f"Column {column.name!r} is cut at quantiles, which depend on every row."
        raise ColumnError(found, needed, action)


def numeric_columns(table: PartyTable, score: str) -> Floats:
    """All columns as numbers, missing ones as NaN; categories have no place on a number line."""
    for column in table.columns:
        if column.kind != "numeric":
            raise ColumnError(
                f"Column {column.name!r} of party {table.name!r} holds categories.",
                f"The score {score!r} needs numbers.",
                "Drop the column, or use gini, mi, chi2 or iv, which take categories.",
            )
    return table.numeric_matrix()


def are_frequencies(table: PartyTable) -> bool:
    """Whether every column can be read as a frequency: numeric, complete and not negative."""
    return all(
        column.kind == "numeric" and not column.missing.any() and bool((column.values >= 0).all())
        for column in table.columns
    )


def frequency_scales(values: Floats, bits: int) -> npt.NDArray[np.int64]:
    """Power of two per column that brings its largest value below ``2**bits``."""
    largest = values.max(axis=0, initial=0.0)
    exponents: npt.NDArray[np.int64] = np.frexp(largest)[1].astype(np.int64)
    # Exponents of columns that are not tiny tell no more than that nothing is above 1.
    tiny = (largest > 0) & (exponents < -_KEPT_EXPONENT)
    return np.asarray(bits - np.where(tiny, exponents, np.maximum(exponents, 1)), dtype=np.int64)


def variances(values: Floats) -> Floats:
    """Population variance of every column; missing values are left out."""
    with np.errstate(over="ignore", invalid="ignore"):
        found = np.asarray(np.nanvar(values, axis=0))
    if not np.isfinite(found).all():
        raise ValueProblem(
            "The variance of a column is larger than any floating-point number.",
            "Values must stay below about 1e150.",
            "Divide the column by a power of ten.",
        )
    varies = np.nanmin(values, axis=0) < np.nanmax(values, axis=0)
    if (varies & (found < np.finfo(np.float64).tiny)).any():
        raise ValueProblem(
            "The variance of a column is smaller than any floating-point number.",
            "Values must differ by more than about 1e-150.",
            "Multiply the column by a power of ten.",
        )
    return found


def frequency_shares(values: Floats) -> tuple[Floats, int]:
    """Columns over the roots of their sums, as fractions of a power of two; and its exponent.

    The sum of squares of what they are multiplied with is chi-squared over ``2**exponent``.
    """
    first = int(np.frexp(values.max(initial=0.0))[1])
    scaled = np.ldexp(values, -first)  # sums of the largest numbers stay finite
    sums = scaled.sum(axis=0)
    second = int(np.frexp(sums.max(initial=0.0))[1])
    roots = np.sqrt(np.ldexp(sums, second))
    shares = np.divide(scaled, roots, out=np.zeros_like(scaled), where=roots > 0)
    return shares, first + second


def remarks(table: PartyTable, binned: BinnedTable | None) -> list[str]:
    """What the result should say about this party's columns; names and counts only."""
    notes = []
    if binned is not None and binned.n_merged.any():
        columns = int((binned.n_merged > 0).sum())
        notes.append(
            f"{table.name}: {int(binned.n_merged.sum())} bins of {columns} features had fewer than "
            f"{binned.smallest} rows and were merged."
        )
    if binned is None:
        missing = sum(bool(column.missing.any()) for column in table.columns)
        if missing:
            notes.append(f"{table.name}: missing values of {missing} features count as their mean.")
        numbers = [c.values.astype(np.float64) for c in table.columns if c.kind == "numeric"]
        varying = [v for v in numbers if np.nanmin(v) < np.nanmax(v)]
        rounded = sum(bool(constant_columns(v[:, None])[0]) for v in varying)
        notes += [f"{table.name}: {text}" for text in rounding_remarks(rounded)]
    return notes


def rounding_remarks(n_features: int) -> list[str]:
    """What to say of columns whose digits are used up by an offset."""
    if not n_features:
        return []
    return [
        f"{n_features} features vary by no more than rounding of their values and count as "
        "constant; subtract a constant from them before they are stored."
    ]
