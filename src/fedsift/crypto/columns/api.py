# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Encrypted columns: one party's encrypted columns against another party's secret rows.

The *owner* holds integer columns (class indicators, a scaled target) and the secret key. The
*evaluator* holds integer rows over the same samples (bin memberships, standardised values) and only
ever sees ciphertexts. Two things may be revealed to the owner:

- ``products``: every row times every column (contingency counts, class sums);
- ``quadratics``: per feature one number, ``sum_c w_c * sum_k (row_c . column_k)^2``, and nothing
  of the single products.

The quadratic needs no multiplication of two ciphertexts. For each product ``m`` the evaluator
reveals ``u = m + r`` and ``v = w m + r'`` with fresh masks and, per feature, the encrypted
correction ``T = -sum(r' m + w r m + r r')``. The owner gets ``sum(u v) + T = sum(w m^2)``; the
masked values hide ``m`` perfectly (uniform in Z_t, BGV) or statistically (40 bits wider,
Paillier), so its view can be simulated from the quadratic alone. One message each way.

Every backend computes over the integers exactly, so all of them, ``plain`` included, agree bit
for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from fedsift.crypto.kernels import check_scheme, counting_kernel
from fedsift.crypto.modular import scale_rows
from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.errors import FixedPointOverflow, ParameterError

IntArray = npt.NDArray[np.int64]
BigArray = npt.NDArray[np.object_]
"""Exact integers of any size (dtype object)."""

STATISTICAL_BITS = 40
"""How many bits masks and flooding noise exceed what they hide."""

CELL_BITS = 20
"""A feature's quadratic may sum over ``2**20`` cells (bins times columns)."""


@dataclass(frozen=True, eq=False, repr=False)
class BinnedRows:
    """Bin memberships: row ``(f, b)`` is 1 where feature ``f`` of the sample is in bin ``b``.

    Parameters
    ----------
    codes : ndarray of shape (n_samples, n_features)
        The bin of each sample, in ``0 .. n_bins - 1``.
    n_bins : int
        Bins of every feature; a feature may leave bins empty.
    """

    codes: npt.NDArray[np.integer[Any]]
    n_bins: int

    @property
    def n_samples(self) -> int:
        """Samples, the same at owner and evaluator."""
        return int(self.codes.shape[0])

    @property
    def n_features(self) -> int:
        """Features of this evaluator."""
        return int(self.codes.shape[1])

    @property
    def n_rows(self) -> int:
        """One row per feature and bin, feature by feature."""
        return self.n_features * self.n_bins


@dataclass(frozen=True, eq=False, repr=False)
class IntegerRows:
    """Fixed-point features: row ``f`` is the feature's integer value per sample.

    Parameters
    ----------
    values : ndarray of shape (n_samples, n_features)
        Signed integers; their bit length and the owner's ``column_bits`` must fit ``result_bits``.
    """

    values: IntArray

    @property
    def n_samples(self) -> int:
        """Samples, the same at owner and evaluator."""
        return int(self.values.shape[0])

    @property
    def n_features(self) -> int:
        """Features of this evaluator."""
        return int(self.values.shape[1])

    @property
    def n_rows(self) -> int:
        """One row per feature."""
        return self.n_features


Rows = BinnedRows | IntegerRows


@dataclass(frozen=True)
class ColumnSpec:
    """What owner and evaluator agree on before anything is encrypted.

    Parameters
    ----------
    n_samples, n_columns : int
        Shape of the owner's integer columns.
    result_bits : int
        Every revealed number (product or quadratic) lies in ``(-2**result_bits, 2**result_bits)``.
    counting : bool
        Columns hold 0/1 and only :class:`BinnedRows` products will be asked for, so that several
        counts may share one slot.
    weight_bits : int
        Bit length of the evaluator's quadratic weights (Paillier sizes its masks with it).
    expected_rows : int
        Rows of the largest evaluator, for the layout of slots; more rows work too.
    expected_features : int
        Its features, if quadratics will be asked for (each needs a correction); else 0.
    """

    n_samples: int
    n_columns: int
    result_bits: int
    counting: bool = False
    weight_bits: int = 1
    expected_rows: int = 1
    expected_features: int = 0


class ColumnOwner(Protocol):
    """The label holder's side of encrypted columns. Holds the secret key."""

    spec: ColumnSpec
    keys: PublicKeys
    columns: Ciphertexts

    def open_products(self, sealed: Ciphertexts, n_rows: int) -> BigArray:
        """Decrypt to exact integers of shape (n_rows, n_columns)."""
        ...

    def open_quadratics(self, sealed: Ciphertexts, n_features: int, n_cells: int) -> BigArray:
        """Decrypt to one exact integer per feature; ``n_cells`` is rows per feature."""
        ...


class ColumnEvaluator(Protocol):
    """The feature holder's side of encrypted columns. Sees ciphertexts only."""

    spec: ColumnSpec

    def products(self, rows: Rows, added: IntArray | BigArray | None = None) -> Ciphertexts:
        """Encrypted, re-randomised products of every row with every column.

        ``added`` of shape (n_rows, n_columns) is added to them; not for counting columns.
        """
        ...

    def quadratics(self, rows: Rows, weights: IntArray | None = None) -> Ciphertexts:
        """Masked products and encrypted corrections; reveals one quadratic per feature.

        ``weights`` has shape (n_features, n_bins) for :class:`BinnedRows`; all ones if missing.
        """
        ...


