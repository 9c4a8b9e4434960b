# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""SEAL behind its door: parameters, slots, levels, and bytes from people we do not trust."""

from __future__ import annotations

import pickle
import random
from dataclasses import replace

import numpy as np
import pytest

from fedsift.crypto.modular import uniform_below
from fedsift.crypto.schemes.seal import (
    SealOwner,
    SealParameters,
    SealPublic,
    Workspace,
    plain_primes,
    workspace,
)
from fedsift.errors import BadCiphertext, KeyTooWeak, NoiseExhausted, ParameterError

DEGREE, LEVELS = 8192, 3
PRIME = plain_primes(DEGREE, 40)[0]
STEPS = (0, 1, 16)


@pytest.fixture(scope="module", params=["bgv", "bfv"])
def keys(request: pytest.FixtureRequest) -> tuple[SealOwner, SealPublic]:
    parameters = SealParameters(request.param, DEGREE, LEVELS, PRIME)
    owner = SealOwner(parameters, steps=STEPS, relinearise=True)
    return owner, SealPublic(parameters, owner.public_blobs, rotations=True, relinearise=True)


def slots(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, PRIME, DEGREE, dtype=np.uint64)


@pytest.mark.parametrize(
    "change",
    [
        {"scheme": "ckks"},
        {"degree": 4096},
        {"levels": 4},
        {"levels": 0},
        {"plain_modulus": PRIME + 2},
        {"plain_modulus": (1 << 62) + 1},
    ],
)
def test_unsupported_parameters(change: dict[str, object]) -> None:
    with pytest.raises(ParameterError):
        replace(SealParameters("bgv", DEGREE, LEVELS, PRIME), **change)


def test_below_128_bits_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if the table of levels were wrong, SEAL's own limit stands."""
    monkeypatch.setattr("fedsift.crypto.schemes.seal.MAX_LEVELS", {8192: 9})
    with pytest.raises(KeyTooWeak, match="128-bit"):
        Workspace(SealParameters("bgv", DEGREE, 5, PRIME))


def test_primes_are_distinct_and_allow_slots() -> None:
    primes = plain_primes(DEGREE, 54, 3)
    assert len(set(primes)) == 3
    assert all(prime % (2 * DEGREE) == 1 for prime in primes)
    assert all(prime.bit_length() == 56 for prime in primes), "54 and 55 bits are taken"


def test_contexts_are_shared() -> None:
    parameters = SealParameters("bgv", DEGREE, LEVELS, PRIME)
    assert workspace(parameters) is workspace(replace(parameters))


def test_round_trip_at_the_top(keys: tuple[SealOwner, SealPublic]) -> None:
    owner, public = keys
    for blob in (owner.encrypt(slots()), public.encrypt(slots())):
        assert len(blob) == owner.workspace.parameters.ciphertext_bytes(LEVELS)
        assert (owner.decrypt(blob, LEVELS) == slots()).all()
    assert owner.encrypt(slots()) != owner.encrypt(slots())


def test_rotation_and_row_swap(keys: tuple[SealOwner, SealPublic]) -> None:
    owner, public = keys
    space = public.workspace
    loaded = space.ciphertext(owner.encrypt(slots()), LEVELS)
    rows = slots().reshape(2, -1)
    for steps in (1, 16):
        rotated = owner.decrypt(space.to_bytes(public.rotate(loaded, steps)), LEVELS)
        assert (rotated.reshape(2, -1) == np.roll(rows, -steps, axis=1)).all()
    swapped = owner.decrypt(space.to_bytes(public.swap_rows(loaded)), LEVELS)
    assert (swapped.reshape(2, -1) == rows[::-1]).all()


def test_rotation_without_a_key_is_refused() -> None:
    parameters = SealParameters("bgv", DEGREE, LEVELS, PRIME)
    owner = SealOwner(parameters, steps=[1])
    public = SealPublic(parameters, owner.public_blobs, rotations=True)
    loaded = public.workspace.ciphertext(owner.encrypt(slots()), LEVELS)
    with pytest.raises(BadCiphertext, match="step 16"):
        public.rotate(loaded, 16)
    with pytest.raises(BadCiphertext, match="step 0"):
        public.swap_rows(loaded)


