# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Differential privacy of counts: noise in whole numbers, and an accountant of what was spent.

*Neighbours* are tables of a party that differ in the values of one row. One row changes at most two
cells of a feature's table of counts, each by one: it leaves a cell and enters another. So a table
has sensitivity 2 in sums of absolute differences and the square root of 2 in length; ``n`` tables
together have ``2 n`` and the square root of ``2 n``.

Noise is drawn exactly, with integers and fractions only: floating-point noise has gaps that tell
the number below it. The way is that of Canonne, Kamath and Steinke (2020).
"""

from __future__ import annotations

import math
import random
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from fedsift.crypto.kernels import count_work
from fedsift.errors import PolicyViolation

Integers = npt.NDArray[np.int64]
Below = Callable[[int], int]
"""A uniform whole number below its argument."""

CELLS_CHANGED = 2
"""Cells of one table of counts that the values of one row can change, each by one."""

_FINEST = 10**6
_TAIL_BITS = 64
_HALF = Fraction(1, 2)


def source_of(seed: list[int] | None) -> Below:
    """Randomness of noise: the operating system's, or a simulation's seed."""
    if seed is None:
        return secrets.randbelow
    return random.Random(repr(seed)).randrange  # noqa: S311 - for repeatable simulations only


def discrete_laplace(scale: Fraction, below: Below) -> int:
    """A whole number x with probability proportional to ``exp(-|x| / scale)``."""
    t, s = scale.numerator, scale.denominator
    while True:
        rest = below(t)
        if not bernoulli_exp(Fraction(rest, t), below):
            continue
        whole = 0
        while bernoulli_exp(Fraction(1), below):
            whole += 1
        size = (rest + t * whole) // s
        negative = _bernoulli(_HALF, below)
        if negative and size == 0:
            continue  # zero must not be drawn twice as often
        return -size if negative else size


def discrete_gaussian(variance: Fraction, below: Below) -> int:
    """A whole number x with probability proportional to ``exp(-x**2 / (2 variance))``."""
    t = math.isqrt(math.floor(variance)) + 1
    while True:
        drawn = discrete_laplace(Fraction(t), below)
        far = abs(drawn) - variance / t
        if bernoulli_exp(far * far / (2 * variance), below):
            return drawn


def _bernoulli(chance: Fraction, below: Below) -> bool:
    return below(chance.denominator) < chance.numerator


def bernoulli_exp(exponent: Fraction, below: Below) -> bool:
    """True with probability ``exp(-exponent)``, exactly."""
    top, bottom = exponent.numerator, exponent.denominator
    while top > bottom:
        if not _odd_place(1, 1, below):
            return False
        top -= bottom
    return _odd_place(top, bottom, below)


def _odd_place(top: int, bottom: int, below: Below) -> bool:
    """True with probability ``exp(-top / bottom)``, for exponents of at most 1."""
    # The first failure of a chain of ever smaller chances falls on an odd place as often.
    place = 1
    while below(bottom * place) < top:
        place += 1
    return place % 2 == 1


def rho_of(epsilon: float, delta: float) -> float:
    """Concentrated privacy (zCDP) that implies (epsilon, delta)."""
    log = math.log(1 / delta)
    return (math.sqrt(log + epsilon) - math.sqrt(log)) ** 2


def epsilon_of(rho: float, delta: float) -> float:
    """Epsilon, with this delta, that a concentrated privacy implies."""
    return rho + 2 * math.sqrt(rho * math.log(1 / delta))


@dataclass(frozen=True)
class CountNoise:
    """Noise for all cells of some tables of counts, so that together they keep to a budget.

    Parameters
    ----------
    epsilon : float
        For all tables together.
    delta : float
        0 for pure differential privacy. With more, Gaussian noise is used where it is smaller.
    n_tables : int
        Features whose tables are revealed.

    Examples
    --------
    >>> CountNoise(epsilon=1.0, delta=0.0, n_tables=5).scale
    Fraction(10, 1)
    """

    epsilon: float
    delta: float
    n_tables: int

    @property
    def scale(self) -> Fraction:
        """Of the discrete Laplace noise; epsilon is rounded down."""
        epsilon = Fraction(max(1, math.floor(self.epsilon * _FINEST)), _FINEST)
        return CELLS_CHANGED * max(1, self.n_tables) / epsilon

    @property
    def variance(self) -> Fraction:
        """Of the discrete Gaussian noise; rounded up."""
        rho = rho_of(self.epsilon, self.delta)
        exact = CELLS_CHANGED * max(1, self.n_tables) / (2 * rho)
        return Fraction(math.ceil(exact * _FINEST) + 1, _FINEST)

    @property
    def gaussian(self) -> bool:
        """Whether Gaussian noise is the smaller one."""
        return self.delta > 0 and self.variance < 2 * self.scale**2

    @property
    def mechanism(self) -> str:
        """In words."""
        return "discrete Gaussian" if self.gaussian else "discrete Laplace"

    @property
    def spread(self) -> float:
        """Standard deviation of the noise in a cell, nearly."""
        return math.sqrt(self.variance) if self.gaussian else math.sqrt(2) * float(self.scale)

    @property
    def bits(self) -> int:
        """No noise is longer than this, but with a chance of about 2**-64."""
        reach = (
            math.sqrt(2 * _TAIL_BITS * math.log(2) * float(self.variance))
            if self.gaussian
            else _TAIL_BITS * math.log(2) * float(self.scale)
        )
        return math.ceil(math.log2(reach + 1)) + 1

    def draw(self, shape: tuple[int, ...], seed: list[int] | None = None) -> Integers:
        """Noise for every cell."""
        below, limit = source_of(seed), 1 << self.bits
        count_work("mask", "noise number", math.prod(shape))
        if self.gaussian:
            variance = self.variance
            drawn = [discrete_gaussian(variance, below) for _ in range(math.prod(shape))]
        else:
            scale = self.scale
            drawn = [discrete_laplace(scale, below) for _ in range(math.prod(shape))]
        kept = [min(max(number, 1 - limit), limit - 1) for number in drawn]
        return np.array(kept, dtype=np.int64).reshape(shape)

    def spend(self, accountant: Accountant, what: str) -> None:
        """Note what the tables cost, before they leave."""
        if self.gaussian:
            accountant.spend(what, rho=rho_of(self.epsilon, self.delta))
            return
        each = self.epsilon / max(1, self.n_tables)
        for _ in range(max(1, self.n_tables)):
            accountant.spend(what, epsilon=each)


@dataclass
class Accountant:
    """Adds up what was spent, and refuses to spend more than was agreed.

    Pure epsilons add up; so does concentrated privacy, to which a pure epsilon contributes half its
    square. With a delta the smaller of the two totals counts.
    """

    epsilon: float
    delta: float = 0.0
    spent: list[tuple[str, float, float]] = field(default_factory=list)

    @property
    def total(self) -> float:
        """Epsilon spent so far, with the agreed delta."""
        pure = math.fsum(epsilon for _, epsilon, _ in self.spent)
        if self.delta <= 0:
            return pure
        rho = math.fsum(part for _, _, part in self.spent)
        return min(pure, epsilon_of(rho, self.delta)) if rho else pure

    def spend(self, what: str, *, epsilon: float | None = None, rho: float | None = None) -> None:
        """Note a disclosure; Gaussian noise has a rho and no pure epsilon, choices have both."""
        if epsilon is None:
            entry = (what, math.inf, rho or 0.0)
        else:
            entry = (what, epsilon, epsilon**2 / 2 if rho is None else rho)
        self.spent.append(entry)
        if self.total > self.epsilon * (1 + 1e-9):
            self.spent.pop()
            raise PolicyViolation(
                f"Telling {what} would spend more than epsilon {self.epsilon:g}.",
                f"{self.total:.4g} of it is spent.",
                "Start a new run with its own budget, or reveal less.",
            )
