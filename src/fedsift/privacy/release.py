# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Differential privacy of what a run releases: choices and numbers whose scores stay secret.

*Neighbours* are data that differ in one row over all parties: all its values and its label. The
number of rows is known. A *sensitivity* is the most by which a score can differ between neighbours.

**Choices** follow the exponential mechanism: a candidate wins with probability proportional to
``exp(epsilon * score / (2 sensitivity))``, without showing any score. One choice is
epsilon-differentially private, and ``epsilon**2 / 8`` concentrated (zCDP), since the logarithm of
no probability ratio ranges over more than epsilon (Cesar and Rogers 2021).

**Numbers** carry discrete Laplace or Gaussian noise on a fine grid.

Everything is drawn exactly, with integers and fractions only. Scores are rounded to the grid
before; the sensitivities in use leave room for that and for the rounding of floating-point sums.

Sensitivities, for n rows. Let a table count rows by bin b and class k; S is what is meant times n.

*Gini impurity.* ``S = n - sum_b sum_k n_bk**2 / n_b``. A row of class k that enters a bin with m
rows and class shares p adds ``1 - m / (m + 1) * |e_k - p|**2`` to the sum, and ``|e_k - p|**2``
lies in [0, 2]: between -1 and 1. A row that leaves does the opposite, so S changes by at most 2.

*Mutual information.* ``S = sum_bk f(n_bk) - sum_b f(n_b) - sum_k f(n_k) + f(n)`` with
``f(c) = c ln c``. Let ``g(c) = f(c + 1) - f(c)``: it grows from g(0) = 0 and is concave. A row in
cell (b, k) contributes ``-A`` to S, with ``A = g(n_b) + g(n_k) - g(n_bk)`` in counts of the other
n - 1 rows. ``A >= 0``, since n_bk is the smallest of the three. With t rows in the cell,
``n_b + n_k <= n - 1 + t``, so that ``A <= 2 g((n - 1 + t) / 2) - g(t)``, which falls as t grows:
``A <= 2 g((n - 1) / 2)``. S changes by the difference of two such A, at most by that.

With two classes it is at most ``g(n - 1)``. Let the row move from cell (b, k) to (a, j). If
``j = k`` the terms of the class cancel, and what is left of each A lies between 0 and g(n - 1).
If not, ``A(b, k) - A(a, j)`` is at most ``g(n_b) - g(n_bk) + g(n_k) - g(n_j)``, and
``n_b <= n_bk + n_j``. By concavity ``g(n_bk + n_j) - g(n_bk) <= g(n_j)``, so ``g(n_k)`` remains.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from fedsift.privacy.mechanisms import (
    Accountant,
    Below,
    bernoulli_exp,
    discrete_gaussian,
    discrete_laplace,
    rho_of,
    source_of,
)

Floats = npt.NDArray[np.float64]

GRID_BITS = 36
"""Scores and noisy numbers are whole multiples of 2**-36."""

_ROOM = 2
"""Steps of the grid by which rounding can move two neighbours' scores apart."""

_FINEST = 10**9


def gini_sensitivity(n_rows: int) -> float:
    """Of the Gini impurity that remains after cutting by a feature."""
    return min(1.0, 2.0 / n_rows)


def mutual_information_sensitivity(n_rows: int, n_classes: int) -> float:
    """Of the mutual information of bin and class, in nats.

    Examples
    --------
    >>> round(mutual_information_sensitivity(1000, 2), 5)
    0.00791
    """
    if n_classes <= 2:
        return _gain(n_rows - 1.0) / n_rows
    return 2.0 * _gain((n_rows - 1.0) / 2.0) / n_rows


def gini_gain_sensitivity(n_rows: int) -> float:
    """Of ``(sum_b |n_b|**2 / n_b - |n|**2 / N) / n`` for any counts, with N in all and n known.

    Both terms change by -1 to 1 if a row enters or leaves, whatever N is.
    """
    return 4.0 / n_rows


def gini_gain(tables: npt.ArrayLike, n_rows: int) -> Floats:
    """How much purer cutting makes the classes, for tables whose noisy counts may add up to any N.

    Tables have shape (n_features, n_bins, n_classes); ``n_rows`` is the true number of rows.
    """
    table = np.maximum(np.asarray(tables, dtype=np.float64), 0.0)
    return np.asarray((_purity(table).sum(axis=1) - _purity(table.sum(axis=1))) / n_rows)


def _purity(counts: Floats) -> Floats:
    """``|n|**2 / sum n`` over the last axis; 0 where there are no rows."""
    sizes = counts.sum(axis=-1)
    squares = (counts**2).sum(axis=-1)
    return np.asarray(np.divide(squares, sizes, out=np.zeros_like(sizes), where=sizes > 0))


def _gain(count: float) -> float:
    """``f(c + 1) - f(c)`` with ``f(c) = c ln c``."""
    return (count + 1) * math.log(count + 1) - (count * math.log(count) if count > 0 else 0.0)


