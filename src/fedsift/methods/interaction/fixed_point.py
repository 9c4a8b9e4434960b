# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The measures of interaction in whole numbers, as the protocol computes them.

Feature owners turn columns into integers. From then on everything is exact: class sums ``s_fj`` of
columns and ``S_fj`` of products of two columns, over the classes and, as one more *slot*, over all
rows. The label owner knows the class sizes, so every division is folded into the whole-number
coefficients of polynomials that only it knows:

- relevance: ``sum over slots of p_slot(s_f)``;
- ``miw`` with a selected feature s: ``sum over slots of w_slot(n_j S_fs - s_f s_s)``;
- counts with a selected feature s: ``sum over slots and the four cells of p_slot(cell count)``,
  then the gain times ``1 / (entropy_f + entropy_s)``, which is a sum of exponentials
  ``sum_k c_k e_fk e_sk`` so that each owner contributes its own factor.

:func:`simulate` runs the search on open data in these numbers. The protocol must agree with it
bit for bit, apart from the low-bit noise that it adds on purpose.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from fedsift.methods.interaction import measures
from fedsift.methods.interaction.measures import Codes, Floats, Trace

Integers = npt.NDArray[np.int64]
BigArray = npt.NDArray[np.object_]

MOMENT_BITS = 12
"""Fraction bits of standardised columns."""

N_EXPONENTIALS = 8
EXPONENTS = np.geomspace(0.1, 40.0, N_EXPONENTIALS)
_FIT_RANGE = (0.1, 4.7)
_WEIGHT_BITS = 10
"""Fraction bits of the factors c_k."""


@dataclass(frozen=True)
class Scales:
    """Powers of two by which whole numbers exceed what they stand for; known to every party.

    Parameters
    ----------
    value_bits : int
        Fraction bits of a column's values: 12 for ``miw``, 0 for counts.
    scalar_bits : int
        Fraction bits of the factors an owner makes of its entropies.
    inner_bits : int
        Fraction bits of the polynomials' coefficients (second phase).
    relevance_bits, weight_bits : int
        Fraction bits of what the label owner opens.
    result_bits : int
        Every number of the computation lies in ``(-2**result_bits, 2**result_bits)``.
    """

    value_bits: int
    scalar_bits: int
    inner_bits: int
    relevance_bits: int
    weight_bits: int
    result_bits: int


def scales_of(measure: str, n_rows: int) -> Scales:
    """Chosen so that rounding stays below the low-bit noise, whatever the classes are."""
    log_n = math.log2(max(2, n_rows))
    if measure == "miw":
        q = MOMENT_BITS
        inner = math.ceil(4 * log_n) + 12
        relevance, weight = math.ceil(2 * log_n) + 16 + 2 * q, inner + 4 * q
        # sum_j P_j cov_j^2 <= max |cov_j| <= 16, by Cauchy and Schwarz.
        return Scales(q, 0, inner, relevance, weight, max(relevance, weight) + 6)
    degree, scalar = len(measures.TAYLOR) - 1, 14
    inner = math.ceil(degree * log_n) + 18
    weight = inner + 2 * scalar + _WEIGHT_BITS
    # 1 / (sum of entropies) is at most 10, gains stay below 4.
    return Scales(0, scalar, inner, inner + scalar + _WEIGHT_BITS, weight, weight + 7)


def exponential_factors() -> Floats:
    """c_k with ``1 / x = sum_k c_k exp(-EXPONENTS[k] x)`` on [0.1, 4.7], to a relative 2e-4."""
    grid = np.geomspace(*_FIT_RANGE, 800)
    terms = np.exp(-np.outer(grid, EXPONENTS)) * grid[:, None]
    return np.asarray(np.linalg.lstsq(terms, np.ones(len(grid)), rcond=None)[0])


@dataclass(frozen=True, eq=False, repr=False)
class OwnColumns:
    """What a feature owner makes of its columns before it encrypts them.

    Parameters
    ----------
    values : ndarray of int64 of shape (n_rows, n_features)
    scalars : ndarray of int64 of shape (n_features, n_scalars)
        For counts: ``1 / entropy`` and one exponential per term; empty for ``miw``.
    """

    values: Integers
    scalars: Integers


def own_columns(values: npt.ArrayLike, measure: str) -> OwnColumns:
    """Whole-number columns and factors of one owner."""
    columns = measures.prepare(values, measure)
    n_rows, n_features = columns.shape
    if measure == "miw":
        integers = np.rint(np.ldexp(columns, MOMENT_BITS)).astype(np.int64)
        return OwnColumns(integers, np.empty((n_features, 0), dtype=np.int64))
    entropy = measures.feature_entropy(columns.mean(axis=0), measure)
    factors = np.column_stack([1.0 / entropy, np.exp(-np.outer(entropy, EXPONENTS))])
    bits = scales_of(measure, n_rows).scalar_bits
    return OwnColumns(columns.astype(np.int64), np.rint(np.ldexp(factors, bits)).astype(np.int64))


