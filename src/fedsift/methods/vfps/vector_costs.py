# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Cost of encrypted vectors that others add up (:mod:`fedsift.methods.vfps.blinding`)."""

from __future__ import annotations

import math
from typing import Protocol

from fedsift.costs.counts import Counts, PaillierWork, Ring
from fedsift.crypto.vectors.bgv import plan_vector
from fedsift.crypto.wire import PublicKeys
from fedsift.methods.vfps.blinding import FACTOR_BITS, VALUE_BITS

_PRIVATE_PRODUCTS = FACTOR_BITS + FACTOR_BITS / 2 + 2
"""Multiplications of one blinding under Paillier: a short power, and a known number added."""


class Vectors(Protocol):
    """Vectors of one scheme: sizes on the wire and work at all sides."""

    step: int
    """Segments start at multiples of this."""

    keys: PublicKeys
    """Public numbers, without the keys themselves."""

    key_bytes: list[int]

    def fresh(self, length: int) -> tuple[int, int]:
        """Number and bytes of the ciphertexts of one vector."""
        ...

    def result(self, length: int) -> tuple[int, int]:
        """The same after a blinded sum."""
        ...

    def set_up(self, n_evaluators: int) -> None:
        """The owner makes keys, the others read them."""
        ...

    def encrypt(self, length: int, n_vectors: int) -> None:
        """Participants encrypt, the aggregator reads."""
        ...

    def blind(self, length: int, n_sums: int, n_terms: int) -> None:
        """Sums over so many vectors in all, each with factors and offsets."""
        ...

    def decrypt(self, length: int, n_sums: int) -> None:
        """The owner opens them."""
        ...


class SealVectors:
    """Under BGV or BFV."""

    step = 1

    def __init__(self, tally: Counts, scheme: str) -> None:
        self._plan = plan_vector(scheme, VALUE_BITS)
        self._n_primes = len(self._plan.parameters)
        self._ring = Ring(tally, self._plan.parameters[0])
        self.keys = PublicKeys(scheme, self._plan.numbers, ())
        self.key_bytes = [self._ring.public_key_bytes] * self._n_primes

    def _count(self, length: int) -> int:
        return self._n_primes * self._plan.n_chunks(max(1, length))

    def fresh(self, length: int) -> tuple[int, int]:
        """See :class:`Vectors`."""
        return self._count(length), self._ring.fresh_bytes

    def result(self, length: int) -> tuple[int, int]:
        """See :class:`Vectors`."""
        return self._count(length), self._ring.result_bytes

    def set_up(self, n_evaluators: int) -> None:
        """See :class:`Vectors`."""
        for _ in range(self._n_primes):
            self._ring.make_keys("encrypt", 0)
            self._ring.do("encrypt", "switch key read", n_evaluators / 3)

    def encrypt(self, length: int, n_vectors: int) -> None:
        """See :class:`Vectors`."""
        self._ring.do("encrypt", "encrypt public", n_vectors * self._count(length))
        self._ring.do("evaluate", "load", n_vectors * self._count(length))

    def blind(self, length: int, n_sums: int, n_terms: int) -> None:
        """See :class:`Vectors`; additions take next to no time."""
        for operation, times in (("factor", 2), ("multiply", 2), ("hide", 1)):
            self._ring.do("evaluate", operation, times * n_sums * self._count(length))

    def decrypt(self, length: int, n_sums: int) -> None:
        """See :class:`Vectors`."""
        self._ring.do("decrypt", "decrypt", n_sums * self._count(length))


class PaillierVectors:
    """Under Paillier: numbers are packed, and every query begins a new ciphertext."""

    def __init__(self, tally: Counts, security_bits: int) -> None:
        self._work = PaillierWork(tally, security_bits)
        self._tally = tally
        bits = self._work.key_bits
        self.step = (bits - 2) // (VALUE_BITS + 1)
        numbers = {"key_bits": bits, "security_bits": security_bits, "value_bits": VALUE_BITS}
        self.keys = PublicKeys("paillier", numbers, ())
        self.key_bytes = [self._work.public_key_bytes]
        self._evaluators_began = False

    def fresh(self, length: int) -> tuple[int, int]:
        """See :class:`Vectors`."""
        return math.ceil(length / self.step), self._work.ciphertext_bytes

    result = fresh

    def set_up(self, n_evaluators: int) -> None:
        """See :class:`Vectors`; the owner checks its own key too."""
        self._work.do("encrypt", "key")
        self._work.do("encrypt", "join", n_evaluators + 1)
        self._work.do("evaluate", "tables", 0.5)
        # All but the aggregator encrypt, each with a table of its own.
        self._work.do("encrypt", "tables public", n_evaluators - 1)

    def encrypt(self, length: int, n_vectors: int) -> None:
        """See :class:`Vectors`."""
        self._work.do("encrypt", "encrypt public", n_vectors * self.fresh(length)[0])
        self._tally.do("encrypt", "pack number", n_vectors * length)

    def blind(self, length: int, n_sums: int, n_terms: int) -> None:
        """See :class:`Vectors`; every step reads its ciphertexts anew."""
        count = self.fresh(length)[0]
        self._work.do("evaluate", "unseal", (n_terms + 3 * n_sums) * count)
        products = (n_terms - n_sums) + _PRIVATE_PRODUCTS * n_sums
        self._work.do("evaluate", "merge", products * count)
        self._work.do("evaluate", "rerandomise", n_sums * count)
        self._tally.do("evaluate", "pack number", n_sums * length)

    def decrypt(self, length: int, n_sums: int) -> None:
        """See :class:`Vectors`."""
        self._work.do("decrypt", "decrypt", n_sums * self.fresh(length)[0])
        self._tally.do("decrypt", "pack number", n_sums * length)


class PlainVectors:
    """Without encryption: six bytes per number."""

    step = 1
    _WIDTH = VALUE_BITS // 8 + 1

    def __init__(self, tally: Counts) -> None:
        self._tally = tally
        self.keys = PublicKeys("plain", {"value_bits": VALUE_BITS, "security_bits": 0}, ())
        self.key_bytes: list[int] = []

    def fresh(self, length: int) -> tuple[int, int]:
        """See :class:`Vectors`."""
        return 1, self._WIDTH * length

    result = fresh

    def set_up(self, n_evaluators: int) -> None:
        """See :class:`Vectors`: there are no keys."""

    def encrypt(self, length: int, n_vectors: int) -> None:
        """See :class:`Vectors`."""
        self._tally.do("encrypt", "open number", n_vectors * length)
        self._tally.do("evaluate", "open number", n_vectors * length)

    def blind(self, length: int, n_sums: int, n_terms: int) -> None:
        """See :class:`Vectors`."""
        self._tally.do("evaluate", "open number", (n_sums + n_terms / 4) * length)

    def decrypt(self, length: int, n_sums: int) -> None:
        """See :class:`Vectors`."""
        self._tally.do("decrypt", "open number", n_sums * length)


def vectors_of(tally: Counts, scheme: str, security_bits: int) -> Vectors:
    """The kernel of a scheme."""
    if scheme == "plain":
        return PlainVectors(tally)
    if scheme == "paillier":
        return PaillierVectors(tally, security_bits)
    return SealVectors(tally, scheme)
