# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Columns without encryption: the same messages, masks and corrections in the clear.

For tests and for reading: it hides nothing from the evaluator. The encrypted backends must agree
with it to the last bit, and :class:`QuadraticWidths` is the one place where the sizes of masks
are argued.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from fedsift.crypto.columns.api import (
    CELL_BITS,
    STATISTICAL_BITS,
    BigArray,
    BinnedRows,
    ColumnSpec,
    IntArray,
    Rows,
    check_added,
    check_cells,
    check_columns,
    check_rows,
    check_weights,
)
from fedsift.crypto.modular import random_integers
from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.errors import BadCiphertext, FixedPointOverflow

SCHEME = "plain"


@dataclass(frozen=True)
class QuadraticWidths:
    """How wide the numbers of the quadratic protocol are, from the agreed specification.

    A product ``m`` with weight 1 or more has ``m**2 < 2**result_bits`` because its square is part
    of the revealed sum, and one with weight 0 is replaced by 0. Both masks are
    ``STATISTICAL_BITS + 1`` bits wider than what they hide (one bit for the sign), so any two
    values give distributions at most ``2**-STATISTICAL_BITS`` apart.
    """

    spec: ColumnSpec

    @property
    def product(self) -> int:
        """Bits of ``|m|``."""
        return (self.spec.result_bits + 1) // 2

    @property
    def weighted(self) -> int:
        """Bits of ``|w m|``, which is at most ``w m**2``."""
        return min(self.spec.result_bits, self.spec.weight_bits + self.product)

    @property
    def product_mask(self) -> int:
        """Bits of ``r``."""
        return self.product + STATISTICAL_BITS + 1

    @property
    def weighted_mask(self) -> int:
        """Bits of ``r'``."""
        return self.weighted + STATISTICAL_BITS + 1

    @property
    def product_digit(self) -> int:
        """Signed digit that holds ``m + r``."""
        return self.product_mask + 2

    @property
    def weighted_digit(self) -> int:
        """Signed digit that holds ``w m + r'``."""
        return self.weighted_mask + 2

    @property
    def correction_digit(self) -> int:
        """Signed digit that holds ``T``, the quadratic less all ``(m + r)(w m + r')``."""
        return self.product_digit + self.weighted_digit + CELL_BITS


def check_quadratics(numbers: Iterable[int], spec: ColumnSpec) -> BigArray:
    """Return opened quadratics as an array; a sum of weighted squares keeps to its range."""
    values = list(numbers)
    if not all(0 <= value < 1 << spec.result_bits for value in values):
        raise _too_large(spec)
    return big_array(values)


def check_products(numbers: Iterable[int], n_rows: int, spec: ColumnSpec) -> BigArray:
    """Return opened products as an array of shape (n_rows, n_columns)."""
    values = list(numbers)
    if not all(abs(value) < 1 << spec.result_bits for value in values):
        raise _too_large(spec)
    return big_array(values).reshape(n_rows, spec.n_columns)


def check_range(columns: IntArray, spec: ColumnSpec) -> None:
    """Refuse columns whose counts, or whose single entries, exceed ``result_bits``."""
    largest = columns.sum(axis=0) if spec.counting else np.abs(columns)
    if largest.size and int(largest.max()) >> spec.result_bits:
        raise _too_large(spec)


def big_array(values: list[int]) -> BigArray:
    """Make an array of exact integers (dtype object)."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _too_large(spec: ColumnSpec) -> FixedPointOverflow:
    return FixedPointOverflow(
        f"A result or column does not fit {spec.result_bits} bits.",
        "Every product and quadratic must keep to the agreed result_bits.",
        "Agree on more result bits, or scale the columns or weights down.",
    )


class PlainColumnOwner:
    """The label holder's side, without encryption."""

    def __init__(self, columns: IntArray, spec: ColumnSpec, *, security_bits: int = 128) -> None:
        del security_bits  # there is none
        self.spec = spec
        array = check_columns(columns, spec)
        check_range(array, spec)
        self.keys = PublicKeys(SCHEME, {"key_bits": 0, "security_bits": 0}, ())
        self.columns = Ciphertexts(SCHEME, (_to_bytes(map(int, array.ravel()), 64),))

    def open_products(self, sealed: Ciphertexts, n_rows: int) -> BigArray:
        """Read exact integers of shape (n_rows, n_columns)."""
        (values,) = _open(sealed, [(n_rows * self.spec.n_columns, self.spec.result_bits + 1)])
        return check_products(values, n_rows, self.spec)

    def open_quadratics(self, sealed: Ciphertexts, n_features: int, n_cells: int) -> BigArray:
        """Read one exact integer per feature."""
        check_cells(n_cells, self.spec)
        widths, per_feature = QuadraticWidths(self.spec), n_cells * self.spec.n_columns
        masked, weighted, corrections = _open(
            sealed,
            [
                (n_features * per_feature, widths.product_digit),
                (n_features * per_feature, widths.weighted_digit),
                (n_features, widths.correction_digit),
            ],
        )
        return check_quadratics(join_quadratics(masked, weighted, corrections), self.spec)


