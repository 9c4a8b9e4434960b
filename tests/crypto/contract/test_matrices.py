# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""K2, every backend: an exact training step on shared weights, and a closed door."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedsift.crypto.layer.api import join_layer, own_layer, reduced
from fedsift.crypto.layer.plan import plan_layer
from fedsift.crypto.modular import multiply_modulo, uniform_below
from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.errors import BadCiphertext, CryptoError, FixedPointOverflow, ParameterError

SCHEMES = ("bgv", "paillier", "plain")
SMALL = (20, 5, 3)


def numbers(seed: int, *shape: int, size: int = 1000) -> np.ndarray:
    return np.random.default_rng(seed).integers(-size, size, shape).astype(object)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("shape", [SMALL, (7, 1, 1), (9, 3, 10), (33, 16, 4)])
def test_training_steps_are_exact(scheme: str, shape: tuple[int, ...], make_layer: Any) -> None:
    """Two steps of gradient descent on weights that nobody holds."""
    n_rows, n_inputs, n_outputs = shape
    owner, evaluator = make_layer(scheme, *shape)
    weights = numbers(0, n_inputs, n_outputs, size=10**6)
    share = reduced(owner.random_share(), owner.modulus)
    server = reduced(weights + share, owner.modulus)
    for step in range(2):
        batch, delta = numbers(10 + step, n_rows, n_inputs), numbers(20 + step, n_rows, n_outputs)
        sealed_batch, sealed_share = owner.encrypt_input(batch), owner.encrypt_share(share)

        mask = evaluator.masks("output")
        masked = owner.decrypt_output(evaluator.forward(sealed_batch, server, mask))
        output = reduced(masked - batch @ share - mask, owner.modulus)
        assert (output == batch @ weights).all()

        gradient = owner.decrypt_input_gradient(
            evaluator.input_gradient(sealed_share, delta, server)
        )
        assert (gradient == delta @ weights.T).all()

        mask = evaluator.masks("weights")
        sealed, _ = evaluator.weight_gradient(sealed_batch, delta, mask)
        share = reduced(share + owner.decrypt_weight_gradient(sealed), owner.modulus)
        server = reduced(server + mask, owner.modulus)
        weights = weights - batch.T @ delta
        assert (reduced(server - share, owner.modulus) == weights).all()


@pytest.mark.parametrize(
    "shape",
    [
        pytest.param((200, 20, 32), id="two ciphertexts of samples"),
        pytest.param((40, 60, 50), id="two ciphertexts of columns"),
        pytest.param((300, 12, 2), id="parts added by the owner"),
    ],
)
def test_bgv_and_plain_agree_on_the_whole_ring(shape: tuple[int, ...]) -> None:
    """Dense uniform numbers that wrap around: the same residues, bit for bit."""
    n_rows, n_inputs, n_outputs = shape
    owner, plain_owner = own_layer("bgv", *shape), own_layer("plain", *shape)
    evaluator, plain_evaluator = (
        join_layer(owner.keys, *shape),
        join_layer(plain_owner.keys, *shape),
    )
    assert owner.modulus == plain_owner.modulus
    modulus = owner.modulus
    batch, delta = uniform_below(modulus, shape[:2]), uniform_below(modulus, (n_rows, n_outputs))
    weights, share = uniform_below(modulus, (2, n_inputs, n_outputs))
    answers = []
    masks = [evaluator.masks(kind) for kind in ("output", "weights", "inputs")]
    for o, g in ((owner, evaluator), (plain_owner, plain_evaluator)):
        sealed, sealed_share = o.encrypt_input(batch), o.encrypt_share(share)
        output = o.decrypt_output(g.forward(sealed, weights, masks[0]))
        gradient = o.decrypt_weight_gradient(g.weight_gradient(sealed, delta, masks[1])[0])
        inputs = g.input_gradient(sealed_share, delta, weights, masks[2])
        answers.append((output, gradient, o.decrypt_input_gradient(inputs)))
    for encrypted, clear in zip(*answers, strict=True):
        assert encrypted.dtype == np.int64
        assert (encrypted == clear).all()
        assert abs(encrypted).max() <= modulus // 2


