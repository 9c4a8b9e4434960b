# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""K2 with Paillier: secret weights times an encrypted matrix, plus a mask.

The owner encrypts the rows of ``P`` (m x L), many entries per ciphertext. The evaluator multiplies
its integer weights (q x m) from the left: row ``i`` of the result is a product of powers of the
encrypted rows, and one Straus table serves all rows of the weights. The evaluator adds a mask, so
that the owner decrypts ``weights @ P + mask`` and learns nothing about the product itself.
Everything is exact over the integers.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from gmpy2 import mpz

from fedsift.crypto.columns.api import STATISTICAL_BITS, BigArray
from fedsift.crypto.columns.plain import big_array
from fedsift.crypto.fixed_point import SignedPacking
from fedsift.crypto.modular import random_integers
from fedsift.crypto.schemes.multiexp import StrausTables, straus_window
from fedsift.crypto.schemes.paillier import (
    PaillierPrivateKey,
    PaillierPublicKey,
    public_key_from,
    public_keys_of,
)
from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.errors import BadCiphertext, FixedPointOverflow, ParameterError

MASK_EXTRA_BITS = STATISTICAL_BITS + 1
"""A mask is this much longer than a result; the one bit is for the result's sign."""


def _packing(public: PaillierPublicKey, value_bits: int) -> SignedPacking:
    """Digits wide enough for a result plus its mask, as many as fit."""
    digit_bits = value_bits + MASK_EXTRA_BITS + 2
    if value_bits < 1 or digit_bits > public.plaintext_bits:
        raise ParameterError(
            f"Results of {value_bits} bits were asked for.",
            f"A digit of {digit_bits} bits must fit {public.plaintext_bits} plaintext bits.",
            "Use fewer value bits or a longer key.",
        )
    return SignedPacking(digit_bits, public.plaintext_bits // digit_bits)


def _integers(matrix: npt.ArrayLike, bits: int, what: str) -> list[list[int]]:
    """Return a matrix as lists of Python integers below ``2**bits`` in size."""
    array = np.asarray(matrix)
    if array.ndim != 2 or array.dtype.kind not in "iuO":
        raise ParameterError(
            f"The {what} have shape {array.shape} and type {array.dtype}.",
            "A matrix of integers is needed.",
            "Encode reals with FixedPoint first.",
        )
    rows = [[int(number) for number in row] for row in array]
    if any(abs(number) >> bits for row in rows for number in row):
        raise FixedPointOverflow(
            f"An entry of the {what} of shape {array.shape} is longer than {bits} bits.",
            "Every entry must keep to the agreed bits.",
            "Scale the numbers or agree on more bits.",
        )
    return rows


class PaillierMatrixOwner:
    """The party with the matrix and the key.

    Parameters
    ----------
    key_bits : int
    value_bits : int
        Every entry of ``P`` and of ``weights @ P`` is smaller than ``2**value_bits`` in size.
    input_bits : int, optional
        Agreed size of the entries of ``P``. With it, the evaluator can prove before computing that
        its weights cannot overflow ``value_bits``.
    key : PaillierPrivateKey, optional
        An existing key, in place of a new one of ``key_bits``.
    """

    def __init__(
        self,
        key_bits: int = 3072,
        value_bits: int = 64,
        *,
        input_bits: int | None = None,
        key: PaillierPrivateKey | None = None,
    ) -> None:
        self._key = key or PaillierPrivateKey.generate(key_bits)
        self._packing = _packing(self._key.public, value_bits)
        self._input_bits = value_bits if input_bits is None else input_bits
        numbers = {} if input_bits is None else {"input_bits": input_bits}
        self.keys: PublicKeys = public_keys_of(self._key.public, value_bits=value_bits, **numbers)

    def __repr__(self) -> str:
        return f"<Paillier matrix owner, {self._key.public.key_bits} bits>"

    def encrypt(self, matrix: npt.ArrayLike) -> Ciphertexts:
        """Encrypt a matrix row by row, each row in one or more ciphertexts."""
        rows = _integers(matrix, self._input_bits, "matrix")
        size = self._packing.n_digits
        packed = [
            self._packing.pack(row[start : start + size])
            for row in rows
            for start in range(0, len(row), size)
        ]
        return self._key.public.seal(self._key.encrypt_many(packed))

    def decrypt(self, sealed: Ciphertexts, shape: tuple[int, int]) -> BigArray:
        """Decrypt a matrix of the given shape to exact integers."""
        n_rows, length = shape
        size = self._packing.n_digits
        starts = range(0, length, size)
        ciphertexts = self._key.public.unseal(sealed, n_rows * len(starts))
        plain = iter(self._key.decrypt_many(ciphertexts))
        digits = [
            digit
            for _ in range(n_rows)
            for start in starts
            for digit in self._packing.unpack(next(plain), min(size, length - start))
        ]
        return big_array(digits).reshape(shape)


class PaillierMatrixEvaluator:
    """The party with the weights; sees ciphertexts only.

    Parameters
    ----------
    public : PublicKeys
        The owner's ``keys``.
    allow_weak : bool
        Accept short keys, for tests.
    """

    def __init__(self, public: PublicKeys, *, allow_weak: bool = False) -> None:
        self._key = public_key_from(public, allow_weak=allow_weak)
        if "value_bits" not in public.numbers:
            raise BadCiphertext(
                "The public keys do not say how large results may be.",
                "They need the number value_bits.",
                "Run the same version on both sides.",
            )
        self.value_bits = public.numbers["value_bits"]
        self._input_bits = public.numbers.get("input_bits", 0)
        self._packing = _packing(self._key, self.value_bits)

    def __repr__(self) -> str:
        return f"<Paillier matrix evaluator, {self._key.key_bits} bits>"

    def masks(self, shape: tuple[int, int]) -> BigArray:
        """Fresh masks from the operating system that hide any result of ``value_bits``."""
        count = shape[0] * shape[1]
        return big_array(random_integers(self.value_bits + MASK_EXTRA_BITS, count)).reshape(shape)

    def left_multiply(
        self, encrypted: Ciphertexts, weights: npt.ArrayLike, mask: npt.ArrayLike
    ) -> Ciphertexts:
        """Return encrypted ``weights @ P + mask``, re-randomised.

        Parameters
        ----------
        encrypted : Ciphertexts
            The rows of ``P`` (m x L) from the owner.
        weights : array-like of int, shape (q, m)
        mask : array-like of int, shape (q, L)
            From :meth:`masks`; zeros reveal the product itself.
        """
        factors = _integers(weights, self.value_bits, "weights")
        masks = _integers(mask, self.value_bits + MASK_EXTRA_BITS, "masks")
        n_inner, n_pieces = self._check(factors, masks, np.shape(weights))
        ciphertexts = self._key.unseal(encrypted, n_inner * n_pieces)
        by_piece = [
            self._combine(ciphertexts[piece::n_pieces], factors) for piece in range(n_pieces)
        ]
        size = self._packing.n_digits
        leaving = [
            self._key.add_plain(
                by_piece[piece][row], self._packing.pack(line[piece * size : (piece + 1) * size])
            )
            for row, line in enumerate(masks)
            for piece in range(n_pieces)
        ]
        return self._key.seal(self._key.rerandomise_many(leaving))

    def _combine(self, bases: list[mpz], factors: list[list[int]]) -> list[mpz]:
        """One piece of every row of the product; all rows share the tables of the bases."""
        longest = max((abs(f).bit_length() for row in factors for f in row), default=0)
        window = straus_window(max(longest, 1), len(factors))
        tables = StrausTables(bases, self._key.n, window)
        return [tables.product(row) for row in factors]

    def _check(
        self, factors: list[list[int]], masks: list[list[int]], shape: tuple[int, ...]
    ) -> tuple[int, int]:
        """Compare shapes and prove that nothing overflows; return inner size and pieces."""
        if len(factors) != len(masks):
            raise ParameterError(
                f"{len(factors)} rows of weights and {len(masks)} rows of masks.",
                "Every row of the result needs its mask.",
                "Draw the masks with masks(shape of the result).",
            )
        largest = max((sum(map(abs, row)) for row in factors), default=0)
        if largest << self._input_bits > 1 << self.value_bits:
            raise FixedPointOverflow(
                f"Weights of shape {shape} can give results beyond {self.value_bits} bits.",
                "Row sums of their sizes, times the size of the inputs, must stay below.",
                "Use fewer fraction bits or agree on more value bits.",
            )
        length = len(masks[0]) if masks else 0
        return shape[1], -(-length // self._packing.n_digits)
