"""Products of shared numbers: exact under every scheme, and masked so that nothing else is told."""

import numpy as np
import pytest
from scipy.stats import kstest

from fedsift.crypto.products import between_two_bgv as bgv
from fedsift.crypto.products.between_two import (
    DEGREE,
    TABLE_BITS,
    WIDEST,
    join_products,
    moduli,
    own_products,
)
from fedsift.crypto.products.between_two_plain import small_product
from fedsift.crypto.products.shares import Residue
from fedsift.crypto.schemes.seal import FLOODING_BITS
from fedsift.crypto.schemes.seal_seeded import coefficients_of
from fedsift.crypto.wire import Ciphertexts
from fedsift.errors import BadCiphertext, ParameterError

RING = Residue(moduli())
SHAPES = {
    "plain": [(6, 3, 5), (4, 20, 3)],
    "bgv": [(6, 3, 5), (3, 20, 4), (300, 2, 4000), (2, WIDEST, 1), (5, 3, 2500)],
    "paillier": [(3, 2, 2)],
}
CASES = [(scheme, shape) for scheme, shapes in SHAPES.items() for shape in shapes]
LARGEST = (1 << TABLE_BITS) - 1


def signed(numbers):
    return RING.signed(numbers).astype(np.int64)


def sides(scheme):
    owner = own_products(scheme)
    return owner, join_products(owner.keys)


@pytest.mark.parametrize(("scheme", "shape"), CASES)
def test_a_table_times_a_matrix_is_exact(scheme, shape):
    rng = np.random.default_rng(0)
    n_outputs, n_inputs, n_samples = shape
    owner, evaluator = sides(scheme)
    table = rng.integers(-LARGEST, LARGEST + 1, (n_outputs, n_inputs))
    table[0] = 0
    matrix = RING.uniform((n_inputs, n_samples))
    mask = RING.uniform((n_outputs, n_samples))
    answer = evaluator.times(table, owner.seal_matrix(matrix), mask)
    found = owner.open_product(answer, n_outputs, n_samples)
    assert np.array_equal(found, RING.add(small_product(table, matrix), mask))


@pytest.mark.parametrize("scheme", ["bgv", "plain", "paillier"])
def test_products_number_by_number_are_exact(scheme):
    owner, evaluator = sides(scheme)
    left, right = np.random.default_rng(0).integers(-999, 999, (2, 7))
    loaded = evaluator.load(owner.seal(RING.of(left)), 7)
    total = evaluator.add_product(None, loaded, RING.of(right))
    total = evaluator.add_product(total, loaded, RING.of(right))
    finished = evaluator.finish(total, RING.of(np.full(7, 5)))
    assert np.array_equal(signed(owner.open(finished, 7)), 2 * left * right + 5)


@pytest.mark.parametrize("scheme", ["bgv", "plain"])
def test_products_with_zero_tables_and_nothing_at_all_still_arrive_masked(scheme):
    owner, evaluator = sides(scheme)
    mask = np.arange(6).reshape(3, 2)
    sealed = owner.seal_matrix(RING.of(np.ones((4, 2), dtype=np.int64)))
    nothing = evaluator.times(np.zeros((3, 4), dtype=np.int64), sealed, RING.of(mask))
    assert np.array_equal(signed(owner.open_product(nothing, 3, 2)), mask)
    empty = evaluator.finish(None, RING.of(np.arange(5)))
    assert signed(owner.open(empty, 5)).tolist() == [0, 1, 2, 3, 4]


def test_what_the_owner_decrypts_beside_the_result_is_uniform():
    # Coefficients and slots that belong to nobody would tell more.
    owner, evaluator = sides("bgv")
    sealed = owner.seal_matrix(RING.of(np.full((64, 3), 7)))
    answer = evaluator.times(
        np.full((2, 64), 1500), sealed, RING.of(np.zeros((2, 3), dtype=np.int64))
    )
    empty = evaluator.finish(None, RING.of(np.arange(5)))
    for i, prime in enumerate(moduli()):
        plain = owner._tables[i].open(answer.blobs[i])
        slots = owner._numbers[i].decrypt(empty.blobs[i])
        for found, known in ((coefficients_of(plain, DEGREE), 6), (slots, 5)):
            assert kstest(found[known:] / prime, "uniform").pvalue > 1e-6


