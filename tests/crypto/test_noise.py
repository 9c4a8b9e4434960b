# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Every kernel: the noise that goes back to the owner keeps to its bound, whatever the guest has.

The bound is what the distance of a run is computed from, so this is what the promise rests on.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedsift.crypto.columns.api import BinnedRows, ColumnSpec, IntegerRows
from fedsift.crypto.columns.bgv import BGVColumnEvaluator, BGVColumnOwner
from fedsift.crypto.layer.api import join_layer, own_layer, reduced
from fedsift.crypto.products.between_two import (
    TABLE_BITS,
    join_products,
    moduli,
    own_products,
)
from fedsift.crypto.products.bgv import ColumnHolder, ProductCloud, ProductOwner
from fedsift.crypto.products.plan import plan_products
from fedsift.crypto.schemes.seal import (
    FLOODING_BITS,
    SealOwner,
    SealParameters,
    SealPublic,
    least_distance_bits,
    plain_primes,
    run_distance_bits,
)
from fedsift.crypto.vectors.api import join_vector, own_vector
from fedsift.errors import NoiseExhausted
from fedsift.methods.vfps import blinding
from helpers.noise import Recorder, raw_noise

N_ROWS, N_FEATURES = 600, 6
KINDS = ("zeros", "one", "largest", "random")
EXTREMES = ("zeros", "largest")


def guest_numbers(kind, seed, shape, size):
    """Integers up to ``size``: what a party may have, at its extremes and in between."""
    if kind == "largest":
        return np.full(shape, size, dtype=np.int64)
    numbers = np.zeros(shape, dtype=np.int64)
    if kind == "one":
        numbers.flat[seed % numbers.size] = size
    if kind == "random":
        numbers = np.random.default_rng(seed).integers(-size, size, shape)
    return numbers


class Kernel:
    """Keys are made once; ``run`` computes and hides with what a guest has."""

    n_ciphertexts = 64
    least_bits = 0.0
    """Of distance that docs/threat-model.md states for a run of so many ciphertexts."""


class Counts(Kernel):
    least_bits = 31.0

    def __init__(self):
        labels = np.random.default_rng(0).integers(0, 2, N_ROWS)
        self.spec = ColumnSpec(N_ROWS, 1, result_bits=10, counting=True, expected_rows=60)
        self.owner = BGVColumnOwner(labels[:, None], self.spec)
        self.evaluator = BGVColumnEvaluator(self.owner.keys, self.owner.columns, self.spec)
        self.owners = self.owner._owners

    def run(self, kind, seed):
        codes = np.abs(guest_numbers(kind, seed, (N_ROWS, N_FEATURES), 9))
        self.evaluator.products(BinnedRows(codes, 10))


class Scores(Kernel):
    least_bits = 33.0

    def __init__(self):
        rng = np.random.default_rng(0)
        self.spec = ColumnSpec(
            N_ROWS, 2, result_bits=80, weight_bits=8, expected_rows=6, expected_features=6
        )
        self.owner = BGVColumnOwner(rng.integers(-(2**10), 2**10, (N_ROWS, 2)), self.spec)
        self.evaluator = BGVColumnEvaluator(self.owner.keys, self.owner.columns, self.spec)
        self.owners = self.owner._owners

    def run(self, kind, seed):
        values = guest_numbers(kind, seed, (N_ROWS, N_FEATURES), 2**14)
        weights = np.ones((N_FEATURES, 1), dtype=np.int64).astype(object)
        self.evaluator.quadratics(IntegerRows(values), weights)