def choose(scores: Sequence[float], sensitivity: float, epsilon: float, below: Below) -> int:
    """The exponential mechanism: a position, higher scores more often.

    Candidates are proposed evenly and accepted with the probability by which they fall short of
    the best one, so that no probability is ever computed.
    """
    steps = [round(Fraction(float(score)) * (1 << GRID_BITS)) for score in scores]
    reach = math.ceil(Fraction(sensitivity) * (1 << GRID_BITS)) + _ROOM
    # Rounded down: to nothing in the extreme, which draws evenly.
    rate = Fraction(math.floor(epsilon * _FINEST), 2 * reach * _FINEST)
    best = max(steps)
    while True:
        place = below(len(steps))
        if bernoulli_exp((best - steps[place]) * rate, below):
            return place


@dataclass(frozen=True)
class Release:
    """A budget for what is revealed of a run's outcome.

    Parameters
    ----------
    epsilon : float
    delta : float
        0 for pure differential privacy. With more, concentrated accounting is used where it leaves
        less noise.

    Examples
    --------
    >>> release = Release(epsilon=1.0)
    >>> release.prices([0.1, 0.1])
    [0.5, 0.5]
    >>> release.top([0.0, 50.0, 40.0], 0.1, 2, seed=[1])
    [1, 2]
    """

    epsilon: float
    delta: float = 0.0

    def prices(self, sensitivities: Sequence[float]) -> list[float]:
        """Epsilon of each of several choices, in proportion to their sensitivities."""
        pure = self.epsilon / math.fsum(sensitivities)
        rate = pure
        if self.delta > 0:
            squares = math.fsum(s**2 for s in sensitivities)
            rate = max(pure, math.sqrt(8 * rho_of(self.epsilon, self.delta) / squares))
        return [rate * sensitivity for sensitivity in sensitivities]

    def top(
        self,
        scores: npt.ArrayLike,
        sensitivity: float,
        n_choices: int,
        seed: list[int] | None = None,
    ) -> list[int]:
        """Positions of high scores, one private choice after the other without repetition."""
        left = list(enumerate(np.asarray(scores, dtype=np.float64).tolist()))
        below, chosen = source_of(seed), list[int]()
        for price in self.prices([sensitivity] * n_choices):
            place = choose([score for _, score in left], sensitivity, price, below)
            chosen.append(left.pop(place)[0])
        return chosen

    def noise(self, total: float, length: float) -> NumberNoise:
        """Noise for numbers whose changes between neighbours have this sum and this length."""
        return NumberNoise(self, total, length)

    def account(self) -> Accountant:
        """An accountant that refuses more than this budget."""
        return Accountant(self.epsilon, self.delta)

    def spend(self, accountant: Accountant, what: str, prices: Sequence[float]) -> None:
        """Note choices, before they leave."""
        for price in prices:
            accountant.spend(what, epsilon=price, rho=price**2 / 8)


@dataclass(frozen=True)
class NumberNoise:
    """Noise for some numbers that are revealed together.

    Parameters
    ----------
    budget : Release
    total : float
        Most that the numbers of neighbours differ by, absolute differences added up.
    length : float
        The same as a length: the square root of the sum of squares.
    """

    budget: Release
    total: float
    length: float

    def _steps(self, size: float, n_numbers: int) -> Fraction:
        return Fraction(size) * (1 << GRID_BITS) + _ROOM * n_numbers

    def _scale(self, n_numbers: int) -> Fraction:
        epsilon = Fraction(max(1, math.floor(self.budget.epsilon * _FINEST)), _FINEST)
        return Fraction(math.ceil(self._steps(self.total, n_numbers) / epsilon))

    def _variance(self, n_numbers: int) -> Fraction:
        rho = Fraction(rho_of(self.budget.epsilon, self.budget.delta))
        return Fraction(math.ceil(self._steps(self.length, n_numbers) ** 2 / (2 * rho)) + 1)

    def _gaussian(self, n_numbers: int) -> bool:
        return self.budget.delta > 0 and self._variance(n_numbers) < 2 * self._scale(n_numbers) ** 2

    def spread(self, n_numbers: int) -> float:
        """Standard deviation of the noise of each number, nearly."""
        if self._gaussian(n_numbers):
            return math.sqrt(self._variance(n_numbers)) / (1 << GRID_BITS)
        return math.sqrt(2) * float(self._scale(n_numbers)) / (1 << GRID_BITS)

    def mechanism(self, n_numbers: int) -> str:
        """In words."""
        return "discrete Gaussian" if self._gaussian(n_numbers) else "discrete Laplace"

    def told(self, numbers: Sequence[float], seed: list[int] | None = None) -> list[float]:
        """The numbers with noise."""
        below, count = source_of(seed), len(numbers)
        found = []
        for number in numbers:
            step = round(Fraction(float(number)) * (1 << GRID_BITS))
            if self._gaussian(count):
                step += discrete_gaussian(self._variance(count), below)
            else:
                step += discrete_laplace(self._scale(count), below)
            found.append(float(Fraction(step, 1 << GRID_BITS)))
        return found

    def spend(self, accountant: Accountant, what: str, n_numbers: int) -> None:
        """Note what the numbers cost, before they leave."""
        if self._gaussian(n_numbers):
            rho = rho_of(self.budget.epsilon, self.budget.delta)
            accountant.spend(what, rho=rho)
        else:
            accountant.spend(what, epsilon=self.budget.epsilon)
