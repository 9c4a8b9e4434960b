# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""K2 under BGV: one ciphertext up, one down, products by baby and giant steps, exact in Z_t.

The layout is in :mod:`fedsift.crypto.layer.plan`. Three identities do the work, each a sum over
shifts ``d`` of a rotated ciphertext times a plaintext factor:

    forward          (g V)[b, o]      = sum_d g[b, o + d] V[o + d, o]           inside a sample
    weight gradient  (g^T delta)[j, o]= sum_d g[o + d, j] delta[o + d, o] + ... across samples
    input gradient   (delta E^T)[b, j]= sum_d E[j, b + d] delta[b, b + d]       across samples

Partial sums are added by the owner after decryption, as random shares that add up to the masked
result: fewer rotations, less noise, and the single parts stay hidden. The noise bound assumes
that the owner's ciphertexts are fresh; an owner that sends noisier ones weakens the hiding of
the evaluator's numbers, which is why owners are assumed curious, not malicious.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import seal

from fedsift.crypto.columns.api import IntArray
from fedsift.crypto.layer.plan import (
    Factor,
    LayerPlan,
    MaskKind,
    baby_steps,
    forward_factor,
    gradient_factors,
    input_factors,
    plan_layer,
)
from fedsift.crypto.modular import (
    centred,
    last_share,
    multiply_modulo,
    residues,
    sum_modulo,
    uniform_below,
)
from fedsift.crypto.schemes.seal import SealOwner, SealPublic, Slots
from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.errors import BadCiphertext, ParameterError

SCHEME = "bgv"


@dataclass(frozen=True, repr=False)
class KeptBGV:
    """Ciphertexts that stay with the evaluator: without flooded noise they must not travel."""

    parts: tuple[seal.Ciphertext, ...]
    n_updates: int = 0

    def __repr__(self) -> str:
        return f"<{len(self.parts)} kept bgv ciphertexts, {self.n_updates} updates>"


class BGVMatrixOwner:
    """The party with the batch, its share of the weights and the secret key.

    Parameters
    ----------
    n_rows, n_inputs, n_outputs : int
        Batch size and shape of the weights.
    plain_bits : int
        Bit length of the modulus t.
    n_updates : int
        How often the evaluator may update an encrypted share by itself (see ``plan_layer``).
    """

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
        self._owner = SealOwner(self.plan.parameters, steps=self.plan.steps)
        self.keys = PublicKeys(SCHEME, self.plan.numbers, self._owner.public_blobs)

    def __repr__(self) -> str:
        return f"<BGV matrix owner, degree {self.plan.parameters.degree}>"

    @property
    def modulus(self) -> int:
        """The ring Z_t all numbers live in."""
        return self.plan.parameters.plain_modulus

    def random_share(self) -> IntArray:
        """A share of the weights to start from, uniform in Z_t."""
        return uniform_below(self.modulus, self.plan.shape("weights")).astype(np.int64)

    def encrypt_input(self, batch: npt.ArrayLike) -> Ciphertexts:
        """Encrypt a batch of shape (n_rows, n_inputs)."""
        shape = self.plan.shape("inputs")
        slots = self.plan.input_slots(residues(batch, shape, self.modulus, "batch"))
        return Ciphertexts(SCHEME, tuple(self._owner.encrypt(chunk) for chunk in slots))

    def encrypt_share(self, share: npt.ArrayLike) -> Ciphertexts:
        """Encrypt this side's share of the weights, shape (n_inputs, n_outputs)."""
        shape = self.plan.shape("weights")
        padded = self.plan.padded_weights(residues(share, shape, self.modulus, "share"))
        blocks = self.plan.share_slots(padded)
        return Ciphertexts(SCHEME, tuple(self._owner.encrypt(block) for block in blocks))

    def decrypt_output(self, sealed: Ciphertexts) -> IntArray:
        """Masked outputs of shape (n_rows, n_outputs)."""
        plan = self.plan
        slots = self._open(sealed, plan.n_chunks)[..., : plan.side]
        parts = slots.reshape(-1, plan.n_parts, plan.output_period)
        total = sum_modulo(np.moveaxis(parts, 1, 0), self.modulus)
        return centred(total[: plan.n_rows, : plan.n_outputs], self.modulus)

    def decrypt_weight_gradient(self, sealed: Ciphertexts) -> IntArray:
        """Masked weight gradient of shape (n_inputs, n_outputs)."""
        plan = self.plan
        slots = self._open(sealed, plan.n_blocks)[..., : plan.input_period]
        parts = slots.reshape(plan.n_blocks, -1, plan.column_period, plan.input_period)
        # With updates the evaluator has added the parts itself, and all of them are the same.
        parts = parts[:, :1] if plan.n_updates else parts
        total = sum_modulo(np.moveaxis(parts, 1, 0), self.modulus)
        columns = total.reshape(-1, plan.input_period)
        return centred(columns.T[: plan.n_inputs, : plan.n_outputs], self.modulus)

    def decrypt_input_gradient(self, sealed: Ciphertexts) -> IntArray:
        """Gradient of the batch, shape (n_rows, n_inputs)."""
        plan = self.plan
        slots = self._open(sealed, plan.n_chunks).reshape(-1, plan.width)
        return centred(slots[: plan.n_rows, : plan.n_inputs], self.modulus)

    def _open(self, sealed: Ciphertexts, count: int) -> Slots:
        _check_count(sealed, count)
        opened = np.stack([self._owner.decrypt(blob) for blob in sealed.blobs])
        return opened.reshape(count, 2, self.plan.half_rows, self.plan.width)


