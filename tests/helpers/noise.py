"""What an owner reads of the noise of ciphertexts with its secret key."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import seal

from fedsift.crypto.schemes.seal import SealOwner, SealPublic, Workspace

HEADER_BYTES = 113


def secret_polynomial(owner: SealOwner) -> np.ndarray:
    """The ternary secret, read by decrypting the ciphertext (0, 1) whose phase it is."""
    space = owner.workspace
    degree, modulus = space.parameters.degree, space.parameters.plain_modulus
    blank = space.ciphertext(owner.encrypt(np.zeros(degree)), space.parameters.levels)
    crafted = with_polynomials(space, blank, [0, 1])
    text = owner._decryptor.decrypt(crafted).to_string()
    secret = np.zeros(degree, dtype=np.int64)
    for term in text.split(" + "):
        coefficient, _, power = term.partition("x^")
        secret[int(power or 0)] = 1 if int(coefficient, 16) == 1 else -1
        assert int(coefficient, 16) in (1, modulus - 1)
    return secret


def with_polynomials(space: Workspace, like: seal.Ciphertext, constants: list[int]) -> Any:
    """A ciphertext of constant polynomials."""
    raw = bytearray(space.to_bytes(space.evaluator.transform_from_ntt(like)))
    words = np.frombuffer(raw, np.uint64, offset=HEADER_BYTES).reshape(
        2, like.coeff_modulus_size(), -1
    )
    words[:] = 0
    for polynomial, constant in zip(words, constants, strict=True):
        polynomial[:, 0] = constant
    return space.context.from_cipher_str(bytes(raw))


def raw_noise(owner: SealOwner, ciphertext: seal.Ciphertext) -> np.ndarray:
    """Every coefficient of c0 + c1 s modulo q, nearest to zero (message and noise, BGV)."""
    space = owner.workspace
    data = space.context.get_context_data(ciphertext.parms_id())
    assert data is not None
    primes = [int(prime.value()) for prime in data.parms().coeff_modulus()]
    raw = space.to_bytes(space.evaluator.transform_from_ntt(ciphertext))
    words = np.frombuffer(raw, np.uint64, offset=HEADER_BYTES).reshape(2, len(primes), -1)
    secret = secret_polynomial(owner)
    product = math.prod(primes)
    total = np.zeros(words.shape[2], dtype=object)
    for first, second, prime in zip(words[0], words[1], primes, strict=True):
        residue = (first.astype(np.int64) + times_ternary(second, secret, prime)) % prime
        others = product // prime
        total += residue.astype(object) * (others * pow(others, -1, prime))
    total %= product
    return np.array([float(x - product if x > product // 2 else x) for x in total])


def times_ternary(polynomial: np.ndarray, secret: np.ndarray, prime: int) -> np.ndarray:
    """Negacyclic product with a polynomial of coefficients -1, 0 and 1."""
    degree = len(polynomial)
    extended = np.concatenate([-polynomial.astype(np.int64), polynomial.astype(np.int64)])
    total = np.zeros(degree, dtype=np.int64)
    for count, power in enumerate(np.flatnonzero(secret)):
        total += secret[power] * extended[degree - power : 2 * degree - power]
        if count % 256 == 255:  # 256 numbers of 54 bits fit a signed word
            total %= prime
    return total % prime


class Recorder:
    """Lets results pass and keeps what they were before and after hiding."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.before: list[seal.Ciphertext] = []
        self.after: list[bytes] = []
        self.publics: list[SealPublic] = []
        self.bounds: list[float] = []
        original = SealPublic.hide_circuit

        def hide(public: SealPublic, ciphertext: seal.Ciphertext, noise_bits: float) -> bytes:
            self.before.append(ciphertext)
            self.publics.append(public)
            self.bounds.append(noise_bits)
            self.after.append(original(public, ciphertext, noise_bits))
            return self.after[-1]

        monkeypatch.setattr(SealPublic, "hide_circuit", hide)