class Vectors(Kernel):
    least_bits = 36.0

    def __init__(self):
        self.owner = own_vector("bgv", 40)
        self.evaluator = join_vector(self.owner.keys, 40)
        self.owners = self.owner._owners

    def run(self, kind, seed):
        known = guest_numbers(kind, seed, 300, 2**36)
        parts = [self.owner.encrypt(known // 2), self.evaluator.encrypt(known // 2)]
        total = self.evaluator.add(parts)
        self.evaluator.rerandomise(self.evaluator.add_plain(total, known))


class Sums(Kernel):
    least_bits = 35.0

    def __init__(self):
        self.owner = blinding.own_sums("bgv")
        self.evaluator = blinding.join_sums(self.owner.keys)
        self.owners = self.owner._owners

    def run(self, kind, seed):
        numbers = np.abs(guest_numbers(kind, seed, 8192, 2**30))
        sealed = {str(i): blinding.seal_vector(self.evaluator, numbers) for i in range(4)}
        loaded = blinding.LoadedParts(self.evaluator, sealed, len(numbers))
        loaded.blinded(list(sealed), [64] * 128)


class Layer(Kernel):
    n_ciphertexts, least_bits = 1024, 29.0
    shape = (64, 6, 4)

    def __init__(self):
        self.owner = own_layer("bgv", *self.shape)
        self.evaluator = join_layer(self.owner.keys, *self.shape)
        self.owners = [self.owner._owner]

    def run(self, kind, seed):
        n_rows, n_inputs, n_outputs = self.shape
        largest = self.owner.modulus // 2
        share = reduced(self.owner.random_share(), self.owner.modulus)
        batch = np.random.default_rng(seed).integers(-1000, 1000, (n_rows, n_inputs))
        sealed = self.owner.encrypt_input(batch.astype(object))
        weights = guest_numbers(kind, seed, (n_inputs, n_outputs), largest).astype(object)
        delta = guest_numbers(kind, seed, (n_rows, n_outputs), largest).astype(object)
        self.evaluator.forward(sealed, weights, self.evaluator.masks("output"))
        self.evaluator.weight_gradient(sealed, delta, self.evaluator.masks("weights"))
        self.evaluator.input_gradient(self.owner.encrypt_share(share), delta, weights)


class Products(Kernel):
    least_bits = 39.0

    def __init__(self):
        self.plan = plan_products(N_ROWS, 2, (2, 2), 70)
        self.owner = ProductOwner(self.plan, "bgv")
        self.codes = np.random.default_rng(0).integers(0, 2, N_ROWS)
        self.owners = [ring._owner for ring in self.owner._rings]

    def run(self, kind, seed):
        cloud = ProductCloud(self.owner.evaluation_keys, self.plan)
        holder = ColumnHolder(self.owner.column_keys, self.plan)
        columns = guest_numbers(kind, seed, (N_ROWS, 4), 2**14)
        for place in (0, 1):
            part = columns[:, 2 * place : 2 * place + 2]
            cloud.take_columns(holder.encrypt_columns(part), place)
        cloud.take_labels(self.owner.encrypt_labels(self.codes))
        cloud.masked_sums([0, 2, 3], holder.encrypt_mates(columns[:, [1]]))


class TwoParty(Kernel):
    """Both kinds of products of a blind training: number by number, and with tables."""

    n_ciphertexts = 1024
    length, n_inputs, n_samples = 300, 32, 16

    def __init__(self):
        self.owner = own_products("bgv")
        self.evaluator = join_products(self.owner.keys)
        self.owners = [*self.owner._numbers, *self.owner._tables]
        self.known = self.shares("random", 0, (self.length,))
        self.matrix = self.shares("random", 1, (self.n_inputs, self.n_samples))

    def shares(self, kind, seed, shape):
        """Residues of any size, as shares have."""
        pairs = enumerate(moduli())
        return np.stack([np.abs(guest_numbers(kind, seed + i, shape, p - 1)) for i, p in pairs])


class Numbers(TwoParty):
    least_bits = 44.0

    def run(self, kind, seed):
        loaded = self.evaluator.load(self.owner.seal(self.known), self.length)
        total = None
        for term in range(16):
            factor = self.shares(kind, seed + term, (self.length,)).astype(np.uint64)
            total = self.evaluator.add_product(total, loaded, factor)
        self.evaluator.finish(total, self.shares("random", 2, (self.length,)).astype(np.uint64))


class Tables(TwoParty):
    least_bits = 29.0

    def run(self, kind, seed):
        n_outputs = 40
        table = guest_numbers(kind, seed, (n_outputs, self.n_inputs), (1 << TABLE_BITS) - 1)
        mask = self.shares("random", 2, (n_outputs, self.n_samples)).astype(np.uint64)
        self.evaluator.times(table, self.owner.seal_matrix(self.matrix), mask)


KERNELS = (Counts, Scores, Vectors, Sums, Layer, Products, Numbers, Tables)


@pytest.fixture(scope="module", params=KERNELS)
def kernel(request):
    return request.param()


def owner_of(kernel, public):
    (owner,) = [o for o in kernel.owners if o.workspace is public.workspace]
    return owner


@settings(
    max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(kind=st.sampled_from(KINDS), seed=st.integers(0, 2**32 - 1))
def test_noise_keeps_to_the_bound_that_the_flooding_covers(kernel, kind, seed):
    with pytest.MonkeyPatch.context() as patch:
        recorder = Recorder(patch)
        kernel.run(kind, seed)
    assert recorder.before
    for ciphertext, public, bound in zip(
        recorder.before, recorder.publics, recorder.bounds, strict=True
    ):
        parameters = public.workspace.parameters
        noise = parameters.modulus_bits - owner_of(kernel, public).noise_budget(ciphertext)
        assert noise < bound
        assert run_distance_bits(parameters, bound, kernel.n_ciphertexts) > kernel.least_bits


def test_no_run_can_have_less_than_the_least_distance():
    """Whatever the parameters: 40 bits in every coefficient are about 32 in a ciphertext."""
    parameters = SealParameters("bgv", 8192, 3, plain_primes(8192, 40)[0])
    bound = parameters.flood_bits - FLOODING_BITS
    for n_ciphertexts in (1, 64, 4096):
        bits = run_distance_bits(parameters, bound, n_ciphertexts)
        assert bits >= least_distance_bits(n_ciphertexts) > 31.9 - np.log2(n_ciphertexts) / 2
        assert bits > 32.4 - np.log2(n_ciphertexts) / 2
    owner = SealOwner(parameters)
    public = SealPublic(parameters, owner.public_blobs)
    with pytest.raises(NoiseExhausted):
        public.hide_circuit(public.zero(), bound + 1)


def test_the_distance_of_a_run_is_that_of_its_densities():
    """The bound against the exact distance, for shifts and numbers of coefficients that fit."""
    step, width = 1e-3, 1.0
    places = np.arange(-0.5, 3.5, step)

    def density(x):
        middle = 0.75 - (x - 1.5) ** 2
        sides = np.minimum(x, 3 - x) ** 2 / 2
        return np.where((x > 0) & (x < 3), np.where(np.abs(x - 1.5) < 0.5, middle, sides), 0.0)

    for shift in (0.01, 0.05, 0.2):
        gaps = np.sqrt(density(places)) - np.sqrt(density(places - shift))
        exact = float((gaps**2).sum() * step / 2)  # squared Hellinger distance
        assert exact < 4.5625 * shift**2 / width**2 / 8
        assert exact > 0.8 * 4.5625 * shift**2 / width**2 / 8


def test_hidden_noise_is_the_same_for_extreme_guests(kernel):
    seen = []
    for kind in EXTREMES:
        with pytest.MonkeyPatch.context() as patch:
            recorder = Recorder(patch)
            kernel.run(kind, 0)
        public = recorder.publics[0]
        owner, space = owner_of(kernel, public), public.workspace
        hidden = space.ciphertext(recorder.after[0], space.resting_level)
        seen.append(raw_noise(owner, hidden))
    spread = np.mean([noise.std() for noise in seen])
    error = spread * np.sqrt(2 / len(seen[0]))
    assert abs(seen[0].mean() - seen[1].mean()) < 6 * error
    assert seen[0].std() == pytest.approx(seen[1].std(), rel=0.06)
