# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Every Paillier kernel with masks: they are 40 bits wider than whatever they can have to hide.

The distance of a run is computed from that, and from ciphertexts that say nothing of how they came
about: everything that goes back to the owner is re-randomised.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.stats import kstest

from fedsift.crypto.columns import paillier as columns
from fedsift.crypto.columns.api import STATISTICAL_BITS, ColumnSpec, IntegerRows
from fedsift.crypto.columns.plain import QuadraticWidths
from fedsift.crypto.layer import paillier as layer
from fedsift.crypto.products import between_two_paillier as between_two
from fedsift.crypto.products.between_two import TABLE_BITS, moduli
from fedsift.crypto.schemes.paillier import PaillierPrivateKey, PaillierPublicKey

KINDS = ("zeros", "one", "largest", "random")


def guest_numbers(kind, seed, shape, size):
    """Integers up to ``size``: what a party may have, at its extremes and in between."""
    numbers = np.full(shape, size if kind == "largest" else 0, dtype=object)
    if kind == "one":
        numbers.flat[seed % numbers.size] = size
    if kind == "random":
        rng = np.random.default_rng(seed)
        for place in range(numbers.size):
            numbers.flat[place] = int(rng.integers(-(2**62), 2**62)) * size >> 62
    return numbers


def weak_key():
    return PaillierPrivateKey.generate(512, allow_weak=True)


class Quadratics:
    """Products of columns, and their weighted multiples."""

    module = columns

    def __init__(self):
        rng = np.random.default_rng(0)
        self.spec = ColumnSpec(
            40, 1, result_bits=60, weight_bits=8, expected_rows=2, expected_features=2
        )
        column = rng.integers(-(2**9), 2**9, (40, 1))
        self.owner = columns.PaillierColumnOwner(column, self.spec, key=weak_key())
        self.evaluator = columns.PaillierColumnEvaluator(
            self.owner.keys, self.owner.columns, self.spec, allow_weak=True
        )

    def run(self, kind, seed):
        """Digits, with the size that their masks have."""
        values = guest_numbers(kind, seed, (40, 2), 2**14).astype(np.int64)
        weights = np.full((2, 1), 255, dtype=object)
        sealed = self.evaluator.quadratics(IntegerRows(values), weights)
        widths, layout = QuadraticWidths(self.spec), self.owner._layout
        packings = (layout.joined(widths.product_digit), layout.joined(widths.weighted_digit))
        correction = layout.joined(widths.correction_digit)
        parts = [(2, packing) for packing in packings] + [(2, correction)]
        products, weighted, _ = self.owner._open(sealed, parts)
        pairs = ((products, widths.product_mask), (weighted, widths.weighted_mask))
        return sealed, [(digit, 1 << bits) for digits, bits in pairs for digit in digits]


class Layer:
    """Outputs and gradients of a layer between two parties."""

    module = layer
    shape = (6, 3, 2)

    def __init__(self):
        self.owner = layer.PaillierLayerOwner(*self.shape, key=weak_key())
        self.evaluator = layer.PaillierLayerEvaluator(self.owner.keys, *self.shape, allow_weak=True)

    def run(self, kind, seed):
        n_rows, n_inputs, n_outputs = self.shape
        inner = self.owner._shape
        largest = (1 << inner.input_bits) - 1
        rng = np.random.default_rng(0)
        batch = rng.integers(-largest, largest, (n_rows, n_inputs)).astype(object)
        weights = guest_numbers(kind, seed, (n_inputs, n_outputs), (1 << inner.share_bits) - 1)
        delta = guest_numbers(kind, seed, (n_rows, n_outputs), largest // n_rows)
        sealed = self.owner.encrypt_input(batch // n_rows)
        output = self.evaluator.forward(sealed, weights, self.evaluator.masks("output"))
        gradient, _ = self.evaluator.weight_gradient(sealed, delta, self.evaluator.masks("weights"))
        opened = (
            (self.owner.decrypt_output(output), inner.mask_bits("output")),
            (self.owner.decrypt_weight_gradient(gradient), inner.mask_bits("weights")),
        )
        found = [(int(one), 1 << bits) for numbers, bits in opened for one in numbers.ravel()]
        return type(output)("paillier", output.blobs + gradient.blobs), found


class TwoParty:
    """Products of shared numbers, and with tables; a random multiple of the modulus hides both."""

    module = between_two
    length = 6

    def __init__(self):
        self.owner = between_two.PaillierTwoPartyOwner(112)
        self.evaluator = between_two.PaillierTwoPartyEvaluator(self.owner.keys)
        self.known = self.shares("random", 0, (self.length,))

    def shares(self, kind, seed, shape):
        numbers = (np.abs(guest_numbers(kind, seed, shape, p - 1)) for p in moduli())
        return np.stack([one.astype(np.uint64) for one in numbers])

    def run(self, kind, seed):
        loaded = self.evaluator.load(self.owner.seal(self.known), self.length)
        total = None
        for term in range(3):
            factor = self.shares(kind, seed + term, (self.length,))
            total = self.evaluator.add_product(total, loaded, factor)
        numbers = self.evaluator.finish(total, self.shares("zeros", 0, (self.length,)))
        table = guest_numbers(kind, seed, (3, 2), (1 << TABLE_BITS) - 1).astype(np.int64)
        matrix = self.owner.seal_matrix(self.known.reshape(-1, 2, 3))
        products = self.evaluator.times(table, matrix, self.shares("zeros", 0, (3, 3)))
        sealed = type(numbers)("paillier", numbers.blobs + products.blobs)
        public = self.owner._key.public
        opened = self.owner._key.decrypt_many(public.unseal(sealed, len(sealed.blobs)))
        modulus = math.prod(moduli())
        bits = between_two._SUM_BITS + STATISTICAL_BITS - modulus.bit_length()
        return sealed, [(int(one), modulus << bits) for one in opened]


@pytest.fixture(scope="module", params=[Quadratics, Layer, TwoParty])
def kernel(request):
    return request.param()


def no_masks(bits, count):
    return [0] * count


@settings(
    max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(kind=st.sampled_from(KINDS), seed=st.integers(0, 2**32 - 1))
def test_masks_are_forty_bits_wider_than_what_they_hide(kernel, kind, seed):
    """Without the masks, the owner decrypts what they hide."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel.module, "random_integers", no_masks)
        _, hidden = kernel.run(kind, seed)
    assert hidden
    for number, size in hidden:
        assert abs(number) << STATISTICAL_BITS <= size


@pytest.mark.parametrize("kind", ["zeros", "largest"])
def test_what_the_owner_decrypts_looks_uniform_for_extreme_guests(kernel, kind):
    seen = [one for seed in range(4) for one in kernel.run(kind, seed)[1]]
    assert kstest([number / size for number, size in seen], "uniform").pvalue > 1e-6


@pytest.mark.parametrize("kind", KINDS)
def test_everything_that_goes_back_is_rerandomised(kernel, kind, monkeypatch):
    left, original = [], PaillierPublicKey.rerandomise_many

    def noted(public, ciphertexts):
        fresh = original(public, ciphertexts)
        assert not set(ciphertexts) & set(fresh)
        left.extend(map(public.ciphertext_to_bytes, fresh))
        return fresh

    monkeypatch.setattr(PaillierPublicKey, "rerandomise_many", noted)
    sealed, _ = kernel.run(kind, 0)
    assert list(sealed.blobs) == left