class BGVMatrixEvaluator:
    """The party with the other share of the weights; computes under the owner's key.

    Parameters
    ----------
    keys : PublicKeys
        The owner's ``keys``.
    n_rows, n_inputs, n_outputs : int
        As agreed; other keys are refused.
    """

    def __init__(self, keys: PublicKeys, n_rows: int, n_inputs: int, n_outputs: int) -> None:
        bits, updates = keys.numbers.get("plain_bits", 0), keys.numbers.get("n_updates", 0)
        try:
            self.plan = plan = plan_layer(n_rows, n_inputs, n_outputs, bits, updates)
        except ParameterError as error:
            raise _other_keys() from error
        if keys.scheme != SCHEME or keys.numbers != plan.numbers:
            raise _other_keys()
        self._public = SealPublic(plan.parameters, keys.blobs, rotations=True)

    def __repr__(self) -> str:
        return f"<BGV matrix evaluator, degree {self.plan.parameters.degree}>"

    @property
    def modulus(self) -> int:
        """The ring Z_t all numbers live in."""
        return self.plan.parameters.plain_modulus

    def masks(self, kind: MaskKind) -> IntArray:
        """Masks of one result, uniform in Z_t: they hide it perfectly."""
        return uniform_below(self.modulus, self.plan.shape(kind)).astype(np.int64)

    def forward(
        self, batch: Ciphertexts, weights: npt.ArrayLike, mask: npt.ArrayLike
    ) -> Ciphertexts:
        """Return encrypted ``g V + mask`` of shape (n_rows, n_outputs)."""
        plan, modulus = self.plan, self.modulus
        matrix = residues(weights, plan.shape("weights"), modulus, "weights")
        wanted = residues(mask, plan.shape("output"), modulus, "mask")
        chunks = self._load(batch, plan.n_chunks)
        factor = forward_factor(plan, matrix)
        results = self._products(chunks, [factor], 1, plan.forward_terms)
        masks = uniform_below(modulus, (plan.n_chunks, 2, plan.half_rows, plan.width))
        parts = masks[..., : plan.side].reshape(-1, plan.n_parts, plan.output_period)
        shares = np.moveaxis(parts[: plan.n_rows, :, : plan.n_outputs], 1, 0)
        shares[-1] = last_share(shares[:-1], wanted, modulus)
        masks[..., : plan.side] = parts.reshape(masks[..., : plan.side].shape)
        return self._seal([result for (result,) in results], masks)

    def weight_gradient(
        self, batch: Ciphertexts, delta: npt.ArrayLike, mask: npt.ArrayLike
    ) -> tuple[Ciphertexts, KeptBGV]:
        """Return encrypted ``g^T delta + mask`` for the owner, and the same to keep."""
        plan, modulus = self.plan, self.modulus
        wanted = residues(mask, plan.shape("weights"), modulus, "mask")
        factors = gradient_factors(plan, self._delta(delta))
        chunks = self._load(batch, plan.n_chunks)
        totals: list[seal.Ciphertext] = []
        for chunk, of_chunk in zip(chunks, factors, strict=True):
            (part,) = self._products([chunk], of_chunk, plan.width, plan.column_period)
            totals = self._added(totals, part) if totals else part
        shape = (plan.input_period, plan.n_blocks * plan.column_period)
        padded = plan.padded_weights(wanted, uniform_below(modulus, shape))
        if not plan.n_updates:
            return self._seal(totals, _share_masks(plan, padded)), KeptBGV(())
        masked = self._masked(map(self._sum_samples, totals), plan.share_slots(padded))
        return self._hidden(masked), KeptBGV(tuple(masked), 1)

    def input_gradient(
        self,
        share: Ciphertexts | KeptBGV,
        delta: npt.ArrayLike,
        weights: npt.ArrayLike,
        mask: npt.ArrayLike | None = None,
    ) -> Ciphertexts:
        """Return encrypted ``delta V^T - delta E^T`` (+ mask) of shape (n_rows, n_inputs)."""
        plan, modulus = self.plan, self.modulus
        matrix = residues(weights, plan.shape("weights"), modulus, "weights")
        rows = self._delta(delta)
        target = multiply_modulo(rows, np.ascontiguousarray(matrix.T), modulus)
        if mask is not None:
            added = residues(mask, plan.shape("inputs"), modulus, "mask")
            target = (target + added) % np.uint64(modulus)
        blocks = self._share(share)
        totals: list[seal.Ciphertext] = []
        for block, factors in zip(blocks, input_factors(plan, rows, modulus), strict=True):
            (part,) = self._products([block], factors, plan.width, plan.column_period)
            totals = self._added(totals, part) if totals else part
        masks = uniform_below(modulus, (plan.n_chunks * 2 * plan.half_rows, plan.width))
        masks[: plan.n_rows, : plan.n_inputs] = target
        return self._seal(totals, masks.reshape(plan.n_chunks, 2, plan.half_rows, plan.width))

    def add_shares(self, share: Ciphertexts | KeptBGV, gradient: KeptBGV) -> KeptBGV:
        """Add a kept weight gradient to the owner's encrypted share, without the owner."""
        done = share.n_updates if isinstance(share, KeptBGV) else 0
        if done + gradient.n_updates > self.plan.n_updates or not gradient.n_updates:
            raise ParameterError(
                f"{done + 1} updates of an encrypted share were asked for.",
                f"The keys were made for {self.plan.n_updates}.",
                "Ask the owner for a fresh share, or make the keys with more n_updates.",
            )
        evaluator = self._public.workspace.evaluator
        pairs = zip(self._share(share), gradient.parts, strict=True)
        return KeptBGV(tuple(evaluator.add(a, b) for a, b in pairs), done + gradient.n_updates)

    def _delta(self, delta: npt.ArrayLike) -> Slots:
        return residues(delta, self.plan.shape("output"), self.modulus, "delta")

    def _load(self, sealed: Ciphertexts, count: int) -> list[seal.Ciphertext]:
        _check_count(sealed, count)
        space = self._public.workspace
        return [space.ciphertext(blob, space.parameters.levels) for blob in sealed.blobs]

    def _share(self, share: Ciphertexts | KeptBGV) -> Sequence[seal.Ciphertext]:
        if isinstance(share, KeptBGV):
            return share.parts
        return self._load(share, self.plan.n_blocks)

    def _products(
        self,
        columns: Sequence[seal.Ciphertext],
        factors: Sequence[Factor],
        step: int,
        n_terms: int,
    ) -> list[list[seal.Ciphertext]]:
        """For every ciphertext and factor, ``sum_d rotate(ciphertext, d * step) * factor(d)``."""
        n_babies = baby_steps(n_terms)
        babies = [self._rotated(column, step, n_babies) for column in columns]
        totals: list[list[seal.Ciphertext | None]] = [[None] * len(factors) for _ in columns]
        for giant in reversed(range(0, n_terms, n_babies)):
            for k, factor in enumerate(factors):
                encoded = [self._encoded(factor(giant + i), giant * step) for i in range(n_babies)]
                for total, copies in zip(totals, babies, strict=True):
                    total[k] = self._giant_step(total[k], copies, encoded, n_babies * step)
        # Without any factor the result is an encryption of zero: SEAL refuses to multiply by zero.
        return [[self._public.zero() if t is None else t for t in total] for total in totals]

    def _rotated(self, column: seal.Ciphertext, step: int, count: int) -> list[seal.Ciphertext]:
        copies = [column]
        for _ in range(count - 1):
            copies.append(self._public.rotate(copies[-1], step))
        return copies

    def _encoded(self, factor: Slots, shift: int) -> seal.Plaintext | None:
        """The factor moved right by what the accumulated giant steps will move left."""
        if not factor.any():
            return None
        plan, space = self.plan, self._public.workspace
        full = np.broadcast_to(factor, (2, plan.half_rows, plan.width))
        moved = np.roll(full.reshape(2, -1), shift, axis=1)
        return space.encode_factor(moved, plan.parameters.levels)

    def _giant_step(
        self,
        total: seal.Ciphertext | None,
        copies: Sequence[seal.Ciphertext],
        encoded: Sequence[seal.Plaintext | None],
        step: int,
    ) -> seal.Ciphertext | None:
        """Horner's rule: rotate what is there, add the products of this giant step."""
        evaluator = self._public.workspace.evaluator
        if total is not None:
            total = self._public.rotate(total, step)
        for copy, factor in zip(copies, encoded, strict=True):
            if factor is not None:
                term = evaluator.multiply_plain(copy, factor)
                if total is None:
                    total = term
                else:
                    evaluator.add_inplace(total, term)
        return total

    def _sum_samples(self, ciphertext: seal.Ciphertext) -> seal.Ciphertext:
        """Add all samples of both slot rows; every slot of a column then holds the sum."""
        evaluator = self._public.workspace.evaluator
        for step in self.plan.sum_steps:
            ciphertext = evaluator.add(ciphertext, self._public.rotate(ciphertext, step))
        return evaluator.add(ciphertext, self._public.swap_rows(ciphertext))

    def _added(
        self, left: Sequence[seal.Ciphertext], right: Sequence[seal.Ciphertext]
    ) -> list[seal.Ciphertext]:
        evaluator = self._public.workspace.evaluator
        return [evaluator.add(a, b) for a, b in zip(left, right, strict=True)]

    def _masked(self, results: Iterable[seal.Ciphertext], masks: Slots) -> list[seal.Ciphertext]:
        space = self._public.workspace
        pairs = zip(results, masks, strict=True)
        return [space.evaluator.add_plain(result, space.encode(mask)) for result, mask in pairs]

    def _hidden(self, masked: Iterable[seal.Ciphertext]) -> Ciphertexts:
        blobs = [self._public.hide_circuit(result, self.plan.noise_bits) for result in masked]
        return Ciphertexts(SCHEME, tuple(blobs))

    def _seal(self, results: Iterable[seal.Ciphertext], masks: Slots) -> Ciphertexts:
        return self._hidden(self._masked(results, masks))


