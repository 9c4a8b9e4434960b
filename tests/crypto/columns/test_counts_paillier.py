# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Encrypted columns with Paillier and in the clear: exact against numpy, private, and strict about messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedsift.crypto.columns.api import BinnedRows, ColumnSpec, IntegerRows, Rows
from fedsift.crypto.columns.paillier import PaillierColumnEvaluator, PaillierColumnOwner
from fedsift.crypto.columns.plain import (
    CELL_BITS,
    PlainColumnEvaluator,
    PlainColumnOwner,
    QuadraticWidths,
    _open,
)
from fedsift.crypto.schemes.paillier import PaillierPrivateKey
from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.errors import BadCiphertext, FixedPointOverflow, KeyTooWeak, ParameterError

N_SAMPLES, N_FEATURES, N_BINS = 60, 5, 4
Pair = tuple[Any, Any]
Maker = Callable[[Any, ColumnSpec], Pair]


@pytest.fixture(scope="module")
def key() -> PaillierPrivateKey:
    return PaillierPrivateKey.generate(768, allow_weak=True)


@pytest.fixture(params=["paillier", "plain"])
def make(request: pytest.FixtureRequest, key: PaillierPrivateKey) -> Maker:
    def paillier(columns: Any, spec: ColumnSpec) -> Pair:
        owner = PaillierColumnOwner(columns, spec, key=key)
        return owner, PaillierColumnEvaluator(owner.keys, owner.columns, spec, allow_weak=True)

    def plain(columns: Any, spec: ColumnSpec) -> Pair:
        owner = PlainColumnOwner(columns, spec)
        return owner, PlainColumnEvaluator(owner.keys, owner.columns, spec)

    return paillier if request.param == "paillier" else plain


def binned(seed: int = 0, n_bins: int = N_BINS) -> BinnedRows:
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, n_bins - 1, (N_SAMPLES, N_FEATURES))  # the last bin stays empty
    codes[:, 0] = 0
    return BinnedRows(codes, n_bins)


def indicators(n_columns: int) -> Any:
    labels = np.random.default_rng(1).integers(0, n_columns, N_SAMPLES)
    return (labels[:, None] == np.arange(n_columns)).astype(np.int64)


def expected_products(rows: Rows, columns: Any) -> Any:
    if isinstance(rows, IntegerRows):
        return rows.values.T.astype(object) @ columns.astype(object)
    members = rows.codes[:, :, None] == np.arange(rows.n_bins)
    matrix = members.reshape(rows.n_samples, -1).astype(object).T
    return matrix @ columns.astype(object)


def expected_quadratics(rows: Rows, columns: Any, weights: Any = None) -> list[int]:
    products = expected_products(rows, columns)
    n_cells = rows.n_rows // rows.n_features
    squares = (products**2).sum(axis=1).reshape(rows.n_features, n_cells)
    factors = np.ones_like(squares) if weights is None else weights.astype(object)
    return [int(number) for number in (squares * factors).sum(axis=1)]


@pytest.mark.parametrize("n_columns", [1, 2, 3, 4])
@pytest.mark.parametrize("counting", [True, False])
def test_class_counts(make: Maker, n_columns: int, counting: bool) -> None:
    columns, rows = indicators(n_columns), binned()
    owner, evaluator = make(columns, ColumnSpec(N_SAMPLES, n_columns, 6, counting=counting))
    counts = owner.open_products(evaluator.products(rows), rows.n_rows)
    assert counts.dtype == object
    assert counts.shape == (rows.n_rows, n_columns)
    assert (counts == expected_products(rows, columns)).all()


@pytest.mark.parametrize("weight_bits", [0, 1])
def test_products_with_signed_numbers(make: Maker, weight_bits: int) -> None:
    rng = np.random.default_rng(3)
    columns = rng.integers(-1000, 1000, (N_SAMPLES, 3))
    values = rng.integers(-(2**20), 2**20, (N_SAMPLES, 6))
    values[:, 2] = 0
    values[:, 3] = -1
    spec = ColumnSpec(N_SAMPLES, 3, 38, weight_bits=weight_bits)
    owner, evaluator = make(columns, spec)
    for rows in (IntegerRows(values), binned()):
        products = owner.open_products(evaluator.products(rows), rows.n_rows)
        assert (products == expected_products(rows, columns)).all()


