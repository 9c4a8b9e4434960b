# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""One plaintext prime of K3: a ring of slots under encryption, and the same ring in the clear.

:mod:`fedsift.crypto.products.bgv` computes with :class:`OwnerRing` (the key owner) and
:class:`EvaluatorRing` (anybody else) and cannot tell whether ciphertexts are behind them, so a run
without encryption takes exactly the same steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from fedsift.crypto.modular import Residues
from fedsift.crypto.schemes.seal import SealOwner, SealParameters, SealPublic
from fedsift.errors import BadCiphertext

_HALF_BITS = 20


def multiply_slots(left: Residues, right: Residues, modulus: int) -> Residues:
    """Slot by slot products modulo a prime of at most 40 bits, exact in 64 bits.

    Examples
    --------
    >>> t = 2**40 - 87
    >>> big = np.array([t - 1], dtype=np.uint64)
    >>> multiply_slots(big, big, t).tolist()
    [1]
    """
    t, half = np.uint64(modulus), np.uint64(_HALF_BITS)
    low = right & np.uint64((1 << _HALF_BITS) - 1)
    high = left * (right >> half) % t
    product: Residues = ((high << half) + left * low) % t
    return product


class OwnerRing(Protocol):
    """The key owner's side of one prime."""

    public_blobs: tuple[bytes, ...]

    def encrypt(self, slots: Residues) -> bytes:
        """Fresh ciphertext of all slots."""
        ...

    def decrypt(self, blob: bytes) -> Residues:
        """All slots of a returned ciphertext."""
        ...


class EvaluatorRing(Protocol):
    """Everybody else's side of one prime; ``counts`` adds up the operations."""

    counts: Counter[str]

    def encrypt(self, slots: Residues) -> bytes:
        """Fresh ciphertext under the owner's public key."""
        ...

    def load(self, blob: bytes) -> Any:
        """Check and load a fresh ciphertext of another party."""
        ...

    def add(self, left: Any, right: Any) -> Any:
        """Sum of two ciphertexts."""
        ...

    def multiply(self, left: Any, right: Any) -> Any:
        """Product of two ciphertexts."""
        ...

    def factor(self, slots: Residues) -> Any:
        """Open numbers, ready to be multiplied with several ciphertexts."""
        ...

    def scale(self, ciphertext: Any, factor: Any) -> Any:
        """Product of a ciphertext and open numbers."""
        ...

    def rotate(self, ciphertext: Any, steps: int) -> Any:
        """Both slot rows moved to the left."""
        ...

    def finish(self, ciphertext: Any, mask: Residues, noise_bits: float) -> bytes:
        """Add open numbers, hide how the ciphertext was made, serialise."""
        ...


class SealEvaluator:
    """SEAL behind :class:`EvaluatorRing`."""

    def __init__(
        self, parameters: SealParameters, blobs: Sequence[bytes], *, evaluates: bool
    ) -> None:
        self._public = SealPublic(parameters, blobs, rotations=evaluates, relinearise=evaluates)
        self._space = self._public.workspace
        self._level = parameters.levels
        self.counts: Counter[str] = Counter()

    def encrypt(self, slots: Residues) -> bytes:
        """See :class:`EvaluatorRing`."""
        self.counts["encryptions"] += 1
        return self._public.encrypt(slots)

    def load(self, blob: bytes) -> Any:
        """See :class:`EvaluatorRing`."""
        return self._space.ciphertext(blob, self._level)

    def add(self, left: Any, right: Any) -> Any:
        """See :class:`EvaluatorRing`."""
        return self._space.evaluator.add(left, right)

    def multiply(self, left: Any, right: Any) -> Any:
        """See :class:`EvaluatorRing`."""
        self.counts["ciphertext products"] += 1
        product = self._space.evaluator.multiply(left, right)
        self._space.evaluator.relinearize_inplace(product, self._public.relinearisation)
        return product

    def factor(self, slots: Residues) -> Any:
        """See :class:`EvaluatorRing`."""
        return self._space.encode_factor(slots, self._level)

    def scale(self, ciphertext: Any, factor: Any) -> Any:
        """See :class:`EvaluatorRing`."""
        self.counts["plaintext products"] += 1
        return self._space.evaluator.multiply_plain(ciphertext, factor)

    def rotate(self, ciphertext: Any, steps: int) -> Any:
        """See :class:`EvaluatorRing`."""
        self.counts["rotations"] += 1
        return self._public.rotate(ciphertext, steps)

    def finish(self, ciphertext: Any, mask: Residues, noise_bits: float) -> bytes:
        """See :class:`EvaluatorRing`."""
        masked = self._space.evaluator.add_plain(ciphertext, self._space.encode(mask))
        return self._public.hide_circuit(masked, noise_bits)


