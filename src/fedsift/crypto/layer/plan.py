# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Where a batch and its weights sit in BGV slots for the secure linear layer (K2).

Each slot row holds ``half_rows`` samples; a sample takes ``width`` slots, twice what its inputs or
outputs need, and its inputs repeat all over them:

    slot (half, b, p) of a batch       g[b, p mod input_period]
    slot (half, b, p) of a share       E[p mod input_period, b mod column_period]

Repeating the inputs makes every shift inside a sample cyclic, so a product needs
``min(inputs, outputs)`` plaintext factors instead of ``inputs + outputs - 1``, and shifts by whole
samples are cyclic anyway. In return a ciphertext holds half as many samples, which most batches
do not fill.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from fedsift.crypto.schemes.seal import (
    FLOODING_BITS,
    MAX_LEVELS,
    PRIME_BITS,
    SealParameters,
    Slots,
    plain_primes,
)
from fedsift.errors import ParameterError

MaskKind = Literal["output", "weights", "inputs"]
"""What a mask hides: outputs, a weight gradient, or an input gradient."""

Factor = Callable[[int], Slots]
"""Plaintext factor of shift ``d``, shape (2, half_rows, width) or one that broadcasts to it."""

_MAX_SIDE = 1024
_MAX_UPDATES = 1 << 16
_SPARE_BITS = 3
"""Bits between flooded noise and the modulus, so that the noise check of the owner never trips."""


def layer_noise_bits(plain_bits: int, degree: int, n_terms: int) -> float:
    """Upper bound of log2 of the noise after ``n_terms`` factor-times-rotated-batch products.

    Measured at both degrees with dense uniform factors, plus three bits (asserted by the tests) and
    one for factors that are not uniform.
    """
    return 2 * plain_bits + 19.5 + math.log2(n_terms) / 2 + math.log2(degree / 8192)


def mask_shape(kind: MaskKind, n_rows: int, n_inputs: int, n_outputs: int) -> tuple[int, int]:
    """Shape of the masks of one operation."""
    shapes = {
        "output": (n_rows, n_outputs),
        "weights": (n_inputs, n_outputs),
        "inputs": (n_rows, n_inputs),
    }
    if kind not in shapes:
        raise ParameterError(
            f"Masks of kind {str(kind)[:20]!r} were asked for.",
            f"Known: {', '.join(shapes)}.",
            "Name the result that the mask hides.",
        )
    return shapes[kind]


def _power_of_two(number: int) -> int:
    return 1 << max(number - 1, 0).bit_length()


