# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Encrypted columns with Paillier: least traffic, any number of samples, exact.

The owner sends one ciphertext per sample (all columns side by side when only products will be
asked for, otherwise one per column, so that single columns can be masked). The evaluator multiplies
the ciphertexts of each bin, joins many results in one ciphertext by shifting them, masks where
the protocol says so and re-randomises whatever leaves. Digits that carry no result are zero by
construction: they decrypt to a constant.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from gmpy2 import mpz

from fedsift.crypto.columns.api import (
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
from fedsift.crypto.columns.plain import (
    QuadraticWidths,
    check_products,
    check_quadratics,
    check_range,
    join_quadratics,
)
from fedsift.crypto.fixed_point import SignedPacking
from fedsift.crypto.modular import random_integers
from fedsift.crypto.schemes.multiexp import (
    SharedBases,
    bucket_products,
    joined_powers,
    weighted_products,
)
from fedsift.crypto.schemes.paillier import (
    SCHEME,
    PaillierPrivateKey,
    PaillierPublicKey,
    key_bits_for,
    public_key_from,
    public_keys_of,
)
from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.errors import ParameterError


@dataclass(frozen=True)
class Layout:
    """Where columns and results sit in plaintexts; both sides derive the same.

    Parameters
    ----------
    spec : ColumnSpec
    plaintext_bits : int
        What one ciphertext carries.
    """

    spec: ColumnSpec
    plaintext_bits: int

    @property
    def digit_bits(self) -> int:
        """Signed digit of one product."""
        return self.spec.result_bits + 1

    @property
    def columns_per_ciphertext(self) -> int:
        """Columns that share a ciphertext.

        Masks of a quadratic are much wider than the products, and corrections need each column
        on its own, so columns share only when quadratics are excluded from the start.
        """
        if not (self.spec.counting or self.spec.weight_bits == 0):
            return 1
        fitting = max(self.plaintext_bits // self.digit_bits, 1)
        return min(max(self.spec.n_columns, 1), fitting)

    @property
    def n_groups(self) -> int:
        """Ciphertexts per sample."""
        return -(-self.spec.n_columns // self.columns_per_ciphertext)

    @property
    def rows(self) -> SignedPacking:
        """Packing of the columns of one sample, or of one row's products."""
        return SignedPacking(self.digit_bits, self.columns_per_ciphertext)

    def joined(self, digit_bits: int) -> SignedPacking:
        """Packing of as many digits as fit a ciphertext."""
        if digit_bits > self.plaintext_bits:
            raise ParameterError(
                f"Results need digits of {digit_bits} bits.",
                f"This key carries {self.plaintext_bits} bits.",
                "Use fewer result bits or a longer key.",
            )
        return SignedPacking(digit_bits, self.plaintext_bits // digit_bits)

    @property
    def results(self) -> SignedPacking:
        """Packing of whole rows of products."""
        return self.joined(self.rows.bits)


class PaillierColumnOwner:
    """The label holder's side of encrypted columns with Paillier.

    Parameters
    ----------
    columns : ndarray of shape (n_samples, n_columns)
    spec : ColumnSpec
        ``weight_bits=0`` promises, like ``counting``, that no quadratics will be asked for.
    security_bits : int
        112 (2048-bit keys), 128 (3072) or more.
    key : PaillierPrivateKey, optional
        An existing key.
    """

    def __init__(
        self,
        columns: IntArray,
        spec: ColumnSpec,
        *,
        security_bits: int = 128,
        key: PaillierPrivateKey | None = None,
    ) -> None:
        self.spec = spec
        array = check_columns(columns, spec)
        check_range(array, spec)
        self._key = key or PaillierPrivateKey.generate(key_bits_for(security_bits))
        self._layout = Layout(spec, self._key.public.plaintext_bits)
        self.keys = public_keys_of(self._key.public)
        self.columns = self._encrypt(array)

    def __repr__(self) -> str:
        return f"<Paillier column owner, {self.columns!r}>"

    def _encrypt(self, columns: IntArray) -> Ciphertexts:
        """Sample by sample, the groups of a sample one after the other."""
        size = self._layout.columns_per_ciphertext
        packing = self._layout.rows
        packed = [
            packing.pack(sample[start : start + size])
            for sample in columns.tolist()
            for start in range(0, self.spec.n_columns, size)
        ]
        return self._key.public.seal(self._key.encrypt_many(packed))

    def open_products(self, sealed: Ciphertexts, n_rows: int) -> BigArray:
        """Decrypt to exact integers of shape (n_rows, n_columns)."""
        layout, size = self._layout, self._layout.columns_per_ciphertext
        packed_rows = self._open(sealed, [(n_rows * layout.n_groups, layout.results)])[0]
        digits: list[int] = []
        for index, packed in enumerate(packed_rows):
            first = index % layout.n_groups * size
            count = min(size, self.spec.n_columns - first)
            digits += layout.rows.unpack(packed, count)
        return check_products(digits, n_rows, self.spec)

    def open_quadratics(self, sealed: Ciphertexts, n_features: int, n_cells: int) -> BigArray:
        """Decrypt to one exact integer per feature; learns nothing else."""
        check_cells(n_cells, self.spec)
        widths, layout = QuadraticWidths(self.spec), self._layout
        n_products = n_features * n_cells * self.spec.n_columns
        masked, weighted, corrections = self._open(
            sealed,
            [
                (n_products, layout.joined(widths.product_digit)),
                (n_products, layout.joined(widths.weighted_digit)),
                (n_features, layout.joined(widths.correction_digit)),
            ],
        )
        return check_quadratics(join_quadratics(masked, weighted, corrections), self.spec)

    def _open(self, sealed: Ciphertexts, parts: list[tuple[int, SignedPacking]]) -> list[list[int]]:
        """Decrypt parts of ``count`` digits each, one packing after the other."""
        sizes = [-(-count // packing.n_digits) for count, packing in parts]
        plain = iter(self._key.decrypt_many(self._key.public.unseal(sealed, sum(sizes))))
        return [
            [
                digit
                for start in range(0, count, packing.n_digits)
                for digit in packing.unpack(next(plain), min(packing.n_digits, count - start))
            ]
            for count, packing in parts
        ]


class PaillierColumnEvaluator:
    """The feature holder's side of encrypted columns with Paillier.

    Parameters
    ----------
    keys : PublicKeys
    columns : Ciphertexts
        What the owner sent; checked here, before any computation.
    spec : ColumnSpec
    allow_weak : bool
        Accept short keys, for tests.
    """

    def __init__(
        self,
        keys: PublicKeys,
        columns: Ciphertexts,
        spec: ColumnSpec,
        *,
        allow_weak: bool = False,
    ) -> None:
        self.spec = spec
        self._key: PaillierPublicKey = public_key_from(keys, allow_weak=allow_weak)
        self._layout = Layout(spec, self._key.plaintext_bits)
        n_groups = self._layout.n_groups
        ciphertexts = self._key.unseal(columns, spec.n_samples * n_groups)
        self._groups = [
            SharedBases(ciphertexts[group::n_groups], self._key.n) for group in range(n_groups)
        ]

    def __repr__(self) -> str:
        return f"<Paillier column evaluator, {self.spec.n_samples} samples>"

    def products(self, rows: Rows, added: IntArray | BigArray | None = None) -> Ciphertexts:
        """Encrypted, re-randomised products of every row with every column."""
        check_rows(rows, self.spec)
        more = check_added(added, rows, self.spec)
        products, layout = self._products(rows), self._layout
        ones = [1] * len(products)
        if more is None:
            joined = self._join(products, ones, layout.results)
        else:
            size = layout.columns_per_ciphertext
            constants = [
                layout.rows.pack(row[start : start + size])
                for row in more.tolist()
                for start in range(0, self.spec.n_columns, size)
            ]
            joined = self._masked(products, ones, constants, layout.results)
        return self._key.seal(self._key.rerandomise_many(joined))

    def quadratics(self, rows: Rows, weights: IntArray | None = None) -> Ciphertexts:
        """Masked products and encrypted corrections; reveals one quadratic per feature."""
        check_rows(rows, self.spec)
        cells = check_weights(rows, weights, self.spec)
        w = [int(weight) for weight in np.repeat(cells.ravel(), self.spec.n_columns)]
        # A product without weight is not part of the sum; taking 0 for it bounds all others.
        pairs = zip(self._products(rows), w, strict=True)
        products = [product if weight else mpz(1) for product, weight in pairs]
        widths, layout = QuadraticWidths(self.spec), self._layout
        r = random_integers(widths.product_mask, len(w))
        s = random_integers(widths.weighted_mask, len(w))
        leaving = (
            self._masked(products, [1] * len(w), r, layout.joined(widths.product_digit))
            + self._masked(products, w, s, layout.joined(widths.weighted_digit))
            + self._corrections(products, w, r, s, rows.n_features)
        )
        return self._key.seal(self._key.rerandomise_many(leaving))

    def _products(self, rows: Rows) -> list[mpz]:
        """Encrypted row products, row by row, the groups of a row one after the other."""
        by_group = [
            bucket_products(bases, rows.codes, rows.n_bins)
            if isinstance(rows, BinnedRows)
            else weighted_products(bases, rows.values)
            for bases in self._groups
        ]
        return [product for row in zip(*by_group, strict=True) for product in row]

    def _join(
        self,
        ciphertexts: list[mpz],
        factors: list[int],
        packing: SignedPacking,
        terms_per_digit: int = 1,
    ) -> list[mpz]:
        """Encrypted multiples side by side; a digit sums ``terms_per_digit`` of them."""
        return joined_powers(
            ciphertexts,
            factors,
            self._key.n,
            digit_bits=packing.digit_bits,
            n_digits=packing.n_digits,
            bases_per_digit=terms_per_digit,
        )

    def _masked(
        self,
        ciphertexts: list[mpz],
        factors: list[int],
        constants: list[int],
        packing: SignedPacking,
        terms_per_digit: int = 1,
    ) -> list[mpz]:
        """Join encrypted multiples and add a known constant to every digit."""
        joined = self._join(ciphertexts, factors, packing, terms_per_digit)
        chunks = range(0, len(constants), packing.n_digits)
        packed = [packing.pack(constants[start : start + packing.n_digits]) for start in chunks]
        return [self._key.add_plain(c, known) for c, known in zip(joined, packed, strict=True)]

    def _corrections(
        self, products: list[mpz], w: list[int], r: list[int], s: list[int], n_features: int
    ) -> list[mpz]:
        """Encrypt ``T = -sum((s + w r) m + r s)`` for every feature."""
        size = len(products) // max(n_features, 1)
        factors = [-(s[i] + w[i] * r[i]) for i in range(len(products))]
        constants = [
            -sum(r[i] * s[i] for i in range(feature * size, (feature + 1) * size))
            for feature in range(n_features)
        ]
        packing = self._layout.joined(QuadraticWidths(self.spec).correction_digit)
        return self._masked(products, factors, constants, packing, max(size, 1))


__all__ = ["SCHEME", "Layout", "PaillierColumnEvaluator", "PaillierColumnOwner"]