def n_scalars(measure: str) -> int:
    """Factors that an owner sends with each feature."""
    return 1 + N_EXPONENTIALS if measures.is_binary(measure) else 0


class LabelPlan:
    """Polynomials and factors that only the label owner knows.

    Slots are the classes and, last, all rows together.
    """

    def __init__(self, measure: str, class_sizes: Integers) -> None:
        sizes = [int(n) for n in class_sizes]
        n_rows = sum(sizes)
        self.measure = measure
        self.scales = scales_of(measure, n_rows)
        self.sizes: BigArray = np.array([*sizes, n_rows], dtype=object)
        self.n_slots = len(sizes) + 1
        if measure == "miw":
            # Between-class variance, and the mean square of the covariances inside the classes.
            first = self.scales.relevance_bits - 2 * self.scales.value_bits
            self.relevance_polynomial = self._coefficients((0, 0, 1), first, 2)
            self.pair_polynomial = self._coefficients((0, 0, 1), self.scales.inner_bits, 4)
            self.relevance_factors: BigArray = np.empty(0, dtype=object)
            self.pair_factors: BigArray = np.empty(0, dtype=object)
            return
        h = measures.TAYLOR
        mirrored = np.polynomial.Polynomial(h)(np.polynomial.Polynomial([1.0, -1.0])).coef
        both = np.asarray(h) + mirrored
        self.relevance_polynomial = self._coefficients(tuple(both), self.scales.inner_bits)
        self.pair_polynomial = self._coefficients(h, self.scales.inner_bits)
        self._set_factors(np.array(sizes) / n_rows)

    def _coefficients(
        self, powers: tuple[float, ...], bits: int, size_power: int | None = None
    ) -> BigArray:
        """Whole-number coefficients of ``P_j h(x / n_j)`` per slot; the last slot is subtracted.

        ``size_power`` replaces the power of the size that goes with each power of x.
        """
        table: BigArray = np.zeros((len(powers), self.n_slots), dtype=object)
        n_rows = self.sizes[-1]
        for slot, size in enumerate(self.sizes):
            sign = -1 if slot == self.n_slots - 1 else 1
            for k, power in enumerate(powers):
                scale = Fraction(size, n_rows) / Fraction(size) ** (size_power or k)
                table[k, slot] = sign * round(Fraction(float(power)) * scale * 2**bits)
        return table

    def _set_factors(self, shares: Floats) -> None:
        """Weights of an owner's factors: for the relevance, and for pairs."""
        self._label_entropy = measures.label_entropy(shares, self.measure)
        c = exponential_factors()
        self.pair_factors = _rounded(np.concatenate([[0.0], c]))
        relevance = np.zeros(1 + N_EXPONENTIALS)
        relevance[0] = 1.0
        self.relevance_factors = _rounded(relevance)

    def relevance(self, opened: BigArray) -> Floats:
        """What the opened numbers of phase 1 stand for."""
        values = to_reals(opened, self.scales.relevance_bits)
        if self.measure == "miw":
            return values
        return np.asarray(2.0 * values / self._label_entropy)

    def gains(self, opened: BigArray) -> Floats:
        """Gains from the opened numbers of phase 2, as they are."""
        half = 0.5 if self.measure == "miw" else 1.0
        return np.asarray(half * to_reals(opened, self.scales.weight_bits))

    def weights(self, opened: BigArray) -> Floats:
        """Interaction weights from the opened numbers of phase 2."""
        gain = self.gains(opened)
        if self.measure == "miw":
            gain = np.clip(gain, -measures.LARGEST_GAIN, measures.LARGEST_GAIN)
        return np.asarray(1.0 + gain)

    def blur(self, n_rounds: int) -> float:
        """Standard deviation of R / R after some rounds, per unit of uniform low-bit noise."""
        # Opened numbers are divided by these before they become relevances and weights.
        if self.measure == "miw":
            relevance, weight = 1.0, 0.5
        else:
            relevance, weight = 2.0 / self._label_entropy, 1.0
        return math.sqrt((relevance**2 + n_rounds * weight**2) / 3)

    def relevance_limits(self) -> tuple[float, float]:
        """Range that honest columns cannot leave, with room for rounding and noise."""
        if self.measure == "miw":
            return -0.01, 1.01
        # Of a binary column, Taylor information is at most p (1 - p), the Taylor entropy.
        return -0.01, 2.02 / self._label_entropy

    def weight_limits(self) -> tuple[float, float]:
        """Range of honest opened gains, before they are clipped."""
        return (-8.0, 8.0) if self.measure == "miw" else (-8.0, 10.0)


