# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Vector sums with Paillier: sums of encrypted integer vectors.

A vector is packed, many signed entries per ciphertext. Whoever holds the public key can add
vectors, add known ones, scale and re-randomise; only the owner decrypts. ``value_bits`` bounds
every intermediate result, so that no entry ever runs into its neighbour; who computes answers
for it, since ciphertexts do not show their size.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy.typing as npt

from fedsift.crypto.columns.api import BigArray
from fedsift.crypto.columns.plain import big_array
from fedsift.crypto.fixed_point import SignedPacking
from fedsift.crypto.schemes.paillier import (
    PaillierPrivateKey,
    PaillierPublicKey,
    public_key_from,
    public_keys_of,
)
from fedsift.crypto.vectors.api import check_bits, check_factor, whole_numbers
from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.errors import BadCiphertext, ParameterError


class _VectorPacking:
    """Vectors of signed integers below ``2**value_bits`` in size, cut into plaintexts."""

    def __init__(self, public: PaillierPublicKey, value_bits: int) -> None:
        digit_bits = value_bits + 1
        if value_bits < 1 or digit_bits > public.plaintext_bits:
            raise ParameterError(
                f"Values of {value_bits} bits were asked for.",
                f"A digit of {digit_bits} bits must fit {public.plaintext_bits} plaintext bits.",
                "Use fewer value bits or a longer key.",
            )
        self.value_bits = value_bits
        self.digits = SignedPacking(digit_bits, public.plaintext_bits // digit_bits)

    def n_ciphertexts(self, length: int) -> int:
        return -(-length // self.digits.n_digits)

    def pack(self, vector: npt.ArrayLike) -> list[int]:
        numbers = whole_numbers(vector, self.value_bits)
        size = self.digits.n_digits
        chunks = range(0, len(numbers), size)
        return [self.digits.pack(numbers[start : start + size]) for start in chunks]

    def unpack(self, packed: list[int], length: int) -> list[int]:
        size = self.digits.n_digits
        numbers = [
            digit
            for start, number in zip(range(0, length, size), packed, strict=True)
            for digit in self.digits.unpack(number, min(size, length - start))
        ]
        check_bits(numbers, self.value_bits)
        return numbers


class PaillierVectorOwner:
    """The party that decrypts the sums.

    Parameters
    ----------
    value_bits : int
        Every entry of every intermediate result is smaller than ``2**value_bits`` in size.
    key_bits : int
    key : PaillierPrivateKey, optional
        An existing key, in place of a new one of ``key_bits``.
    """

    def __init__(
        self, value_bits: int, key_bits: int = 3072, *, key: PaillierPrivateKey | None = None
    ) -> None:
        self._key = key or PaillierPrivateKey.generate(key_bits)
        self._packing = _VectorPacking(self._key.public, value_bits)
        self.keys: PublicKeys = public_keys_of(self._key.public, value_bits=value_bits)

    def __repr__(self) -> str:
        return f"<Paillier vector owner, {self._key.public.key_bits} bits>"

    def encrypt(self, vector: npt.ArrayLike) -> Ciphertexts:
        """Encrypt a vector of signed integers."""
        return self._key.public.seal(self._key.encrypt_many(self._packing.pack(vector)))

    def decrypt(self, sealed: Ciphertexts, length: int) -> BigArray:
        """Decrypt a vector of the given length to exact integers."""
        ciphertexts = self._key.public.unseal(sealed, self._packing.n_ciphertexts(length))
        return big_array(self._packing.unpack(self._key.decrypt_many(ciphertexts), length))


class PaillierVectorEvaluator:
    """A party that computes under somebody else's key.

    Sums and multiples are not re-randomised one by one: call :meth:`rerandomise` once, before
    the result leaves for the owner.

    Parameters
    ----------
    keys : PublicKeys
    value_bits : int
        As agreed with the owner.
    allow_weak : bool
        Accept short keys, for tests.
    """

    def __init__(self, keys: PublicKeys, value_bits: int, *, allow_weak: bool = False) -> None:
        self._key = public_key_from(keys, allow_weak=allow_weak)
        if keys.numbers.get("value_bits") != value_bits:
            raise BadCiphertext(
                "The owner's keys announce other value bits.",
                f"{value_bits} were agreed.",
                "Run the same job on both sides.",
            )
        self._packing = _VectorPacking(self._key, value_bits)

    def __repr__(self) -> str:
        return f"<Paillier vector evaluator, {self._key.key_bits} bits>"

    def encrypt(self, vector: npt.ArrayLike) -> Ciphertexts:
        """Encrypt a vector under the owner's key."""
        return self._key.seal(self._key.encrypt_many(self._packing.pack(vector)))

    def add(self, vectors: Sequence[Ciphertexts]) -> Ciphertexts:
        """Sum of encrypted vectors of equal length."""
        if not vectors:
            raise ParameterError(
                "No vectors to add.", "A sum needs one at least.", "Pass the vectors in a list."
            )
        n_ciphertexts = len(vectors[0].blobs)
        total, *others = [self._key.unseal(vector, n_ciphertexts) for vector in vectors]
        for other in others:
            total = [self._key.add(a, b) for a, b in zip(total, other, strict=True)]
        return self._key.seal(total)

    def add_plain(self, encrypted: Ciphertexts, vector: npt.ArrayLike) -> Ciphertexts:
        """Sum of an encrypted and a known vector."""
        packed = self._packing.pack(vector)
        ciphertexts = self._key.unseal(encrypted, len(packed))
        pairs = zip(ciphertexts, packed, strict=True)
        return self._key.seal([self._key.add_plain(c, number) for c, number in pairs])

    def scale(self, encrypted: Ciphertexts, factor: int) -> Ciphertexts:
        """Multiple of an encrypted vector by a positive integer."""
        check_factor(factor, self._packing.value_bits)
        ciphertexts = self._key.unseal(encrypted, len(encrypted.blobs))
        return self._key.seal([self._key.multiply(c, factor) for c in ciphertexts])

    def rerandomise(self, encrypted: Ciphertexts) -> Ciphertexts:
        """Hide from the owner how the vector was computed."""
        ciphertexts = self._key.unseal(encrypted, len(encrypted.blobs))
        return self._key.seal(self._key.rerandomise_many(ciphertexts))
