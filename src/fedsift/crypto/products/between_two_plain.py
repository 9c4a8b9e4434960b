# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""K5 without encryption: the same shares and masks modulo the same primes, in the clear."""

from __future__ import annotations

import numpy as np

from fedsift.crypto.modular import Residues
from fedsift.crypto.products.between_two import Small, moduli
from fedsift.crypto.products.shares import Residue
from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.errors import BadCiphertext

SCHEME = "plain"
_LIMB = np.uint64(20)
_LOW = np.uint64((1 << 20) - 1)


def small_product(table: Small, numbers: Residues) -> Residues:
    """A table of small integers times residues (n_primes, n_columns, n), exact in floating point.

    Entries of the table have 12 bits at most, so that sums over a million columns fit 53 bits.

    Examples
    --------
    >>> ring = Residue(moduli())
    >>> product = small_product(np.array([[2, -3]]), ring.of(np.array([[10**12], [7]])))
    >>> ring.signed(product).tolist()
    [[1999999999979]]
    """
    factors = table.astype(np.float64)
    found = []
    for part, prime in zip(numbers, moduli(), strict=True):
        high = factors @ (part >> _LIMB).astype(np.float64)
        low = factors @ (part & _LOW).astype(np.float64)
        folded = (high.astype(np.int64) % prime) << np.int64(20)
        found.append(((folded + low.astype(np.int64)) % prime).astype(np.uint64))
    return np.stack(found)


class PlainTwoPartyOwner:
    """See :class:`fedsift.crypto.products.between_two.TwoPartyOwner`."""

    def __init__(self) -> None:
        self.keys = PublicKeys(SCHEME, {}, ())

    def seal(self, vector: Residues) -> Ciphertexts:
        """Write numbers."""
        return _write(vector)

    def open(self, sealed: Ciphertexts, length: int) -> Residues:
        """Read numbers."""
        return _read(sealed, (length,))

    def seal_matrix(self, matrix: Residues) -> Ciphertexts:
        """Write a matrix."""
        return _write(matrix)

    def open_product(self, sealed: Ciphertexts, n_outputs: int, n_samples: int) -> Residues:
        """Read a product."""
        return _read(sealed, (n_outputs, n_samples))


class PlainTwoPartyEvaluator:
    """See :class:`fedsift.crypto.products.between_two.TwoPartyEvaluator`."""

    def __init__(self, keys: PublicKeys) -> None:
        if keys.numbers or keys.blobs:
            raise _unexpected(keys.scheme)
        self._ring = Residue(moduli())

    def load(self, sealed: Ciphertexts, length: int) -> Residues:
        """Read numbers."""
        return _read(sealed, (length,))

    def add_product(self, total: Residues | None, loaded: Residues, factor: Residues) -> Residues:
        """Add products number by number."""
        product = self._ring.multiply(loaded, factor)
        return product if total is None else self._ring.add(total, product)

    def finish(self, total: Residues | None, mask: Residues) -> Ciphertexts:
        """Add masks."""
        return _write(mask if total is None else self._ring.add(total, mask))

    def times(self, table: Small, sealed: Ciphertexts, mask: Residues) -> Ciphertexts:
        """``table r + mask``."""
        matrix = _read(sealed, (table.shape[1], mask.shape[2]))
        return _write(self._ring.add(small_product(table, matrix), mask))


def _write(numbers: Residues) -> Ciphertexts:
    return Ciphertexts(SCHEME, (np.ascontiguousarray(numbers, dtype="<u8").tobytes(),))


def _read(sealed: Ciphertexts, shape: tuple[int, ...]) -> Residues:
    primes = np.array(moduli(), dtype=np.uint64)
    expected = 8 * len(primes) * int(np.prod(shape))
    if sealed.scheme != SCHEME or [len(blob) for blob in sealed.blobs] != [expected]:
        raise _unexpected(sealed.scheme)
    numbers = np.frombuffer(sealed.blobs[0], "<u8").astype(np.uint64).reshape(len(primes), *shape)
    if (numbers.reshape(len(primes), -1) >= primes[:, None]).any():
        raise _unexpected(sealed.scheme)
    return numbers


def _unexpected(scheme: str) -> BadCiphertext:
    return BadCiphertext(
        f"Something of scheme {scheme[:12]!r} came in that does not belong to these products.",
        f"Scheme {SCHEME!r} and the agreed shapes are needed.",
        "Check that all parties run the same version of fedsift and the same job.",
    )
