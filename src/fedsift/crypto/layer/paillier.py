# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""K2 with Paillier behind the interface of the other backends: over the integers, no modulus.

All three products are ``left_multiply`` of :mod:`fedsift.crypto.layer.paillier_matrix`:

    forward          (g V)^T       = V^T g^T        g^T packed along the batch
    weight gradient  (g^T delta)^T = delta^T g      g packed along the inputs
    input gradient   - delta E^T                    E^T packed along the inputs

Shares and masks are wider than what they hide instead of uniform modulo t. Widths, with
``b = plain_bits - 1`` bits for every true number:

    share, weight-gradient mask   b + 41, growing by at most 20 bits over all updates
    product of a share            that + input_bits + log2 of the number of terms
    mask of such a product        41 bits more
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedsift.crypto.columns.api import BigArray
from fedsift.crypto.columns.plain import big_array
from fedsift.crypto.layer.paillier_matrix import (
    MASK_EXTRA_BITS,
    PaillierMatrixEvaluator,
    PaillierMatrixOwner,
)
from fedsift.crypto.layer.plan import MaskKind, mask_shape
from fedsift.crypto.modular import random_integers
from fedsift.crypto.schemes.paillier import PaillierPrivateKey, key_bits_for, public_key_from
from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.errors import BadCiphertext, FixedPointOverflow, ParameterError

SCHEME = "paillier"
_GROWTH_BITS = 20
"""A share takes up to ``2**20`` updates before it could outgrow its digit."""


@dataclass(frozen=True)
class _Shape:
    """Shapes and widths that owner and evaluator derive from the same numbers."""

    n_rows: int
    n_inputs: int
    n_outputs: int
    plain_bits: int
    input_bits: int

    def __post_init__(self) -> None:
        if min(self.n_rows, self.n_inputs, self.n_outputs) < 1 or not (
            2 <= self.plain_bits <= 256 and 1 <= self.input_bits <= self.plain_bits
        ):
            raise ParameterError(
                f"A layer of {self.n_rows} rows, {self.n_inputs} by {self.n_outputs}, with "
                f"{self.plain_bits} and {self.input_bits} bits was asked for.",
                "Sizes must be positive, bits at most 256.",
                "Correct the sizes.",
            )

    @property
    def result_bits(self) -> int:
        """Bits of every true number: inputs, weights, outputs, gradients."""
        return self.plain_bits - 1

    @property
    def share_bits(self) -> int:
        """Bits of a share after all its updates."""
        return self.result_bits + MASK_EXTRA_BITS + _GROWTH_BITS

    @property
    def product_bits(self) -> int:
        """Bits of a share times inputs or deltas, summed."""
        terms = max(self.n_rows, self.n_inputs, self.n_outputs)
        return self.share_bits + self.input_bits + terms.bit_length()

    @property
    def numbers(self) -> dict[str, int]:
        """What travels with the public key."""
        return {
            "n_rows": self.n_rows,
            "n_inputs": self.n_inputs,
            "n_outputs": self.n_outputs,
            "plain_bits": self.plain_bits,
            "factor_bits": self.input_bits,
        }

    def of(self, kind: MaskKind) -> tuple[int, int]:
        """Shape of a result."""
        return mask_shape(kind, self.n_rows, self.n_inputs, self.n_outputs)

    def mask_bits(self, kind: MaskKind) -> int:
        """Outputs hide a share's product; gradients are true numbers."""
        hidden = self.product_bits if kind == "output" else self.result_bits
        return hidden + MASK_EXTRA_BITS

    def draw(self, kind: MaskKind) -> BigArray:
        """Masks from the operating system."""
        shape = self.of(kind)
        return big_array(random_integers(self.mask_bits(kind), shape[0] * shape[1])).reshape(shape)


@dataclass(frozen=True, repr=False)
class KeptPaillier:
    """A weight gradient, or an updated share, that stays with the evaluator."""

    sealed: Ciphertexts
    n_updates: int = 1

    def __repr__(self) -> str:
        return f"<kept {self.sealed!r}, {self.n_updates} updates>"


