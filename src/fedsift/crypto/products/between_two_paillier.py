# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""K5 under Paillier: one ciphertext per number, for small tables and for comparison.

Shares are integers below the product of the primes. A product is exact over the integers; a random
multiple of that modulus, 40 bits wider than the product, hides everything but the remainder.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from gmpy2 import mpz

from fedsift.crypto.columns.api import STATISTICAL_BITS, BigArray
from fedsift.crypto.modular import Residues, random_integers, recombine
from fedsift.crypto.products.between_two import PRIME_BITS, Small, moduli
from fedsift.crypto.products.plan import to_residues
from fedsift.crypto.schemes.paillier import (
    SCHEME,
    PaillierPrivateKey,
    PaillierPublicKey,
    key_bits_for,
)
from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.errors import BadCiphertext

_SUM_BITS = 2 * len(moduli()) * PRIME_BITS + 16
"""Bits of a sum of products of two shares."""


def _whole(numbers: Residues) -> BigArray:
    """Residues as integers from 0 to the modulus."""
    folded = recombine(list(numbers), moduli())
    return np.asarray(folded % math.prod(moduli()))


class PaillierTwoPartyOwner:
    """See :class:`fedsift.crypto.products.between_two.TwoPartyOwner`."""

    def __init__(self, security_bits: int) -> None:
        bits = key_bits_for(security_bits)
        self._key = PaillierPrivateKey.generate(bits)
        self.keys = PublicKeys(SCHEME, {}, (self._key.public.to_bytes(),))

    def __repr__(self) -> str:
        return f"<K5 owner, {SCHEME}>"

    def seal(self, vector: Residues) -> Ciphertexts:
        """Encrypt numbers, shape (n_primes, length)."""
        values = [int(value) for value in _whole(vector).ravel()]
        return self._key.public.seal(self._key.encrypt_many(values))

    def open(self, sealed: Ciphertexts, length: int) -> Residues:
        """Decrypt numbers, shape (n_primes, length)."""
        numbers = self._key.decrypt_many(self._key.public.unseal(sealed, length))
        return to_residues(np.array(numbers, dtype=object), moduli())

    def seal_matrix(self, matrix: Residues) -> Ciphertexts:
        """Encrypt a matrix, one row after the other."""
        return self.seal(matrix.reshape(len(matrix), -1))

    def open_product(self, sealed: Ciphertexts, n_outputs: int, n_samples: int) -> Residues:
        """Decrypt a product."""
        opened = self.open(sealed, n_outputs * n_samples)
        return opened.reshape(len(opened), n_outputs, n_samples)


class PaillierTwoPartyEvaluator:
    """See :class:`fedsift.crypto.products.between_two.TwoPartyEvaluator`."""

    def __init__(self, keys: PublicKeys) -> None:
        if keys.numbers or len(keys.blobs) != 1:
            raise BadCiphertext(
                "The public keys are others than products of shared numbers need.",
                "One Paillier key is needed.",
                "Check that all parties run the same version of fedsift and the same job.",
            )
        self._public = PaillierPublicKey.from_bytes(keys.blobs[0])

    def __repr__(self) -> str:
        return f"<K5 evaluator, {SCHEME}>"

    def load(self, sealed: Ciphertexts, length: int) -> list[mpz]:
        """Check and read encrypted numbers."""
        return self._public.unseal(sealed, length)

    def add_product(
        self, total: list[mpz] | None, loaded: list[mpz], factor: Residues
    ) -> list[mpz]:
        """Add ``[a] * b`` number by number."""
        pairs = zip(loaded, _whole(factor).ravel(), strict=True)
        products = [self._public.multiply(one, int(number)) for one, number in pairs]
        if total is None:
            return products
        return [self._public.add(*pair) for pair in zip(total, products, strict=True)]

    def finish(self, total: list[mpz] | None, mask: Residues) -> Ciphertexts:
        """Add masks and a random multiple of the modulus, and re-randomise."""
        known: Sequence[Any] = [mpz(1)] * mask[0].size if total is None else total
        return self._hidden(known, mask)

    def times(self, table: Small, sealed: Ciphertexts, mask: Residues) -> Ciphertexts:
        """Encrypted ``table r + mask``."""
        n_inputs, n_samples = table.shape[1], mask.shape[2]
        numbers = self._public.unseal(sealed, n_inputs * n_samples)
        totals = []
        for factors in table.tolist():
            for sample in range(n_samples):
                total = mpz(1)
                for one, factor in zip(numbers[sample::n_samples], factors, strict=True):
                    if factor:
                        total = self._public.add(total, self._public.multiply(one, factor))
                totals.append(total)
        return self._hidden(totals, mask.reshape(len(mask), -1))

    def _hidden(self, totals: Sequence[mpz], mask: Residues) -> Ciphertexts:
        modulus = math.prod(moduli())
        bits = _SUM_BITS + STATISTICAL_BITS - modulus.bit_length()
        multiples = random_integers(bits, len(totals))
        wanted = _whole(mask).ravel()
        masked = [
            self._public.add_plain(total, int(number) + modulus * multiple)
            for total, number, multiple in zip(totals, wanted, multiples, strict=True)
        ]
        return self._public.seal(self._public.rerandomise_many(masked))