@pytest.mark.parametrize("scheme", ["paillier", "plain"])
def test_the_evaluator_follows_updates_by_itself(scheme: str, make_layer: Any) -> None:
    follow_updates(*make_layer(scheme, *SMALL, n_updates=2))


@pytest.mark.real_keys
def test_the_evaluator_follows_updates_by_itself_under_bgv() -> None:
    owner = own_layer("bgv", *SMALL, n_updates=2)
    assert owner.keys.numbers["degree"] == 16384
    follow_updates(owner, join_layer(owner.keys, *SMALL))


def follow_updates(owner: Any, evaluator: Any) -> None:
    n_rows, n_inputs, n_outputs = SMALL
    weights = numbers(0, n_inputs, n_outputs)
    share = reduced(owner.random_share(), owner.modulus)
    server = reduced(weights + share, owner.modulus)
    held = owner.encrypt_share(share)
    for step in range(2):
        batch, delta = numbers(1 + step, n_rows, n_inputs), numbers(3 + step, n_rows, n_outputs)
        mask = evaluator.masks("weights")
        sealed, kept = evaluator.weight_gradient(owner.encrypt_input(batch), delta, mask)
        opened = owner.decrypt_weight_gradient(sealed)
        assert (reduced(opened - mask, owner.modulus) == batch.T @ delta).all()
        held, server = evaluator.add_shares(held, kept), reduced(server + mask, owner.modulus)
        weights = weights - batch.T @ delta
        assert held.n_updates == step + 1
        assert "ciphertext" in repr(held) or "matrix" in repr(held)
    mask = evaluator.masks("inputs")
    gradient = owner.decrypt_input_gradient(evaluator.input_gradient(held, delta, server, mask))
    assert (reduced(gradient - mask, owner.modulus) == delta @ weights.T).all()
    if owner.modulus:
        with pytest.raises(ParameterError, match="updates"):
            evaluator.add_shares(held, kept)


def test_updates_need_keys_made_for_them() -> None:
    owner = own_layer("bgv", *SMALL)
    evaluator = join_layer(owner.keys, *SMALL)
    delta, share = numbers(1, 20, 3), owner.encrypt_share(owner.random_share())
    sealed = owner.encrypt_input(numbers(0, 20, 5))
    _, kept = evaluator.weight_gradient(sealed, delta, evaluator.masks("weights"))
    with pytest.raises(ParameterError, match="updates"):
        evaluator.add_shares(share, kept)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_zeros_everywhere(scheme: str, make_layer: Any) -> None:
    owner, evaluator = make_layer(scheme, *SMALL)
    batch, weights, delta = (np.zeros(s, dtype=int) for s in ((20, 5), (5, 3), (20, 3)))
    sealed = owner.encrypt_input(batch)
    mask = evaluator.masks("output")
    opened = owner.decrypt_output(evaluator.forward(sealed, weights, mask))
    assert (reduced(opened - mask, owner.modulus) == 0).all()
    share = owner.encrypt_share(owner.random_share())
    assert (
        owner.decrypt_input_gradient(evaluator.input_gradient(share, delta, weights)) == 0
    ).all()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_owner_sees_a_fresh_mask_every_time(scheme: str, make_layer: Any) -> None:
    owner, evaluator = make_layer(scheme, *SMALL)
    sealed, weights = owner.encrypt_input(numbers(0, 20, 5)), numbers(1, 5, 3)
    views = [
        owner.decrypt_output(evaluator.forward(sealed, weights, evaluator.masks("output")))
        for _ in range(2)
    ]
    assert (views[0] != views[1]).all()