def test_factors_and_products(keys: tuple[SealOwner, SealPublic]) -> None:
    owner, public = keys
    space = public.workspace
    loaded, factor = space.ciphertext(owner.encrypt(slots(1)), LEVELS), slots(2)
    product = space.evaluator.multiply_plain(loaded, space.encode(factor))
    expected = slots(1).astype(object) * factor.astype(object) % PRIME
    assert (owner.decrypt(space.to_bytes(product), LEVELS) == expected).all()


def test_hidden_results_travel_at_the_resting_level(keys: tuple[SealOwner, SealPublic]) -> None:
    owner, public = keys
    space = public.workspace
    level = space.resting_level
    assert level == 2 if space.parameters.plain_bits > 41 else level == 1
    noise_bits = 60.0 if space.parameters.scheme == "bgv" else 20.0
    hidden = public.hide_circuit(space.ciphertext(owner.encrypt(slots()), LEVELS), noise_bits)
    assert len(hidden) == space.parameters.ciphertext_bytes(level)
    assert (owner.decrypt(hidden) == slots()).all()
    with pytest.raises(BadCiphertext):
        space.ciphertext(hidden, LEVELS)
    with pytest.raises(BadCiphertext):
        owner.decrypt(owner.encrypt(slots()))


def test_flooding_that_does_not_fit_is_refused(keys: tuple[SealOwner, SealPublic]) -> None:
    owner, public = keys
    message = PRIME.bit_length() if public.workspace.parameters.scheme == "bfv" else 0
    loaded = public.workspace.ciphertext(owner.encrypt(slots()), LEVELS)
    largest = 54 * LEVELS - 40 - 3 - message
    assert (owner.decrypt(public.hide_circuit(loaded, largest)) == slots()).all()
    with pytest.raises(NoiseExhausted):
        public.hide_circuit(loaded, largest + 1)


