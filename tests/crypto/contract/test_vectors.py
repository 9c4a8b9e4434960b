# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Vector sums, every backend: exact sums, multiples and shifts of encrypted vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedsift.crypto.vectors.api import join_vector, own_vector
from fedsift.crypto.vectors.bgv import plan_vector
from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.errors import BadCiphertext, CryptoError, FixedPointOverflow, ParameterError

SCHEMES = ("bgv", "bfv", "paillier", "plain")
LATTICE = ("bgv", "bfv")
VALUE_BITS, LENGTH = 40, 50


def vector(seed: int, length: int = LENGTH, bits: int = 20) -> np.ndarray:
    return np.random.default_rng(seed).integers(-(1 << bits), 1 << bits, length).astype(object)


@pytest.fixture(scope="module", params=SCHEMES)
def pair(request: pytest.FixtureRequest, make_vectors: Any) -> Any:
    return make_vectors(request.param, VALUE_BITS)


def test_everything_at_once(pair: Any) -> None:
    owner, evaluator = pair
    a, b, c, known = (vector(seed) for seed in range(4))
    total = evaluator.add([owner.encrypt(a), evaluator.encrypt(b), evaluator.encrypt(c)])
    answer = evaluator.rerandomise(evaluator.add_plain(evaluator.scale(total, 12345), known))
    opened = owner.decrypt(answer, LENGTH)
    assert opened.dtype == object
    assert (opened == 12345 * (a + b + c) + known).all()


def test_a_sum_of_one(pair: Any) -> None:
    owner, evaluator = pair
    a = vector(0)
    assert (owner.decrypt(evaluator.add([evaluator.encrypt(a)]), LENGTH) == a).all()
    assert (owner.decrypt(evaluator.scale(evaluator.encrypt(a), 1), LENGTH) == a).all()


def test_the_ends_of_the_range(pair: Any) -> None:
    owner, evaluator = pair
    edge = (1 << VALUE_BITS) - 1
    extremes = np.array([edge, -edge, 0, 1, -1], dtype=object)
    assert (owner.decrypt(evaluator.rerandomise(owner.encrypt(extremes)), 5) == extremes).all()
    ones = evaluator.scale(evaluator.encrypt([1, -1]), edge)
    assert owner.decrypt(evaluator.rerandomise(ones), 2).tolist() == [edge, -edge]


def test_rerandomised_twice_looks_different(pair: Any) -> None:
    _, evaluator = pair
    encrypted = evaluator.encrypt(vector(0))
    first, second = evaluator.rerandomise(encrypted), evaluator.rerandomise(encrypted)
    assert first.scheme == "plain" or first.blobs[0] != second.blobs[0]


def test_numbers_beyond_the_bits_are_refused(pair: Any) -> None:
    owner, evaluator = pair
    for wrong in ([1 << VALUE_BITS], [-(1 << VALUE_BITS)]):
        with pytest.raises(FixedPointOverflow):
            owner.encrypt(wrong)
        with pytest.raises(FixedPointOverflow):
            evaluator.encrypt(wrong)
        with pytest.raises(FixedPointOverflow):
            evaluator.add_plain(evaluator.encrypt([1]), wrong)
    for factor in (0, -3, 1 << VALUE_BITS):
        with pytest.raises(ParameterError):
            evaluator.scale(evaluator.encrypt([1]), factor)


def test_anything_but_integers_is_refused(pair: Any) -> None:
    owner, evaluator = pair
    for wrong in ([0.5], [[1, 2]], ["1"]):
        with pytest.raises(ParameterError):
            owner.encrypt(wrong)
    with pytest.raises(ParameterError):
        evaluator.add([])


def test_hostile_ciphertexts_are_refused(pair: Any) -> None:
    owner, evaluator = pair
    sealed = evaluator.encrypt(vector(0))
    scheme, blobs = sealed.scheme, sealed.blobs
    for wrong in (
        Ciphertexts(scheme, (blobs[0][:-1], *blobs[1:])),
        Ciphertexts(scheme, (blobs[0] + b"\x00", *blobs[1:])),
        Ciphertexts("rot13", blobs),
    ):
        for use in (
            lambda c: owner.decrypt(c, LENGTH),
            evaluator.rerandomise,
            lambda c: evaluator.scale(c, 2),
            lambda c: evaluator.add([sealed, c]),
            lambda c: evaluator.add_plain(c, vector(1)),
        ):
            with pytest.raises(BadCiphertext):
                use(wrong)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_vectors_of_other_lengths_do_not_add(scheme: str, make_vectors: Any) -> None:
    owner, evaluator = make_vectors(scheme, VALUE_BITS)
    short, long = evaluator.encrypt(vector(0, 10)), evaluator.encrypt(vector(1, 9000))
    with pytest.raises(BadCiphertext):
        evaluator.add([short, long])
    with pytest.raises(BadCiphertext):
        owner.decrypt(short, 9000)


