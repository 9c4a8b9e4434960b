# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Weights of a party's columns, shared by two: the holder of the columns, and its partner.

The partner owns a key; the holder multiplies what arrives with its columns. A
feature holder's partner is the label holder (:class:`HeldColumns`, :class:`PartnerWeights`); that
of the label holder's own columns is the helper (:class:`OwnColumns`, :class:`HelperWeights`). The
label holder knows the gates either way, and nobody knows the weights.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.crypto.modular import Residues
from fedsift.crypto.products.between_two import (
    Small,
    TwoPartyEvaluator,
    TwoPartyOwner,
)
from fedsift.crypto.wire import Ciphertexts
from fedsift.methods.fedsdg.blind.numbers import Floats, Moving, minus, ring
from fedsift.methods.fedsdg.blind.params import BlindParams
from fedsift.methods.fedsdg.blind.requests import Secrets
from fedsift.methods.fedsdg.blind.tables import HeldTable, PartnerTable

Counted = npt.NDArray[np.bool_]

START = 0.3
"""Small weights to start from: larger ones take most of a short training to be unlearned."""


def starting_weights(
    params: BlindParams, name: str, shape: tuple[int, int], n_features: int
) -> Small:
    """One side's half of the starting weights, as integers; nobody knows the sum."""
    seed = None if params.seed is None else [params.seed, *name.encode()]
    rng = np.random.default_rng(seed)
    reals = rng.normal(0.0, START / np.sqrt(2.0 * n_features), shape)
    return np.rint(reals * 2.0**params.scales.weights).astype(np.int64)


def _flat(matrix: Residues) -> Residues:
    return matrix.reshape(len(matrix), -1)


def _spread(by_feature: Small, feature_of_input: Small, like: Residues) -> Residues:
    """Numbers of features, for every weight of their inputs."""
    return ring().of(np.broadcast_to(by_feature[feature_of_input], like.shape[1:]))


class HeldColumns:
    """A feature holder's side.

    Parameters
    ----------
    evaluator : TwoPartyEvaluator
        Under the label holder's key.
    inputs : ndarray of shape (n_rows, n_columns)
    weights : ndarray of shape (primes, n_hidden, n_columns)
        This party's share.
    """

    def __init__(
        self,
        evaluator: TwoPartyEvaluator,
        inputs: Small,
        weights: Residues,
        feature_of_input: Small,
        secrets: Secrets,
    ) -> None:
        self.evaluator = evaluator
        self.table = HeldTable(evaluator, inputs, weights.shape[1], secrets)
        self.moving = Moving(weights, first=False)
        self._feature_of_input = feature_of_input
        self.gated = weights
        self._total: Any = None
        self._factors = weights

    def use_factors(self, by_feature: Small) -> None:
        """Secret factors of the sums until the next opening."""
        self._factors = _spread(by_feature, self._feature_of_input, self.weights)

    @property
    def weights(self) -> Residues:
        """This side's share, (primes, n_hidden, n_columns)."""
        return self.moving.values

    def gate(self, gates: Ciphertexts) -> Ciphertexts:
        """[s W + r]; this party's share of the gated weights is -r."""
        mask = ring().uniform(self.weights.shape[1:])
        loaded = self.evaluator.load(gates, self.weights[0].size)
        total = self.evaluator.add_product(None, loaded, _flat(self.weights))
        self.gated = ring().negate(mask)
        return self.evaluator.finish(total, _flat(mask))

    def hidden(self, batch: int, sent: Residues) -> Residues:
        """This party's share of X U."""
        return self.table.to_rows(batch, ring().add(sent, self.gated))

    def step(
        self,
        batch: int,
        sent: Residues,
        helper_slopes: Residues,
        before: tuple[Ciphertexts, ...],
    ) -> None:
        """Take the step X^T dZ; add u W G to the sums, under the label holder's key."""
        gradient = self.table.to_columns(batch, ring().add(sent, helper_slopes))
        old = self.moving.step(gradient)
        if len(before) != 3:
            return
        factors = (gradient, old, ring().multiply(old, gradient))
        for one, factor in zip(before, factors, strict=True):
            self._add(one, ring().multiply(factor, self._factors))

    def sums(self, partner: Ciphertexts) -> Ciphertexts:
        """The sums since the last opening, with the partner's part; masks cancel in a feature."""
        self._add(partner, self._factors)
        total, self._total = self._total, None
        masks = ring().uniform(self.weights.shape[1:])
        return self.evaluator.finish(total, _flat(cancelling(masks, self._feature_of_input)))

    def _add(self, sealed: Ciphertexts, factor: Residues) -> None:
        loaded = self.evaluator.load(sealed, factor[0].size)
        self._total = self.evaluator.add_product(self._total, loaded, _flat(factor))


