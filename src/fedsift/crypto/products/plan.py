# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Where columns and vectors of K3 sit in slots, with which primes, and whether the noise fits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.crypto.columns.bgv import product_noise_bits
from fedsift.crypto.layout import Layout, choose_layout
from fedsift.crypto.modular import Residues
from fedsift.crypto.schemes.seal import FLOODING_BITS, SealParameters, plain_primes
from fedsift.crypto.wire import Ciphertexts
from fedsift.errors import BadCiphertext, NoiseExhausted, ParameterError

PRIME_BITS = 40
_DEGREE = 8192
_LEVELS = 3
_MOST_PRIMES = 8
_SPARE_BITS = 3

Integers = npt.NDArray[np.int64]


def pair_noise_bits(plain_bits: int, degree: int) -> float:
    """Upper bound of log2 of the noise of a relinearised product of two fresh ciphertexts.

    A ciphertext made with the public key carries about ``plain_bits + 8`` bits; products of
    polynomials add half the bits of the degree. Asserted by the tests with room to spare.
    """
    return 2 * (plain_bits + 8) + math.log2(degree) / 2 + 5


@dataclass(frozen=True)
class ProductPlan:
    """What all sides derive from public numbers alone."""

    n_rows: int
    n_classes: int
    party_features: tuple[int, ...]
    parameters: tuple[SealParameters, ...]
    layout: Layout

    @property
    def n_features(self) -> int:
        """Features of all column holders."""
        return sum(self.party_features)

    @property
    def slots(self) -> int:
        """Numbers in one ciphertext."""
        return self.parameters[0].degree

    @property
    def moduli(self) -> tuple[int, ...]:
        """Plaintext primes."""
        return tuple(p.plain_modulus for p in self.parameters)

    @property
    def per_block(self) -> int:
        """Features that share a ciphertext, if they are short enough."""
        return max(1, self.slots // self.n_rows)

    @property
    def n_chunks(self) -> int:
        """Ciphertexts of one feature, if it is longer than a ciphertext."""
        return math.ceil(self.n_rows / self.slots)

    def n_blocks(self, n_features: int) -> int:
        """Ciphertexts (per prime) for some features of one holder."""
        if self.n_chunks > 1:
            return n_features * self.n_chunks
        return math.ceil(n_features / self.per_block)

    def places(self) -> list[tuple[tuple[int, ...], int]]:
        """For every feature the blocks it lies in, and its position inside the block."""
        places: list[tuple[tuple[int, ...], int]] = []
        start = 0
        for count in self.party_features:
            for f in range(count):
                if self.n_chunks > 1:
                    first = start + f * self.n_chunks
                    places.append((tuple(range(first, first + self.n_chunks)), 0))
                else:
                    places.append(((start + f // self.per_block,), f % self.per_block))
            start += self.n_blocks(count)
        return places

    def blocks_of(self, features: Sequence[int]) -> list[int]:
        """Blocks that hold at least one of these features."""
        places = self.places()
        return sorted({block for f in features for block in places[f][0]})

    def rows_of(self, features: Sequence[int], blocks: Sequence[int], slots: Residues) -> Residues:
        """Cut the features out of blocks of slots; shape (n_features, n_rows)."""
        places, index = self.places(), {block: i for i, block in enumerate(blocks)}
        rows = np.empty((len(features), self.n_rows), dtype=np.uint64)
        for row, feature in zip(rows, features, strict=True):
            parts, position = places[feature]
            joined = np.concatenate([slots[index[block]] for block in parts])
            row[:] = joined[position * self.n_rows : (position + 1) * self.n_rows]
        return rows

    def pack(self, columns: Integers) -> npt.NDArray[np.int64]:
        """Integer columns of one holder in blocks of slots, shape (n_blocks, slots)."""
        packed = np.zeros((self.n_blocks(columns.shape[1]), self.slots), dtype=np.int64)
        flat, n = packed.reshape(-1), self.n_rows
        for f in range(columns.shape[1]):
            if self.n_chunks > 1:
                start = f * self.n_chunks * self.slots
            else:
                start = (f // self.per_block) * self.slots + (f % self.per_block) * n
            flat[start : start + n] = columns[:, f]
        return packed

    def tile(self, column: Integers) -> npt.NDArray[np.int64]:
        """One column beside every feature that shares a block; shape (n_chunks, slots)."""
        return self.pack(np.repeat(column[:, None], self.per_block, axis=1))


def plan_products(
    n_rows: int, n_classes: int, party_features: Sequence[int], result_bits: int
) -> ProductPlan:
    """Choose primes and layout, and check that the noise of every step can be hidden."""
    n_primes = math.ceil((result_bits + 2) / (PRIME_BITS - 0.01))
    if n_primes > _MOST_PRIMES:
        raise ParameterError(
            f"The numbers of this job need {result_bits} bits.",
            f"At most {int(_MOST_PRIMES * PRIME_BITS)} bits are supported.",
            "Use the measure 'miw', or fewer rows.",
        )
    primes = plain_primes(_DEGREE, PRIME_BITS, n_primes)
    parameters = tuple(SealParameters("bgv", _DEGREE, _LEVELS, prime) for prime in primes)
    features = max(1, sum(party_features))
    layout = choose_layout(
        _DEGREE // 2, n_rows, shared_rows=features, own_rows=0, n_columns=n_classes
    )
    plan = ProductPlan(n_rows, n_classes, tuple(party_features), parameters, layout)
    worst = max(pair_noise_bits(PRIME_BITS, _DEGREE), correction_noise_bits(plan))
    if math.ceil(worst) + FLOODING_BITS + _SPARE_BITS > parameters[0].modulus_bits:
        raise NoiseExhausted(
            f"{n_rows} rows need {math.ceil(worst) + FLOODING_BITS} bits of noise.",
            f"The parameters leave {parameters[0].modulus_bits - _SPARE_BITS}.",
            "Use fewer rows.",
        )
    return plan


def correction_noise_bits(plan: ProductPlan) -> float:
    """Upper bound of log2 of the noise of a matrix of masks times the encrypted labels."""
    terms = plan.layout.period * plan.layout.n_chunks(plan.n_rows)
    # Giant steps rotate sums of fresh products: a little on top of what the products carry.
    return product_noise_bits(PRIME_BITS, terms) + 1


def to_residues(numbers: npt.NDArray[Any], moduli: Sequence[int]) -> Residues:
    """Signed integers (int64 or object) modulo every prime; a new first axis."""
    return np.stack([np.asarray(numbers % t).astype(np.uint64) for t in moduli])


def split_blobs(sealed: Ciphertexts, n_primes: int, per_prime: int) -> list[tuple[bytes, ...]]:
    """Ciphertexts by prime; their number must be the agreed one."""
    if len(sealed.blobs) != n_primes * per_prime:
        raise BadCiphertext(
            f"{len(sealed.blobs)} ciphertexts arrived.",
            f"{n_primes * per_prime} were agreed.",
            "Check that all parties run the same job.",
        )
    return [sealed.blobs[i * per_prime : (i + 1) * per_prime] for i in range(n_primes)]


def join_blobs(sealed: Sequence[Ciphertexts], n_primes: int) -> tuple[bytes, ...]:
    """Ciphertexts of several senders behind one another, prime by prime."""
    parts = [split_blobs(one, n_primes, len(one.blobs) // n_primes) for one in sealed]
    return tuple(blob for i in range(n_primes) for part in parts for blob in part[i])


def in_slots(vector: Residues, slots: int) -> Residues:
    """A flat vector in as many rows of slots as it needs, padded with zeros."""
    rows = max(1, math.ceil(len(vector) / slots))
    padded = np.zeros(rows * slots, dtype=np.uint64)
    padded[: len(vector)] = vector
    return padded.reshape(rows, slots)