def test_truncated_ciphertexts(keys: tuple[SealOwner, SealPublic]) -> None:
    owner, public = keys
    blob = owner.encrypt(slots())
    for length in (0, 1, 16, 112, 113, len(blob) // 2, len(blob) - 1):
        with pytest.raises(BadCiphertext):
            public.workspace.ciphertext(blob[:length], LEVELS)
    with pytest.raises(BadCiphertext):
        public.workspace.ciphertext(blob + b"\x00", LEVELS)


def test_ciphertexts_of_other_parameters(keys: tuple[SealOwner, SealPublic]) -> None:
    owner, _ = keys
    scheme = owner.workspace.parameters.scheme
    others = [
        SealParameters(scheme, DEGREE, LEVELS, plain_primes(DEGREE, 41)[0]),
        SealParameters("bfv" if scheme == "bgv" else "bgv", DEGREE, LEVELS, PRIME),
        SealParameters(scheme, DEGREE, 2, PRIME),
    ]
    for parameters in others:
        foreign = SealOwner(parameters).encrypt(slots())
        with pytest.raises(BadCiphertext):
            owner.workspace.ciphertext(foreign, LEVELS)


def test_ciphertexts_that_hide_nothing(keys: tuple[SealOwner, SealPublic]) -> None:
    """A transparent ciphertext shows its message: its second polynomial is zero."""
    owner, public = keys
    blob = bytearray(owner.encrypt(slots()))
    half = (len(blob) - 113) // 2
    blob[113 + half :] = bytes(half)
    with pytest.raises(BadCiphertext):
        public.workspace.ciphertext(bytes(blob), LEVELS)


def test_coefficients_beyond_the_modulus(keys: tuple[SealOwner, SealPublic]) -> None:
    owner, public = keys
    blob = bytearray(owner.encrypt(slots()))
    blob[113 + 64 : 113 + 72] = b"\xff" * 8
    with pytest.raises(BadCiphertext):
        public.workspace.ciphertext(bytes(blob), LEVELS)


def test_the_form_flag_is_checked(keys: tuple[SealOwner, SealPublic]) -> None:
    """SEAL loads a BFV ciphertext that claims NTT form and only fails when it is used."""
    owner, public = keys
    blob = bytearray(owner.encrypt(slots()))
    blob[48] ^= 1
    if owner.workspace.parameters.scheme == "bfv":
        with pytest.raises(BadCiphertext, match="form"):
            public.workspace.ciphertext(bytes(blob), LEVELS)
    else:  # SEAL transforms it, and the numbers are garbage
        with pytest.raises(NoiseExhausted):
            owner.decrypt(bytes(blob), LEVELS)


def test_another_owners_ciphertext_does_not_decrypt(keys: tuple[SealOwner, SealPublic]) -> None:
    owner, _ = keys
    stranger = SealOwner(owner.workspace.parameters)
    with pytest.raises(NoiseExhausted):
        owner.decrypt(stranger.encrypt(slots()), LEVELS)


def test_mutated_ciphertexts_never_crash(keys: tuple[SealOwner, SealPublic]) -> None:
    """Bytes of the header and the body changed at random: refused, or decrypted to something."""
    owner, public = keys
    blob, rng = owner.encrypt(slots()), random.Random(7)
    refused = 0
    for trial in range(150):
        mutated = bytearray(blob)
        for _ in range(rng.randint(1, 4)):
            position = rng.randrange(113) if trial % 3 else rng.randrange(len(blob))
            mutated[position] = rng.randrange(256)
        try:
            loaded = public.workspace.ciphertext(bytes(mutated), LEVELS)
            public.rotate(loaded, 1)
            owner.decrypt(bytes(mutated), LEVELS)
        except (BadCiphertext, NoiseExhausted):
            refused += 1
    assert refused > 60


def test_mutated_keys_never_crash(keys: tuple[SealOwner, SealPublic]) -> None:
    """A key with changed bytes is refused, or makes ciphertexts that nobody can open."""
    owner, _ = keys
    parameters, rng = owner.workspace.parameters, random.Random(8)
    refused = 0
    for trial in range(50):
        blobs = [bytearray(blob) for blob in owner.public_blobs]
        target = blobs[trial % 3]
        for _ in range(rng.randint(1, 4)):
            position = rng.randrange(64) if trial % 2 else rng.randrange(len(target))
            target[position] = rng.randrange(256)
        try:
            changed = [bytes(blob) for blob in blobs]
            public = SealPublic(parameters, changed, rotations=True, relinearise=True)
            public.encrypt(slots())
        except BadCiphertext:
            refused += 1
    assert refused > 15


def test_truncated_and_swapped_keys(keys: tuple[SealOwner, SealPublic]) -> None:
    owner, _ = keys
    parameters = owner.workspace.parameters
    public, rotations, relinearisation = owner.public_blobs
    for blobs in (
        [],
        [public],
        [public, rotations],
        [rotations, public, relinearisation],
        [public[:-1], rotations, relinearisation],
        [public, rotations[: len(rotations) // 2], relinearisation],
        [b"", rotations, relinearisation],
        [public, rotations, b""],
    ):
        with pytest.raises(BadCiphertext):
            SealPublic(parameters, blobs, rotations=True, relinearise=True)


def test_key_switching_keys_in_the_wrong_place(keys: tuple[SealOwner, SealPublic]) -> None:
    """SEAL stores both kinds alike: they load, but no rotation works with the wrong kind."""
    owner, _ = keys
    public, rotations, relinearisation = owner.public_blobs
    swapped = [public, relinearisation, rotations]
    wrong = SealPublic(owner.workspace.parameters, swapped, rotations=True, relinearise=True)
    loaded = wrong.workspace.ciphertext(owner.encrypt(slots()), LEVELS)
    with pytest.raises(BadCiphertext):
        wrong.rotate(loaded, 1)


def test_keys_of_other_parameters() -> None:
    parameters = SealParameters("bgv", DEGREE, LEVELS, PRIME)
    foreign = SealOwner(replace(parameters, plain_modulus=plain_primes(DEGREE, 41)[0]))
    with pytest.raises(BadCiphertext):
        SealPublic(parameters, foreign.public_blobs)


def test_secrets_stay_inside(keys: tuple[SealOwner, SealPublic]) -> None:
    owner, public = keys
    assert "key" in repr(owner)
    assert len(repr(owner)) + len(repr(public)) < 150
    with pytest.raises(TypeError):
        pickle.dumps(owner)


def test_uniform_masks_survive(keys: tuple[SealOwner, SealPublic]) -> None:
    owner, public = keys
    space, mask = public.workspace, uniform_below(PRIME, DEGREE)
    loaded = space.ciphertext(owner.encrypt(slots()), LEVELS)
    masked = owner.decrypt(
        space.to_bytes(space.evaluator.add_plain(loaded, space.encode(mask))), LEVELS
    )
    assert ((masked + (np.uint64(PRIME) - mask)) % np.uint64(PRIME) == slots()).all()
