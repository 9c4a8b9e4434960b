# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The evaluator's secret rows as dense blocks of numbers modulo t, built when a block is needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedsift.crypto.columns.api import BigArray, BinnedRows, IntegerRows, Rows
from fedsift.crypto.modular import scale_rows

RowValues = Callable[[slice, slice], npt.NDArray[np.uint64]]
"""Dense values modulo t of some matrix rows over some samples."""


@dataclass(frozen=True)
class Digits:
    """How count rows share a slot: ``per_row`` rows, each ``row_bits`` wide."""

    row_bits: int
    per_row: int


def bin_members(
    rows: BinnedRows, wanted: npt.NDArray[np.int64], samples: slice
) -> npt.NDArray[np.bool_]:
    """Memberships of some (feature, bin) rows."""
    codes = rows.codes[samples]
    bins = (wanted % rows.n_bins).astype(codes.dtype)
    members: npt.NDArray[np.bool_] = codes.T[wanted // rows.n_bins] == bins[:, None]
    return members


def packed_values(rows: Rows, digits: Digits) -> RowValues:
    """Several count rows as digits of one packed row."""
    assert isinstance(rows, BinnedRows)  # noqa: S101 - check_rows has refused anything else
    binned, row_bits = rows, digits.row_bits

    def values(wanted: slice, samples: slice) -> npt.NDArray[np.uint64]:
        first = np.arange(wanted.start, wanted.stop) * digits.per_row
        total = np.zeros((len(first), samples.stop - samples.start), dtype=np.uint64)
        for digit in range(digits.per_row):
            real = first + digit < binned.n_rows
            members = bin_members(binned, (first + digit)[real], samples).astype(np.uint64)
            total[real] += members << np.uint64(digit * row_bits)
        return total

    return values


def values_of(rows: Rows, modulus: int) -> RowValues:
    """The rows themselves, modulo t."""
    if isinstance(rows, BinnedRows):
        binned = rows
        return lambda wanted, samples: bin_members(
            binned, np.arange(wanted.start, wanted.stop), samples
        ).astype(np.uint64)
    numbers = rows.values
    return lambda wanted, samples: (numbers[samples, wanted].T % modulus).astype(np.uint64)


def two_sides(rows: Rows, weights: BigArray, modulus: int) -> RowValues:
    """Rows ``m`` of all cells, followed by the same rows times their weights."""
    plain, cells = values_of(rows, modulus), rows.n_rows
    factors = (weights.ravel() % modulus).astype(np.uint64)

    def values(wanted: slice, samples: slice) -> npt.NDArray[np.uint64]:
        left = slice(min(wanted.start, cells), min(wanted.stop, cells))
        right = slice(max(wanted.start, cells) - cells, max(wanted.stop, cells) - cells)
        scaled = scale_rows(plain(right, samples), factors[right], modulus)
        return np.concatenate([plain(left, samples), scaled])

    return values


def correction_values(rows: Rows, factor: npt.NDArray[np.uint64], modulus: int) -> RowValues:
    """Row ``f`` of the correction: what multiplies the column at each sample."""
    if isinstance(rows, IntegerRows):
        plain = values_of(rows, modulus)
        return lambda wanted, samples: scale_rows(
            plain(wanted, samples), factor[wanted, 0], modulus
        )
    codes = rows.codes

    def values(wanted: slice, samples: slice) -> npt.NDArray[np.uint64]:
        features = np.arange(wanted.start, wanted.stop)
        looked_up: npt.NDArray[np.uint64] = factor[features[:, None], codes[samples, wanted].T]
        return looked_up

    return values