def test_columns_that_need_several_ciphertexts(key: PaillierPrivateKey) -> None:
    columns = np.random.default_rng(3).integers(-1000, 1000, (N_SAMPLES, 5))
    spec = ColumnSpec(N_SAMPLES, 5, 300, weight_bits=0)
    owner = PaillierColumnOwner(columns, spec, key=key)
    assert len(owner.columns.blobs) == 3 * N_SAMPLES
    evaluator = PaillierColumnEvaluator(owner.keys, owner.columns, spec, allow_weak=True)
    rows = binned()
    products = owner.open_products(evaluator.products(rows), rows.n_rows)
    assert (products == expected_products(rows, columns)).all()


@pytest.mark.parametrize("n_columns", [1, 2, 3, 4])
def test_weighted_quadratics(make: Maker, n_columns: int) -> None:
    rng = np.random.default_rng(4)
    columns, rows = indicators(n_columns), binned()
    weights = rng.integers(0, 2**12, (N_FEATURES, N_BINS))
    weights[1] = 0
    owner, evaluator = make(columns, ColumnSpec(N_SAMPLES, n_columns, 24, weight_bits=12))
    sealed = evaluator.quadratics(rows, weights)
    opened = owner.open_quadratics(sealed, N_FEATURES, N_BINS)
    assert opened.tolist() == expected_quadratics(rows, columns, weights)
    assert owner.open_quadratics(
        evaluator.quadratics(rows), N_FEATURES, N_BINS
    ).tolist() == expected_quadratics(rows, columns)


def test_quadratics_of_signed_numbers(make: Maker) -> None:
    rng = np.random.default_rng(5)
    columns = rng.integers(-100, 100, (N_SAMPLES, 2))
    rows = IntegerRows(rng.integers(-500, 500, (N_SAMPLES, N_FEATURES)))
    owner, evaluator = make(columns, ColumnSpec(N_SAMPLES, 2, 46))
    opened = owner.open_quadratics(evaluator.quadratics(rows), N_FEATURES, 1)
    assert opened.tolist() == expected_quadratics(rows, columns)


def test_extreme_products_do_not_run_into_their_neighbours(make: Maker) -> None:
    # One sample of the largest allowed size, both signs, next to zeros.
    columns = np.zeros((4, 2), dtype=np.int64)
    columns[0] = [2**20 - 1, -(2**20 - 1)]
    rows = BinnedRows(np.array([[0, 1, 2], [1, 1, 1], [1, 1, 1], [1, 1, 1]]), 3)
    owner, evaluator = make(columns, ColumnSpec(4, 2, 20, weight_bits=0))
    products = owner.open_products(evaluator.products(rows), rows.n_rows)
    assert (products == expected_products(rows, columns)).all()
    owner, evaluator = make(columns, ColumnSpec(4, 2, 41, weight_bits=1))
    opened = owner.open_quadratics(evaluator.quadratics(rows), 3, 3)
    assert opened.tolist() == expected_quadratics(rows, columns)


def test_no_features(make: Maker) -> None:
    rows = BinnedRows(np.zeros((N_SAMPLES, 0), dtype=np.int64), 3)
    owner, evaluator = make(indicators(2), ColumnSpec(N_SAMPLES, 2, 8))
    assert owner.open_products(evaluator.products(rows), 0).shape == (0, 2)
    assert owner.open_quadratics(evaluator.quadratics(rows), 0, 3).shape == (0,)


