# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Vector sums without encryption: the same interface and limits, for tests and for reading."""

from __future__ import annotations

from collections.abc import Sequence

import numpy.typing as npt

from fedsift.crypto.columns.api import BigArray
from fedsift.crypto.columns.plain import big_array
from fedsift.crypto.vectors.api import check_bits, check_factor, whole_numbers
from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.errors import BadCiphertext, ParameterError

SCHEME = "plain"


class _Numbers:
    """Signed integers below ``2**value_bits`` in size, as bytes of equal width."""

    def __init__(self, value_bits: int) -> None:
        if value_bits < 1:
            raise ParameterError(
                f"Values of {value_bits} bits were asked for.",
                "One bit at least is needed.",
                "Agree on more value bits.",
            )
        self.value_bits = value_bits
        self._width = value_bits // 8 + 1

    def write(self, vector: npt.ArrayLike) -> Ciphertexts:
        """Check a vector and turn it into bytes."""
        numbers = whole_numbers(vector, self.value_bits)
        blob = b"".join(n.to_bytes(self._width, "little", signed=True) for n in numbers)
        return Ciphertexts(SCHEME, (blob,))

    def read(self, sealed: Ciphertexts, length: int | None = None) -> BigArray:
        """Numbers of a vector, of the given length if there is one."""
        size = len(sealed.blobs[0]) if len(sealed.blobs) == 1 else -1
        wanted = size if length is None else length * self._width
        if sealed.scheme != SCHEME or size != wanted or size % self._width:
            raise BadCiphertext(
                f"{len(sealed.blobs)} blobs of scheme {sealed.scheme[:12]!r} came in.",
                f"One of scheme {SCHEME!r} and the agreed length was expected.",
                "Run the same version and the same job on both sides.",
            )
        pieces = (sealed.blobs[0][i : i + self._width] for i in range(0, size, self._width))
        numbers = [int.from_bytes(piece, "little", signed=True) for piece in pieces]
        check_bits(numbers, self.value_bits)
        return big_array(numbers)


class PlainVectorOwner:
    """The party that reads the sums, without encryption."""

    def __init__(self, value_bits: int) -> None:
        self._numbers = _Numbers(value_bits)
        self.keys = PublicKeys(SCHEME, {"value_bits": value_bits, "security_bits": 0}, ())

    def encrypt(self, vector: npt.ArrayLike) -> Ciphertexts:
        """Write a vector of signed integers."""
        return self._numbers.write(vector)

    def decrypt(self, sealed: Ciphertexts, length: int) -> BigArray:
        """Read a vector of the given length."""
        return self._numbers.read(sealed, length)


class PlainVectorEvaluator:
    """A party that computes, without encryption."""

    def __init__(self, keys: PublicKeys, value_bits: int) -> None:
        if keys.scheme != SCHEME or keys.numbers.get("value_bits") != value_bits:
            raise BadCiphertext(
                "The owner's keys announce another scheme or other value bits.",
                f"Scheme {SCHEME!r} and {value_bits} bits were agreed.",
                "Run the same job on both sides.",
            )
        self._numbers = _Numbers(value_bits)

    def encrypt(self, vector: npt.ArrayLike) -> Ciphertexts:
        """Write a vector of signed integers."""
        return self._numbers.write(vector)

    def add(self, vectors: Sequence[Ciphertexts]) -> Ciphertexts:
        """Sum of vectors of equal length."""
        if not vectors:
            raise ParameterError(
                "No vectors to add.", "A sum needs one at least.", "Pass the vectors in a list."
            )
        total = self._numbers.read(vectors[0])
        for vector in vectors[1:]:
            total = total + self._numbers.read(vector, len(total))
        return self._numbers.write(total)

    def add_plain(self, encrypted: Ciphertexts, vector: npt.ArrayLike) -> Ciphertexts:
        """Sum with a known vector."""
        known = self._numbers.read(self._numbers.write(vector))
        return self._numbers.write(self._numbers.read(encrypted, len(known)) + known)

    def scale(self, encrypted: Ciphertexts, factor: int) -> Ciphertexts:
        """Multiple by a positive integer."""
        check_factor(factor, self._numbers.value_bits)
        return self._numbers.write(self._numbers.read(encrypted) * factor)

    def rerandomise(self, encrypted: Ciphertexts) -> Ciphertexts:
        """Nothing to hide: check and pass on."""
        return self._numbers.write(self._numbers.read(encrypted))
