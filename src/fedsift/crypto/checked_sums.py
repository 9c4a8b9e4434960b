# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Sums over parties that all of them can check, and small ones that nobody gets to see.

Parties add up counts under masks (:mod:`fedsift.crypto.masking`) by way of a collector, who may
lie. They share a secret that the collector does not know, drawn anew for every run.

A tag comes with sums that are opened: ``sum_j a_j T_j + b`` modulo a prime, with ``a`` and ``b``
from the secret. Parties add their parts of it under masks too. Whoever does not know ``a`` finds
the tag of other sums with a chance of one in two billion, and a wrong one ends the run.

A hidden count ``T`` is only compared with a minimum. For each ``k`` from 1 to the minimum less 1,
in a secret order, parties send their parts of ``S = r (T - k)`` and of ``a S``, with ``r`` from 1
on. ``S`` is 0 if the count is ``k``, and otherwise any number but 0 alike: the collector learns
whether the count is small, and neither its value nor the ``k``. That a count is *not* small it
proves to the parties by knowing ``a``, which follows from ``S`` and ``a S`` unless both are 0; one
digest of all of them is enough. It proves nothing where it says that a count is small, which only
hides more.

With a minimum of 0 the question is whether the count is 0. Then ``S = r T`` comes with
``b S + a``: the collector knows ``a`` if ``S`` is 0, and proves that in the same way; otherwise the
count is flagged, which needs no proof.
"""

from __future__ import annotations

import hashlib
import hmac

import numpy as np
import numpy.typing as npt

from fedsift.crypto.masking import masks_modulo
from fedsift.errors import WrongTotals

PRIME = (1 << 31) - 1
"""Products of two residues fit a word of 64 bits. Sums must stay below it."""

_HALF = 32
_ORDER_MODULUS = (1 << 47) - 115
_INVERSE = PRIME - 2
"""Numbers to this power are inverses modulo the prime."""

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Residues = npt.NDArray[np.uint64]


class CheckedSums:
    """What one of the parties that share the secret adds to its counts, and what it checks.

    Parameters
    ----------
    secret : bytes
    first : bool
        Whether this party adds the constants; exactly one does.

    Examples
    --------
    >>> ann, bob = CheckedSums(bytes(32), first=True), CheckedSums(bytes(32), first=False)
    >>> counts = np.array([3, 4]), np.array([0, 1])
    >>> sums = sum(p.with_tag(c, "ages") for p, c in zip((ann, bob), counts)) % PRIME
    >>> bob.check(sums[:-1], int(sums[-1]), "ages")
    >>> smallest = np.array([5, 5])
    >>> hidden = sum(p.hide(c, smallest, "few") for p, c in zip((ann, bob), counts)) % PRIME
    >>> small = small_counts(hidden, smallest)
    >>> small
    array([ True, False])
    >>> bob.check_small(small, prove_not_small(hidden, small, smallest), smallest, "few")
    >>> len(prove_not_small(hidden, small, smallest))
    4
    """

    def __init__(self, secret: bytes, *, first: bool) -> None:
        self._secret, self._first = secret, first

    def __repr__(self) -> str:
        return "<checked sums>"

    def with_tag(self, counts: Integers, context: str) -> Integers:
        """This party's counts, and behind them its part of their tag."""
        return np.append(counts, self._tag(counts, context, constant=self._first))

    def check(self, totals: Integers, tag: int, context: str) -> None:
        """Refuse sums that are not those of all parties."""
        if totals.size and not 0 <= totals.min() <= totals.max() < PRIME:
            raise _wrong_totals()
        right = self._tag(totals, context, constant=True)
        if not hmac.compare_digest(int(right).to_bytes(8), (int(tag) % PRIME).to_bytes(8)):
            raise _wrong_totals()

    def hide(self, counts: Integers, smallest: Integers, context: str) -> Integers:
        """This party's part of the comparison of counts, each with a minimum of its own."""
        place, number = _comparisons(smallest)
        order = self._draw(f"order: {context}", len(place), _ORDER_MODULUS)
        number = number[np.lexsort((order, place))]
        factor = 1 + self._draw(f"factor: {context}", len(place), PRIME - 1)
        shifted = (counts[place] - number * self._first) % PRIME
        hidden = shifted.astype(np.uint64) * factor % PRIME
        key, other = self._keys(context, len(place))
        none = number == 0
        proof = hidden * np.where(none, other, key) + key * none * self._first
        return np.concatenate([hidden, proof % PRIME]).astype(np.int64)

    def check_small(
        self, small: Flags, proof: npt.NDArray[np.uint64], smallest: Integers, context: str
    ) -> None:
        """Refuse a claim that counts are not small unless it is proved."""
        if len(small) != len(smallest):
            raise _wrong_totals()
        place, _ = _comparisons(smallest)
        known = self._keys(context, len(place))[0][~small[place]]
        if not hmac.compare_digest(proof.tobytes(), _digest(known).tobytes()):
            raise _wrong_totals()

    def _keys(self, context: str, count: int) -> tuple[Residues, Residues]:
        """What a collector can only know of a count that is not small, and what hides it if not."""
        drawn = self._draw(f"proof: {context}", 2 * count, PRIME)
        return drawn[:count], drawn[count:]

    def _tag(self, counts: Integers, context: str, *, constant: bool) -> int:
        *factors, shift = self._draw(f"tag: {context}", len(counts) + 1, PRIME)
        products = (counts % PRIME).astype(np.uint64) * np.array(factors, dtype=np.uint64) % PRIME
        return int((int(products.sum()) + constant * int(shift)) % PRIME)

    def _draw(self, context: str, count: int, modulus: int) -> Residues:
        return masks_modulo(self._secret, context, (count,), modulus)