def test_the_noise_of_the_widest_table_stays_below_its_bound_and_leaves_room_to_hide():
    owner, evaluator = sides("bgv")
    n_samples = 8
    each = bgv.results_of(n_samples)
    matrix = RING.uniform((WIDEST, n_samples))
    sealed = owner.seal_matrix(matrix)
    table = np.full((each, WIDEST), LARGEST)
    reader, public = evaluator._table_readers[0], evaluator._tables[0]
    packer = bgv._Packer(public, reader, n_samples)
    blobs = sealed.blobs[:WIDEST]
    for row, words in enumerate(bgv._small_sums(table, reader, blobs)):
        packer.add(row, words)
    parameters = bgv.table_parameters()[0]
    left = owner._tables[0].noise_budget(packer._total)
    noise_bits = parameters.modulus_bits - 1 - left
    bound = bgv.table_noise_bits(WIDEST, each)
    assert noise_bits < bound
    assert parameters.flood_bits - np.ceil(bound) >= FLOODING_BITS


def test_every_ciphertext_has_a_seed_of_its_own():
    owner, _ = sides("bgv")
    sealed = owner.seal_matrix(RING.of(np.zeros((20, 2), dtype=np.int64)))
    sealed_too = owner.seal(RING.of(np.zeros(3, dtype=np.int64)))
    seeds = [blob[:32] for blob in (*sealed.blobs, *sealed_too.blobs)]
    assert len(set(seeds)) == len(seeds)


@pytest.mark.parametrize("scheme", ["bgv", "plain", "paillier"])
def test_keys_and_ciphertexts_of_other_shapes_are_refused(scheme):
    owner, evaluator = sides(scheme)
    with pytest.raises(BadCiphertext):
        join_products(type(owner.keys)(scheme, {"more": 1}, owner.keys.blobs))
    short = Ciphertexts(scheme, owner.seal(RING.of(np.arange(3))).blobs[:-1])
    with pytest.raises(BadCiphertext):
        evaluator.load(short, 3)


def test_damaged_seeded_ciphertexts_are_refused():
    owner, evaluator = sides("bgv")
    first, *rest = owner.seal_matrix(RING.of(np.zeros((1, 2), dtype=np.int64))).blobs
    mask = RING.of(np.zeros((1, 2), dtype=np.int64))
    for damaged in (first[:-8], first[:32] + b"\xff" * (len(first) - 32)):
        with pytest.raises(BadCiphertext):
            evaluator.times(
                np.ones((1, 1), dtype=np.int64), Ciphertexts("bgv", (damaged, *rest)), mask
            )


def test_tables_that_are_too_wide_or_too_large_are_refused():
    owner, evaluator = sides("bgv")
    sealed = owner.seal_matrix(RING.of(np.zeros((1, 2), dtype=np.int64)))
    mask = RING.of(np.zeros((1, 2), dtype=np.int64))
    for table in (np.ones((1, WIDEST + 1), dtype=np.int64), np.full((1, 1), LARGEST + 1)):
        with pytest.raises(ParameterError, match="Split the table"):
            evaluator.times(table, sealed, mask)
    with pytest.raises(ParameterError, match="Split the matrix"):
        owner.seal_matrix(RING.of(np.zeros((1, DEGREE + 1), dtype=np.int64)))


def test_small_products_are_exact_to_the_last_bit():
    rng = np.random.default_rng(1)
    table = rng.integers(-4095, 4096, (5, 300))
    numbers = RING.uniform((300, 4))
    expected = RING.of(table.astype(object) @ RING.signed(numbers))
    assert np.array_equal(small_product(table, numbers), expected)