class PaillierLayerOwner:
    """The party with the batch, its share of the weights and the secret key.

    Parameters
    ----------
    n_rows, n_inputs, n_outputs : int
        Batch size and shape of the weights.
    plain_bits : int
        True numbers are smaller than ``2**(plain_bits - 1)`` in size, as in a ring of that size.
    input_bits : int, optional
        Bits of the entries of batches and deltas; half of ``plain_bits`` if missing.
    security_bits : int
    key : PaillierPrivateKey, optional
        An existing key.
    """

    modulus = 0
    """No ring: numbers are integers."""

    def __init__(
        self,
        n_rows: int,
        n_inputs: int,
        n_outputs: int,
        plain_bits: int = 48,
        *,
        input_bits: int | None = None,
        security_bits: int = 128,
        key: PaillierPrivateKey | None = None,
    ) -> None:
        bits = plain_bits // 2 if input_bits is None else input_bits
        self._shape = _Shape(n_rows, n_inputs, n_outputs, plain_bits, bits)
        key = key or PaillierPrivateKey.generate(key_bits_for(security_bits))
        self._owner = PaillierMatrixOwner(value_bits=self._shape.product_bits, key=key)
        inner = self._owner.keys
        self.keys = PublicKeys(SCHEME, inner.numbers | self._shape.numbers, inner.blobs)

    def __repr__(self) -> str:
        return f"<layer of {self._owner!r}>"

    def random_share(self) -> BigArray:
        """A share of the weights to start from, 41 bits wider than they are."""
        return self._shape.draw("weights")

    def encrypt_input(self, batch: npt.ArrayLike) -> Ciphertexts:
        """Encrypt a batch of shape (n_rows, n_inputs), along the batch and along the inputs."""
        matrix = _matrix(batch, self._shape.of("inputs"), self._shape.input_bits, "batch")
        forward, gradient = self._owner.encrypt(matrix.T), self._owner.encrypt(matrix)
        return Ciphertexts(SCHEME, forward.blobs + gradient.blobs)

    def encrypt_share(self, share: npt.ArrayLike) -> Ciphertexts:
        """Encrypt this side's share of the weights, shape (n_inputs, n_outputs)."""
        shape = self._shape.of("weights")
        return self._owner.encrypt(_matrix(share, shape, self._shape.share_bits, "share").T)

    def decrypt_output(self, sealed: Ciphertexts) -> BigArray:
        """Masked outputs of shape (n_rows, n_outputs)."""
        return self._owner.decrypt(sealed, self._shape.of("output")[::-1]).T

    def decrypt_weight_gradient(self, sealed: Ciphertexts) -> BigArray:
        """Masked weight gradient of shape (n_inputs, n_outputs)."""
        return self._owner.decrypt(sealed, self._shape.of("weights")[::-1]).T

    def decrypt_input_gradient(self, sealed: Ciphertexts) -> BigArray:
        """Gradient of the batch, shape (n_rows, n_inputs)."""
        return self._owner.decrypt(sealed, self._shape.of("inputs"))


