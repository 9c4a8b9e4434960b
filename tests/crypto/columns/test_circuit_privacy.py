# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What the key owner can see of a computation besides its result: nothing, if it is hidden.

The owner holds the secret key and can therefore measure the noise of what comes back, down to
every coefficient. Two evaluators with different rows and equal products must look alike.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import seal
from scipy import stats

from fedsift.crypto.columns.api import ColumnSpec, IntegerRows
from fedsift.crypto.columns.bgv import BGVColumnEvaluator, BGVColumnOwner, product_noise_bits
from fedsift.crypto.schemes.seal import (
    SealOwner,
    SealParameters,
    SealPublic,
    Workspace,
    plain_primes,
)

N_SAMPLES, N_FEATURES = 2000, 8
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
        original = SealPublic.hide_circuit

        def hide(public: SealPublic, ciphertext: seal.Ciphertext, noise_bits: float) -> bytes:
            self.before.append(ciphertext)
            self.after.append(original(public, ciphertext, noise_bits))
            return self.after[-1]

        monkeypatch.setattr(SealPublic, "hide_circuit", hide)


@pytest.fixture(scope="module")
def federation() -> tuple[BGVColumnOwner, BGVColumnEvaluator]:
    """A column of zeros: every row has the same product with it."""
    spec = ColumnSpec(N_SAMPLES, 1, result_bits=36, weight_bits=0)
    owner = BGVColumnOwner(np.zeros((N_SAMPLES, 1), dtype=np.int64), spec)
    return owner, BGVColumnEvaluator(owner.keys, owner.columns, spec)


def sparse_rows() -> IntegerRows:
    values = np.zeros((N_SAMPLES, N_FEATURES), dtype=np.int64)
    values[0, 0] = 1
    return IntegerRows(values)


def dense_rows() -> IntegerRows:
    rng = np.random.default_rng(0)
    return IntegerRows(rng.integers(-(2**50), 2**50, (N_SAMPLES, N_FEATURES)))


def test_two_evaluators_with_equal_products(
    federation: tuple[BGVColumnOwner, BGVColumnEvaluator], monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, evaluator = federation
    (key,) = owner._owners
    spreads: dict[str, tuple[float, float]] = {}
    budgets: dict[str, tuple[int, int]] = {}
    noises = []
    for name, rows in (("sparse", sparse_rows()), ("dense", dense_rows())):
        recorder = Recorder(monkeypatch)
        sealed = evaluator.products(rows)
        assert (owner.open_products(sealed, N_FEATURES) == 0).all()
        hidden = key.workspace.ciphertext(recorder.after[0], key.workspace.resting_level)
        before, after = raw_noise(key, recorder.before[0]), raw_noise(key, hidden)
        noises.append(after)
        spreads[name] = (float(before.std()), float(after.std()))
        budgets[name] = (key.noise_budget(recorder.before[0]), key.noise_budget(hidden))
        monkeypatch.undo()

    # Without hiding, both the budget and the spread of the noise give the rows away ...
    assert budgets["sparse"][0] >= budgets["dense"][0] + 2
    assert spreads["dense"][0] > 4 * spreads["sparse"][0]
    # ... with it, neither does, and the coefficients come from one distribution.
    # The budget is the whole-bit floor of one random maximum: equal noise may straddle a bit.
    assert abs(budgets["sparse"][1] - budgets["dense"][1]) <= 1
    assert spreads["dense"][1] == pytest.approx(spreads["sparse"][1], rel=0.05)
    assert stats.ks_2samp(*noises).pvalue > 1e-4


def test_the_flooding_is_uniform_and_40_bits_wider() -> None:
    parameters = SealParameters("bgv", 8192, 3, plain_primes(8192, 36)[0])
    owner = SealOwner(parameters)
    public = SealPublic(parameters, owner.public_blobs)
    noise_bits = 80
    flood = public._flooded_zero(public.zero(), noise_bits + 40)
    noise = raw_noise(owner, flood) / 2.0 ** (noise_bits + 40)
    assert stats.kstest(noise, stats.uniform(-1, 2).cdf).pvalue > 1e-4
    assert 0.99 < abs(noise).max() < 1.01


@pytest.mark.parametrize("result_bits", [20, 36, 42])
def test_the_declared_bound_holds_for_dense_rows(
    result_bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random numbers of Z_t in every slot are the worst an evaluator can multiply with: 3 bits below."""
    rng = np.random.default_rng(result_bits)
    spec = ColumnSpec(N_SAMPLES, 1, result_bits, weight_bits=0, expected_rows=N_FEATURES)
    columns = rng.integers(-(2**15), 2**15, (N_SAMPLES, 1))
    owner = BGVColumnOwner(columns, spec)
    evaluator = BGVColumnEvaluator(owner.keys, owner.columns, spec)
    recorder = Recorder(monkeypatch)
    evaluator.products(IntegerRows(rng.integers(-(2**62), 2**62, (N_SAMPLES, N_FEATURES))))
    (key,) = owner._owners
    bits = key.workspace.parameters.modulus_bits
    measured = max(bits - key.noise_budget(ciphertext) - 1 for ciphertext in recorder.before)
    assert measured <= owner._plan.noise_bits - 3
    assert product_noise_bits(30, 4096) - product_noise_bits(30, 64) == 3
