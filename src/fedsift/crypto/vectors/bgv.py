# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Vector sums under BGV or BFV: sums of encrypted integer vectors, 8192 numbers per ciphertext.

``value_bits`` bounds every intermediate result in size, exactly as with Paillier. Ciphertexts do
not show their noise, so the parameters leave room for all that the bound allows: ``2**16`` vectors
in a sum, and factors whose product stays below ``2**value_bits`` (a scaled number would leave the
bound otherwise). Numbers too large for one plaintext prime are carried modulo several and put
together by the Chinese remainder theorem.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import seal

from fedsift.crypto.columns.api import BigArray
from fedsift.crypto.columns.plain import big_array
from fedsift.crypto.modular import recombine
from fedsift.crypto.schemes.seal import (
    FLOODING_BITS,
    MAX_LEVELS,
    PRIME_BITS,
    SealOwner,
    SealParameters,
    SealPublic,
    Slots,
    plain_primes,
)
from fedsift.crypto.vectors.api import check_bits, check_factor, whole_numbers
from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.errors import BadCiphertext, ParameterError

FRESH_NOISE_BITS = 12
"""Noise of a public-key encryption beyond the plaintext modulus, three bits to spare (tested)."""

_SUM_BITS = 16
_SPARE_BITS = 3
_MIN_PRIME_BITS = 20
_MIN_BITS_OF_SEVERAL = 30  # there are too few shorter primes that allow slots
_MAX_PRIME_BITS = 53


