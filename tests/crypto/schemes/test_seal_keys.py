# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Degenerate SEAL keys: what they would tell their owner, and that they are refused."""

from __future__ import annotations

import numpy as np
import pytest

from fedsift.crypto.schemes.seal import SealOwner, SealParameters, SealPublic, plain_primes
from fedsift.crypto.schemes.seal_keys import HEADER_BYTES
from fedsift.errors import BadCiphertext

DEGREE, LEVELS = 8192, 3
PARAMETERS = SealParameters("bgv", DEGREE, LEVELS, plain_primes(DEGREE, 40)[0])
SHAPE = (2, LEVELS + 1, DEGREE)


@pytest.fixture(scope="module")
def owner() -> SealOwner:
    return SealOwner(PARAMETERS, steps=(1, 16), relinearise=True)


def moduli(owner):
    data = owner.workspace.context.key_context_data()
    return [int(prime.value()) for prime in data.parms().coeff_modulus()]


def with_words(blob, words, place=0):
    start = place + HEADER_BYTES
    return blob[:start] + words.astype("<u8").tobytes() + blob[start + words.size * 8 :]


def words_of(blob):
    return np.frombuffer(blob, "<u8", offset=HEADER_BYTES).reshape(SHAPE).copy()


def values_of(owner, coefficients):
    """A polynomial of small coefficients as SEAL stores it, for the primes of ciphertexts."""
    space = owner.workspace
    raw = bytearray(space.to_bytes(SealPublic(PARAMETERS, owner.public_blobs[:1]).zero()))
    words = np.stack([[coefficients % prime for prime in moduli(owner)[:-1]]] * 2)
    raw[48] = 0
    raw[HEADER_BYTES:] = words.astype("<u8").tobytes()
    loaded = space.to_bytes(space.context.from_cipher_str(bytes(raw)))
    return np.frombuffer(loaded, "<u8", offset=HEADER_BYTES).reshape(2, LEVELS, DEGREE)[0]


def degenerate(owner):
    """Public keys whose second polynomial covers nothing, or little."""
    rng = np.random.default_rng(0)
    honest = words_of(owner.public_blobs[0])
    zero, constant, repeated = honest.copy(), honest.copy(), honest.copy()
    zero[:] = 0
    constant[1] = 7
    repeated[1] = np.tile(honest[1, :, : DEGREE // 4], 4)
    shifted, small = honest.copy(), honest.copy()
    shifted[1, :-1] = values_of(owner, np.eye(1, DEGREE, 5, dtype=np.int64)[0])
    small[1, :-1] = values_of(owner, rng.integers(-1000, 1000, DEGREE))
    short = honest.copy()
    short[1] >>= np.uint64(3)
    half = honest.copy()
    half[1, :, : DEGREE // 2] = 0
    return {
        "zeros": zero,
        "constant": constant,
        "repeated": repeated,
        "a power of X": shifted,
        "small coefficients": small,
        "short numbers": short,
        "half of it zeros": half,
    }


def is_refused(blob):
    try:
        SealPublic(PARAMETERS, [blob])
    except BadCiphertext as error:
        return "degenerate" in str(error)
    return False


def test_degenerate_public_keys_are_refused(owner):
    public = owner.public_blobs[0]
    assert not is_refused(public)
    passed = [n for n, w in degenerate(owner).items() if not is_refused(with_words(public, w))]
    assert passed == []


def test_degenerate_switching_keys_are_refused(owner):
    public, rotations, relinearisation = owner.public_blobs
    zeros = np.zeros(SHAPE, dtype=np.uint64)
    size = HEADER_BYTES + zeros.size * 8
    last = len(relinearisation) - size
    for place in (64, last):
        changed = with_words(relinearisation, zeros, place)
        assert len(changed) == len(relinearisation)
        with pytest.raises(BadCiphertext, match="degenerate"):
            SealPublic(PARAMETERS, [public, rotations, changed], rotations=True, relinearise=True)
    first = 56 + 8 * next(
        i for i in range(DEGREE) if rotations[56 + 8 * i : 64 + 8 * i] != bytes(8)
    )
    changed = with_words(rotations, zeros, first + 8)
    with pytest.raises(BadCiphertext, match="degenerate"):
        SealPublic(PARAMETERS, [public, changed], rotations=True)


@pytest.mark.parametrize("honest", [True, False])
def test_what_a_key_of_zeros_would_tell(owner, honest, monkeypatch):
    """The attack: the second polynomial of a result is a product with the evaluator's secret.

    Whoever knows the ciphertext that was multiplied tries both secrets it deems possible.
    """
    blob = owner.public_blobs[0]
    if not honest:
        monkeypatch.setattr(SealPublic, "_refuse_degenerate", lambda self, blobs: None)
        blob = with_words(blob, np.zeros(SHAPE, dtype=np.uint64))
    evaluator = SealPublic(PARAMETERS, [blob])
    space = evaluator.workspace
    column = space.ciphertext(owner.encrypt(np.arange(DEGREE, dtype=np.uint64)), LEVELS)

    def result(secret):
        factor = space.encode(np.full(DEGREE, secret, dtype=np.uint64))
        return space.evaluator.multiply_plain(column, factor)

    def second(ciphertext):
        space.evaluator.transform_from_ntt_inplace(ciphertext)
        words = np.frombuffer(space.to_bytes(ciphertext), "<u8", offset=HEADER_BYTES)
        return words.reshape(2, -1, DEGREE)[1, 0].astype(np.int64)

    level = space.resting_level
    prime = moduli(owner)[0]
    sent = second(space.ciphertext(evaluator.hide_circuit(result(3), 100.0), level))
    distances = {}
    for guess in (2, 3):
        alone = result(guess)
        space.evaluator.mod_switch_to_inplace(alone, space.level_id(level))
        gap = (sent - second(alone)) % prime
        distances[guess] = float(np.minimum(gap, prime - gap).mean())
    if honest:
        assert 0.2 * prime < distances[3] < 0.3 * prime
    else:
        assert distances[3] < 1e-3 * prime < distances[2]
