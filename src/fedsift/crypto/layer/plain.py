# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""K2 without encryption: the same ring, shapes and masks in the clear.

For tests and for reading: it hides nothing from the evaluator. It computes modulo the very prime
the BGV backend would use, so both agree to the last bit even where a result leaves the ring.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedsift.crypto.columns.api import IntArray
from fedsift.crypto.layer.plan import LayerPlan, MaskKind, plan_layer
from fedsift.crypto.modular import centred, multiply_modulo, residues, uniform_below
from fedsift.crypto.schemes.seal import Slots
from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.errors import BadCiphertext, ParameterError

SCHEME = "plain"


@dataclass(frozen=True, repr=False)
class KeptPlain:
    """A weight gradient, or an updated share, that stays with the evaluator."""

    numbers: Slots
    n_updates: int = 1

    def __repr__(self) -> str:
        return f"<kept plain matrix, {self.n_updates} updates>"


class PlainMatrixOwner:
    """The party with the batch, without encryption; parameters as :class:`BGVMatrixOwner`."""

    def __init__(
        self,
        n_rows: int,
        n_inputs: int,
        n_outputs: int,
        plain_bits: int = 48,
        *,
        n_updates: int = 0,
    ) -> None:
        self.plan = plan_layer(n_rows, n_inputs, n_outputs, plain_bits, n_updates)
        self.keys = PublicKeys(SCHEME, self.plan.numbers | {"security_bits": 0}, ())

    @property
    def modulus(self) -> int:
        """The ring Z_t all numbers live in."""
        return self.plan.parameters.plain_modulus

    def random_share(self) -> IntArray:
        """A share of the weights to start from, uniform in Z_t."""
        return uniform_below(self.modulus, self.plan.shape("weights")).astype(np.int64)

    def encrypt_input(self, batch: npt.ArrayLike) -> Ciphertexts:
        """Write a batch of shape (n_rows, n_inputs)."""
        return _write(residues(batch, self.plan.shape("inputs"), self.modulus, "batch"))

    def encrypt_share(self, share: npt.ArrayLike) -> Ciphertexts:
        """Write this side's share of the weights, shape (n_inputs, n_outputs)."""
        return _write(residues(share, self.plan.shape("weights"), self.modulus, "share"))

    def decrypt_output(self, sealed: Ciphertexts) -> IntArray:
        """Masked outputs of shape (n_rows, n_outputs)."""
        return self._open(sealed, "output")

    def decrypt_weight_gradient(self, sealed: Ciphertexts) -> IntArray:
        """Masked weight gradient of shape (n_inputs, n_outputs)."""
        return self._open(sealed, "weights")

    def decrypt_input_gradient(self, sealed: Ciphertexts) -> IntArray:
        """Gradient of the batch, shape (n_rows, n_inputs)."""
        return self._open(sealed, "inputs")

    def _open(self, sealed: Ciphertexts, kind: MaskKind) -> IntArray:
        return centred(_read(sealed, self.plan, kind), self.modulus)