def test_slots_without_a_result_are_uniform() -> None:
    """A returned ciphertext holds thousands of slots; none may show partial sums or zeros."""
    owner = own_layer("bgv", *SMALL)
    evaluator = join_layer(owner.keys, *SMALL)
    batch, delta = owner.encrypt_input(numbers(0, 20, 5)), numbers(1, 20, 3)
    share = owner.encrypt_share(owner.random_share())
    results = [
        evaluator.forward(batch, numbers(2, 5, 3), evaluator.masks("output")),
        evaluator.weight_gradient(batch, delta, evaluator.masks("weights"))[0],
        evaluator.input_gradient(share, delta, numbers(2, 5, 3), evaluator.masks("inputs")),
    ]
    for sealed in results:
        slots = owner._owner.decrypt(sealed.blobs[0])  # type: ignore[attr-defined]
        assert len(np.unique(slots)) == len(slots)
        assert abs(slots.mean() / owner.modulus - 0.5) < 0.03


@pytest.mark.parametrize("scheme", SCHEMES)
def test_wrong_shapes_and_types_are_refused(scheme: str, make_layer: Any) -> None:
    owner, evaluator = make_layer(scheme, *SMALL)
    sealed = owner.encrypt_input(numbers(0, 20, 5))
    mask, weights = evaluator.masks("output"), numbers(1, 5, 3)
    for wrong in (numbers(0, 19, 5), numbers(0, 20, 5).astype(float), numbers(0, 100)):
        with pytest.raises(ParameterError):
            owner.encrypt_input(wrong)
    with pytest.raises(ParameterError):
        owner.encrypt_share(numbers(0, 3, 5))
    with pytest.raises(ParameterError):
        evaluator.forward(sealed, weights.T, mask)
    with pytest.raises(ParameterError):
        evaluator.forward(sealed, weights, mask[:-1])
    with pytest.raises(ParameterError):
        evaluator.weight_gradient(sealed, numbers(0, 20, 4), evaluator.masks("weights"))
    with pytest.raises(ParameterError):
        evaluator.masks("other")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_hostile_ciphertexts_are_refused(scheme: str, make_layer: Any) -> None:
    owner, evaluator = make_layer(scheme, *SMALL)
    sealed, weights = owner.encrypt_input(numbers(0, 20, 5)), numbers(1, 5, 3)
    mask = evaluator.masks("output")
    result = evaluator.forward(sealed, weights, mask)
    for wrong in _hostile(sealed):
        with pytest.raises(BadCiphertext):
            evaluator.forward(wrong, weights, mask)
    for wrong in _hostile(owner.encrypt_share(weights)):
        with pytest.raises(BadCiphertext):
            evaluator.input_gradient(wrong, numbers(2, 20, 3), weights)
    for wrong in _hostile(result):
        with pytest.raises(BadCiphertext):
            owner.decrypt_output(wrong)


def _hostile(sealed: Ciphertexts) -> list[Ciphertexts]:
    scheme, blobs = sealed.scheme, sealed.blobs
    return [
        Ciphertexts(scheme, ()),
        Ciphertexts(scheme, blobs + blobs),
        Ciphertexts(scheme, (blobs[0][:-1], *blobs[1:])),
        Ciphertexts("rot13", blobs),
    ]


def test_a_flipped_bit_does_not_pass_as_a_result() -> None:
    owner = own_layer("bgv", *SMALL)
    evaluator = join_layer(owner.keys, *SMALL)
    sealed = evaluator.forward(
        owner.encrypt_input(numbers(0, 20, 5)), numbers(1, 5, 3), evaluator.masks("output")
    )
    blob = bytearray(sealed.blobs[0])
    blob[5000] ^= 1
    with pytest.raises(CryptoError):
        owner.decrypt_output(Ciphertexts("bgv", (bytes(blob),)))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_keys_of_another_layer_are_refused(scheme: str, make_layer: Any) -> None:
    owner, evaluator = make_layer(scheme, *SMALL)
    options = {"allow_weak": True} if scheme == "paillier" else {}
    with pytest.raises(BadCiphertext):
        type(evaluator)(owner.keys, 20, 5, 4, **options)
    for numbers_sent in ({}, owner.keys.numbers | {"plain_bits": 7}):
        keys = PublicKeys(scheme, numbers_sent, owner.keys.blobs)
        with pytest.raises(BadCiphertext):
            type(evaluator)(keys, *SMALL, **options)
    with pytest.raises(BadCiphertext):
        type(evaluator)(PublicKeys("rot13", owner.keys.numbers, ()), *SMALL, **options)


