# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Polynomials of shared numbers: what the owner sends as terms, what the cloud scales them with.

A shared number is ``x = X + z``: the owner knows X, the cloud knows z. Two expansions make every
computation of K3 a sum of *term times factor*, the term being the owner's and the factor the
cloud's, so that :meth:`ProductCloud.inner <fedsift.crypto.products.bgv.ProductCloud.inner>` can
carry it out in one exchange:

- Taylor: ``p(X + z) = p(X) + sum_a (p^(a)(X) / a!) * z^a``. The coefficients of p stay with the
  owner, and the degree costs terms, not depth.
- Products: ``w (X1 + z1)(X2 + z2)...`` is the sum over all choices of one summand per factor.

Arrays have the primes as their first axis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fedsift.crypto.columns.api import BigArray
from fedsift.crypto.modular import Residues, recombine, uniform_below
from fedsift.crypto.products.plan import to_residues

_HALF_BITS = np.uint64(20)
_LOW = np.uint64((1 << 20) - 1)


class Residue:
    """Arithmetic modulo several primes of at most 40 bits at once."""

    def __init__(self, moduli: Sequence[int]) -> None:
        self.moduli = tuple(moduli)

    def _t(self, like: Residues) -> Residues:
        return np.array(self.moduli, dtype=np.uint64).reshape(-1, *(1,) * (like.ndim - 1))

    def of(self, integers: npt.ArrayLike) -> Residues:
        """Integers of any size modulo every prime."""
        array = np.asarray(integers)
        if array.dtype.kind not in "iO":
            array = array.astype(object)
        return to_residues(array, self.moduli)

    def add(self, left: Residues, right: Residues) -> Residues:
        """Sum."""
        return np.asarray((left + right) % self._t(left if left.ndim >= right.ndim else right))

    def negate(self, numbers: Residues) -> Residues:
        """Additive inverse."""
        t = self._t(numbers)
        return np.asarray((t - numbers) % t)

    def multiply(self, left: Residues, right: Residues) -> Residues:
        """Product, exact in 64 bits; the arrays broadcast from the second axis on."""
        t = self._t(left if left.ndim >= right.ndim else right)
        high = left * (right >> _HALF_BITS) % t
        return np.asarray(((high << _HALF_BITS) + left * (right & _LOW)) % t)

    def total(self, numbers: Residues, axes: tuple[int, ...]) -> Residues:
        """Sum over some axes (never the first); fewer than 2**23 numbers of 40 bits fit."""
        sums = numbers.sum(axis=axes, dtype=np.uint64)
        return np.asarray(sums % self._t(sums))

    def grouped(self, numbers: Residues, groups: npt.NDArray[np.int64]) -> Residues:
        """Sums of the columns that have the same group, numbered from 0."""
        sums = np.zeros((len(numbers), int(groups.max(initial=-1)) + 1), dtype=np.uint64)
        for place, group in enumerate(groups.tolist()):
            sums[:, group] += numbers[:, place]
        return np.asarray(sums % self._t(sums))

    def uniform(self, shape: tuple[int, ...]) -> Residues:
        """Fresh uniform numbers from the operating system."""
        return np.stack([uniform_below(t, shape) for t in self.moduli])

    def signed(self, numbers: Residues) -> BigArray:
        """Signed integers from their residues."""
        return recombine(list(numbers), self.moduli)


def taylor_terms(ring: Residue, coefficients: BigArray, own: Residues) -> tuple[Residues, Residues]:
    """The owner's side of per-slot polynomials of shared numbers.

    Parameters
    ----------
    coefficients : ndarray of shape (degree + 1, n_slots)
        Integers by rising powers.
    own : ndarray of shape (n_primes, n_features, n_slots, ...)
        The owner's shares.

    Returns
    -------
    values : ndarray of the shape of ``own``
        The polynomial at the owner's share: what it keeps.
    terms : ndarray of shape (n_primes, degree, n_features, n_slots, ...)
        Derivatives over factorials: what it encrypts.
    """
    degree = len(coefficients) - 1
    spread = (1, -1) + (1,) * (own.ndim - 3)
    derivatives = []
    for order in range(degree + 1):
        total: Residues = np.zeros_like(own)
        for k in range(degree, order - 1, -1):
            scaled = coefficients[k] * math.comb(k, order)
            total = ring.add(
                ring.multiply(total, own), ring.of(scaled.reshape(spread)).astype(np.uint64)
            )
        derivatives.append(total)
    return derivatives[0], np.stack(derivatives[1:], axis=1)


def taylor_factors(ring: Residue, masks: Residues, degree: int) -> Residues:
    """The cloud's side: powers 1 to ``degree`` of its shares, as the second axis."""
    powers = [masks]
    for _ in range(degree - 1):
        powers.append(ring.multiply(powers[-1], masks))
    return np.stack(powers, axis=1)


def product_terms(
    ring: Residue, parts: Sequence[Residues], weights: Residues
) -> tuple[Residues, Residues]:
    """The owner's side of ``weights * parts[0] * parts[1] * ...`` of shared numbers.

    Returns the weighted product of the owner's shares, and one term for every choice of at least
    one part whose other share the cloud will put in.
    """
    chosen = []
    for choice in range(1 << len(parts)):
        term = weights
        for i, part in enumerate(parts):
            if not choice >> i & 1:
                term = ring.multiply(part, term)
        chosen.append(term)
    shape = np.broadcast_shapes(*(part.shape for part in parts), weights.shape)
    full = [np.broadcast_to(term, shape) for term in chosen]
    return full[0], np.stack(full[1:], axis=1)


def product_factors(ring: Residue, parts: Sequence[Residues]) -> Residues:
    """The cloud's side of :func:`product_terms`."""
    shape = np.broadcast_shapes(*(part.shape for part in parts))
    factors = []
    for choice in range(1, 1 << len(parts)):
        factor: Residues | None = None
        for i, part in enumerate(parts):
            if choice >> i & 1:
                factor = part if factor is None else ring.multiply(factor, part)
        assert factor is not None  # noqa: S101 - every choice has at least one part
        factors.append(np.broadcast_to(factor, shape))
    return np.stack(factors, axis=1)