class PlainMatrixEvaluator:
    """The party with the other share of the weights, without encryption."""

    def __init__(self, keys: PublicKeys, n_rows: int, n_inputs: int, n_outputs: int) -> None:
        bits, updates = keys.numbers.get("plain_bits", 0), keys.numbers.get("n_updates", 0)
        try:
            self.plan = plan_layer(n_rows, n_inputs, n_outputs, bits, updates)
        except ParameterError as error:
            raise _unexpected(keys.scheme) from error
        if keys.scheme != SCHEME or keys.numbers != self.plan.numbers | {"security_bits": 0}:
            raise _unexpected(keys.scheme)

    @property
    def modulus(self) -> int:
        """The ring Z_t all numbers live in."""
        return self.plan.parameters.plain_modulus

    def masks(self, kind: MaskKind) -> IntArray:
        """Masks of one result, uniform in Z_t."""
        return uniform_below(self.modulus, self.plan.shape(kind)).astype(np.int64)

    def forward(
        self, batch: Ciphertexts, weights: npt.ArrayLike, mask: npt.ArrayLike
    ) -> Ciphertexts:
        """Return ``g V + mask``."""
        product = self._times(_read(batch, self.plan, "inputs"), self._matrix(weights, "weights"))
        return _write(self._sum(product, self._matrix(mask, "output")))

    def weight_gradient(
        self, batch: Ciphertexts, delta: npt.ArrayLike, mask: npt.ArrayLike
    ) -> tuple[Ciphertexts, KeptPlain]:
        """Return ``g^T delta + mask``, for the owner and to keep."""
        inputs = _read(batch, self.plan, "inputs").T
        product = self._times(inputs, self._matrix(delta, "output"))
        masked = self._sum(product, self._matrix(mask, "weights"))
        return _write(masked), KeptPlain(masked)

    def input_gradient(
        self,
        share: Ciphertexts | KeptPlain,
        delta: npt.ArrayLike,
        weights: npt.ArrayLike,
        mask: npt.ArrayLike | None = None,
    ) -> Ciphertexts:
        """Return ``delta V^T - delta E^T`` (+ mask)."""
        negated = (np.uint64(self.modulus) - self._share(share)) % np.uint64(self.modulus)
        difference = self._sum(self._matrix(weights, "weights"), negated)
        product = self._times(self._matrix(delta, "output"), difference.T)
        if mask is not None:
            product = self._sum(product, self._matrix(mask, "inputs"))
        return _write(product)

    def add_shares(self, share: Ciphertexts | KeptPlain, gradient: KeptPlain) -> KeptPlain:
        """Add a kept weight gradient to the owner's share."""
        done = share.n_updates if isinstance(share, KeptPlain) else 0
        if done + gradient.n_updates > self.plan.n_updates:
            raise ParameterError(
                f"{done + 1} updates of an encrypted share were asked for.",
                f"The keys were made for {self.plan.n_updates}.",
                "Ask the owner for a fresh share, or make the keys with more n_updates.",
            )
        total = self._sum(self._share(share), gradient.numbers)
        return KeptPlain(total, done + gradient.n_updates)

    def _matrix(self, numbers: npt.ArrayLike, kind: MaskKind) -> Slots:
        return residues(numbers, self.plan.shape(kind), self.modulus, f"matrix of {kind}")

    def _share(self, share: Ciphertexts | KeptPlain) -> Slots:
        return share.numbers if isinstance(share, KeptPlain) else _read(share, self.plan, "weights")

    def _times(self, left: Slots, right: Slots) -> Slots:
        return multiply_modulo(left, right, self.modulus)

    def _sum(self, left: Slots, right: Slots) -> Slots:
        return (left + right) % np.uint64(self.modulus)


def _write(numbers: Slots) -> Ciphertexts:
    return Ciphertexts(SCHEME, (np.ascontiguousarray(numbers, dtype="<u8").tobytes(),))


def _read(sealed: Ciphertexts, plan: LayerPlan, kind: MaskKind) -> Slots:
    shape = plan.shape(kind)
    if sealed.scheme != SCHEME or [len(b) for b in sealed.blobs] != [8 * shape[0] * shape[1]]:
        raise _unexpected(sealed.scheme)
    numbers = np.frombuffer(sealed.blobs[0], "<u8").reshape(shape)
    if numbers.size and int(numbers.max()) >= plan.parameters.plain_modulus:
        raise _unexpected(sealed.scheme)
    return numbers.astype(np.uint64)


def _unexpected(scheme: str) -> BadCiphertext:
    return BadCiphertext(
        f"Something of scheme {scheme[:12]!r} came in that does not belong to this layer.",
        f"Scheme {SCHEME!r} and the agreed shapes and modulus are needed.",
        "Check that all parties run the same version of fedsift and the same job.",
    )
