# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The interactive layer, seen from both sides: weights W = V - E that exist nowhere.

The feature holder keeps E and the secret key (:class:`OwnedLayer`), the label holder keeps V
(:class:`EvaluatorLayer`); see :mod:`fedsift.crypto.layer.api` for one step. Columns that the label
holder owns itself need no encryption (:class:`OpenLayer`), but the same integers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.crypto.identity import KeyedParty
from fedsift.crypto.layer.api import exact_product, join_layer, own_layer, reduced
from fedsift.crypto.masking import (
    MaskingKey,
    PairwiseMasks,
    from_limbs,
    to_limbs,
    unmask_modulo,
    unmask_sum,
)
from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.errors import BadFrame
from fedsift.methods.fedsdg.layer_numbers import RING_BITS, Integers
from fedsift.methods.fedsdg.local_part import padded
from fedsift.protocol import MaskedArray

Numbers = npt.NDArray[Any]
"""Integers of any size: int64 in a ring, Python integers under Paillier."""

_LIMBS = 4
"""64-bit words of a Paillier number: values, masks 40 bits wider, and sums of those fit."""


def starting_weights(
    rng: np.random.Generator, shape: tuple[int, int], n_parts: int
) -> npt.NDArray[np.float64]:
    """Half of the starting weights of one party's part; the other half comes from the other side.

    Neither side knows the sum, so nobody can undo the layer, not even in the first batch.
    """
    return rng.normal(0.0, 1.0 / np.sqrt(2.0 * shape[0] * n_parts), shape)


class OwnedLayer:
    """The feature holder's side: the secret key and the share E.

    Parameters
    ----------
    scheme : {"bgv", "paillier", "plain"}
    batch_size, n_inputs, n_outputs : int
    security_bits : int
    """

    def __init__(
        self,
        scheme: str,
        batch_size: int,
        n_inputs: int,
        n_outputs: int,
        *,
        security_bits: int,
    ) -> None:
        self._owner = own_layer(
            scheme,
            batch_size,
            n_inputs,
            n_outputs,
            plain_bits=RING_BITS,
            security_bits=security_bits,
        )
        self._batch_size = batch_size
        self._masking_key = MaskingKey.generate()
        self._masks: PairwiseMasks | None = None
        self.share: Numbers = np.zeros((n_inputs, n_outputs), dtype=np.int64)

    @property
    def keys(self) -> PublicKeys:
        """Public key and evaluation keys."""
        return self._owner.keys

    def announce(self, at: KeyedParty, receivers: Iterable[str]) -> PublicKeys:
        """Make the public key for pairwise masks."""
        return self._masking_key.announce(at, receivers)

    def agree_masks(self, at: KeyedParty, publics: dict[str, PublicKeys]) -> None:
        """Agree on pairwise masks with the other feature holders."""
        self._masks = self._masking_key.make_masks(at, publics, publics)

    def new_share(self, weights: Integers) -> MaskedArray:
        """Draw E and return V = weights + E for the other side."""
        self.share = self._owner.random_share()
        return packed(reduced(weights + self.share, self._owner.modulus), self._owner.modulus)

    def encrypt(self, embedding: Integers) -> Ciphertexts:
        """[g]; short batches are filled up."""
        return self._owner.encrypt_input(padded(embedding, self._batch_size))

    def encrypt_share(self) -> Ciphertexts:
        """[E], freshly encrypted for every batch."""
        return self._owner.encrypt_share(self.share)

    def outputs(
        self, sealed: Ciphertexts, embedding: Integers, blur: Integers, context: str
    ) -> MaskedArray:
        """Turn [g V + r] into g W + blur + r, with pairwise masks if they were agreed on."""
        modulus = self._owner.modulus
        opened = self._owner.decrypt_output(sealed)[: len(embedding)]
        own = exact_product(embedding, self.share, modulus) - blur
        if modulus:
            folded = _folded(opened - own, modulus)
            if self._masks is None:
                return packed(folded, modulus)
            return MaskedArray.of(self._masks.mask_modulo(folded, context, modulus))
        exact = (opened - own).astype(object)
        if self._masks is None:
            return packed(exact, modulus)
        limbs = self._masks.mask(list(exact.ravel()), context, _LIMBS)
        return MaskedArray.of(limbs.reshape(*exact.shape, _LIMBS))

    def update(self, sealed: Ciphertexts) -> None:
        """E <- E + (g^T delta + r'); the other side adds r' to V."""
        modulus = self._owner.modulus
        step = self._owner.decrypt_weight_gradient(sealed)
        self.share = _folded(self.share + step, modulus) if modulus else self.share + step

    def input_gradient(self, sealed: Ciphertexts, n_rows: int) -> Integers:
        """Delta W^T of the rows that are in the batch."""
        return np.asarray(self._owner.decrypt_input_gradient(sealed)[:n_rows], dtype=np.int64)