def check_columns(columns: IntArray, spec: ColumnSpec) -> IntArray:
    """Return the columns as int64 of shape (n_samples, n_columns), or say what is wrong."""
    array = np.ascontiguousarray(columns, dtype=np.int64)
    if array.shape != (spec.n_samples, spec.n_columns):
        raise ParameterError(
            f"The columns have shape {array.shape}.",
            f"The agreed shape is {(spec.n_samples, spec.n_columns)}.",
            "Build the columns from the same rows as the specification.",
        )
    if spec.counting and not np.isin(array, (0, 1)).all():
        raise ParameterError(
            "A counting column holds values other than 0 and 1.",
            "Counting columns are class indicators.",
            "Set counting=False for other columns.",
        )
    return array


def check_rows(rows: Rows, spec: ColumnSpec) -> None:
    """Refuse rows that do not belong to the owner's samples or leave the agreed form."""
    if rows.n_samples != spec.n_samples:
        raise ParameterError(
            f"The rows cover {rows.n_samples} samples.",
            f"The encrypted columns cover {spec.n_samples}.",
            "Align the parties before the run.",
        )
    if isinstance(rows, BinnedRows) and rows.codes.size:
        low, high = int(rows.codes.min()), int(rows.codes.max())
        if low < 0 or high >= rows.n_bins:
            raise ParameterError(
                f"Bin codes run from {low} to {high}.",
                f"They must lie in 0 .. {rows.n_bins - 1}.",
                "Bin the features again.",
            )
    if spec.counting and not isinstance(rows, BinnedRows):
        raise ParameterError(
            "Counting columns were asked for products with numbers.",
            "They only count bin members.",
            "Set counting=False in the specification.",
        )


def check_added(
    added: IntArray | BigArray | None, rows: Rows, spec: ColumnSpec
) -> IntArray | BigArray | None:
    """Numbers to be added to products, in the agreed shape; masks may be longer than 64 bits."""
    if added is None:
        return None
    array = added if added.dtype == object else np.ascontiguousarray(added, dtype=np.int64)
    if spec.counting or array.shape != (rows.n_rows, spec.n_columns):
        raise ParameterError(
            f"Numbers of shape {array.shape} were to be added to products.",
            f"Shape {(rows.n_rows, spec.n_columns)} is needed, and no counting columns.",
            "Set counting=False in the specification.",
        )
    return array


def own_columns(
    scheme: str, columns: IntArray, spec: ColumnSpec, *, security_bits: int = 128
) -> ColumnOwner:
    """Make keys of a scheme (``bgv``, ``paillier``, ``plain``) and encrypt the columns."""
    counting: ColumnOwner | None = counting_kernel(
        "own_columns", scheme, columns, spec, security_bits
    )
    if counting is not None:
        return counting
    owner: ColumnOwner = _backend(scheme)[0](columns, spec, security_bits=security_bits)
    return owner


def join_columns(keys: PublicKeys, columns: Ciphertexts, spec: ColumnSpec) -> ColumnEvaluator:
    """Check what the owner sent against the agreed specification, before any computation."""
    counting: ColumnEvaluator | None = counting_kernel("join_columns", columns, spec)
    if counting is not None:
        return counting
    evaluator: ColumnEvaluator = _backend(keys.scheme)[1](keys, columns, spec)
    return evaluator


def _backend(scheme: str) -> tuple[Any, Any]:
    """Classes of owner and evaluator."""
    from fedsift.crypto.columns import bgv, paillier, plain

    backends = {
        "bgv": (bgv.BGVColumnOwner, bgv.BGVColumnEvaluator),
        "paillier": (paillier.PaillierColumnOwner, paillier.PaillierColumnEvaluator),
        "plain": (plain.PlainColumnOwner, plain.PlainColumnEvaluator),
    }
    check_scheme(scheme, backends)
    return backends[scheme]


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


def check_weights(rows: Rows, weights: IntArray | None, spec: ColumnSpec) -> IntArray:
    """Return one non-negative weight per cell, of shape (n_features, n_cells)."""
    n_cells = rows.n_rows // rows.n_features if rows.n_features else 0
    shape = (rows.n_features, n_cells)
    array = np.ones(shape, dtype=np.int64) if weights is None else np.asarray(weights)
    if array.shape != shape:
        raise ParameterError(
            f"The weights have shape {array.shape}.",
            f"{shape} is needed: features and their rows.",
            "Give one weight per row.",
        )
    if array.size and not (int(array.min()) >= 0 and int(array.max()) < 1 << spec.weight_bits):
        raise FixedPointOverflow(
            f"A weight is negative or longer than {spec.weight_bits} bits.",
            "Weights must keep to the agreed weight_bits.",
            "Scale the weights or agree on more bits.",
        )
    check_cells(n_cells, spec)
    return array.astype(np.int64)


def check_cells(n_cells: int, spec: ColumnSpec) -> None:
    """Refuse quadratics that could sum up to more than their digit holds, or are not allowed."""
    if spec.counting or spec.weight_bits < 1:
        raise ParameterError(
            "Quadratics were asked for of columns that only allow products.",
            "The specification must have counting=False and weight_bits of 1 or more.",
            "Agree on such a specification before the columns are encrypted.",
        )
    if n_cells * spec.n_columns > 1 << CELL_BITS:
        raise ParameterError(
            f"{n_cells} rows per feature and {spec.n_columns} columns.",
            f"A quadratic sums over at most 2**{CELL_BITS} products.",
            "Use fewer bins.",
        )