def masked_numbers(owner: PaillierColumnOwner, sealed: Ciphertexts, n_products: int) -> list[int]:
    """Whatever the owner sees of the single products: the digits ``u = m + r``."""
    packing = owner._layout.joined(QuadraticWidths(owner.spec).product_digit)
    n_first = -(-n_products // packing.n_digits)
    first = owner._key.public.unseal(sealed, len(sealed.blobs))[:n_first]
    digits: list[int] = []
    for number in owner._key.decrypt_many(first):
        digits += packing.unpack(number, min(packing.n_digits, n_products - len(digits)))
    return digits


def test_masked_products_do_not_show_the_products(key: PaillierPrivateKey) -> None:
    # Two worlds with equal quadratics: 100 = 10**2 + 0 in one bin or (6, 8) in two.
    columns, spec = np.ones((14, 1), dtype=np.int64), ColumnSpec(14, 1, 8)
    worlds = (np.repeat([0, 2], [10, 4]), np.repeat([0, 1], [6, 8]))
    n_features = 200
    means = []
    for codes in worlds:
        owner = PaillierColumnOwner(columns[: codes.size], spec, key=key)
        evaluator = PaillierColumnEvaluator(owner.keys, owner.columns, spec, allow_weak=True)
        rows = BinnedRows(np.repeat(codes[:, None], n_features, axis=1), 3)
        weights = np.tile([1, 1, 0], (n_features, 1))
        sealed = evaluator.quadratics(rows, weights)
        assert set(owner.open_quadratics(sealed, n_features, 3)) == {100}
        seen = np.array(masked_numbers(owner, sealed, n_features * 3), dtype=float)
        assert seen.std() > 2.0 ** (QuadraticWidths(spec).product_mask - 3)
        means.append(seen.reshape(n_features, 3).mean(axis=0))
    sigma = 2.0 ** QuadraticWidths(spec).product_mask / np.sqrt(12 * n_features)
    assert np.abs(means[0] - means[1]).max() < 5 * np.sqrt(2) * sigma


def test_plain_masks_do_not_correlate_with_products() -> None:
    columns, spec = np.ones((64, 1), dtype=np.int64), ColumnSpec(64, 1, 13)
    codes = np.random.default_rng(6).integers(0, 8, (64, 500))
    rows, owner = BinnedRows(codes, 8), PlainColumnOwner(columns, spec)
    sealed = PlainColumnEvaluator(owner.keys, owner.columns, spec).quadratics(rows)
    widths, count = QuadraticWidths(spec), rows.n_rows
    masked, weighted, _ = _open(
        sealed,
        [
            (count, widths.product_digit),
            (count, widths.weighted_digit),
            (500, widths.correction_digit),
        ],
    )
    products = expected_products(rows, columns).ravel().astype(float)
    for seen in (masked, weighted):
        correlation = np.corrcoef(products, np.array(seen, dtype=float))[0, 1]
        assert abs(correlation) < 5 / np.sqrt(count)


def test_masks_are_forty_bits_wider() -> None:
    widths = QuadraticWidths(ColumnSpec(10, 2, 47, weight_bits=24))
    assert widths.product_mask - (widths.product + 1) >= 40
    assert widths.weighted_mask - (widths.weighted + 1) >= 40
    largest = ((1 << widths.product) + (1 << widths.product_mask)) * (
        (1 << widths.weighted) + (1 << widths.weighted_mask)
    )
    assert (largest << CELL_BITS) + (1 << 47) < 1 << (widths.correction_digit - 1)


def test_equal_answers_differ_as_ciphertexts(key: PaillierPrivateKey) -> None:
    spec = ColumnSpec(N_SAMPLES, 2, 6, counting=True)
    owner = PaillierColumnOwner(indicators(2), spec, key=key)
    evaluator = PaillierColumnEvaluator(owner.keys, owner.columns, spec, allow_weak=True)
    first, second = evaluator.products(binned()), evaluator.products(binned())
    assert not set(first.blobs) & set(second.blobs)
    # Only empty bins: the neutral element must not leave as the number 1.
    empty = evaluator.products(BinnedRows(np.zeros((N_SAMPLES, 1), dtype=int), 200))
    assert all(int.from_bytes(blob, "big") != 1 for blob in empty.blobs)


def test_wrong_messages_are_refused(make: Maker) -> None:
    spec, rows = ColumnSpec(N_SAMPLES, 2, 24), binned()
    owner, evaluator = make(indicators(2), spec)
    products, quadratics = evaluator.products(rows), evaluator.quadratics(rows)
    for sealed in (
        Ciphertexts(products.scheme, products.blobs[:-1]),
        Ciphertexts(products.scheme, (*products.blobs, products.blobs[0])),
        Ciphertexts("bgv", products.blobs),
        Ciphertexts(products.scheme, (products.blobs[0][1:], *products.blobs[1:])),
    ):
        with pytest.raises(BadCiphertext):
            owner.open_products(sealed, rows.n_rows)
    with pytest.raises(BadCiphertext):
        owner.open_quadratics(
            Ciphertexts(quadratics.scheme, quadratics.blobs[1:]), N_FEATURES, N_BINS
        )
    with pytest.raises((BadCiphertext, FixedPointOverflow)):
        owner.open_quadratics(products, N_FEATURES, N_BINS)


def test_wrong_keys_and_columns_are_refused(key: PaillierPrivateKey) -> None:
    spec = ColumnSpec(N_SAMPLES, 1, 8)
    owner = PaillierColumnOwner(indicators(1), spec, key=key)
    blobs = owner.columns.blobs
    for keys, columns in (
        (PublicKeys("plain", owner.keys.numbers, owner.keys.blobs), owner.columns),
        (PublicKeys("paillier", {"key_bits": 3072}, owner.keys.blobs), owner.columns),
        (owner.keys, Ciphertexts("paillier", blobs[1:])),
        (owner.keys, Ciphertexts("plain", blobs)),
        (owner.keys, Ciphertexts("paillier", (b"\0" * len(blobs[0]), *blobs[1:]))),
    ):
        with pytest.raises(BadCiphertext):
            PaillierColumnEvaluator(keys, columns, spec, allow_weak=True)
    with pytest.raises(KeyTooWeak):
        PaillierColumnEvaluator(owner.keys, owner.columns, spec)
    with pytest.raises(BadCiphertext):
        PlainColumnEvaluator(owner.keys, owner.columns, spec)


def test_overflow_and_wrong_weights_are_refused(make: Maker) -> None:
    spec, rows = ColumnSpec(N_SAMPLES, 1, 24, weight_bits=3), binned()
    owner, evaluator = make(indicators(1), spec)
    for weights in (np.full((N_FEATURES, N_BINS), 8), np.full((N_FEATURES, N_BINS), -1)):
        with pytest.raises(FixedPointOverflow):
            evaluator.quadratics(rows, weights)
    with pytest.raises(ParameterError):
        evaluator.quadratics(rows, np.ones((N_BINS, N_FEATURES), dtype=int))
    with pytest.raises(ParameterError):
        evaluator.products(BinnedRows(rows.codes[1:], N_BINS))
    with pytest.raises(ParameterError):
        owner.open_quadratics(evaluator.quadratics(rows), 1, (1 << CELL_BITS) + 1)
    with pytest.raises(FixedPointOverflow):
        make(np.full((N_SAMPLES, 1), 1 << 24), spec)
    counting = ColumnSpec(N_SAMPLES, 1, 5, counting=True)
    with pytest.raises(FixedPointOverflow):
        make(np.ones((N_SAMPLES, 1), dtype=int), counting)
    _, counting_evaluator = make(indicators(1), ColumnSpec(N_SAMPLES, 1, 6, counting=True))
    with pytest.raises(ParameterError):
        counting_evaluator.quadratics(rows)


def test_results_too_wide_for_the_key(key: PaillierPrivateKey) -> None:
    spec = ColumnSpec(N_SAMPLES, 1, 800)
    owner = PaillierColumnOwner(indicators(1), spec, key=key)
    evaluator = PaillierColumnEvaluator(owner.keys, owner.columns, spec, allow_weak=True)
    with pytest.raises(ParameterError):
        evaluator.products(binned())


def test_reprs_show_no_content(make: Maker) -> None:
    owner, evaluator = make(indicators(2), ColumnSpec(N_SAMPLES, 2, 8))
    assert len(repr(owner.keys)) + len(repr(owner.columns)) < 200
    assert all(len(repr(side)) < 120 for side in (owner, evaluator))


@pytest.mark.real_keys
def test_full_size_keys() -> None:
    columns, rows = indicators(2), binned()
    spec = ColumnSpec(N_SAMPLES, 2, 24, weight_bits=8)
    owner = PaillierColumnOwner(columns, spec)
    assert owner.keys.numbers == {"key_bits": 3072, "security_bits": 128}
    evaluator = PaillierColumnEvaluator(owner.keys, owner.columns, spec)
    weights = np.random.default_rng(7).integers(0, 256, (N_FEATURES, N_BINS))
    products = owner.open_products(evaluator.products(rows), rows.n_rows)
    assert (products == expected_products(rows, columns)).all()
    opened = owner.open_quadratics(evaluator.quadratics(rows, weights), N_FEATURES, N_BINS)
    assert opened.tolist() == expected_quadratics(rows, columns, weights)