class EvaluatorLayer:
    """The label holder's side for one feature holder: the share V."""

    def __init__(
        self,
        keys: PublicKeys,
        batch_size: int,
        n_inputs: int,
        n_outputs: int,
    ) -> None:
        self._evaluator = join_layer(keys, batch_size, n_inputs, n_outputs)
        self._batch_size = batch_size
        self.share: Numbers = np.zeros((n_inputs, n_outputs), dtype=np.int64)
        self._mask: Numbers | None = None

    @property
    def modulus(self) -> int:
        """The ring Z_t, or 0 for the integers."""
        return self._evaluator.modulus

    def take_share(self, sent: MaskedArray, own_weights: Integers) -> None:
        """V = what the feature holder sent + this side's half of the starting weights."""
        received = unpacked(sent, self.share.shape, self.modulus)
        total = received + own_weights
        self.share = _folded(total, self.modulus) if self.modulus else total

    def forward(self, batch: Ciphertexts) -> Ciphertexts:
        """[g V + r]; r stays here until the outputs come back."""
        self._mask = self._evaluator.masks("output")
        return self._evaluator.forward(batch, self.share, self._mask)

    def output_mask(self, n_rows: int) -> Numbers:
        """The masks r of the batch on its way."""
        assert self._mask is not None  # noqa: S101 - forward came before
        return self._mask[:n_rows]

    def backward(
        self,
        batch: Ciphertexts,
        share: Ciphertexts,
        delta: Integers,
        shown: Integers,
        blur: Integers,
    ) -> tuple[Ciphertexts, Ciphertexts]:
        """[g^T delta + r'] and [shown W^T + blur], both for the weights before the update.

        Only the second is ever opened, so only ``shown`` needs noise that protects labels.
        """
        full, seen = padded(delta, self._batch_size), padded(shown, self._batch_size)
        inputs = self._evaluator.input_gradient(
            share, seen, self.share, padded(blur, self._batch_size)
        )
        mask = self._evaluator.masks("weights")
        weights, _ = self._evaluator.weight_gradient(batch, full, mask)
        total = self.share + mask
        self.share = _folded(total, self.modulus) if self.modulus else total
        return weights, inputs


class OpenLayer:
    """The label holder's own columns: the same integers, nothing to hide."""

    def __init__(self, weights: Integers) -> None:
        self.weights = weights

    def forward(self, embedding: Integers) -> Integers:
        """Return g W."""
        return embedding @ self.weights

    def backward(self, embedding: Integers, delta: Integers) -> Integers:
        """Return delta W^T, then take the step."""
        inputs: Integers = delta @ self.weights.T
        self.weights = self.weights - embedding.T @ delta
        return inputs


def sum_of_outputs(
    shares: list[MaskedArray],
    masks: list[Numbers],
    shape: tuple[int, int],
    modulus: int,
    *,
    pairwise: bool,
) -> Integers:
    """Outputs summed over feature holders: pairwise masks cancel, r is taken away."""
    total: Numbers
    if not pairwise:
        total = np.sum([unpacked(share, shape, modulus) for share in shares], axis=0)
    elif modulus:
        total = unmask_modulo([share.array(shape=shape) for share in shares], modulus)
    else:
        limbs = [share.array(shape=(*shape, _LIMBS)).reshape(-1, _LIMBS) for share in shares]
        total = np.array(unmask_sum(limbs, _LIMBS), dtype=object).reshape(shape)
    rest = total - np.sum(masks, axis=0)
    result = _folded(rest, modulus) if modulus else rest
    return np.asarray(result, dtype=np.int64)


def packed(numbers: Numbers, modulus: int) -> MaskedArray:
    """Numbers as they travel: one word each in a ring, four under Paillier."""
    if modulus:
        return MaskedArray.of(np.asarray(numbers, dtype=np.int64))
    limbs = to_limbs(list(numbers.ravel()), _LIMBS)
    return MaskedArray.of(limbs.reshape(*numbers.shape, _LIMBS))


def unpacked(sent: MaskedArray, shape: tuple[int, ...], modulus: int) -> Numbers:
    """Numbers that arrived; refuses another shape or numbers outside the ring."""
    if not modulus:
        limbs = sent.array(shape=(*shape, _LIMBS))
        if limbs.dtype != np.uint64:
            raise _not_usable()
        return np.array(from_limbs(limbs.reshape(-1, _LIMBS)), dtype=object).reshape(shape)
    numbers = sent.array(shape=shape)
    if numbers.dtype != np.int64 or (np.abs(numbers) > modulus // 2 + 1).any():
        raise _not_usable()
    return numbers


def _folded(numbers: Numbers, modulus: int) -> Integers:
    """Sums of a few ring elements, nearest to zero again."""
    half = modulus // 2
    return (np.asarray(numbers, dtype=np.int64) + half) % modulus - half


def _not_usable() -> BadFrame:
    return BadFrame(
        "Masked numbers arrived that do not belong to this layer.",
        "Numbers of the agreed ring are needed.",
        "Check that all parties run the same job.",
    )
