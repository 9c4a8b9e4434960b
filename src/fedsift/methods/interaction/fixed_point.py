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
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from fedsift.data.table import Column
from fedsift.methods.interaction import measures
from fedsift.methods.interaction.measures import Codes, Floats, Parts
from fedsift.methods.interaction.search import (
    Chance,
    Measured,
    Product,
    Sum,
    Trace,
    greedy,
    number_paired,
)

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
        # By Cauchy and Schwarz sum_j P_j cov_j^2 <= 16 for numbers, which are below 4 in size. Of
        # categories no row's parts have a larger square than 16, and there are 7 at most: 112.
        return Scales(q, 0, inner, relevance, weight, max(relevance, weight) + 7)
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
    values : ndarray of int64 of shape (n_rows, n_parts)
    scalars : ndarray of int64 of shape (n_features, n_scalars)
        For counts: ``1 / entropy`` and one exponential per term; empty for ``miw``.
    """

    values: Integers
    scalars: Integers


def own_columns(parts: Parts, measure: str) -> OwnColumns:
    """Whole-number columns and factors of one owner."""
    columns, n_rows, n_features = parts.values, len(parts.values), parts.n_features
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

    Slots are the classes and, last, all rows together; once more for every further vector of
    labels, which has classes of the same sizes.
    """

    def __init__(self, measure: str, class_sizes: Integers, n_vectors: int = 1) -> None:
        sizes = [int(n) for n in class_sizes]
        n_rows = sum(sizes)
        self.measure = measure
        self.scales = scales_of(measure, n_rows)
        self.n_classes, self.n_vectors = len(sizes), n_vectors
        self.sizes: BigArray = np.array([*sizes, n_rows] * n_vectors, dtype=object)
        self.n_slots = len(self.sizes)
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
            sign = -1 if (slot + 1) % (self.n_classes + 1) == 0 else 1
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

    def shares(self, relevance: Floats) -> Floats:
        """Shares of the columns' variance between the classes: opened numbers, as they were."""
        return relevance if self.measure == "miw" else relevance * self._label_entropy / 2.0

    def gains(self, opened: BigArray) -> Floats:
        """Gains from the opened numbers of phase 2, as they are."""
        half = 0.5 if self.measure == "miw" else 1.0
        return np.asarray(half * to_reals(opened, self.scales.weight_bits))

    def weights(self, opened: BigArray, parts: Integers, of_mate: Integers) -> Floats:
        """Interaction weights from the opened numbers of phase 2."""
        gain = self.gains(opened)
        if self.measure == "miw":
            gain = measures.clip_gains(gain, parts, of_mate)
        return np.asarray(1.0 + gain)

    def rule(self, relevance: Floats, parts: Integers) -> Product:
        """How the search goes on from these relevances."""
        if self.measure != "miw":
            return Product(relevance)
        return Sum(relevance, Chance(int(self.sizes[-1]), self.n_classes, len(parts)), parts)

    def blur(self, n_rounds: int) -> float:
        """Standard deviation of R, per unit of uniform low-bit noise; of R / R with products."""
        # Opened numbers are divided by these before they become relevances and weights.
        if self.measure == "miw":
            # One penalty and one bonus, or a column's gain with itself, beside the relevance.
            return math.sqrt((1.0 + 2 * 0.5**2) / 3)
        relevance, weight = 2.0 / self._label_entropy, 1.0
        return math.sqrt((relevance**2 + n_rounds * weight**2) / 3)

    def relevance_limits(self, parts: Integers) -> tuple[Floats, Floats]:
        """Range that honest columns cannot leave, with room for rounding and noise."""
        # Of a binary column, Taylor information is at most p (1 - p), the Taylor entropy.
        most = 1.01 * parts if self.measure == "miw" else 2.02 / self._label_entropy
        return np.full(len(parts), -0.01), np.broadcast_to(most, len(parts)).astype(float)

    def weight_limits(self, parts: Integers) -> tuple[Floats, Floats]:
        """Range of honest opened gains, before they are clipped."""
        low, high = (8.0 * parts, 8.0 * parts) if self.measure == "miw" else (8.0, 10.0)
        return np.broadcast_to(-np.asarray(low), len(parts)), np.broadcast_to(high, len(parts))


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

    def __init__(
        self, values: npt.ArrayLike | Sequence[Column], codes: Codes, measure: str
    ) -> None:
        self._codes = np.unique(codes, return_inverse=True)[1].astype(np.int64)
        self._n_classes = int(self._codes.max()) + 1
        self.plan = LabelPlan(measure, np.bincount(self._codes))
        parts = measures.prepare(values, measure)
        self.constant, self._feature = parts.constant, parts.feature
        self.parts = np.bincount(parts.feature)
        self._own = own_columns(parts, measure)
        self._sums = class_sums(self._own.values, self._codes, self._n_classes)
        first = polynomial_values(self.plan.relevance_polynomial, self._sums)
        self._alone: BigArray = first.sum(axis=1)

    def relevance_integers(self) -> BigArray:
        """What the label owner opens in phase 1, without noise."""
        if self.plan.measure == "miw":
            return _grouped(self._alone, self._feature, len(self.parts))
        factors: BigArray = self._own.scalars.astype(object) @ self.plan.relevance_factors
        result: BigArray = self._alone * factors
        return result

    def weight_integers(self, selected: int, remaining: list[int]) -> BigArray:
        """What the label owner opens of these features with one, without noise."""
        mine = np.flatnonzero(np.isin(self._feature, remaining))
        gains: BigArray = np.zeros(len(mine), dtype=object)
        for mate in np.flatnonzero(self._feature == selected):
            gains = gains + self._pair_integers(int(mate), mine)
        return _grouped(gains, self._feature[mine], len(self.parts))[remaining]

    def _pair_integers(self, selected: int, remaining: Integers) -> BigArray:
        """Of parts with one part."""
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
        opened = self.weight_integers(selected, remaining)
        return self.plan.weights(opened, self.parts[remaining], self.parts[selected])


def _grouped(numbers: BigArray, groups: Codes, n_groups: int) -> BigArray:
    """Sums of whole numbers by group."""
    sums: BigArray = np.zeros(n_groups, dtype=object)
    np.add.at(sums, groups, numbers)
    return sums


def simulate(
    values: npt.ArrayLike | Sequence[Column],
    codes: Codes,
    measure: str = "miw",
    n_select: int | None = None,
    pair_start: int | str = "auto",
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
    return greedy(
        Measured(relevance, search.weights_with, search.plan.rule(relevance, search.parts)),
        n_select,
        idle=search.constant,
        n_paired=number_paired(pair_start, len(relevance), n_select),
    )