class PlainColumnEvaluator:
    """The feature holder's side, without encryption."""

    def __init__(self, keys: PublicKeys, columns: Ciphertexts, spec: ColumnSpec) -> None:
        if keys.scheme != SCHEME:
            raise BadCiphertext(
                f"Keys of scheme {keys.scheme[:20]!r} came in.",
                f"{SCHEME!r} was expected.",
                "Run the same job on both sides.",
            )
        self.spec = spec
        (values,) = _open(columns, [(spec.n_samples * spec.n_columns, 64)])
        self._columns = big_array(values).reshape(spec.n_samples, spec.n_columns)

    def products(self, rows: Rows, added: IntArray | BigArray | None = None) -> Ciphertexts:
        """Products of every row with every column, plus what is to be added."""
        check_rows(rows, self.spec)
        more = check_added(added, rows, self.spec)
        products = self._products(rows)
        if more is not None:
            products = [p + a for p, a in zip(products, more.ravel().tolist(), strict=True)]
        check_products(products, rows.n_rows, self.spec)
        return Ciphertexts(SCHEME, (_to_bytes(products, self.spec.result_bits + 1),))

    def quadratics(self, rows: Rows, weights: IntArray | None = None) -> Ciphertexts:
        """Masked products and corrections, as the encrypted backends send them."""
        check_rows(rows, self.spec)
        weight_of = np.repeat(check_weights(rows, weights, self.spec), self.spec.n_columns, axis=1)
        widths, flat = QuadraticWidths(self.spec), [int(weight) for weight in weight_of.ravel()]
        products = [m if w else 0 for m, w in zip(self._products(rows), flat, strict=True)]
        r = random_integers(widths.product_mask, len(flat))
        s = random_integers(widths.weighted_mask, len(flat))
        cells = list(zip(products, flat, r, s, strict=True))
        terms = [-(s * m + w * r * m + r * s) for m, w, r, s in cells]
        size = weight_of.shape[1]
        corrections = [sum(terms[i * size : (i + 1) * size]) for i in range(rows.n_features)]
        return Ciphertexts(
            SCHEME,
            (
                _to_bytes((m + r for m, _, r, _ in cells), widths.product_digit),
                _to_bytes((w * m + s for m, w, _, s in cells), widths.weighted_digit),
                _to_bytes(corrections, widths.correction_digit),
            ),
        )

    def _products(self, rows: Rows) -> list[int]:
        if isinstance(rows, BinnedRows):
            totals = np.zeros((rows.n_features, rows.n_bins, self.spec.n_columns), dtype=object)
            for feature, codes in enumerate(rows.codes.T):
                np.add.at(totals[feature], codes, self._columns)
        else:
            totals = rows.values.T.astype(object) @ self._columns
        return [int(total) for total in totals.ravel()]


def join_quadratics(masked: list[int], weighted: list[int], corrections: list[int]) -> list[int]:
    """Return ``sum(u v) + T`` of every feature."""
    squares = [u * v for u, v in zip(masked, weighted, strict=True)]
    size = len(squares) // max(len(corrections), 1)
    return [
        sum(squares[index * size : (index + 1) * size]) + correction
        for index, correction in enumerate(corrections)
    ]


def _to_bytes(values: Iterable[int], bits: int) -> bytes:
    width = -(-bits // 8)
    try:
        return b"".join(value.to_bytes(width, "little", signed=True) for value in values)
    except OverflowError:
        raise FixedPointOverflow(
            f"A number does not fit {bits} bits.",
            "Every number must keep to the agreed result_bits.",
            "Agree on more result bits.",
        ) from None


def _open(sealed: Ciphertexts, sizes: list[tuple[int, int]]) -> list[list[int]]:
    """Cut each blob into its agreed count of integers of the agreed bits."""
    lengths = [count * -(-bits // 8) for count, bits in sizes]
    if sealed.scheme != SCHEME or [len(blob) for blob in sealed.blobs] != lengths:
        raise BadCiphertext(
            f"{len(sealed.blobs)} blobs of scheme {sealed.scheme[:20]!r} came in.",
            f"{len(sizes)} of scheme {SCHEME!r}, of {lengths} bytes, were expected.",
            "Run the same version and the same job on both sides.",
        )
    return [
        [
            int.from_bytes(blob[start : start + width], "little", signed=True)
            for start in range(0, len(blob), width)
        ]
        for blob, width in zip(sealed.blobs, (-(-bits // 8) for _, bits in sizes), strict=True)
    ]
