# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Fixed-point numbers of the interactive layer, chosen so that nothing is ever rounded inside.

With ``a`` fraction bits for embeddings g, ``b`` for output gradients delta and a step size of
``2**-s``, the layer's numbers are integers at these scales:

    g                a                     delta            b
    g^T delta        a + b                 W                a + b + s
    g W              2 a + b + s           delta W^T        a + 2 b + s

so that ``W <- W - 2**-s g^T delta`` is a subtraction of integers. Rounding happens in two places
only, where a real number enters: g and delta. What leaves a party gets noise of the size of that
rounding (:meth:`LayerNumbers.blur`). Both come from the parties' own seeds, so secure and plain
runs agree to the last bit, and the distance to real arithmetic has the bounds below.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedsift.errors import FixedPointOverflow
from fedsift.privacy.draws import uniform_noise

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

RING_BITS = 48
"""Size of Z_t: the largest that keeps the layer in SEAL's ring of degree 8192."""

EMBEDDING_LIMIT = 8.0
"""Embeddings are clipped here; the default network stays within 1 anyway."""

GRADIENT_LIMIT = 8.0
"""Gradients of one row's outputs are clipped here, so that a wild row cannot leave the ring."""


@dataclass(frozen=True)
class LayerNumbers:
    """Scales of one interactive layer.

    Parameters
    ----------
    embedding_bits, gradient_bits : int
        Fraction bits a and b.
    step_bits : int
        The layer's step is ``2**-step_bits`` times the gradient summed over a batch.
    noise_bits : int
        Fraction bits that gradients shown to feature holders give up for the range of their noise.

    Examples
    --------
    >>> numbers = LayerNumbers.for_batches(256, learning_rate=0.25)
    >>> numbers.step_bits, numbers.weight_bits, numbers.output_bits
    (10, 31, 40)
    """

    embedding_bits: int = 9
    gradient_bits: int = 12
    step_bits: int = 10
    noise_bits: int = 0

    @classmethod
    def for_batches(
        cls, batch_size: int, learning_rate: float, label_noise: float = 0.0
    ) -> LayerNumbers:
        """The power of two nearest to ``learning_rate / batch_size`` as the step."""
        return cls(
            step_bits=max(0, round(math.log2(batch_size / learning_rate))),
            noise_bits=math.ceil(math.log2(1.0 + label_noise)),
        )

    @property
    def weight_bits(self) -> int:
        """Fraction bits of W."""
        return self.embedding_bits + self.gradient_bits + self.step_bits

    @property
    def output_bits(self) -> int:
        """Fraction bits of g W."""
        return self.embedding_bits + self.weight_bits

    @property
    def input_gradient_bits(self) -> int:
        """Fraction bits of delta W^T."""
        return self.gradient_bits - self.noise_bits + self.weight_bits

    def embedding(self, values: Floats) -> Integers:
        """Round embeddings."""
        return _integers(np.clip(values, -EMBEDDING_LIMIT, EMBEDDING_LIMIT), self.embedding_bits)

    def gradient(self, values: Floats) -> Integers:
        """Round output gradients, one row of them per sample."""
        return _integers(np.clip(values, -GRADIENT_LIMIT, GRADIENT_LIMIT), self.gradient_bits)

    def shown_gradient(self, values: Floats) -> Integers:
        """Round what feature holders are shown: noise takes range, and needs no precision."""
        limit = GRADIENT_LIMIT * 2**self.noise_bits
        return _integers(np.clip(values, -limit, limit), self.gradient_bits - self.noise_bits)

    def weights(self, values: Floats) -> Integers:
        """Round weights to start from."""
        return _integers(values, self.weight_bits)

    def outputs_as_reals(self, integers: Integers) -> Floats:
        """Outputs g W as real numbers; refuses those close to the edge of the ring."""
        return _reals(integers, self.output_bits, "outputs of the interactive layer")

    def input_gradients_as_reals(self, integers: Integers) -> Floats:
        """Gradients delta W^T as real numbers; refuses those close to the edge of the ring."""
        return _reals(integers, self.input_gradient_bits, "gradients of an embedding")

    def blur(self, rng: np.random.Generator | None, shape: tuple[int, ...]) -> Integers:
        """Noise of half a unit of what was rounded, for products that leave their owner.

        Exact products of integers give their factors away (lattice reduction); with this, outputs
        and gradients have no more digits than the numbers they are made of.
        """
        return uniform_noise(1 << (self.weight_bits - 1), shape, rng)

    def output_error(self, weights: Floats) -> Floats:
        """Largest distance of each output from real arithmetic with the same weights.

        Each of the embeddings is off by at most half a unit, and so is the blur, so output k is off
        by at most ``2**-(a+1) * (1 + sum_j |W_jk|)``.
        """
        bound: Floats = np.ldexp(1.0 + np.abs(weights).sum(axis=0), -self.embedding_bits - 1)
        return bound

    def input_gradient_error(self, weights: Floats) -> Floats:
        """Largest distance of each embedding gradient, given the same delta before rounding."""
        bits = self.gradient_bits - self.noise_bits
        bound: Floats = np.ldexp(1.0 + np.abs(weights).sum(axis=1), -bits - 1)
        return bound

    def step_error(self, embedding: Floats, delta: Floats) -> Floats:
        """Largest distance of ``2**-s g^T delta`` from real arithmetic, of shape (e, k)."""
        half_g, half_d = 2.0 ** (-self.embedding_bits - 1), 2.0 ** (-self.gradient_bits - 1)
        per_pair = (
            half_d * np.abs(embedding).sum(axis=0)[:, None]
            + half_g * np.abs(delta).sum(axis=0)[None, :]
            + len(embedding) * half_g * half_d
        )
        bound: Floats = np.ldexp(per_pair, -self.step_bits)
        return bound


def _integers(values: Floats, bits: int) -> Integers:
    return np.rint(np.ldexp(np.asarray(values, dtype=np.float64), bits)).astype(np.int64)


def _reals(integers: Integers, bits: int, what: str) -> Floats:
    if integers.size and int(np.abs(integers).max()) >= 1 << (RING_BITS - 2):
        raise FixedPointOverflow(
            f"The {what} have grown beyond {2.0 ** (RING_BITS - 2 - bits):g}.",
            f"They must stay within {RING_BITS} bits, {bits} of them for the fraction.",
            "Lower layer_learning_rate, or standardise what the embedding network puts out.",
        )
    return np.ldexp(integers.astype(np.float64), -bits)