class PartnerWeights:
    """The label holder's side for one feature holder."""

    def __init__(
        self, owner: TwoPartyOwner, weights: Residues, feature_of_input: Small, secrets: Secrets
    ) -> None:
        self._owner = owner
        self.table = PartnerTable(owner, weights.shape[1], weights.shape[2], secrets)
        self.moving = Moving(weights, first=True)
        self.feature_of_input = feature_of_input
        self.gated = weights
        self._share = weights[:, :, :0]
        self._own_sums = np.zeros_like(weights)

    @property
    def weights(self) -> Residues:
        """This side's share, (primes, n_hidden, n_columns)."""
        return self.moving.values

    def seal_gates(self, gates: Small) -> Ciphertexts:
        """[s] of every weight."""
        return self._seal(_spread(gates, self.feature_of_input, self.weights))

    def take_gated(self, sealed: Ciphertexts, gates: Small) -> None:
        """This side's share of the gated weights."""
        opened = self._owner.open(sealed, self.weights[0].size).reshape(self.weights.shape)
        spread = _spread(gates, self.feature_of_input, self.weights)
        self.gated = ring().add(ring().multiply(spread, self.weights), opened)

    def mask_weights(self, batch: int) -> Residues:
        """U - R for the party."""
        sent, self._share = self.table.mask((batch, False), self.gated)
        return sent

    def take_hidden(self, answer: Residues) -> Residues:
        """This side's share of the party's part of the hidden values."""
        return ring().add(self._share, answer)

    def step(
        self, batch: int, slopes: Residues, counted: Counted | None
    ) -> tuple[Residues, tuple[Ciphertexts, ...]]:
        """Take the step; dZ - R for the party, and [u W], [u G], [u] unless gates are fixed.

        They travel whether any gate of the party counts or not, which is not for it to know.
        """
        sent, gradient = self.table.mask((batch, True), slopes)
        old = self.moving.step(gradient)
        if counted is None:
            return sent, ()
        chosen = _spread(counted.astype(np.int64), self.feature_of_input, old)
        products = (ring().multiply(chosen, old), ring().multiply(chosen, gradient), chosen)
        own = ring().multiply(products[0], gradient)
        self._own_sums = ring().add(self._own_sums, own)
        return sent, tuple(map(self._seal, products))

    def seal_sums(self) -> Ciphertexts:
        """[u W G]: this side's part of the sums since the last opening."""
        own, self._own_sums = self._own_sums, np.zeros_like(self._own_sums)
        return self._seal(own)

    def open_sums(self, sealed: Ciphertexts) -> Floats:
        """The sums by feature, times factors of the other side."""
        opened = self._owner.open(sealed, self.weights[0].size).reshape(self.weights.shape)
        return sums_by_feature(ring().total(opened, (1,)), self.feature_of_input)

    def _seal(self, numbers: Residues) -> Ciphertexts:
        return self._owner.seal(_flat(numbers))


class OwnColumns:
    """The label holder's side of its own columns, under the helper's key."""

    def __init__(
        self,
        evaluator: TwoPartyEvaluator,
        inputs: Small,
        weights: Residues,
        feature_of_input: Small,
        partner: Ciphertexts,
        secrets: Secrets,
    ) -> None:
        self._evaluator = evaluator
        self.table = HeldTable(evaluator, inputs, weights.shape[1], secrets)
        self.moving = Moving(weights, first=True)
        self.feature_of_input = feature_of_input
        self.gated = weights
        self._partner = partner
        self._total: Any = None
        self._own_sums = np.zeros(weights.shape[::2], dtype=np.uint64)

    @property
    def weights(self) -> Residues:
        """This side's share, (primes, n_hidden, n_columns)."""
        return self.moving.values

    def restart(self, weights: Residues, partner: Ciphertexts) -> None:
        """Other weights, and [W'] of the helper."""
        self.moving.restart(weights)
        self._partner = partner

    def gate(self, gates: Small) -> Ciphertexts:
        """[s W' + r] for the helper, and this side's share of the gated weights."""
        chosen = _spread(gates, self.feature_of_input, self.weights)
        mask = ring().uniform(self.weights.shape[1:])
        loaded = self._evaluator.load(self._partner, self.weights[0].size)
        total = self._evaluator.add_product(None, loaded, _flat(chosen))
        self.gated = minus(ring().multiply(chosen, self.weights), mask)
        return self._evaluator.finish(total, _flat(mask))

    def hidden(self, batch: int, sent: Residues) -> Residues:
        """This side's share of these columns' part of the hidden values."""
        return self.table.to_rows(batch, ring().add(sent, self.gated))

    def step(
        self,
        batch: int,
        sent: Residues,
        slopes: Residues,
        partner: tuple[Ciphertexts, ...],
        counted: Counted | None,
    ) -> None:
        """Take the step; add u W G to the sums, under the helper's key."""
        self._partner, *before = partner
        gradient = self.table.to_columns(batch, ring().add(sent, slopes))
        old = self.moving.step(gradient)
        if counted is None:
            return
        chosen = _spread(counted.astype(np.int64), self.feature_of_input, old)
        factors = (ring().multiply(chosen, gradient), ring().multiply(chosen, old), chosen)
        own = ring().total(ring().multiply(factors[0], old), (1,))
        self._own_sums = ring().add(self._own_sums, own)
        for one, factor in zip(before, factors, strict=True):
            loaded = self._evaluator.load(one, old[0].size)
            self._total = self._evaluator.add_product(self._total, loaded, _flat(factor))

    def seal_sums(self) -> tuple[Ciphertexts, Residues]:
        """The sums under a mask of this side's, and by input what takes the mask off again."""
        mask = ring().uniform(self.weights.shape[1:])
        rest = minus(self._own_sums, ring().total(mask, (1,)))
        self._own_sums = np.zeros_like(self._own_sums)
        total, self._total = self._total, None
        return self._evaluator.finish(total, _flat(mask)), rest