class PlainOwner:
    """No encryption at all, for comparison: 'ciphertexts' are the slots themselves."""

    def __init__(self, parameters: SealParameters) -> None:
        self._degree = parameters.degree
        self._modulus = parameters.plain_modulus
        self.public_blobs: tuple[bytes, ...] = (b"", b"", b"")

    def encrypt(self, slots: Residues) -> bytes:
        """See :class:`OwnerRing`."""
        return np.ascontiguousarray(slots, dtype="<u8").tobytes()

    def decrypt(self, blob: bytes) -> Residues:
        """See :class:`OwnerRing`."""
        return _plain_slots(blob, self._degree, self._modulus)


class PlainEvaluator:
    """The same arithmetic on open slots; nothing is hidden, so keys and noise do not matter."""

    def __init__(self, parameters: SealParameters) -> None:
        self._degree = parameters.degree
        self._modulus = parameters.plain_modulus
        self.counts: Counter[str] = Counter()

    def encrypt(self, slots: Residues) -> bytes:
        """See :class:`EvaluatorRing`."""
        return np.ascontiguousarray(slots, dtype="<u8").tobytes()

    def load(self, blob: bytes) -> Any:
        """See :class:`EvaluatorRing`."""
        return _plain_slots(blob, self._degree, self._modulus)

    def add(self, left: Any, right: Any) -> Any:
        """See :class:`EvaluatorRing`."""
        return (left + right) % np.uint64(self._modulus)

    def multiply(self, left: Any, right: Any) -> Any:
        """See :class:`EvaluatorRing`."""
        return multiply_slots(left, right, self._modulus)

    def factor(self, slots: Residues) -> Any:
        """See :class:`EvaluatorRing`."""
        return slots

    def scale(self, ciphertext: Any, factor: Any) -> Any:
        """See :class:`EvaluatorRing`."""
        return multiply_slots(ciphertext, factor, self._modulus)

    def rotate(self, ciphertext: Any, steps: int) -> Any:
        """See :class:`EvaluatorRing`."""
        return np.roll(ciphertext.reshape(2, -1), -steps, axis=1).ravel()

    def finish(self, ciphertext: Any, mask: Residues, noise_bits: float) -> bytes:  # noqa: ARG002
        """See :class:`EvaluatorRing`."""
        return self.encrypt(self.add(ciphertext, mask))


def _plain_slots(blob: bytes, degree: int, modulus: int) -> Residues:
    slots = np.frombuffer(blob, "<u8") if len(blob) == 8 * degree else np.empty(0, np.uint64)
    if slots.size != degree or int(slots.max()) >= modulus:
        raise BadCiphertext(
            f"Received {len(blob)} bytes.",
            f"Needed: {degree} numbers below the agreed modulus.",
            "Check that all parties run the same version of fedsift and the same job.",
        )
    return slots


def own_ring(scheme: str, parameters: SealParameters, steps: Sequence[int]) -> OwnerRing:
    """Make keys for one prime; ``steps`` are the rotations the evaluator will need."""
    if scheme == "plain":
        return PlainOwner(parameters)
    return _SealOwnerRing(parameters, steps)


class _SealOwnerRing:
    """SEAL behind :class:`OwnerRing`."""

    def __init__(self, parameters: SealParameters, steps: Sequence[int]) -> None:
        self._owner = SealOwner(parameters, steps=steps, relinearise=True)
        self.public_blobs = self._owner.public_blobs

    def encrypt(self, slots: Residues) -> bytes:
        return self._owner.encrypt(slots)

    def decrypt(self, blob: bytes) -> Residues:
        return self._owner.decrypt(blob)


def evaluator_ring(
    scheme: str, parameters: SealParameters, blobs: Sequence[bytes], *, evaluates: bool
) -> EvaluatorRing:
    """Use somebody's public keys for one prime; ``evaluates`` asks for the computing keys too."""
    if scheme == "plain":
        return PlainEvaluator(parameters)
    return SealEvaluator(parameters, blobs, evaluates=evaluates)