def _rounded(factors: Floats) -> BigArray:
    return np.array([round(float(x) * 2**_WEIGHT_BITS) for x in factors], dtype=object)


def to_reals(integers: BigArray, bits: int) -> Floats:
    """Whole numbers of any size divided by a power of two."""
    return np.array([float(Fraction(int(v), 1 << bits)) for v in integers], dtype=np.float64)


def cells(products: BigArray, own: BigArray, mate: BigArray, sizes: BigArray) -> BigArray:
    """Counts of the four cells of two binary columns; a new last axis."""
    return np.stack(
        [products, own - products, mate - products, sizes - own - mate + products], axis=-1
    )


def polynomial_values(coefficients: BigArray, values: BigArray) -> BigArray:
    """Per-slot polynomials by Horner's rule; ``values`` has the slots as its second axis."""
    shape = (1, -1) + (1,) * (values.ndim - 2)
    total: BigArray = np.zeros(values.shape, dtype=object)
    for row in coefficients[::-1]:
        total = total * values + row.reshape(shape)
    return total


def class_sums(values: Integers, codes: Codes, n_classes: int) -> BigArray:
    """Sums of integer columns per class and over all rows, shape (n_features, n_classes + 1)."""
    indicator = np.eye(n_classes, dtype=np.int64)[codes]
    sums = (values.T @ indicator).astype(object)
    return np.concatenate([sums, sums.sum(axis=1, keepdims=True)], axis=1)


class FixedSearch:
    """Open columns in the protocol's whole numbers."""

    def __init__(self, values: npt.ArrayLike, codes: Codes, measure: str) -> None:
        self._codes = np.unique(codes, return_inverse=True)[1].astype(np.int64)
        self._n_classes = int(self._codes.max()) + 1
        self.plan = LabelPlan(measure, np.bincount(self._codes))
        self._own = own_columns(values, measure)
        self._sums = class_sums(self._own.values, self._codes, self._n_classes)
        first = polynomial_values(self.plan.relevance_polynomial, self._sums)
        self._alone: BigArray = first.sum(axis=1)

    def relevance_integers(self) -> BigArray:
        """What the label owner opens in phase 1, without noise."""
        if self.plan.measure == "miw":
            return self._alone
        factors: BigArray = self._own.scalars.astype(object) @ self.plan.relevance_factors
        result: BigArray = self._alone * factors
        return result

    def weight_integers(self, selected: int, remaining: list[int]) -> BigArray:
        """What the label owner opens in a round of phase 2, without noise."""
        products = self._own.values[:, remaining] * self._own.values[:, [selected]]
        pair = class_sums(products, self._codes, self._n_classes)
        own, mate = self._sums[remaining], self._sums[selected][None, :]
        if self.plan.measure == "miw":
            covariances = self.plan.sizes * pair - own * mate
            total: BigArray = polynomial_values(self.plan.pair_polynomial, covariances).sum(axis=1)
            return total
        tables = cells(pair, own, mate, self.plan.sizes)
        joint = polynomial_values(self.plan.pair_polynomial, tables).sum(axis=(1, 2))
        gain = joint - self._alone[remaining] - self._alone[selected]
        scalars = self._own.scalars.astype(object)
        result: BigArray = gain * (scalars[remaining] * scalars[selected] @ self.plan.pair_factors)
        return result

    def relevance(self) -> Floats:
        """Relevance as reals."""
        return self.plan.relevance(self.relevance_integers())

    def weights_with(self, selected: int, remaining: list[int]) -> Floats:
        """Interaction weights as reals."""
        return self.plan.weights(self.weight_integers(selected, remaining))


def simulate(
    values: npt.ArrayLike, codes: Codes, measure: str = "miw", n_select: int | None = None
) -> Trace:
    """Rank open data in the whole numbers of the protocol, without masks and noise.

    Examples
    --------
    >>> X = np.array([[0, 3], [0, 1], [1, 2], [1, 0.0]])
    >>> simulate(X, np.array([0, 0, 1, 1])).order
    (0, 1)
    """
    search = FixedSearch(values, codes, measure)
    relevance = search.relevance()
    n_select = len(relevance) if n_select is None else n_select
    idle = measures.constant_columns(values, measure)
    return measures.greedy(relevance, search.weights_with, n_select, idle=idle)
