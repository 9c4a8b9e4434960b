# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Sums of encrypted vectors, blinded segment by segment before their owner may read them.

A vector holds several *segments* (the candidates of several queries). Whoever adds up multiplies
every segment by a fresh positive factor and adds a fresh offset, so that the owner of the key
learns the order inside a segment. It uses vector sums (:mod:`fedsift.crypto.vectors.api`): slots
of a SEAL ciphertext are multiplied one by one, a Paillier ciphertext has one factor for all its
digits, so segments start at multiples of :func:`alignment` there.

What the factor is worth: all numbers are integers, so the greatest common divisor of their
differences gives it away. It keeps two results from being compared at first sight; it does not
keep the owner of the key from learning differences of sums. Which sums it may see is therefore up
to the method.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.crypto.modular import centred, random_integers
from fedsift.crypto.vectors.api import VectorEvaluator, VectorOwner, join_vector, own_vector
from fedsift.crypto.vectors.bgv import (
    FRESH_NOISE_BITS,
    SealVectorEvaluator,
    SealVectorOwner,
    VectorPlan,
)
from fedsift.crypto.vectors.paillier import PaillierVectorEvaluator
from fedsift.crypto.vectors.plain import SCHEME as PLAIN
from fedsift.crypto.vectors.plain import PlainVectorEvaluator, PlainVectorOwner
from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.errors import BadCiphertext, FixedPointOverflow

Integers = npt.NDArray[np.int64]

SUM_BITS = 36
"""Sums over all parties stay below this many bits."""

FACTOR_BITS = 6
VALUE_BITS = SUM_BITS + FACTOR_BITS + 1
_MOST_ADDED_BITS = 3  # sums over at most 64 parties, whose noise is independent
_SPREAD_BITS = 8  # a factor per slot is a dense polynomial: noise grows by t and about sqrt(N)


def own_sums(scheme: str, *, security_bits: int = 128) -> VectorOwner:
    """Keys of the party that reads the blinded sums."""
    return own_vector(scheme, VALUE_BITS, security_bits=security_bits)


def join_sums(keys: PublicKeys) -> VectorEvaluator:
    """Check somebody's keys and compute under them."""
    return join_vector(keys, VALUE_BITS)


def alignment(evaluator: VectorEvaluator) -> int:
    """Segments start at multiples of this."""
    return (
        evaluator._packing.digits.n_digits if isinstance(evaluator, PaillierVectorEvaluator) else 1
    )


def seal_vector(evaluator: VectorEvaluator, vector: Integers) -> Ciphertexts:
    """Encrypt non-negative integers below ``2**SUM_BITS``."""
    if len(vector) and (vector.min() < 0 or int(vector.max()) >> SUM_BITS):
        raise FixedPointOverflow(
            f"An entry of a vector of {len(vector)} is negative or longer than {SUM_BITS} bits.",
            "Parts of a distance keep to the agreed bits.",
            "Standardise the columns, or agree on fewer fraction bits.",
        )
    if isinstance(evaluator, PlainVectorEvaluator):
        return _written(vector)
    if not isinstance(evaluator, SealVectorEvaluator) or len(evaluator.plan.moduli) > 1:
        return evaluator.encrypt(vector)
    # The general way goes through Python integers; here every number fits one plaintext prime.
    public = evaluator._publics[0]
    blobs = [public.encrypt(chunk) for chunk in _chunks(evaluator.plan, vector)]
    return Ciphertexts(evaluator.plan.scheme, tuple(blobs))