@dataclass(frozen=True)
class VectorPlan:
    """Parameters that owner and evaluator derive from scheme and value bits alone."""

    scheme: str
    value_bits: int
    parameters: tuple[SealParameters, ...]

    @property
    def moduli(self) -> tuple[int, ...]:
        """Plaintext primes; their product exceeds every number of twice the value bits' range."""
        return tuple(p.plain_modulus for p in self.parameters)

    @property
    def degree(self) -> int:
        """Numbers per ciphertext."""
        return self.parameters[0].degree

    @property
    def noise_bits(self) -> float:
        """Upper bound of log2 of the noise after all that ``value_bits`` allows."""
        counted = self.parameters[0].plain_bits if self.scheme == "bgv" else 0
        return counted + FRESH_NOISE_BITS + _SUM_BITS + self.value_bits

    @property
    def n_bytes(self) -> int:
        """Bytes of one encrypted chunk of numbers."""
        return sum(p.ciphertext_bytes(p.levels) for p in self.parameters)

    @property
    def numbers(self) -> dict[str, int]:
        """The public parameters as they travel."""
        primes = {f"plain_{i}": modulus for i, modulus in enumerate(self.moduli)}
        return {
            "value_bits": self.value_bits,
            "degree": self.degree,
            "levels": self.parameters[0].levels,
            "security_bits": 128,
            **primes,
        }

    def n_chunks(self, length: int) -> int:
        """Ciphertexts per prime for a vector of this length."""
        return -(-length // self.degree)

    def slots(self, vector: npt.ArrayLike) -> list[list[Slots]]:
        """Residues per prime and chunk, padded with zeros."""
        exact = big_array(whole_numbers(vector, self.value_bits))
        padded = np.zeros(self.n_chunks(len(exact)) * self.degree, dtype=object)
        padded[: len(exact)] = exact
        chunks = padded.reshape(-1, self.degree)
        return [[(c % modulus).astype(np.uint64) for c in chunks] for modulus in self.moduli]


@lru_cache(maxsize=64)
def plan_vector(scheme: str, value_bits: int) -> VectorPlan:
    """The parameters with the smallest ciphertexts."""
    if value_bits < 1:
        raise _too_many_bits(value_bits)
    candidates = []
    for degree, highest in MAX_LEVELS.items():
        for levels in range(1, highest + 1):
            plan = _candidate(scheme, value_bits, degree, levels)
            if plan is not None:
                candidates.append(plan)
    if not candidates:
        raise _too_many_bits(value_bits)
    return min(candidates, key=lambda plan: plan.n_bytes)


def _candidate(scheme: str, value_bits: int, degree: int, levels: int) -> VectorPlan | None:
    """As many primes as the numbers need, each as short as possible, or nothing if none fits."""
    reserve = FRESH_NOISE_BITS + _SUM_BITS + FLOODING_BITS + _SPARE_BITS + value_bits
    longest = min(_MAX_PRIME_BITS, PRIME_BITS * levels - reserve)
    if longest < _MIN_PRIME_BITS:
        return None
    # A prime of b bits adds b - 1 bits at least; one more bit is for the sign.
    count = math.ceil((value_bits + 1) / (longest - 1))
    shortest = _MIN_PRIME_BITS if count == 1 else _MIN_BITS_OF_SEVERAL
    bits = max(shortest, math.ceil((value_bits + 1) / count) + 1)
    if bits > longest:
        return None
    primes = plain_primes(degree, bits, count)
    return VectorPlan(
        scheme, value_bits, tuple(SealParameters(scheme, degree, levels, p) for p in primes)
    )


def _too_many_bits(value_bits: int) -> ParameterError:
    return ParameterError(
        f"Values of {value_bits} bits were asked for.",
        "A ring of degree 16384 has room for numbers and factors of 1 to about 270 bits.",
        "Use fewer value bits, or Paillier.",
    )


class SealVectorOwner:
    """The party that decrypts the sums.

    Parameters
    ----------
    value_bits : int
        Every entry of every intermediate result is smaller than ``2**value_bits`` in size.
    scheme : {"bgv", "bfv"}
    """

    def __init__(self, value_bits: int, scheme: str = "bgv") -> None:
        self.plan = plan_vector(scheme, value_bits)
        self._owners = [SealOwner(parameters) for parameters in self.plan.parameters]
        blobs = tuple(blob for owner in self._owners for blob in owner.public_blobs)
        self.keys = PublicKeys(scheme, self.plan.numbers, blobs)

    def __repr__(self) -> str:
        return f"<{self.plan.scheme} vector owner, degree {self.plan.degree}>"

    def encrypt(self, vector: npt.ArrayLike) -> Ciphertexts:
        """Encrypt a vector of signed integers."""
        pairs = zip(self._owners, self.plan.slots(vector), strict=True)
        blobs = [owner.encrypt(chunk) for owner, chunks in pairs for chunk in chunks]
        return Ciphertexts(self.plan.scheme, tuple(blobs))

    def decrypt(self, sealed: Ciphertexts, length: int) -> BigArray:
        """Decrypt a vector of the given length to exact integers."""
        plan = self.plan
        per_prime = _split(sealed, plan, plan.n_chunks(length))
        if length == 0:
            return big_array([])
        parts = [
            np.concatenate([_open(owner, blob) for blob in blobs])[:length]
            for owner, blobs in zip(self._owners, per_prime, strict=True)
        ]
        numbers = recombine(parts, plan.moduli)
        check_bits(numbers, plan.value_bits)
        return numbers


class SealVectorEvaluator:
    """A party that computes under somebody else's key.

    Sums and multiples are not re-randomised one by one: call :meth:`rerandomise` once, before
    the result leaves for the owner; after it, nothing can be computed any more.

    Parameters
    ----------
    keys : PublicKeys
    value_bits : int
        As agreed with the owner.
    """

    def __init__(self, keys: PublicKeys, value_bits: int) -> None:
        if keys.scheme not in ("bgv", "bfv"):
            raise _other_keys()
        self.plan = plan = plan_vector(keys.scheme, value_bits)
        if keys.numbers != plan.numbers or len(keys.blobs) != len(plan.parameters):
            raise _other_keys()
        self._publics = [
            SealPublic(parameters, [blob])
            for parameters, blob in zip(plan.parameters, keys.blobs, strict=True)
        ]

    def __repr__(self) -> str:
        return f"<{self.plan.scheme} vector evaluator, degree {self.plan.degree}>"

    def encrypt(self, vector: npt.ArrayLike) -> Ciphertexts:
        """Encrypt a vector under the owner's key."""
        pairs = zip(self._publics, self.plan.slots(vector), strict=True)
        blobs = [public.encrypt(chunk) for public, chunks in pairs for chunk in chunks]
        return Ciphertexts(self.plan.scheme, tuple(blobs))

    def add(self, vectors: Sequence[Ciphertexts]) -> Ciphertexts:
        """Sum of encrypted vectors of equal length."""
        if not 0 < len(vectors) <= 1 << _SUM_BITS:
            raise ParameterError(
                f"{len(vectors)} vectors to add.",
                f"A sum has 1 to {1 << _SUM_BITS} of them.",
                "Pass the vectors in a list.",
            )
        totals = self._load(vectors[0])
        for vector in vectors[1:]:
            loaded = self._load(vector, len(totals[0]))
            for public, left, right in zip(self._publics, totals, loaded, strict=True):
                for total, term in zip(left, right, strict=True):
                    public.workspace.evaluator.add_inplace(total, term)
        return self._save(totals)

    def add_plain(self, encrypted: Ciphertexts, vector: npt.ArrayLike) -> Ciphertexts:
        """Sum of an encrypted and a known vector."""
        slots = self.plan.slots(vector)
        loaded = self._load(encrypted, len(slots[0]))
        for public, ciphertexts, chunks in zip(self._publics, loaded, slots, strict=True):
            space = public.workspace
            for ciphertext, chunk in zip(ciphertexts, chunks, strict=True):
                space.evaluator.add_plain_inplace(ciphertext, space.encode(chunk))
        return self._save(loaded)

    def scale(self, encrypted: Ciphertexts, factor: int) -> Ciphertexts:
        """Multiple of an encrypted vector by a positive integer."""
        check_factor(factor, self.plan.value_bits)
        loaded = self._load(encrypted)
        pairs = zip(self._publics, loaded, strict=True)
        return self._save([[_times(public, c, factor) for c in part] for public, part in pairs])

    def rerandomise(self, encrypted: Ciphertexts) -> Ciphertexts:
        """Hide from the owner how the vector was computed: flooding, then the smallest modulus."""
        pairs = zip(self._publics, self._load(encrypted), strict=True)
        noise_bits = self.plan.noise_bits
        blobs = [public.hide_circuit(c, noise_bits) for public, part in pairs for c in part]
        return Ciphertexts(self.plan.scheme, tuple(blobs))

    def _load(
        self, encrypted: Ciphertexts, n_chunks: int | None = None
    ) -> list[list[seal.Ciphertext]]:
        """Ciphertexts per prime, checked; still unhidden, so at the top level."""
        count = len(encrypted.blobs) // len(self._publics) if n_chunks is None else n_chunks
        per_prime = _split(encrypted, self.plan, count)
        return [
            [p.workspace.ciphertext(blob, p.workspace.parameters.levels) for blob in blobs]
            for p, blobs in zip(self._publics, per_prime, strict=True)
        ]

    def _save(self, ciphertexts: Sequence[Sequence[seal.Ciphertext]]) -> Ciphertexts:
        pairs = zip(self._publics, ciphertexts, strict=True)
        blobs = [public.workspace.to_bytes(c) for public, part in pairs for c in part]
        return Ciphertexts(self.plan.scheme, tuple(blobs))


def _times(public: SealPublic, ciphertext: seal.Ciphertext, factor: int) -> seal.Ciphertext:
    """The same number in all slots is a constant polynomial: noise grows by its size only."""
    space = public.workspace
    residue = factor % space.parameters.plain_modulus
    if not residue:
        return public.zero()  # SEAL refuses to multiply by zero
    constant = np.full(space.parameters.degree, residue, dtype=np.uint64)
    return space.evaluator.multiply_plain(ciphertext, space.encode(constant))


def _open(owner: SealOwner, blob: bytes) -> Slots:
    """Decrypt a hidden result, or one that was only added up."""
    parameters = owner.workspace.parameters
    top = len(blob) == parameters.ciphertext_bytes(parameters.levels)
    return owner.decrypt(blob, parameters.levels if top else None)


def _split(sealed: Ciphertexts, plan: VectorPlan, n_chunks: int) -> list[tuple[bytes, ...]]:
    """Blobs per prime."""
    if sealed.scheme != plan.scheme or len(sealed.blobs) != n_chunks * len(plan.moduli):
        raise BadCiphertext(
            f"Received {len(sealed.blobs)} {sealed.scheme[:12]} ciphertexts.",
            f"{n_chunks * len(plan.moduli)} {plan.scheme} ciphertexts were agreed.",
            "Check that all parties run the same version of fedsift and the same job.",
        )
    return [sealed.blobs[i * n_chunks : (i + 1) * n_chunks] for i in range(len(plan.moduli))]


def _other_keys() -> BadCiphertext:
    return BadCiphertext(
        "The public keys are of another scheme or other value bits.",
        "Both sides derive the parameters from scheme and value bits.",
        "Run the same job on both sides.",
    )