class HelperWeights:
    """The helper's side of the label holder's own columns."""

    def __init__(
        self, owner: TwoPartyOwner, weights: Residues, feature_of_input: Small, secrets: Secrets
    ) -> None:
        self._owner = owner
        self.table = PartnerTable(owner, weights.shape[1], weights.shape[2], secrets)
        self.moving = Moving(weights, first=False)
        self.gated = weights
        self._feature_of_input = feature_of_input
        self.n_features = int(feature_of_input.max()) + 1
        self._share = weights[:, :, :0]

    @property
    def weights(self) -> Residues:
        """This side's share, (primes, n_hidden, n_columns)."""
        return self.moving.values

    def seal_weights(self) -> Ciphertexts:
        """[W']."""
        return self._owner.seal(_flat(self.weights))

    def take_gated(self, sealed: Ciphertexts) -> None:
        """This side's share of the gated weights."""
        opened = self._owner.open(sealed, self.weights[0].size)
        self.gated = opened.reshape(self.weights.shape)

    def mask_weights(self, batch: int) -> Residues:
        """U' - R for the label holder."""
        sent, self._share = self.table.mask((batch, False), self.gated)
        return sent

    @property
    def hidden(self) -> Residues:
        """This side's share of these columns' part of the hidden values of the batch."""
        return self._share

    def step(self, batch: int, slopes: Residues) -> tuple[Residues, tuple[Ciphertexts, ...]]:
        """Take the step; dZ' - R for the label holder, new [W'], and [W'], [G'], [W' G'] before."""
        sent, gradient = self.table.mask((batch, True), slopes)
        old = self.moving.step(gradient)
        products = (old, gradient, ring().multiply(old, gradient))
        return sent, (self.seal_weights(), *(self._owner.seal(_flat(one)) for one in products))

    def open_sums(
        self, sealed: Ciphertexts, rest: Ciphertexts, partner: TwoPartyEvaluator, by_feature: Small
    ) -> Ciphertexts:
        """The sums by input times secret factors, under the partner's key; masks cancel."""
        opened = self._owner.open(sealed, self.weights[0].size).reshape(self.weights.shape)
        by_input = ring().total(opened, (1,))
        factors = ring().of(by_feature[self._feature_of_input])
        masks = cancelling(ring().uniform((1, len(self._feature_of_input))), self._feature_of_input)
        known = ring().add(ring().multiply(factors, by_input), masks[:, 0])
        total = partner.add_product(None, partner.load(rest, by_input.shape[1]), factors)
        return partner.finish(total, known)


def cancelling(masks: Residues, group_of_column: Small) -> Residues:
    """Masks (primes, n, n_columns) of which the first of each group of columns takes up the rest.

    Examples
    --------
    >>> masks = cancelling(ring().uniform((2, 3)), np.array([0, 1, 1]))
    >>> ring().total(masks[:, :, 1:], (1, 2)).tolist()
    [0, 0]
    """
    totals = np.zeros((len(masks), int(group_of_column.max()) + 1), dtype=np.uint64)
    for total, part in zip(totals, ring().total(masks, (1,)), strict=True):
        np.add.at(total, group_of_column, part)
    first = np.unique(group_of_column, return_index=True)[1]
    masks[:, 0, first] = minus(masks[:, 0, first], ring().total(totals[:, :, None], (2,)))
    return masks


def sums_by_feature(by_input: Residues, feature_of_input: Small) -> Floats:
    """Signed sums, added over the inputs of each feature."""
    signed = ring().signed(by_input)
    found = np.zeros(int(feature_of_input.max()) + 1, dtype=object)
    np.add.at(found, feature_of_input, signed)
    return _wrapped(found).astype(np.float64)


def _wrapped(numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Sums of signed representatives, nearest to zero again."""
    return ring().signed(ring().of(numbers))