@pytest.mark.parametrize("scheme", LATTICE)
def test_long_vectors_take_several_ciphertexts(scheme: str, make_vectors: Any) -> None:
    owner, evaluator = make_vectors(scheme, VALUE_BITS)
    a, b = vector(0, 20_000), vector(1, 20_000)
    encrypted = evaluator.add([evaluator.encrypt(a), owner.encrypt(b)])
    assert len(encrypted.blobs) == 3
    assert (owner.decrypt(evaluator.rerandomise(encrypted), 20_000) == a + b).all()


@pytest.mark.parametrize("scheme", LATTICE)
@pytest.mark.parametrize("value_bits", [1, 17, 44, 60, 100])
def test_numbers_of_any_size(scheme: str, value_bits: int) -> None:
    """Several plaintext primes carry what one cannot, factors that are multiples of one included."""
    owner = own_vector(scheme, value_bits)
    evaluator = join_vector(owner.keys, value_bits)
    prime = plan_vector(scheme, value_bits).moduli[0]
    factor = prime if value_bits > 50 else (1 << value_bits) - 1
    limit = ((1 << value_bits) - 1) // factor
    numbers = [limit, -limit, 0]
    opened = owner.decrypt(
        evaluator.rerandomise(evaluator.scale(evaluator.encrypt(numbers), factor)), 3
    )
    assert opened.tolist() == [limit * factor, -limit * factor, 0]


@pytest.mark.parametrize("scheme", LATTICE)
def test_the_declared_noise_has_three_bits_to_spare(scheme: str) -> None:
    owner: Any = own_vector(scheme, 44)
    evaluator: Any = join_vector(owner.keys, 44)
    parameters = owner.plan.parameters[0]
    message = parameters.plain_bits if scheme == "bfv" else 0
    encrypted = evaluator.encrypt(vector(0, parameters.degree, bits=40))
    fresh = evaluator._load(encrypted)[0][0]
    worst = evaluator._load(evaluator.scale(evaluator.add([encrypted] * 16), (1 << 44) - 1))[0][0]

    def noise(ciphertext: Any) -> int:
        budget = owner._owners[0].noise_budget(ciphertext)
        return int(parameters.modulus_bits - budget - 1 - message)

    # The plan allows 2**16 vectors; 16 were added.
    assert noise(worst) <= owner.plan.noise_bits - 12 - 3
    assert noise(fresh) <= owner.plan.noise_bits - 16 - 44 - 3


@pytest.mark.parametrize("scheme", LATTICE)
def test_a_hidden_result_is_final(scheme: str) -> None:
    owner = own_vector(scheme, VALUE_BITS)
    evaluator = join_vector(owner.keys, VALUE_BITS)
    hidden = evaluator.rerandomise(evaluator.encrypt([1]))
    with pytest.raises(BadCiphertext):
        evaluator.add([hidden, hidden])


@pytest.mark.parametrize("scheme", LATTICE)
def test_another_partys_key_opens_nothing(scheme: str) -> None:
    owner, stranger = own_vector(scheme, VALUE_BITS), own_vector(scheme, VALUE_BITS)
    with pytest.raises(CryptoError):
        stranger.decrypt(owner.encrypt([1, 2, 3]), 3)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_other_keys_are_refused(scheme: str, make_vectors: Any) -> None:
    owner, evaluator = make_vectors(scheme, VALUE_BITS)
    options = {"allow_weak": True} if scheme == "paillier" else {}
    with pytest.raises(BadCiphertext):
        type(evaluator)(owner.keys, VALUE_BITS + 1, **options)
    with pytest.raises(BadCiphertext):
        type(evaluator)(PublicKeys("rot13", owner.keys.numbers, ()), VALUE_BITS, **options)


def test_impossible_requests_are_refused() -> None:
    with pytest.raises(ParameterError, match="Unknown"):
        own_vector("rot13", 20)
    with pytest.raises(ParameterError, match="Unknown"):
        join_vector(PublicKeys("rot13", {}, ()), 20)
    for scheme in SCHEMES[:2]:
        for bits in (0, 400):
            with pytest.raises(ParameterError, match="bits"):
                own_vector(scheme, bits)
        with pytest.raises(ParameterError, match="128-bit"):
            own_vector(scheme, 20, security_bits=192)


def test_nothing_shows_content(pair: Any) -> None:
    owner, evaluator = pair
    for thing in (owner, evaluator, owner.keys, owner.encrypt([1])):
        assert len(repr(thing)) < 200


@pytest.mark.real_keys
def test_paillier_at_full_size() -> None:
    owner = own_vector("paillier", VALUE_BITS)
    evaluator = join_vector(owner.keys, VALUE_BITS)
    a = vector(0, 5)
    total = evaluator.rerandomise(evaluator.add([evaluator.encrypt(a), owner.encrypt(a)]))
    assert (owner.decrypt(total, 5) == 2 * a).all()
