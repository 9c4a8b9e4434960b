# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""K2 with Paillier: exact integer matrix products under encryption."""

from __future__ import annotations

import numpy as np
import pytest

from fedsift.crypto.layer.paillier_matrix import PaillierMatrixEvaluator, PaillierMatrixOwner
from fedsift.crypto.schemes.paillier import PaillierPrivateKey
from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.errors import BadCiphertext, FixedPointOverflow, KeyTooWeak, ParameterError


@pytest.fixture(scope="module")
def key() -> PaillierPrivateKey:
    return PaillierPrivateKey.generate(768, allow_weak=True)


@pytest.fixture
def pair(key: PaillierPrivateKey) -> tuple[PaillierMatrixOwner, PaillierMatrixEvaluator]:
    owner = PaillierMatrixOwner(value_bits=40, input_bits=20, key=key)
    return owner, PaillierMatrixEvaluator(owner.keys, allow_weak=True)


@pytest.mark.parametrize(("q", "m", "length"), [(1, 1, 1), (3, 5, 4), (4, 2, 25), (2, 3, 9)])
def test_product_plus_mask_is_exact(
    pair: tuple[PaillierMatrixOwner, PaillierMatrixEvaluator], q: int, m: int, length: int
) -> None:
    owner, evaluator = pair
    rng = np.random.default_rng(q)
    matrix = rng.integers(-(2**20) + 1, 2**20, (m, length))
    weights = rng.integers(-(2**16), 2**16, (q, m))
    weights[0, 0] = 0
    mask = evaluator.masks((q, length))
    answer = evaluator.left_multiply(owner.encrypt(matrix), weights, mask)
    opened = owner.decrypt(answer, (q, length))
    assert opened.dtype == object
    assert (opened - mask == weights @ matrix).all()


def test_products_without_a_mask(pair: tuple[PaillierMatrixOwner, PaillierMatrixEvaluator]) -> None:
    owner, evaluator = pair
    matrix = np.array([[2**20 - 1, -(2**20 - 1), 0]])
    zeros = np.zeros((2, 3), dtype=int)
    answer = evaluator.left_multiply(owner.encrypt(matrix), np.array([[-(2**20)], [2**20]]), zeros)
    expected = np.array([[-(2**20)], [2**20]]) @ matrix
    assert (owner.decrypt(answer, (2, 3)) == expected).all()


def test_masks_hide_results(pair: tuple[PaillierMatrixOwner, PaillierMatrixEvaluator]) -> None:
    _, evaluator = pair
    masks = evaluator.masks((50, 40)).astype(float)
    # Uniform over 2**81: 40 bits wider than results in (-2**40, 2**40).
    assert abs(masks.mean() / 2.0**81 - 0.5) < 5 / np.sqrt(12 * masks.size)
    assert masks.max() > 0.99 * 2.0**81


def test_answers_are_rerandomised(
    pair: tuple[PaillierMatrixOwner, PaillierMatrixEvaluator],
) -> None:
    owner, evaluator = pair
    encrypted = owner.encrypt(np.array([[5]]))
    zeros, one = np.array([[0]]), np.array([[1]])
    answers = {evaluator.left_multiply(encrypted, one, zeros).blobs for _ in range(3)}
    assert len(answers | {encrypted.blobs}) == 4


def test_refusals(
    pair: tuple[PaillierMatrixOwner, PaillierMatrixEvaluator], key: PaillierPrivateKey
) -> None:
    owner, evaluator = pair
    encrypted = owner.encrypt(np.array([[1, 2], [3, 4]]))
    mask = evaluator.masks((1, 2))
    with pytest.raises(FixedPointOverflow):
        owner.encrypt(np.array([[2**20]]))
    with pytest.raises(FixedPointOverflow):
        evaluator.left_multiply(encrypted, np.array([[2**19, 2**19 + 1]]), mask)
    with pytest.raises(FixedPointOverflow):
        evaluator.left_multiply(encrypted, np.array([[1, 1]]), mask * 2**41)
    with pytest.raises(ParameterError):
        evaluator.left_multiply(encrypted, np.array([[1, 1]]), evaluator.masks((2, 2)))
    with pytest.raises(ParameterError):
        evaluator.left_multiply(encrypted, np.array([[1.5, 1]]), mask)
    with pytest.raises(BadCiphertext):
        evaluator.left_multiply(encrypted, np.array([[1, 1, 1]]), mask)
    with pytest.raises(BadCiphertext):
        owner.decrypt(Ciphertexts("plain", encrypted.blobs), (2, 2))
    with pytest.raises(BadCiphertext):
        owner.decrypt(encrypted, (3, 2))
    with pytest.raises(KeyTooWeak):
        PaillierMatrixEvaluator(owner.keys)
    with pytest.raises(BadCiphertext):
        PaillierMatrixEvaluator(
            PublicKeys("paillier", {"key_bits": 768}, owner.keys.blobs), allow_weak=True
        )
    with pytest.raises(ParameterError):
        PaillierMatrixOwner(value_bits=800, key=key)


@pytest.mark.real_keys
def test_full_size_key() -> None:
    owner = PaillierMatrixOwner(3072, 48)
    evaluator = PaillierMatrixEvaluator(owner.keys)
    rng = np.random.default_rng(0)
    matrix, weights = rng.integers(-999, 999, (4, 8)), rng.integers(-999, 999, (3, 4))
    mask = evaluator.masks((3, 8))
    opened = owner.decrypt(evaluator.left_multiply(owner.encrypt(matrix), weights, mask), (3, 8))
    assert (opened - mask == weights @ matrix).all()
