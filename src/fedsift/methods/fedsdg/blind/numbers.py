# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Numbers of the blind protocol: fixed point, shares of two parties, and how shares are shortened.

Every number is ``x = x1 + x2`` modulo a product of two primes (80 bits); either share alone is
uniform. Matrices have the hidden units first: (primes, units, rows) or (primes, units, columns).

*Shortening.* Each party divides its own share by a power of two and rounds; nothing is sent. The
result is the wanted quotient or one unit off, unless the shares happen to add up without passing
the modulus, which happens with probability ``|x| / 2**80``: below ``2**-36`` for a hidden value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.crypto.modular import Residues
from fedsift.crypto.products.between_two import Small, moduli
from fedsift.crypto.products.between_two_plain import small_product
from fedsift.crypto.products.shares import Residue
from fedsift.errors import BadFrame
from fedsift.protocol import MaskedArray

Floats = npt.NDArray[np.float64]

INPUT_BITS = 8
GATE_BITS = 5
GRADIENT_BITS = 10
HIDDEN_BITS = 10
MOMENTUM_BITS = 3
"""A step keeps ``1 - 2**-3`` of the one before."""

FACTOR_BITS = 4
OUTPUT_SCALE_BITS = 2
"""An output is the signed sum of the activations over ``2**2``."""

_LIMB = np.uint64(20)
_LOW = np.uint64((1 << 20) - 1)
_LARGEST_INPUT = 7.99
FACTOR_SPREAD = 0.25
"""Standard deviation of the secret factors of opened sums, whose mean is 1."""

_STEEPEST = 8.0
"""Largest second moment of all inputs in one direction, over all parties."""


@cache
def ring() -> Residue:
    """Arithmetic modulo the primes of shared numbers."""
    return Residue(moduli())


@dataclass(frozen=True)
class Scales:
    """Bits of fraction of everything, from the rate of learning ``2**-rate_bits`` per row."""

    rate_bits: int

    @property
    def weights(self) -> int:
        """A gradient is subtracted from the weights as it is: their scale has the rate in it."""
        return INPUT_BITS + GRADIENT_BITS + self.rate_bits

    @property
    def hidden_shift(self) -> int:
        """By how much hidden values are shortened."""
        return INPUT_BITS + self.weights + GATE_BITS - HIDDEN_BITS

    @property
    def bias_shift(self) -> int:
        """From the gradient of a bias to its step, at the scale of hidden values."""
        return 2 * INPUT_BITS + GATE_BITS

    @property
    def outputs(self) -> int:
        """Of outputs and errors."""
        return 2 * HIDDEN_BITS + 2 + OUTPUT_SCALE_BITS

    @property
    def slope_shift(self) -> int:
        """By how much gradients of hidden values are shortened."""
        return self.outputs + OUTPUT_SCALE_BITS + HIDDEN_BITS + 1 - GRADIENT_BITS

    @property
    def gate_sums(self) -> int:
        """Of the sums over weights times gradients."""
        return self.weights + INPUT_BITS + GRADIENT_BITS + FACTOR_BITS


def output_signs(n_hidden: int, n_outputs: int) -> Small:
    """The second layer: fixed signs that everybody knows, (n_outputs, n_hidden).

    Squares with both signs make any quadratic form, so nothing is lost by not learning them.

    Examples
    --------
    >>> output_signs(4, 1).tolist()
    [[-1, 1, -1, 1]]
    """
    if n_outputs == 1:
        return np.where(np.arange(n_hidden) % 2, 1, -1).astype(np.int64)[None]
    draws = np.random.default_rng(0).random((n_outputs, n_hidden))
    return np.where(draws < 0.5, 1, -1).astype(np.int64)


def secret_factors(seed: int | None, name: str, opening: int, n_features: int) -> Small:
    """What an owner multiplies the sums of its columns with, drawn again for every opening.

    An exact number is an equation for the cells that it was computed from. With a factor that the
    receiver does not know it says little alone; gates move by the mean of many of them.
    """
    known = None if seed is None else [seed, opening, *f"{name} (factors)".encode()]
    rng = np.random.default_rng(known)
    factors = 1.0 + FACTOR_SPREAD * rng.normal(size=n_features)
    return np.rint(factors * (1 << FACTOR_BITS)).astype(np.int64)


def input_scale(known: npt.NDArray[np.float32], n_parties: int, batch_size: int) -> float:
    """By how much a party scales its inputs down, so that plain steps do not diverge.

    Columns that say much the same make steep directions, and so do more columns than a batch has
    rows; rows far from the mean count more, as their squares do. A party finds the steepest of its
    own training rows, and tells nobody.
    """
    if not known.size:
        return 1.0
    rows = known.astype(np.float64)
    sizes = (rows**2).sum(axis=1)
    weighted = rows * np.sqrt(sizes / max(sizes.mean(), 1e-9))[:, None]
    together = float(np.linalg.norm(weighted, 2) ** 2 / len(rows))
    apart = float(sizes.mean() / min(batch_size, len(rows)))
    steepest = max(together, apart)
    return min(1.0, float(np.sqrt(_STEEPEST / n_parties / max(steepest, 1e-9))))


