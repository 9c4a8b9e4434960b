# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""K5 under BGV: shared numbers in slots, matrices that meet a table in coefficients.

A table times an encrypted matrix works on the words of the ciphertexts: sums of them with small
integer factors, prime by prime, which floating point does exactly in two halves of 27 bits. Results
are short polynomials; several of them, moved by monomials, share a ciphertext on their way back.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import seal

from fedsift.crypto.layer.plan import layer_noise_bits
from fedsift.crypto.modular import Residues, uniform_below
from fedsift.crypto.products.between_two import (
    DEGREE,
    N_PRIMES,
    PRIME_BITS,
    TABLE_BITS,
    WIDEST,
    Loaded,
    Table,
    moduli,
)
from fedsift.crypto.products.plan import in_slots, split_blobs
from fedsift.crypto.schemes.seal import SealOwner, SealParameters, SealPublic
from fedsift.crypto.schemes.seal_seeded import (
    NOISE_DEVIATION,
    SeededEncryptor,
    SeededReader,
    coefficients_of,
    encode_coefficients,
)
from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.errors import BadCiphertext, ParameterError

SCHEME = "bgv"
_MOST_TERMS = 16
"""Products number by number in one sum, for the bound of the noise."""

_MOST_RESULTS = 1024
"""Results of a table that share a ciphertext."""

_AT_ONCE = 128
"""Rows of a table that are multiplied together, for memory's sake."""

_HALF = np.uint64(27)
_LOW = np.uint64((1 << 27) - 1)
_SPREAD = 3.0
"""log2 of how many standard deviations a bound of the noise is away from zero."""


def number_parameters() -> tuple[SealParameters, ...]:
    """Rings for products number by number."""
    return tuple(SealParameters(SCHEME, DEGREE, 3, prime) for prime in moduli())


def table_parameters() -> tuple[SealParameters, ...]:
    """Rings for products with tables, whose small factors add little noise."""
    return tuple(SealParameters(SCHEME, DEGREE, 2, prime) for prime in moduli())


def table_noise_bits(n_inputs: int, n_results: int) -> float:
    """Bound of log2 of the noise of results of a table that share a ciphertext."""
    deviation = PRIME_BITS + math.log2(NOISE_DEVIATION) + TABLE_BITS
    return deviation + math.log2(n_inputs * n_results) / 2 + _SPREAD


