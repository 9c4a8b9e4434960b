# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Vector sums with Paillier: sums of encrypted vectors."""

from __future__ import annotations

import numpy as np
import pytest

from fedsift.crypto.schemes.paillier import PaillierPrivateKey
from fedsift.crypto.vectors.paillier import PaillierVectorEvaluator, PaillierVectorOwner
from fedsift.crypto.wire import Ciphertexts
from fedsift.errors import BadCiphertext, FixedPointOverflow, KeyTooWeak, ParameterError

VALUE_BITS = 40
LENGTH = 30


@pytest.fixture(scope="module")
def owner() -> PaillierVectorOwner:
    key = PaillierPrivateKey.generate(512, allow_weak=True)
    return PaillierVectorOwner(VALUE_BITS, key=key)


@pytest.fixture
def evaluator(owner: PaillierVectorOwner) -> PaillierVectorEvaluator:
    return PaillierVectorEvaluator(owner.keys, VALUE_BITS, allow_weak=True)


def test_everything_at_once(owner: PaillierVectorOwner, evaluator: PaillierVectorEvaluator) -> None:
    rng = np.random.default_rng(0)
    a, b, c, plain = rng.integers(-(2**30), 2**30, (4, LENGTH))
    total = evaluator.add([owner.encrypt(a), evaluator.encrypt(b), evaluator.encrypt(c)])
    answer = evaluator.rerandomise(evaluator.add_plain(evaluator.scale(total, 37), plain))
    assert 1 < len(answer.blobs) < LENGTH
    opened = owner.decrypt(answer, LENGTH)
    assert opened.dtype == object
    assert (opened == 37 * (a + b + c) + plain).all()


@pytest.mark.parametrize("length", [0, 1, 11, 12, 13, 24])
def test_lengths_and_extremes(
    owner: PaillierVectorOwner, evaluator: PaillierVectorEvaluator, length: int
) -> None:
    top = 2**VALUE_BITS - 1
    vector = np.where(np.arange(length) % 2, top, -top)
    assert (owner.decrypt(owner.encrypt(vector), length) == vector).all()
    zero = evaluator.add([owner.encrypt(vector), evaluator.encrypt(-vector)])
    assert not owner.decrypt(zero, length).any()


def test_rerandomised_vectors_differ(
    owner: PaillierVectorOwner, evaluator: PaillierVectorEvaluator
) -> None:
    encrypted = owner.encrypt([1, 2, 3])
    again = evaluator.rerandomise(encrypted)
    assert not set(encrypted.blobs) & set(again.blobs)
    assert owner.decrypt(again, 3).tolist() == [1, 2, 3]


def test_overflow_is_an_error(
    owner: PaillierVectorOwner, evaluator: PaillierVectorEvaluator
) -> None:
    for side in (owner, evaluator):
        for value in (2**VALUE_BITS, -(2**VALUE_BITS)):
            with pytest.raises(FixedPointOverflow):
                side.encrypt([0, value])
    top = evaluator.scale(owner.encrypt([2**VALUE_BITS - 1]), 2)
    with pytest.raises(FixedPointOverflow):
        owner.decrypt(top, 1)


def test_refusals(owner: PaillierVectorOwner, evaluator: PaillierVectorEvaluator) -> None:
    encrypted = owner.encrypt(np.arange(LENGTH))
    for factor in (0, -1, 2**VALUE_BITS):
        with pytest.raises(ParameterError):
            evaluator.scale(encrypted, factor)
    with pytest.raises(ParameterError):
        evaluator.add([])
    with pytest.raises(ParameterError):
        evaluator.encrypt([1.5])
    with pytest.raises(BadCiphertext):
        evaluator.add([encrypted, owner.encrypt([1])])
    with pytest.raises(BadCiphertext):
        evaluator.add_plain(encrypted, [1])
    with pytest.raises(BadCiphertext):
        owner.decrypt(Ciphertexts("bgv", encrypted.blobs), LENGTH)
    with pytest.raises(BadCiphertext):
        PaillierVectorEvaluator(owner.keys, VALUE_BITS + 1, allow_weak=True)
    with pytest.raises(KeyTooWeak):
        PaillierVectorEvaluator(owner.keys, VALUE_BITS)
    with pytest.raises(ParameterError):
        PaillierVectorOwner(600, key=PaillierPrivateKey.generate(512, allow_weak=True))