def input_integers(inputs: npt.NDArray[np.float32], scale: float) -> Small:
    """A party's inputs as integers of 12 bits."""
    scaled = np.clip(inputs.astype(np.float64) * scale, -_LARGEST_INPUT, _LARGEST_INPUT)
    return np.rint(scaled * (1 << INPUT_BITS)).astype(np.int64)


def shorten(share: Residues, bits: int, *, first: bool) -> Residues:
    """One party's share of ``x / 2**bits``; one of the two parties is the first.

    Examples
    --------
    >>> one = ring().uniform((1,))
    >>> other = ring().add(ring().of([-5 << 30]), ring().negate(one))
    >>> short = ring().add(shorten(one, 30, first=True), shorten(other, 30, first=False))
    >>> abs(int(ring().signed(short)[0]) + 5) <= 1
    True
    """
    return _quotient(share, bits) if first else ring().negate(_quotient(ring().negate(share), bits))


def _quotient(share: Residues, bits: int) -> Residues:
    """Whole part of a number below the modulus over ``2**bits``."""
    small, large = moduli()
    low, high = share
    inverse = pow(small, -1, large)
    gap = (high + np.uint64(large) - low % np.uint64(large)) % np.uint64(large)
    # The number is low + small * times; in limbs of 20 bits everything fits 64 bits.
    times = _times_modulo(gap, inverse, large)
    rest = np.uint64(small) * (times & _LOW) + low
    above = np.uint64(small) * (times >> _LIMB) + (rest >> _LIMB)
    if bits < int(_LIMB):
        left, low = int(_LIMB) - bits, (rest & _LOW) >> np.uint64(bits)
        parts = [((above % np.uint64(p)) << np.uint64(left)) + low for p in moduli()]
        return np.stack([part % np.uint64(p) for part, p in zip(parts, moduli(), strict=True)])
    whole = above >> np.uint64(bits - int(_LIMB))
    return np.stack([whole % np.uint64(prime) for prime in moduli()])


def _times_modulo(numbers: Residues, factor: int, modulus: int) -> Residues:
    t = np.uint64(modulus)
    high = numbers * np.uint64(factor >> 20) % t
    return np.asarray(((high << _LIMB) + numbers * np.uint64(factor & ((1 << 20) - 1))) % t)


def to_rows(table: Small, matrix: Residues) -> Residues:
    """(primes, units, columns) times a table: (primes, units, rows)."""
    return small_product(table, matrix.transpose(0, 2, 1)).transpose(0, 2, 1)


def to_columns(table: Small, matrix: Residues) -> Residues:
    """(primes, units, rows) times a table: (primes, units, columns)."""
    return small_product(table.T, matrix.transpose(0, 2, 1)).transpose(0, 2, 1)


def shifted(numbers: Residues, bits: int) -> Residues:
    """Numbers times a power of two."""
    r = ring()
    factor = r.of(np.array([1 << bits], dtype=object))
    return r.multiply(numbers, factor.reshape(-1, *(1,) * (numbers.ndim - 1)))


def minus(left: Residues, right: Residues) -> Residues:
    """Difference."""
    return ring().add(left, ring().negate(right))


class Moving:
    """One party's share of numbers that move by gradients, with momentum.

    Both parties shorten their own share of the last step, so nothing has to be sent.

    Parameters
    ----------
    values : ndarray of shape (primes, ...)
    first : bool
        One of the two parties is the first.

    Examples
    --------
    >>> one, other = Moving(ring().of([100]), first=True), Moving(ring().of([0]), first=False)
    >>> for _ in range(2):
    ...     mask = ring().uniform((1,))
    ...     last = one.step(mask), other.step(minus(ring().of([16]), mask))
    >>> abs(int(ring().signed(ring().add(one.values, other.values))[0]) - (100 - 16 - 30)) <= 2
    True
    """

    def __init__(self, values: Residues, *, first: bool) -> None:
        self._first = first
        self.restart(values)

    def restart(self, values: Residues, last: Residues | None = None) -> None:
        """Other numbers, at rest or after a last step."""
        self.values = values
        self.last = np.zeros_like(values) if last is None else np.asarray(last)

    def step(self, gradient: Residues) -> Residues:
        """Move; returns what the share was before."""
        kept = minus(self.last, shorten(self.last, MOMENTUM_BITS, first=self._first))
        self.last = ring().add(kept, gradient)
        before, self.values = self.values, minus(self.values, self.last)
        return before


def residues_of(sent: MaskedArray, shape: Sequence[int]) -> Residues:
    """Shares that arrived; refuses another shape or numbers outside the ring."""
    numbers: Any = sent.array(shape=(len(moduli()), *shape))
    primes = np.array(moduli(), dtype=np.uint64).reshape(-1, *(1,) * len(shape))
    if numbers.dtype != np.uint64 or (numbers >= primes).any():
        raise BadFrame(
            "Shares arrived that are no numbers of the agreed ring.",
            "Residues modulo the agreed primes are needed.",
            "Check that all parties run the same job.",
        )
    return np.asarray(numbers, dtype=np.uint64)