def results_of(n_samples: int) -> int:
    """How many rows of a product share a ciphertext."""
    if not 1 <= n_samples <= DEGREE:
        raise ParameterError(
            f"A matrix of {n_samples} samples was to be multiplied with a table.",
            f"1 to {DEGREE} are possible at a time.",
            "Split the matrix.",
        )
    return min(_MOST_RESULTS, DEGREE // n_samples)


class BGVTwoPartyOwner:
    """See :class:`fedsift.crypto.products.between_two.TwoPartyOwner`."""

    def __init__(self) -> None:
        self._numbers = [SealOwner(p) for p in number_parameters()]
        self._tables = [SealOwner(p) for p in table_parameters()]
        blobs = [blob for owner in (*self._numbers, *self._tables) for blob in owner.public_blobs]
        self.keys = PublicKeys(SCHEME, {}, tuple(blobs))
        self._number_keys, self._table_keys = (
            [SeededEncryptor(owner) for owner in owners] for owners in (self._numbers, self._tables)
        )

    def __repr__(self) -> str:
        return f"<K5 owner, {SCHEME}>"

    def seal(self, vector: Residues) -> Ciphertexts:
        """See :class:`fedsift.crypto.products.between_two.TwoPartyOwner`."""
        pairs = zip(self._number_keys, vector, strict=True)
        blobs = [key.encrypt_slots(row) for key, part in pairs for row in in_slots(part, DEGREE)]
        return Ciphertexts(SCHEME, tuple(blobs))

    def open(self, sealed: Ciphertexts, length: int) -> Residues:
        """See :class:`fedsift.crypto.products.between_two.TwoPartyOwner`."""
        groups = _groups(sealed, _n_slot_rows(length))
        pairs = zip(self._numbers, groups, strict=True)
        opened = [np.concatenate([o.decrypt(blob) for blob in blobs]) for o, blobs in pairs]
        return np.stack([slots[:length] for slots in opened])

    def seal_matrix(self, matrix: Residues) -> Ciphertexts:
        """See :class:`fedsift.crypto.products.between_two.TwoPartyOwner`."""
        results_of(matrix.shape[2])
        padded = np.zeros(DEGREE, dtype=np.uint64)
        blobs = []
        for key, part in zip(self._table_keys, matrix, strict=True):
            for row in part:
                padded[: len(row)] = row
                blobs.append(key.encrypt(padded))
        return Ciphertexts(SCHEME, tuple(blobs))

    def open_product(self, sealed: Ciphertexts, n_outputs: int, n_samples: int) -> Residues:
        """See :class:`fedsift.crypto.products.between_two.TwoPartyOwner`."""
        each = results_of(n_samples)
        groups = _groups(sealed, math.ceil(n_outputs / each))
        found = []
        for owner, blobs in zip(self._tables, groups, strict=True):
            opened = np.stack([coefficients_of(owner.open(blob), DEGREE) for blob in blobs])
            rows = opened[:, : each * n_samples].reshape(-1, n_samples)
            found.append(rows[:n_outputs])
        return np.stack(found)


class BGVTwoPartyEvaluator:
    """See :class:`fedsift.crypto.products.between_two.TwoPartyEvaluator`."""

    def __init__(self, keys: PublicKeys) -> None:
        if keys.numbers or len(keys.blobs) != 2 * N_PRIMES:
            raise BadCiphertext(
                "The public keys are others than products of shared numbers need.",
                "One per ring is needed, for two kinds of products.",
                "Check that all parties run the same version of fedsift and the same job.",
            )
        parameters = (*number_parameters(), *table_parameters())
        public = [SealPublic(p, (blob,)) for p, blob in zip(parameters, keys.blobs, strict=True)]
        self._numbers, self._tables = public[:N_PRIMES], public[N_PRIMES:]
        readers = [SeededReader(one) for one in public]
        self._number_readers, self._table_readers = readers[:N_PRIMES], readers[N_PRIMES:]

    def __repr__(self) -> str:
        return f"<K5 evaluator, {SCHEME}>"

    @cached_property
    def _noise_bits(self) -> float:
        return layer_noise_bits(PRIME_BITS, DEGREE, _MOST_TERMS)

    def load(self, sealed: Ciphertexts, length: int) -> Loaded:
        """See :class:`fedsift.crypto.products.between_two.TwoPartyEvaluator`."""
        groups = _groups(sealed, _n_slot_rows(length))
        pairs = zip(self._number_readers, groups, strict=True)
        return [[reader.load(blob) for blob in blobs] for reader, blobs in pairs]

    def add_product(self, total: Loaded | None, loaded: Loaded, factor: Residues) -> Loaded:
        """See :class:`fedsift.crypto.products.between_two.TwoPartyEvaluator`."""
        sums = [[None] * len(part) for part in loaded] if total is None else total
        added = []
        for public, old, part, numbers in zip(self._numbers, sums, loaded, factor, strict=True):
            rows = zip(old, part, in_slots(numbers, DEGREE), strict=True)
            added.append([_plus(public, before, one, row) for before, one, row in rows])
        return added

    def finish(self, total: Loaded | None, mask: Residues) -> Ciphertexts:
        """See :class:`fedsift.crypto.products.between_two.TwoPartyEvaluator`."""
        blobs = []
        for i, (public, part, prime) in enumerate(zip(self._numbers, mask, moduli(), strict=True)):
            rows = _filled(part, _n_slot_rows(len(part)), prime)
            sums = [None] * len(rows) if total is None else total[i]
            space = public.workspace
            for one, row in zip(sums, rows, strict=True):
                blobs.append(_hidden(public, one, space.encode(row), self._noise_bits))
        return Ciphertexts(SCHEME, tuple(blobs))

    def times(self, table: Table, sealed: Ciphertexts, mask: Residues) -> Ciphertexts:
        """See :class:`fedsift.crypto.products.between_two.TwoPartyEvaluator`."""
        n_outputs, n_inputs = table.shape
        if n_inputs > WIDEST or np.abs(table).max(initial=0) >= 1 << TABLE_BITS:
            raise ParameterError(
                f"A table of {n_inputs} columns was to be multiplied with encrypted numbers.",
                f"At most {WIDEST} columns of integers of {TABLE_BITS} bits are possible at once.",
                "Split the table, or scale it.",
            )
        each = results_of(mask.shape[2])
        noise_bits = table_noise_bits(n_inputs, each)
        groups = _groups(sealed, n_inputs)
        blobs = []
        sides = zip(self._tables, self._table_readers, groups, mask, moduli(), strict=True)
        for public, reader, some, wanted, prime in sides:
            packer = _Packer(public, reader, mask.shape[2])
            # Results come in order, so that one ciphertext is open at a time.
            for row, words in enumerate(_small_sums(table, reader, some)):
                packer.add(row % each, words)
                if row % each == each - 1 or row == n_outputs - 1:
                    rows = wanted[row - row % each : row + 1]
                    (known,) = _filled(rows.ravel(), 1, prime)
                    blobs.append(packer.finish(known, noise_bits))
        return Ciphertexts(SCHEME, tuple(blobs))


class _Packer:
    """Adds up results at different places of one ciphertext."""

    def __init__(self, public: SealPublic, reader: SeededReader, n_samples: int) -> None:
        self._public, self._reader = public, reader
        self._n_samples = n_samples
        self._total: seal.Ciphertext | None = None
        self._moves: dict[int, seal.Plaintext] = {}

    def add(self, place: int, words: Residues) -> None:
        # SEAL refuses ciphertexts of zeros, which rows of zeros give.
        if not words.any():
            return
        one = self._reader.from_words(words)
        space = self._public.workspace
        if place:
            if place not in self._moves:
                monomial = seal.Plaintext(f"1x^{place * self._n_samples}")
                level = space.parameters.levels
                moved = space.evaluator.transform_to_ntt(monomial, space.level_id(level))
                self._moves[place] = moved
            one = space.evaluator.multiply_plain(one, self._moves[place])
        self._total = one if self._total is None else space.evaluator.add(self._total, one)

    def finish(self, known: Residues, noise_bits: float) -> bytes:
        total, self._total = self._total, None
        plain = encode_coefficients(self._public.workspace, known)
        return _hidden(self._public, total, plain, noise_bits)


def _small_sums(table: Table, reader: SeededReader, blobs: Sequence[bytes]) -> Iterator[Residues]:
    """Rows of a table of small integers times ciphertexts, as words."""
    inputs = np.empty((2, len(reader.primes), len(blobs), DEGREE), dtype=np.uint64)
    for number, blob in enumerate(blobs):
        inputs[:, :, number] = reader.words(blob)
    factors = table.astype(np.float64)
    for start in range(0, len(table), _AT_ONCE):
        some = factors[start : start + _AT_ONCE]
        sums = np.empty((len(some), 2, len(reader.primes), DEGREE), dtype=np.uint64)
        for k in range(2):
            for i, prime in enumerate(reader.primes):
                sums[:, k, i] = _small_product(some, inputs[k, i], prime)
        yield from sums


def _small_product(factors: Any, words: Residues, prime: int) -> Residues:
    """Exact: a factor of 11 bits, half a word and 256 terms fit the 53 bits of a float."""
    high = factors @ (words >> _HALF).astype(np.float64)
    low = factors @ (words & _LOW).astype(np.float64)
    quotient = np.rint(high * (2.0**27 / prime)).astype(np.int64)
    # The true remainder is short, so that sums may pass 64 bits on the way.
    rest = (high.astype(np.int64) << np.int64(27)) - quotient * np.int64(prime)
    rest += low.astype(np.int64)
    rest += np.where(rest < 0, prime, 0)
    rest -= np.where(rest >= prime, prime, 0)
    return np.asarray(rest.view(np.uint64))


def _hidden(
    public: SealPublic, total: seal.Ciphertext | None, known: seal.Plaintext, noise_bits: float
) -> bytes:
    # SEAL refuses to multiply by zero; such a product is an encryption of zero.
    found = public.zero() if total is None else total
    return public.hide_circuit(public.workspace.evaluator.add_plain(found, known), noise_bits)


def _plus(public: SealPublic, before: Any, loaded: Any, factor: Residues) -> Any:
    if not factor.any():
        return before
    space = public.workspace
    encoded = space.encode_factor(factor, space.parameters.levels)
    product = space.evaluator.multiply_plain(loaded, encoded)
    return product if before is None else space.evaluator.add(before, product)


def _groups(sealed: Ciphertexts, count: int) -> list[tuple[bytes, ...]]:
    return split_blobs(sealed, N_PRIMES, count)


def _n_slot_rows(length: int) -> int:
    return max(1, math.ceil(length / DEGREE))


def _filled(numbers: Residues, n_rows: int, modulus: int) -> Residues:
    """A flat vector in rows; what is left over is random, as masks are."""
    full = uniform_below(modulus, (n_rows, DEGREE))
    full.reshape(-1)[: len(numbers)] = numbers
    return full