class LoadedParts:
    """Encrypted vectors of several parties, read once and added up in many combinations.

    Parameters
    ----------
    evaluator : VectorEvaluator
    parts : dict of party to Ciphertexts
    length : int
        Numbers in every vector.
    """

    def __init__(
        self, evaluator: VectorEvaluator, parts: dict[str, Ciphertexts], length: int
    ) -> None:
        self._evaluator = evaluator
        self._length = length
        self._loaded: dict[str, Any] = {}
        for party, sealed in parts.items():
            if isinstance(evaluator, SealVectorEvaluator):
                self._loaded[party] = evaluator._load(sealed, evaluator.plan.n_chunks(length))
            elif isinstance(evaluator, PlainVectorEvaluator):
                self._loaded[party] = _read(sealed, length)
            else:
                self._loaded[party] = sealed

    def blinded(self, parties: Sequence[str], segments: Sequence[int]) -> Ciphertexts:
        """Sum over some parties, every segment with a fresh factor and offset of its own.

        Parameters
        ----------
        segments : list of int
            Slots of each segment, padding included; together the length of the vectors.
        """
        if sum(segments) != self._length or not set(parties) <= set(self._loaded):
            raise BadCiphertext(
                f"A sum over {len(parties)} parties and {sum(segments)} numbers was asked for.",
                f"{len(self._loaded)} parties sent {self._length} numbers each.",
                "Run the same job at every party.",
            )
        half = 1 << (FACTOR_BITS - 1)
        factors = np.array(random_integers(FACTOR_BITS - 1, len(segments)), dtype=np.int64) + half
        offsets = np.array(random_integers(VALUE_BITS - 1, len(segments)), dtype=np.int64)
        spread = np.repeat(offsets - (1 << (VALUE_BITS - 2)), segments)
        if isinstance(self._evaluator, SealVectorEvaluator):
            return self._blinded_slots(parties, np.repeat(factors, segments), spread)
        if isinstance(self._evaluator, PlainVectorEvaluator):
            numbers = np.sum([self._loaded[party] for party in parties], axis=0)
            return _written(numbers * np.repeat(factors, segments) + spread)
        total = self._evaluator.add([self._loaded[party] for party in parties])
        scaled = self._scaled(total, factors, segments)
        return self._evaluator.rerandomise(self._evaluator.add_plain(scaled, spread))

    def _scaled(
        self, total: Ciphertexts, factors: Integers, segments: Sequence[int]
    ) -> Ciphertexts:
        """One factor per segment, for schemes that scale whole ciphertexts."""
        step, start = alignment(self._evaluator), 0
        blobs: list[bytes] = []
        for factor, size in zip(factors, segments, strict=True):
            end = start + -(-size // step)
            part = Ciphertexts(total.scheme, total.blobs[start:end])
            blobs += self._evaluator.scale(part, int(factor)).blobs
            start = end
        return Ciphertexts(total.scheme, tuple(blobs))

    def _blinded_slots(
        self, parties: Sequence[str], factors: Integers, offsets: Integers
    ) -> Ciphertexts:
        evaluator = self._evaluator
        assert isinstance(evaluator, SealVectorEvaluator)  # noqa: S101 - the caller checked
        plan = evaluator.plan
        blobs = []
        for prime, public in enumerate(evaluator._publics):
            space = public.workspace
            noise_bits = 2 * space.parameters.plain_bits + FRESH_NOISE_BITS
            noise_bits += _MOST_ADDED_BITS + _SPREAD_BITS
            pairs = zip(
                _chunks(plan, factors, prime, fill=1), _chunks(plan, offsets, prime), strict=True
            )
            for chunk, (factor, offset) in enumerate(pairs):
                terms = [self._loaded[party][prime][chunk] for party in parties]
                total = space.evaluator.add_many(terms) if len(terms) > 1 else terms[0]
                product = space.evaluator.multiply_plain(total, space.encode(factor))
                space.evaluator.add_plain_inplace(product, space.encode(offset))
                blobs.append(public.hide_circuit(product, noise_bits))
        return Ciphertexts(plan.scheme, tuple(blobs))


def open_vector(owner: VectorOwner, sealed: Ciphertexts, length: int) -> Integers:
    """Decrypt blinded sums."""
    if isinstance(owner, PlainVectorOwner):
        return _read(sealed, length)
    if not isinstance(owner, SealVectorOwner) or len(owner.plan.moduli) > 1:
        return owner.decrypt(sealed, length).astype(np.int64)
    if sealed.scheme != owner.plan.scheme or len(sealed.blobs) != owner.plan.n_chunks(length):
        raise BadCiphertext(
            f"Received {len(sealed.blobs)} {sealed.scheme[:12]} ciphertexts.",
            f"{owner.plan.n_chunks(length)} {owner.plan.scheme} ciphertexts were agreed.",
            "Check that all parties run the same version of fedsift and the same job.",
        )
    slots = [owner._owners[0].decrypt(blob) for blob in sealed.blobs]
    return centred(np.concatenate(slots)[:length], owner.plan.moduli[0])


_WIDTH = VALUE_BITS // 8 + 1  # bytes of a number that is not encrypted, as in sums_plain


def _written(numbers: Integers) -> Ciphertexts:
    """Numbers as bytes, for runs without encryption; the general way is slow on long vectors."""
    digits = numbers.astype("<i8").view(np.uint8).reshape(-1, 8)
    return Ciphertexts(PLAIN, (digits[:, :_WIDTH].tobytes(),))


def _read(sealed: Ciphertexts, length: int) -> Integers:
    """Numbers from the bytes of :func:`_written`."""
    blob = sealed.blobs[0] if len(sealed.blobs) == 1 else b""
    if sealed.scheme != PLAIN or len(blob) != length * _WIDTH:
        raise BadCiphertext(
            f"{len(sealed.blobs)} blobs of scheme {sealed.scheme[:12]!r} came in.",
            f"One of scheme {PLAIN!r} and the agreed length was expected.",
            "Run the same version and the same job on both sides.",
        )
    digits = np.zeros((length, 8), dtype=np.uint8)
    digits[:, 8 - _WIDTH :] = np.frombuffer(blob, np.uint8).reshape(length, _WIDTH)
    # Shifted to the top and back, so that the sign fills the missing bytes.
    return digits.view("<i8").ravel().astype(np.int64) >> (8 * (8 - _WIDTH))


def _chunks(
    plan: VectorPlan, vector: Integers, prime: int = 0, *, fill: int = 0
) -> list[npt.NDArray[np.uint64]]:
    """Residues cut into ciphertexts; ``fill`` stands in the slots behind the end."""
    padded = np.full(plan.n_chunks(len(vector)) * plan.degree, fill, dtype=np.int64)
    padded[: len(vector)] = vector
    return list((padded % plan.moduli[prime]).astype(np.uint64).reshape(-1, plan.degree))