class PaillierLayerEvaluator:
    """The party with the other share of the weights; computes under the owner's key.

    Parameters
    ----------
    keys : PublicKeys
    n_rows, n_inputs, n_outputs : int
        As agreed; other keys are refused.
    allow_weak : bool
        Accept short keys, for tests.
    """

    modulus = 0
    """No ring: numbers are integers."""

    def __init__(
        self,
        keys: PublicKeys,
        n_rows: int,
        n_inputs: int,
        n_outputs: int,
        *,
        allow_weak: bool = False,
    ) -> None:
        bits = [keys.numbers.get(name, 0) for name in ("plain_bits", "factor_bits")]
        try:
            self._shape = _Shape(n_rows, n_inputs, n_outputs, *bits)
        except ParameterError as error:
            raise _other_keys() from error
        agreed = self._shape.numbers | {"value_bits": self._shape.product_bits}
        if keys.scheme != SCHEME or not agreed.items() <= keys.numbers.items():
            raise _other_keys()
        self._key = public_key_from(keys, allow_weak=allow_weak)
        self._evaluator = PaillierMatrixEvaluator(keys, allow_weak=allow_weak)

    def __repr__(self) -> str:
        return f"<layer of {self._evaluator!r}>"

    def masks(self, kind: MaskKind) -> BigArray:
        """Masks of one result, 41 bits wider than it."""
        return self._shape.draw(kind)

    def forward(
        self, batch: Ciphertexts, weights: npt.ArrayLike, mask: npt.ArrayLike
    ) -> Ciphertexts:
        """Return encrypted ``g V + mask`` of shape (n_rows, n_outputs)."""
        shape = self._shape
        matrix = _matrix(weights, shape.of("weights"), shape.share_bits, "weights")
        masks = _matrix(mask, shape.of("output"), shape.mask_bits("output"), "mask")
        return self._evaluator.left_multiply(self._halves(batch)[0], matrix.T, masks.T)

    def weight_gradient(
        self, batch: Ciphertexts, delta: npt.ArrayLike, mask: npt.ArrayLike
    ) -> tuple[Ciphertexts, KeptPaillier]:
        """Return encrypted ``g^T delta + mask`` for the owner, and the same to keep."""
        shape = self._shape
        masks = _matrix(mask, shape.of("weights"), shape.mask_bits("weights"), "mask")
        rows = self._delta(delta)
        sealed = self._evaluator.left_multiply(self._halves(batch)[1], rows.T, masks.T)
        return sealed, KeptPaillier(sealed)

    def input_gradient(
        self,
        share: Ciphertexts | KeptPaillier,
        delta: npt.ArrayLike,
        weights: npt.ArrayLike,
        mask: npt.ArrayLike | None = None,
    ) -> Ciphertexts:
        """Return encrypted ``delta V^T - delta E^T`` (+ mask) of shape (n_rows, n_inputs)."""
        shape, rows = self._shape, self._delta(delta)
        matrix = _matrix(weights, shape.of("weights"), shape.share_bits, "weights")
        known: BigArray = rows @ matrix.T
        if mask is not None:
            known = known + _matrix(mask, shape.of("inputs"), shape.mask_bits("inputs"), "mask")
        sealed = share.sealed if isinstance(share, KeptPaillier) else share
        return self._evaluator.left_multiply(sealed, -rows, known)

    def add_shares(self, share: Ciphertexts | KeptPaillier, gradient: KeptPaillier) -> KeptPaillier:
        """Add a kept weight gradient to the owner's encrypted share, without the owner."""
        kept = share if isinstance(share, KeptPaillier) else KeptPaillier(share, 0)
        total = kept.n_updates + gradient.n_updates
        if total >> _GROWTH_BITS:
            raise ParameterError(
                f"{total} updates of an encrypted share were asked for.",
                f"At most {1 << _GROWTH_BITS} fit its digits.",
                "Start again from a fresh sharing of the weights.",
            )
        count = len(gradient.sealed.blobs)
        left, right = (self._key.unseal(k.sealed, count) for k in (kept, gradient))
        added = [self._key.add(a, b) for a, b in zip(left, right, strict=True)]
        return KeptPaillier(self._key.seal(added), total)

    def _delta(self, delta: npt.ArrayLike) -> BigArray:
        return _matrix(delta, self._shape.of("output"), self._shape.input_bits, "delta")

    def _halves(self, batch: Ciphertexts) -> tuple[Ciphertexts, Ciphertexts]:
        """The batch packed along its rows, and along its inputs."""
        digits, shape = self._evaluator._packing.n_digits, self._shape
        along_rows = shape.n_inputs * -(-shape.n_rows // digits)
        along_inputs = shape.n_rows * -(-shape.n_inputs // digits)
        if len(batch.blobs) != along_rows + along_inputs:
            raise BadCiphertext(
                f"A batch of {len(batch.blobs)} ciphertexts came in.",
                f"{along_rows + along_inputs} were expected.",
                "Run the same version and the same job on both sides.",
            )
        first, second = batch.blobs[:along_rows], batch.blobs[along_rows:]
        return Ciphertexts(batch.scheme, first), Ciphertexts(batch.scheme, second)


def _matrix(numbers: npt.ArrayLike, shape: tuple[int, int], bits: int, what: str) -> BigArray:
    """Exact integers of the agreed shape and size."""
    array = np.asarray(numbers)
    if array.shape != shape or array.dtype.kind not in "iuO":
        raise ParameterError(
            f"The {what} has shape {array.shape} and type {array.dtype}.",
            f"Integers of shape {shape} are needed.",
            "Encode reals with FixedPoint first, pad short batches with zeros.",
        )
    exact: BigArray = big_array([int(number) for number in array.ravel()]).reshape(shape)
    if any(abs(number) >> bits for number in exact.ravel()):
        raise FixedPointOverflow(
            f"An entry of the {what} is longer than {bits} bits.",
            "Every number must keep to the agreed bits.",
            "Use fewer fraction bits, or agree on more plain_bits or input_bits.",
        )
    return exact


def _other_keys() -> BadCiphertext:
    return BadCiphertext(
        "The public keys are of other shapes or sizes than this layer needs.",
        "Both sides must agree on batch, weights and bits.",
        "Check that all parties run the same version of fedsift and the same job.",
    )
