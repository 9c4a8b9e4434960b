# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Ciphertexts of a key owner at half their size: the uniform polynomial travels as its seed.

A ciphertext made with the secret key is ``(m + t e - a s, a)`` with ``a`` uniform and public, so
``a`` may as well be drawn from 32 public bytes. What travels is the seed and the first polynomial,
in the form SEAL keeps: values at the roots, prime by prime.
"""

from __future__ import annotations

import hashlib
import os

import numpy as np
import numpy.typing as npt
import seal

from fedsift.crypto.modular import Residues
from fedsift.crypto.schemes.seal import SealOwner, SealPublic, Workspace
from fedsift.crypto.schemes.seal_keys import HEADER_BYTES
from fedsift.errors import BadCiphertext

NOISE_DEVIATION = 3.25
"""Of a centred binomial with 42 flips, which SEAL draws too."""

_FLIPS = 21
_SEED_BYTES = 32
_NTT_FLAG = 48
_PLAIN_HEADER_BYTES = 88


def seeded_bytes(degree: int, levels: int) -> int:
    """Length of a seeded ciphertext."""
    return _SEED_BYTES + 8 * degree * levels


def uniform_polynomial(seed: bytes, place: int, prime: int, degree: int) -> Residues:
    """What a seed stands for modulo one prime: uniform numbers, by rejection."""
    mask, spare = np.uint64((1 << prime.bit_length()) - 1), 64
    while True:
        stream = hashlib.shake_128(seed + place.to_bytes(2, "little")).digest(8 * (degree + spare))
        words = np.frombuffer(stream, "<u8") & mask
        kept = words[words < np.uint64(prime)]
        if len(kept) >= degree:
            return kept[:degree]
        spare *= 16


def encode_coefficients(space: Workspace, numbers: Residues) -> seal.Plaintext:
    """Numbers of Z_t as the coefficients of a plaintext."""
    header = space.encode(np.ones(space.parameters.degree, dtype=np.uint64)).to_bytes()
    plain = seal.Plaintext()
    plain.load_bytes(space.context, header[:_PLAIN_HEADER_BYTES] + numbers.astype("<u8").tobytes())
    return plain


def coefficients_of(plain: seal.Plaintext, degree: int) -> Residues:
    """All coefficients of a plaintext; SEAL leaves out zeros at the end."""
    found = np.zeros(degree, dtype=np.uint64)
    known = np.frombuffer(plain.to_bytes(), "<u8", offset=_PLAIN_HEADER_BYTES)
    found[: len(known)] = known
    return found


class SeededEncryptor:
    """The owner's side: encrypts plaintexts under its secret key."""

    def __init__(self, owner: SealOwner) -> None:
        self._space = owner.workspace
        self._primes = self._space.ciphertext_primes
        parameters = self._space.parameters
        self._degree, self._modulus = parameters.degree, parameters.plain_modulus
        header = owner.encrypt(np.ones(self._degree, dtype=np.uint64))[:HEADER_BYTES]
        self._header = header[:_NTT_FLAG] + b"\0" + header[_NTT_FLAG + 1 :]
        self._secret = owner.secret_words[: len(self._primes)]
        moduli = np.array(self._primes, dtype=np.uint64)[:, None]
        self._ratios = self._secret.astype(np.longdouble) / moduli.astype(np.longdouble)

    def __repr__(self) -> str:
        return "<seeded encryption>"

    def encrypt(self, coefficients: Residues) -> bytes:
        """A fresh ciphertext of the coefficients of a plaintext."""
        seed = os.urandom(_SEED_BYTES)
        phase = coefficients.astype(np.int64) + self._modulus * _noise(self._degree)
        words = self._at_roots(np.stack([phase % prime for prime in self._primes]))
        for i, prime in enumerate(self._primes):
            uniform = uniform_polynomial(seed, i, prime, self._degree)
            known = _times(uniform, self._secret[i], self._ratios[i], prime)
            words[i] = (words[i] + np.uint64(prime) - known) % np.uint64(prime)
        return seed + words.tobytes()

    def encrypt_slots(self, slots: Residues) -> bytes:
        """A fresh ciphertext of all slots."""
        plain = self._space.encode(slots)
        return self.encrypt(coefficients_of(plain, self._degree))

    def _at_roots(self, coefficients: npt.NDArray[np.int64]) -> Residues:
        """SEAL transforms what it loads."""
        raw = coefficients.astype("<u8").tobytes()
        loaded = self._space.context.from_cipher_str(self._header + raw + raw)
        if not loaded.is_ntt_form():
            self._space.evaluator.transform_to_ntt_inplace(loaded)
        words = np.frombuffer(self._space.to_bytes(loaded), "<u8", offset=HEADER_BYTES)
        return words[: coefficients.size].reshape(coefficients.shape).copy()


def _noise(degree: int) -> npt.NDArray[np.int64]:
    draws = np.frombuffer(os.urandom(8 * degree), "<u8")
    mask = np.uint64((1 << _FLIPS) - 1)
    heads, tails = (np.bitwise_count(draws >> np.uint64(cut) & mask) for cut in (0, _FLIPS))
    return np.asarray(heads.astype(np.int64) - tails.astype(np.int64))


def _times(left: Residues, right: Residues, ratio: npt.NDArray[np.longdouble], p: int) -> Residues:
    """Products modulo a prime of 54 bits: quotients in extended precision, remainders in words."""
    quotient = (left.astype(np.longdouble) * ratio).astype(np.uint64)
    rest = (left * right - quotient * np.uint64(p)).view(np.int64)
    rest += np.where(rest < 0, p, 0)
    rest -= np.where(rest >= p, p, 0)
    return rest.view(np.uint64)


class SeededReader:
    """The other side: turns what travelled into ciphertexts, or into their words."""

    def __init__(self, public: SealPublic) -> None:
        self._space = public.workspace
        self.primes = self._space.ciphertext_primes
        self._degree = self._space.parameters.degree
        self._header = self._space.to_bytes(public.zero())[:HEADER_BYTES]

    def words(self, blob: bytes) -> Residues:
        """Both polynomials at the roots, (2, primes, degree); refuses what is none."""
        shape = (len(self.primes), self._degree)
        if len(blob) != seeded_bytes(self._degree, len(self.primes)):
            raise _refused(f"{len(blob)} bytes arrived")
        first = np.frombuffer(blob, "<u8", offset=_SEED_BYTES).reshape(shape)
        if (first >= np.array(self.primes, dtype=np.uint64)[:, None]).any():
            raise _refused("numbers outside the ring arrived")
        seed = blob[:_SEED_BYTES]
        second = [
            uniform_polynomial(seed, i, prime, self._degree) for i, prime in enumerate(self.primes)
        ]
        return np.stack([first, np.stack(second)])

    def load(self, blob: bytes) -> seal.Ciphertext:
        """The ciphertext."""
        return self.from_words(self.words(blob))

    def from_words(self, words: Residues) -> seal.Ciphertext:
        """A ciphertext from its polynomials, (2, primes, degree)."""
        raw = self._header + words.astype("<u8").tobytes()
        return self._space.ciphertext(raw, len(self.primes))


def _refused(found: str) -> BadCiphertext:
    return BadCiphertext(
        f"Instead of a seeded ciphertext, {found}.",
        "A seed and one polynomial of the agreed ring are needed.",
        "Check that all parties run the same version of fedsift and the same job.",
    )