def _share_masks(plan: LayerPlan, target: Slots) -> Slots:
    """Uniform masks of all slots whose parts add up to the target of each weight."""
    modulus = plan.parameters.plain_modulus
    masks = uniform_below(modulus, (plan.n_blocks, 2, plan.half_rows, plan.width))
    parts = masks.reshape(plan.n_blocks, -1, plan.column_period, plan.width)
    shares = np.moveaxis(parts[..., : plan.input_period], 1, 0)
    wanted = target.T.reshape(plan.n_blocks, plan.column_period, plan.input_period)
    shares[-1] = last_share(shares[:-1], wanted, modulus)
    return masks


def _check_count(sealed: Ciphertexts, count: int) -> None:
    if sealed.scheme != SCHEME or len(sealed.blobs) != count:
        raise BadCiphertext(
            f"Received {len(sealed.blobs)} {sealed.scheme[:12]} ciphertexts.",
            f"{count} {SCHEME} ciphertexts were agreed.",
            "Check that all parties run the same version of fedsift and the same job.",
        )


def _other_keys() -> BadCiphertext:
    return BadCiphertext(
        "The public keys are of other parameters than this layer needs.",
        "Both sides derive ring and layout from the agreed shapes.",
        "Check that all parties run the same version of fedsift and the same job.",
    )
