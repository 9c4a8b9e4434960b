# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What the key owner can see of a computation besides its result: nothing, if it is hidden.

The owner holds the secret key and can therefore measure the noise of what comes back, down to
every coefficient. Two evaluators with different rows and equal products must look alike.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from fedsift.crypto.columns.api import ColumnSpec, IntegerRows
from fedsift.crypto.columns.bgv import BGVColumnEvaluator, BGVColumnOwner, product_noise_bits
from fedsift.crypto.schemes.seal import SealOwner, SealParameters, SealPublic, plain_primes
from helpers.noise import Recorder, raw_noise

N_SAMPLES, N_FEATURES = 2000, 8


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


def test_the_flooding_is_smooth_and_as_wide_as_it_is_said_to_be() -> None:
    parameters = SealParameters("bgv", 8192, 3, plain_primes(8192, 36)[0])
    owner = SealOwner(parameters)
    public = SealPublic(parameters, owner.public_blobs)
    noise_bits = 80
    flood = public._flooded_zero(public.zero(), noise_bits + 40)
    noise = raw_noise(owner, flood) / 2.0 ** (noise_bits + 40)
    # Three numbers, each uniform in half of the range: what a sum of them has for a density.
    third = np.convolve(np.convolve(np.ones(667), np.ones(667)), np.ones(667))
    expected = np.interp(
        np.sort(noise), np.linspace(-0.75, 0.75, len(third)), np.cumsum(third) / third.sum()
    )
    steps = np.arange(1, len(noise) + 1) / len(noise)
    assert np.abs(expected - steps).max() < 2.3 / np.sqrt(len(noise))
    assert abs(noise).max() < 0.75


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
