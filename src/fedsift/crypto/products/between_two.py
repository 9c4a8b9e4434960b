# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""K5: products of numbers that two parties share, in one exchange and without opening anything.

A shared number is ``x = x1 + x2`` modulo a product of primes, and each share alone is uniform. The
*owner* of a key encrypts numbers, the *evaluator* multiplies them with numbers of its own, adds
masks that it keeps, and returns them. Two kinds of products, under BGV, Paillier or in the clear:

- number by number: ``sum of [a] * b + mask``, as many terms as wanted;
- a table of small integers times an encrypted matrix, ``table [r] + mask``.

The second is meant for tables that do not change. The owner draws ``r`` at random and long before
it is needed, for many uses at once; whoever then has ``x`` to multiply sends ``x - r`` in the
clear, and ``table x`` is shared without any further encryption. The matrix has one ciphertext per
row, so a product is a sum of ciphertexts with small integer factors: nothing is rotated or encoded,
and it costs little more than the same product of open numbers.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from fedsift.crypto.kernels import check_ring_strength, check_scheme
from fedsift.crypto.modular import Residues
from fedsift.crypto.schemes.seal import plain_primes
from fedsift.crypto.wire import Ciphertexts, PublicKeys

SCHEMES = ("bgv", "paillier", "plain")
PRIME_BITS = 40
N_PRIMES = 2
DEGREE = 8192
WIDEST = 256
"""Columns of a table at a time: its noise, and the size of messages."""

TABLE_BITS = 11
"""Of an entry of a table, without its sign."""

Small = npt.NDArray[np.int64]
Table = Small
Loaded = Any


@cache
def moduli() -> tuple[int, ...]:
    """The primes that shared numbers are kept by; their product has 80 bits."""
    return plain_primes(DEGREE, PRIME_BITS, N_PRIMES)


class TwoPartyOwner(Protocol):
    """Holds the key and one share of everything."""

    keys: PublicKeys

    def seal(self, vector: Residues) -> Ciphertexts:
        """Encrypt numbers, shape (n_primes, length)."""
        ...

    def open(self, sealed: Ciphertexts, length: int) -> Residues:
        """Decrypt numbers, shape (n_primes, length)."""
        ...

    def seal_matrix(self, matrix: Residues) -> Ciphertexts:
        """Encrypt a matrix to be multiplied, shape (n_primes, n_inputs, n_samples)."""
        ...

    def open_product(self, sealed: Ciphertexts, n_outputs: int, n_samples: int) -> Residues:
        """Decrypt a product with a table, shape (n_primes, n_outputs, n_samples)."""
        ...


class TwoPartyEvaluator(Protocol):
    """Computes under somebody else's key, and keeps the masks."""

    def load(self, sealed: Ciphertexts, length: int) -> Loaded:
        """Check and read encrypted numbers."""
        ...

    def add_product(self, total: Loaded | None, loaded: Loaded, factor: Residues) -> Loaded:
        """Add ``[a] * b`` number by number."""
        ...

    def finish(self, total: Loaded | None, mask: Residues) -> Ciphertexts:
        """Add masks, shape (n_primes, length), and hide how the result came about."""
        ...

    def times(self, table: Table, sealed: Ciphertexts, mask: Residues) -> Ciphertexts:
        """``table [r] + mask``, the table of shape (n_outputs, n_inputs)."""
        ...


def own_products(scheme: str, *, security_bits: int = 128) -> TwoPartyOwner:
    """Make keys for products of shared numbers and with tables."""
    from fedsift.crypto.products.between_two_bgv import BGVTwoPartyOwner
    from fedsift.crypto.products.between_two_paillier import PaillierTwoPartyOwner
    from fedsift.crypto.products.between_two_plain import PlainTwoPartyOwner

    check_scheme(scheme, SCHEMES)
    if scheme == "paillier":
        return PaillierTwoPartyOwner(security_bits)
    if scheme == "plain":
        return PlainTwoPartyOwner()
    check_ring_strength("BGV", security_bits)
    return BGVTwoPartyOwner()


def join_products(keys: PublicKeys) -> TwoPartyEvaluator:
    """Check the owner's keys before any computation."""
    from fedsift.crypto.products.between_two_bgv import BGVTwoPartyEvaluator
    from fedsift.crypto.products.between_two_paillier import PaillierTwoPartyEvaluator
    from fedsift.crypto.products.between_two_plain import PlainTwoPartyEvaluator

    check_scheme(keys.scheme, SCHEMES)
    if keys.scheme == "paillier":
        return PaillierTwoPartyEvaluator(keys)
    if keys.scheme == "plain":
        return PlainTwoPartyEvaluator(keys)
    return BGVTwoPartyEvaluator(keys)
