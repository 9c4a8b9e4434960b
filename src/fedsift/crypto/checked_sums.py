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
proves to the parties by ``t S`` and ``t a S``, with a ``t`` of its own: no pair that is not
``(0, 0)`` can be found from ``(0, 0)`` without knowing ``a``. It proves nothing where it says that
a count is small, which only hides more.
"""

from __future__ import annotations

import hmac

import numpy as np
import numpy.typing as npt

from fedsift.crypto.masking import masks_modulo
from fedsift.crypto.modular import uniform_below
from fedsift.errors import WrongTotals

PRIME = (1 << 31) - 1
"""Products of two residues fit a word of 64 bits. Sums must stay below it."""

_HALF = 32
_ORDER_MODULUS = (1 << 47) - 115

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


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
        proof = hidden * self._draw(f"proof: {context}", len(place), PRIME) % PRIME
        return np.concatenate([hidden, proof]).astype(np.int64)

    def check_small(
        self, small: Flags, proofs: npt.NDArray[np.uint64], smallest: Integers, context: str
    ) -> None:
        """Refuse a claim that counts are not small unless it is proved."""
        place, _ = _comparisons(smallest)
        tried = ~small[place] if len(small) == len(smallest) else None
        if tried is None or proofs.shape != (2, int(tried.sum())):
            raise _wrong_totals()
        hidden, proof = proofs
        factor = self._draw(f"proof: {context}", len(place), PRIME)[tried]
        if not ((hidden > 0) & (hidden < PRIME)).all() or (hidden * factor % PRIME != proof).any():
            raise _wrong_totals()

    def _tag(self, counts: Integers, context: str, *, constant: bool) -> int:
        *factors, shift = self._draw(f"tag: {context}", len(counts) + 1, PRIME)
        products = (counts % PRIME).astype(np.uint64) * np.array(factors, dtype=np.uint64) % PRIME
        return int((int(products.sum()) + constant * int(shift)) % PRIME)

    def _draw(self, context: str, count: int, modulus: int) -> npt.NDArray[np.uint64]:
        return masks_modulo(self._secret, context, (count,), modulus)


def small_counts(hidden: Integers, smallest: Integers) -> Flags:
    """Which counts lie between 1 and their minimum less 1, from the sums of all parts."""
    place, _ = _comparisons(smallest)
    small = np.zeros(len(smallest), dtype=np.bool_)
    small[place[hidden[: len(place)] % PRIME == 0]] = True
    return small


def prove_not_small(hidden: Integers, small: Flags, smallest: Integers) -> npt.NDArray[np.uint64]:
    """What convinces the parties that all other counts are not small, and tells no more."""
    place, _ = _comparisons(smallest)
    pairs = (hidden.reshape(2, -1) % PRIME).astype(np.uint64)[:, ~small[place]]
    factor = 1 + uniform_below(PRIME - 1, pairs.shape[1])
    return pairs * factor % PRIME


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
    times = np.maximum(smallest - 1, 0)
    place = np.repeat(np.arange(len(smallest)), times)
    starts = np.repeat(np.cumsum(times) - times, times)
    return place, np.arange(len(place)) - starts + 1


def _wrong_totals() -> WrongTotals:
    return WrongTotals(
        "Totals arrived that are not the sums over all members.",
        "Totals carry a proof under a secret that the members share and the coordinator does not.",
        "Nothing more was sent. Whoever passes totals on tampers with the run: find out who runs "
        "the hub, or run the job again over another one.",
    )