@dataclass(frozen=True)
class LayerPlan:
    """Everything owner and evaluator derive from the agreed shapes alone."""

    n_rows: int
    n_inputs: int
    n_outputs: int
    n_updates: int
    parameters: SealParameters

    def shape(self, kind: MaskKind) -> tuple[int, int]:
        """Shape of a result."""
        return mask_shape(kind, self.n_rows, self.n_inputs, self.n_outputs)

    @property
    def input_period(self) -> int:
        """Slots after which the inputs of a sample repeat."""
        return _power_of_two(self.n_inputs)

    @property
    def output_period(self) -> int:
        """Slots after which the outputs of a sample repeat."""
        return _power_of_two(self.n_outputs)

    @property
    def side(self) -> int:
        """Slots of a sample that carry results of the forward product."""
        return max(self.input_period, self.output_period)

    @property
    def width(self) -> int:
        """Slots of one sample."""
        return 2 * self.side

    @property
    def half_rows(self) -> int:
        """Samples of one slot row."""
        return self.parameters.row_size // self.width

    @property
    def n_chunks(self) -> int:
        """Ciphertexts that a batch needs."""
        return max(1, math.ceil(self.n_rows / (2 * self.half_rows)))

    @property
    def column_period(self) -> int:
        """Output columns that one ciphertext of weights holds."""
        return min(self.output_period, self.half_rows)

    @property
    def n_blocks(self) -> int:
        """Ciphertexts that a share or a weight gradient needs."""
        return math.ceil(self.n_outputs / self.column_period)

    @property
    def n_parts(self) -> int:
        """Partial sums per output, added by the owner after decryption."""
        return self.side // self.output_period

    @property
    def forward_terms(self) -> int:
        """Plaintext factors of the forward product."""
        return min(self.input_period, self.output_period)

    @property
    def steps(self) -> tuple[int, ...]:
        """Rotations that need a key: shifts inside a sample, shifts over samples, sums."""
        inside = (1, baby_steps(self.forward_terms))
        across = (self.width, self.width * baby_steps(self.column_period))
        sums = (*self.sum_steps, 0) if self.n_updates else ()
        return tuple(sorted({*inside, *across, *sums}))

    @property
    def sum_steps(self) -> tuple[int, ...]:
        """Rotations that add up all samples of a slot row."""
        period, row = self.width * self.column_period, self.parameters.row_size
        return tuple(period << i for i in range((row // period).bit_length() - 1))

    @property
    def noise_bits(self) -> float:
        """Upper bound of log2 of the noise in anything that goes back to the owner."""
        bits, degree = self.parameters.plain_bits, self.parameters.degree
        gradient_terms = self.column_period * max(self.n_chunks, self.n_blocks)
        once = layer_noise_bits(bits, degree, max(self.forward_terms, gradient_terms))
        if not self.n_updates:
            return once
        # Adding rotated copies of one ciphertext adds the same noise up, not independent noise.
        summed = once + math.log2(2 * self.half_rows / self.column_period)
        kept = summed + math.log2(self.n_updates + 1)
        terms = self.column_period * self.n_blocks
        return kept + bits + math.log2(degree) / 2 + 1 + math.log2(terms) / 2

    @property
    def fits(self) -> bool:
        """Whether results can be hidden under flooding noise and still decrypt."""
        needed = math.ceil(self.noise_bits) + FLOODING_BITS + _SPARE_BITS
        return self.half_rows > 0 and needed <= self.parameters.modulus_bits

    @property
    def numbers(self) -> dict[str, int]:
        """The public parameters as they travel."""
        return {
            "n_rows": self.n_rows,
            "n_inputs": self.n_inputs,
            "n_outputs": self.n_outputs,
            "n_updates": self.n_updates,
            "degree": self.parameters.degree,
            "levels": self.parameters.levels,
            "plain_bits": self.parameters.plain_bits,
            "plain": self.parameters.plain_modulus,
            "security_bits": 128,
        }

    def batch_slots(self, batch: Slots) -> Slots:
        """A matrix with one row per sample as slots, shape (chunks, 2, half_rows, columns)."""
        padded = np.zeros((self.n_chunks * 2 * self.half_rows, batch.shape[1]), dtype=np.uint64)
        padded[: len(batch)] = batch
        return padded.reshape(self.n_chunks, 2, self.half_rows, -1)

    def input_slots(self, batch: Slots) -> Slots:
        """The inputs of all samples, repeated over their slots."""
        padded = np.zeros((len(batch), self.input_period), dtype=np.uint64)
        padded[:, : self.n_inputs] = batch
        return self.batch_slots(np.tile(padded, (1, self.width // self.input_period)))

    def share_slots(self, weights: Slots) -> Slots:
        """Padded weights repeated over all samples, shape (blocks, 2, half_rows, width)."""
        blocks = weights.T.reshape(self.n_blocks, self.column_period, self.input_period)
        repeats = (
            1,
            self.half_rows // self.column_period,
            self.width // self.input_period,
        )
        tiled = np.tile(blocks, repeats)
        return np.repeat(tiled[:, None], 2, axis=1)

    def padded_weights(self, weights: Slots, padding: Slots | None = None) -> Slots:
        """Weights extended to full periods, with zeros or the given padding."""
        shape = (self.input_period, self.n_blocks * self.column_period)
        padded = np.zeros(shape, dtype=np.uint64) if padding is None else padding
        padded[: self.n_inputs, : self.n_outputs] = weights
        return padded


def baby_steps(n_terms: int) -> int:
    """Rotations by one step that are kept; a giant step jumps over this many."""
    return 1 << (n_terms.bit_length() // 2)


@lru_cache(maxsize=64)
def plan_layer(
    n_rows: int, n_inputs: int, n_outputs: int, plain_bits: int = 48, n_updates: int = 0
) -> LayerPlan:
    """Choose the smallest ring that holds the layer with 40 bits of flooding.

    Parameters
    ----------
    n_rows, n_inputs, n_outputs : int
        Batch size and shape of the weights.
    plain_bits : int
        Bit length of the plaintext modulus t; results lie in ``(-t/2, t/2)``.
    n_updates : int
        How often the evaluator will add a weight gradient to an encrypted share before the owner
        sends a fresh one. Each such share is multiplied twice, which needs the larger ring.
    """
    _check_shape(n_rows, n_inputs, n_outputs, plain_bits, n_updates)
    for degree, highest in sorted(MAX_LEVELS.items()):
        prime = plain_primes(degree, plain_bits)[0]
        for levels in range(2, highest + 1):
            parameters = SealParameters("bgv", degree, levels, prime)
            plan = LayerPlan(n_rows, n_inputs, n_outputs, n_updates, parameters)
            if plan.fits:
                return plan
    raise ParameterError(
        f"A layer of {n_inputs} by {n_outputs} at {plain_bits} bits has too much noise.",
        f"It must fit {PRIME_BITS * max(MAX_LEVELS.values())} bits of modulus.",
        "Use fewer fraction bits, or refresh the encrypted share more often.",
    )


def _check_shape(
    n_rows: int, n_inputs: int, n_outputs: int, plain_bits: int, n_updates: int
) -> None:
    if n_rows < 1 or not 1 <= min(n_inputs, n_outputs) <= max(n_inputs, n_outputs) <= _MAX_SIDE:
        raise ParameterError(
            f"A batch of {n_rows} rows and weights of {n_inputs} by {n_outputs} were asked for.",
            f"All must be positive, the weights at most {_MAX_SIDE} each way.",
            "Use a smaller embedding.",
        )
    if not 20 <= plain_bits <= 60 or not 0 <= n_updates <= _MAX_UPDATES:
        raise ParameterError(
            f"{plain_bits} plaintext bits and {n_updates} updates were asked for.",
            f"20 to 60 bits and 0 to {_MAX_UPDATES} updates are supported.",
            "Choose fraction bits within that range.",
        )


def forward_factor(plan: LayerPlan, weights: Slots) -> Factor:
    """V[p + d, p] at slot p of every sample."""
    padded = np.zeros((plan.input_period, plan.output_period), dtype=np.uint64)
    padded[: plan.n_inputs, : plan.n_outputs] = weights
    slots = np.arange(plan.side)

    def factor(shift: int) -> Slots:
        row = np.zeros(plan.width, dtype=np.uint64)
        row[: plan.side] = padded[(slots + shift) % plan.input_period, slots % plan.output_period]
        return row

    return factor


def _column_blocks(plan: LayerPlan, delta: Slots) -> Slots:
    """Output gradients as (chunks, blocks, 2, half_rows, column_period)."""
    padded = np.zeros((len(delta), plan.n_blocks * plan.column_period), dtype=np.uint64)
    padded[:, : plan.n_outputs] = delta
    slots = plan.batch_slots(padded)
    blocks = slots.reshape(*slots.shape[:-1], plan.n_blocks, plan.column_period)
    return np.moveaxis(blocks, 3, 1)


def gradient_factors(plan: LayerPlan, delta: Slots) -> list[list[Factor]]:
    """Per chunk and column block: delta[b + d, b] at every slot of sample b."""
    rows = np.arange(plan.half_rows)

    def of_block(block: Slots) -> Factor:
        return lambda shift: block[
            :, (rows + shift) % plan.half_rows, rows % plan.column_period, None
        ]

    return [[of_block(block) for block in chunk] for chunk in _column_blocks(plan, delta)]


def input_factors(plan: LayerPlan, delta: Slots, modulus: int) -> list[list[Factor]]:
    """Per column block and chunk: -delta[b, b + d] at every slot of sample b."""
    rows = np.arange(plan.half_rows)
    negated = (np.uint64(modulus) - delta) % np.uint64(modulus)

    def of_block(block: Slots) -> Factor:
        return lambda shift: block[:, rows, (rows + shift) % plan.column_period, None]

    chunks = _column_blocks(plan, negated)
    return [[of_block(chunk[b]) for chunk in chunks] for b in range(plan.n_blocks)]