def test_paillier_refuses_numbers_beyond_the_agreed_bits(make_layer: Any) -> None:
    owner, evaluator = make_layer("paillier", *SMALL)
    with pytest.raises(FixedPointOverflow):
        owner.encrypt_input(np.full((20, 5), 1 << 30))
    sealed = owner.encrypt_input(numbers(0, 20, 5))
    with pytest.raises(FixedPointOverflow):
        evaluator.weight_gradient(sealed, np.full((20, 3), 1 << 30), evaluator.masks("weights"))


def test_unknown_schemes_are_refused() -> None:
    with pytest.raises(ParameterError, match="Unknown"):
        own_layer("rot13", *SMALL)
    with pytest.raises(ParameterError, match="Unknown"):
        join_layer(PublicKeys("rot13", {}, ()), *SMALL)
    with pytest.raises(ParameterError, match="128-bit"):
        own_layer("bgv", *SMALL, security_bits=256)


def test_the_ring_grows_only_when_it_must() -> None:
    assert plan_layer(256, 16, 16, 48).parameters.degree == 8192
    assert plan_layer(128, 32, 32, 48).parameters.degree == 8192
    assert plan_layer(128, 32, 32, 56).parameters.degree == 16384
    assert plan_layer(256, 16, 16, 48, n_updates=8).parameters.degree == 16384
    for wrong in ((0, 1, 1), (1, 0, 1), (1, 1, 5000), (1, 1, 1, 61), (1, 1, 1, 48, -1)):
        with pytest.raises(ParameterError):
            plan_layer(*wrong)


@pytest.mark.parametrize(("shape", "n_updates"), [((128, 32, 32), 0), ((256, 16, 16), 3)])
def test_the_declared_noise_has_three_bits_to_spare(
    shape: tuple[int, int, int], n_updates: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Measured with the secret key on dense uniform numbers, before anything is flooded."""
    owner: Any = own_layer("bgv", *shape, n_updates=n_updates)
    evaluator: Any = join_layer(owner.keys, *shape)
    modulus, measured = owner.modulus, []

    def measure(results: Any) -> Ciphertexts:
        bits = owner.plan.parameters.modulus_bits
        measured.extend(bits - owner._owner.noise_budget(c) - 1 for c in results)
        return Ciphertexts("bgv", ())

    monkeypatch.setattr(evaluator, "_hidden", measure)
    batch = owner.encrypt_input(uniform_below(modulus, shape[:2]))
    delta = uniform_below(modulus, (shape[0], shape[2]))
    weights, share = uniform_below(modulus, (2, *shape[1:]))
    held = owner.encrypt_share(share)
    evaluator.forward(batch, weights, evaluator.masks("output"))
    for _ in range(n_updates):
        _, kept = evaluator.weight_gradient(batch, delta, evaluator.masks("weights"))
        held = evaluator.add_shares(held, kept)
    evaluator.weight_gradient(batch, delta, evaluator.masks("weights"))
    evaluator.input_gradient(held, delta, weights)
    assert max(measured) <= owner.plan.noise_bits - 3


@pytest.mark.parametrize("bits", [20, 31, 48, 60])
def test_modular_matrix_products(bits: int) -> None:
    modulus = (1 << bits) - 1
    left, right = uniform_below(modulus, (6, 40)), uniform_below(modulus, (40, 3))
    left[0], right[:, 0] = modulus - 1, modulus - 1
    expected = left.astype(object) @ right.astype(object) % modulus
    assert (multiply_modulo(left, right, modulus) == expected).all()


@pytest.mark.real_keys
def test_paillier_at_full_size() -> None:
    shape = (4, 2, 2)
    owner = own_layer("paillier", *shape)
    evaluator = join_layer(owner.keys, *shape)
    batch, weights, mask = numbers(0, 4, 2), numbers(1, 2, 2), evaluator.masks("output")
    opened = owner.decrypt_output(evaluator.forward(owner.encrypt_input(batch), weights, mask))
    assert owner.keys.numbers["security_bits"] >= 128
    assert (opened - mask == batch @ weights).all()
