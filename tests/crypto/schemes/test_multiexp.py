# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Products of powers against the obvious way to compute them."""

from __future__ import annotations

import secrets

import gmpy2
import numpy as np
import pytest
from gmpy2 import mpz
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsift.crypto.schemes.multiexp import (
    FixedBase,
    SharedBases,
    bucket_products,
    group_size,
    joined_powers,
    straus,
    weighted_products,
)
from fedsift.errors import BadCiphertext, ParameterError

ROOT = gmpy2.next_prime(1 << 64) * gmpy2.next_prime(1 << 65)
MODULUS = ROOT * ROOT


def numbers(count: int) -> list[mpz]:
    return [mpz(secrets.randbelow(int(MODULUS) - 1) + 1) for _ in range(count)]


def naive(bases: list[mpz], exponents: list[int]) -> mpz:
    result = mpz(1)
    for base, exponent in zip(bases, exponents, strict=True):
        result = result * gmpy2.powmod(base, int(exponent), MODULUS) % MODULUS
    return result


@pytest.mark.parametrize("n_squarings", [0, 1, 3, 23])
@pytest.mark.parametrize("bits", [1, 40, 333])
def test_fixed_base(bits: int, n_squarings: int) -> None:
    base = numbers(1)[0]
    comb = FixedBase(base, ROOT, bits, n_squarings)
    assert 8 * comb.n_columns >= bits
    for digits in comb.random_digits(3):
        assert comb.power(digits) == gmpy2.powmod(base, comb.exponent(digits), MODULUS)


def test_fixed_base_reaches_every_exponent() -> None:
    comb = FixedBase(mpz(2), ROOT, 8, 0)
    assert sorted(comb.exponent(bytes([byte])) for byte in range(256)) == list(range(256))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(-(2**90), 2**90), max_size=7))
def test_straus(exponents: list[int]) -> None:
    bases = numbers(len(exponents))
    assert straus(bases, exponents, ROOT) == naive(bases, exponents)


def test_straus_edges() -> None:
    base = numbers(1)
    for exponent in (0, 1, -1, 2, 15, 16, 17, 1 << 80):
        assert straus(base, [exponent], ROOT) == naive(base, [exponent])


@pytest.mark.parametrize(
    ("n_samples", "n_features", "n_bins"),
    [(1, 1, 1), (5, 3, 2), (40, 7, 3), (300, 5, 10), (0, 2, 3), (600, 9, 2), (20, 0, 4)],
)
def test_bucket_products(n_samples: int, n_features: int, n_bins: int) -> None:
    codes = np.random.default_rng(1).integers(0, n_bins, (n_samples, n_features))
    bases = numbers(n_samples)
    got = bucket_products(SharedBases(bases, ROOT), codes, n_bins)
    expected = [
        naive(bases, (codes[:, feature] == b).astype(int).tolist())
        for feature in range(n_features)
        for b in range(n_bins)
    ]
    assert got == expected


def test_an_empty_bin_is_neutral() -> None:
    bases = SharedBases(numbers(4), ROOT)
    assert bucket_products(bases, np.zeros((4, 1), dtype=np.int8), 3)[1:] == [1, 1]


def test_joint_buckets_pay() -> None:
    assert group_size(2000, 10) == 2
    assert group_size(100_000, 10) in (3, 4)
    assert group_size(50, 100) == 1
    assert group_size(2000, 2) > 4


@pytest.mark.parametrize("bits", [1, 8, 20, 62])
def test_weighted_products(bits: int) -> None:
    values = np.random.default_rng(2).integers(-(2**bits), 2**bits, (30, 4))
    values[:, 3] = 0
    bases = numbers(30)
    expected = [naive(bases, column.tolist()) for column in values.T]
    assert weighted_products(SharedBases(bases, ROOT), values) == expected


def test_weighted_products_of_extreme_numbers() -> None:
    limits = np.iinfo(np.int64)
    values = np.array([[limits.min, 0], [limits.max, 0], [-1, 0]])
    bases = numbers(3)
    expected = [naive(bases, column.tolist()) for column in values.T]
    assert weighted_products(SharedBases(bases, ROOT), values) == expected


def test_shared_bases_total_and_bad_numbers() -> None:
    bases = numbers(9)
    assert SharedBases(bases, ROOT).total() == naive(bases, [1] * 9)
    with pytest.raises(BadCiphertext):
        SharedBases([gmpy2.next_prime(1 << 64)], ROOT)
    with pytest.raises(ParameterError):
        bucket_products(SharedBases(bases, ROOT), np.zeros((8, 1), dtype=int), 2)


@pytest.mark.parametrize("n_results", [0, 1, 3, 4, 11])
@pytest.mark.parametrize("per_digit", [1, 3])
def test_joined_powers(n_results: int, per_digit: int) -> None:
    count = n_results * per_digit
    bases = numbers(count)
    exponents = [int(e) for e in np.random.default_rng(3).integers(-500, 500, count)]
    expected = []
    for start in range(0, count, 4 * per_digit):
        part = exponents[start : start + 4 * per_digit]
        shifted = [e << (13 * (i // per_digit)) for i, e in enumerate(part)]
        expected.append(naive(bases[start : start + len(part)], shifted))
    got = joined_powers(
        bases, exponents, ROOT, digit_bits=13, n_digits=4, bases_per_digit=per_digit
    )
    assert got == expected