def small_counts(hidden: Integers, smallest: Integers) -> Flags:
    """Which counts :func:`are_small`, from the sums of all parts."""
    place, _ = _comparisons(smallest)
    found = np.zeros(len(smallest), dtype=np.bool_)
    found[place[hidden[: len(place)] % PRIME == 0]] = True
    return np.asarray(found ^ (smallest == 0))


def are_small(counts: Integers, smallest: Integers) -> Flags:
    """Which counts lie between 1 and their minimum less 1; with a minimum of 0, are not 0.

    Examples
    --------
    >>> are_small(np.array([0, 4, 5, 0, 9]), np.array([5, 5, 5, 0, 0]))
    array([False,  True, False, False,  True])
    """
    return np.asarray((counts > 0) & ((counts < smallest) | (smallest == 0)))


def prove_not_small(hidden: Integers, small: Flags, smallest: Integers) -> Residues:
    """What convinces the parties that all other counts are not small, and tells no more."""
    place, number = _comparisons(smallest)
    shown, proof = (hidden.reshape(2, -1) % PRIME).astype(np.uint64)
    keys = np.where(number == 0, proof, proof * _inverse(shown) % PRIME)
    return _digest(keys[~small[place]])


def _inverse(numbers: Residues) -> Residues:
    """Inverses modulo the prime; 0 of 0."""
    result = np.ones_like(numbers)
    for bit in f"{_INVERSE:b}":
        result = result * result % PRIME
        if bit == "1":
            result = result * numbers % PRIME
    return result


def _digest(keys: Residues) -> Residues:
    return np.frombuffer(hashlib.sha256(keys.astype("<u8").tobytes()).digest(), "<u8").copy()


def pack(residues: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Two residues in each word, those of the first half above those of the second.

    Examples
    --------
    >>> unpack(pack(np.array([1, 2, 3], dtype=np.uint64)))
    array([1, 2, 3, 0], dtype=uint64)
    """
    even = np.append(residues, np.zeros(len(residues) % 2, dtype=np.uint64))
    first, second = even.reshape(2, -1)
    return first << np.uint64(_HALF) | second


def unpack(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Inverse of :func:`pack`, with a zero behind an odd number of residues."""
    low = np.uint64((1 << _HALF) - 1)
    return np.concatenate([words >> np.uint64(_HALF), words & low])


def _comparisons(smallest: Integers) -> tuple[Integers, Integers]:
    """Place of the count of each comparison, and the number it is compared with."""
    times = np.where(smallest == 0, 1, np.maximum(smallest - 1, 0))
    place = np.repeat(np.arange(len(smallest)), times)
    starts = np.repeat(np.cumsum(times) - times, times)
    return place, np.arange(len(place)) - starts + (smallest[place] > 0)


def _wrong_totals() -> WrongTotals:
    return WrongTotals(
        "Totals arrived that are not the sums over all members.",
        "Totals carry a proof under a secret that the members share and the coordinator does not.",
        "Nothing more was sent. Whoever passes totals on tampers with the run: find out who runs "
        "the hub, or run the job again over another one.",
    )
