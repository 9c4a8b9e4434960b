# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Encrypted columns, every backend: exact products and quadratics, and a closed door for anything unexpected."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedsift.crypto.columns.api import (
    BinnedRows,
    ColumnSpec,
    IntegerRows,
    join_columns,
    own_columns,
)
from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.errors import BadCiphertext, CryptoError, FedsiftError, KeyTooWeak, ParameterError

SCHEMES = ("bgv", "paillier", "plain")
ENCRYPTED = ("bgv", "paillier")
N_SAMPLES, N_FEATURES, N_BINS = 120, 5, 4


def indicator(n_samples: int, n_columns: int, seed: int = 0) -> np.ndarray:
    labels = np.random.default_rng(seed).integers(0, n_columns, n_samples)
    return (labels[:, None] == np.arange(n_columns)).astype(np.int64)


def binned(n_samples: int = N_SAMPLES, n_features: int = N_FEATURES, seed: int = 1) -> BinnedRows:
    """Feature 0 leaves all bins but one empty."""
    codes = np.random.default_rng(seed).integers(0, N_BINS, (n_samples, n_features))
    codes[:, 0] = 2
    return BinnedRows(codes, N_BINS)


def dense(rows: BinnedRows | IntegerRows) -> np.ndarray:
    """All rows as a matrix (n_rows, n_samples): the definition the backends must meet."""
    if isinstance(rows, IntegerRows):
        return rows.values.T.astype(object)
    members = rows.codes.T[:, None, :] == np.arange(rows.n_bins)[None, :, None]
    return members.reshape(rows.n_rows, rows.n_samples).astype(object)


def quadratic(
    rows: BinnedRows | IntegerRows, columns: np.ndarray, weights: np.ndarray
) -> list[int]:
    squares = (dense(rows) @ columns.astype(object)) ** 2
    return list((squares.sum(axis=1).reshape(rows.n_features, -1) * weights).sum(axis=1))


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("n_columns", [1, 2, 3, 4])
def test_counts(scheme: str, n_columns: int, make_columns: Any) -> None:
    columns, rows = indicator(N_SAMPLES, n_columns), binned()
    spec = ColumnSpec(N_SAMPLES, n_columns, result_bits=8, counting=True)
    owner, evaluator = make_columns(scheme, columns, spec)
    opened = owner.open_products(evaluator.products(rows), rows.n_rows)
    assert opened.dtype == object
    assert (opened == dense(rows) @ columns).all()
    assert opened.sum() == N_SAMPLES * N_FEATURES


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("n_samples", [127, 128, 255])
def test_counts_that_fill_every_digit(scheme: str, n_samples: int, make_columns: Any) -> None:
    """All samples in one bin and one class: the largest count beside the largest count."""
    columns = np.ones((n_samples, 1), dtype=np.int64)
    rows = BinnedRows(np.zeros((n_samples, 12), dtype=np.int64), 1)
    spec = ColumnSpec(n_samples, 1, result_bits=n_samples.bit_length(), counting=True)
    owner, evaluator = make_columns(scheme, columns, spec)
    opened = owner.open_products(evaluator.products(rows), rows.n_rows)
    assert (opened == n_samples).all()


@pytest.mark.parametrize("scheme", ENCRYPTED)
def test_results_beyond_the_agreed_range_are_refused(scheme: str, make_columns: Any) -> None:
    columns = np.ones((N_SAMPLES, 1), dtype=np.int64)
    spec = ColumnSpec(N_SAMPLES, 1, result_bits=10, weight_bits=0)
    owner, evaluator = make_columns(scheme, columns, spec)
    too_large = IntegerRows(np.full((N_SAMPLES, 2), 100))
    with pytest.raises(FedsiftError):
        owner.open_products(evaluator.products(too_large), 2)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("n_columns", [1, 3])
def test_products_of_signed_columns(scheme: str, n_columns: int, make_columns: Any) -> None:
    rng = np.random.default_rng(2)
    columns = rng.integers(-(2**16), 2**16, (N_SAMPLES, n_columns))
    spec = ColumnSpec(N_SAMPLES, n_columns, result_bits=44, weight_bits=0)
    owner, evaluator = make_columns(scheme, columns, spec)
    for rows in (binned(), IntegerRows(rng.integers(-(2**18), 2**18, (N_SAMPLES, 6)))):
        opened = owner.open_products(evaluator.products(rows), rows.n_rows)
        assert (opened == dense(rows) @ columns.astype(object)).all()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_quadratics_with_weights(scheme: str, make_columns: Any) -> None:
    rng = np.random.default_rng(3)
    columns, rows = rng.integers(-20, 20, (N_SAMPLES, 2)), binned()
    weights = rng.integers(0, 2**8, (N_FEATURES, N_BINS))
    weights[1, 1] = 0
    spec = ColumnSpec(N_SAMPLES, 2, result_bits=40, weight_bits=8)
    owner, evaluator = make_columns(scheme, columns, spec)
    opened = owner.open_quadratics(evaluator.quadratics(rows, weights), N_FEATURES, N_BINS)
    assert list(opened) == quadratic(rows, columns, weights)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_quadratics_without_weights(scheme: str, make_columns: Any) -> None:
    rng = np.random.default_rng(4)
    columns = rng.integers(-50, 50, (N_SAMPLES, 1))
    spec = ColumnSpec(N_SAMPLES, 1, result_bits=52)
    owner, evaluator = make_columns(scheme, columns, spec)
    rows = IntegerRows(rng.integers(-500, 500, (N_SAMPLES, 4)))
    opened = owner.open_quadratics(evaluator.quadratics(rows), 4, 1)
    assert list(opened) == quadratic(rows, columns, np.ones((4, 1), dtype=object))


@pytest.mark.parametrize("scheme", ["bgv", "plain"])
def test_more_samples_than_one_chunk(scheme: str, make_columns: Any) -> None:
    n_samples = 8192 + 700
    columns, rows = indicator(n_samples, 2), binned(n_samples, 2)
    spec = ColumnSpec(n_samples, 2, result_bits=15, counting=True, expected_rows=rows.n_rows)
    owner, evaluator = make_columns(scheme, columns, spec)
    opened = owner.open_products(evaluator.products(rows), rows.n_rows)
    assert (opened == dense(rows) @ columns).all()
    assert scheme == "plain" or len(owner.columns.blobs) > 1


def test_backends_agree_bit_for_bit(make_columns: Any) -> None:
    rng = np.random.default_rng(5)
    columns, rows = rng.integers(-9, 9, (N_SAMPLES, 3)), binned()
    weights = rng.integers(0, 4, (N_FEATURES, N_BINS))
    spec = ColumnSpec(N_SAMPLES, 3, result_bits=40, weight_bits=2)
    answers = []
    for scheme in SCHEMES:
        owner, evaluator = make_columns(scheme, columns, spec)
        products = owner.open_products(evaluator.products(rows), rows.n_rows)
        squares = owner.open_quadratics(evaluator.quadratics(rows, weights), N_FEATURES, N_BINS)
        answers.append((products.tolist(), squares.tolist()))
    assert answers[0] == answers[1] == answers[2]


@pytest.fixture(scope="module", params=SCHEMES)
def pair(request: pytest.FixtureRequest, make_columns: Any) -> Any:
    """One small federation per backend, for everything that must be refused."""
    spec = ColumnSpec(N_SAMPLES, 2, result_bits=20, weight_bits=4)
    return make_columns(request.param, indicator(N_SAMPLES, 2), spec)


def test_other_rows_are_refused(pair: Any) -> None:
    _, evaluator = pair
    with pytest.raises(ParameterError, match="samples"):
        evaluator.products(binned(N_SAMPLES - 1))
    codes = binned().codes.copy()
    codes[3, 3] = N_BINS
    with pytest.raises(ParameterError, match="Bin codes"):
        evaluator.products(BinnedRows(codes, N_BINS))
    with pytest.raises(ParameterError, match="weights"):
        evaluator.quadratics(binned(), np.ones((N_FEATURES, N_BINS + 1), dtype=np.int64))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_other_columns_are_refused(scheme: str) -> None:
    spec = ColumnSpec(N_SAMPLES, 2, result_bits=20, counting=True)
    with pytest.raises(ParameterError, match="shape"):
        own_columns(scheme, indicator(N_SAMPLES, 3), spec)
    with pytest.raises(ParameterError, match="other than 0 and 1"):
        own_columns(scheme, 2 * indicator(N_SAMPLES, 2), spec)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_counting_columns_only_count(scheme: str, make_columns: Any) -> None:
    spec = ColumnSpec(N_SAMPLES, 2, result_bits=20, counting=True)
    _, evaluator = make_columns(scheme, indicator(N_SAMPLES, 2), spec)
    with pytest.raises(ParameterError, match="count"):
        evaluator.products(IntegerRows(np.ones((N_SAMPLES, 1), dtype=np.int64)))


def hostile(sealed: Ciphertexts) -> list[Ciphertexts]:
    """What a broken or malicious party may send in place of a ciphertext."""
    scheme, blobs = sealed.scheme, sealed.blobs
    return [
        Ciphertexts(scheme, ()),
        Ciphertexts(scheme, blobs[:-1]),
        Ciphertexts(scheme, (*blobs, blobs[0])),
        Ciphertexts(scheme, (blobs[0][:-1], *blobs[1:])),
        Ciphertexts(scheme, (b"", *blobs[1:])),
        Ciphertexts(scheme, (blobs[0] + b"\x00", *blobs[1:])),
        Ciphertexts("rot13", blobs),
    ]


def test_hostile_results_are_refused(pair: Any) -> None:
    owner, evaluator = pair
    rows = binned()
    for sealed in hostile(evaluator.products(rows)):
        with pytest.raises(BadCiphertext):
            owner.open_products(sealed, rows.n_rows)
    for sealed in hostile(evaluator.quadratics(rows)):
        with pytest.raises(BadCiphertext):
            owner.open_quadratics(sealed, N_FEATURES, N_BINS)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_hostile_columns_are_refused(scheme: str, make_columns: Any) -> None:
    spec = ColumnSpec(N_SAMPLES, 2, result_bits=20)
    owner, evaluator = make_columns(scheme, indicator(N_SAMPLES, 2), spec)
    options = {"allow_weak": True} if scheme == "paillier" else {}
    for columns in hostile(owner.columns):
        with pytest.raises(BadCiphertext):
            type(evaluator)(owner.keys, columns, spec, **options)


def test_results_of_another_backend_are_refused(make_columns: Any) -> None:
    spec, rows = ColumnSpec(N_SAMPLES, 2, result_bits=20), binned()
    pairs = {s: make_columns(s, indicator(N_SAMPLES, 2), spec) for s in SCHEMES}
    for ours in SCHEMES:
        for theirs in SCHEMES:
            if ours != theirs:
                with pytest.raises(BadCiphertext):
                    pairs[ours][0].open_products(pairs[theirs][1].products(rows), rows.n_rows)


@pytest.mark.parametrize("scheme", ENCRYPTED)
def test_a_flipped_bit_does_not_pass_as_a_result(scheme: str, make_columns: Any) -> None:
    spec, rows = ColumnSpec(N_SAMPLES, 2, result_bits=20), binned()
    owner, evaluator = make_columns(scheme, indicator(N_SAMPLES, 2), spec)
    sealed = evaluator.products(rows)
    first = bytearray(sealed.blobs[0])
    first[len(first) // 2] ^= 4
    with pytest.raises(CryptoError):
        owner.open_products(Ciphertexts(scheme, (bytes(first), *sealed.blobs[1:])), rows.n_rows)


@pytest.mark.parametrize("scheme", ENCRYPTED)
def test_another_partys_key_opens_nothing(scheme: str, make_columns: Any) -> None:
    spec, rows = ColumnSpec(N_SAMPLES, 2, result_bits=20), binned()
    columns = indicator(N_SAMPLES, 2)
    _, evaluator = make_columns(scheme, columns, spec)
    stranger = own_columns(scheme, columns, spec, security_bits=112)
    with pytest.raises(CryptoError):
        stranger.open_products(evaluator.products(rows), rows.n_rows)


def test_keys_of_another_job_are_refused(make_columns: Any) -> None:
    spec = ColumnSpec(N_SAMPLES, 2, result_bits=20)
    other = ColumnSpec(N_SAMPLES, 2, result_bits=30)
    owner, _ = make_columns("bgv", indicator(N_SAMPLES, 2), spec)
    with pytest.raises(BadCiphertext, match="other parameters"):
        join_columns(owner.keys, owner.columns, other)
    cut = PublicKeys("bgv", owner.keys.numbers, (owner.keys.blobs[0][:-9], owner.keys.blobs[1]))
    with pytest.raises(BadCiphertext):
        join_columns(cut, owner.columns, spec)


def test_unknown_schemes_and_strengths_are_refused() -> None:
    spec, columns = ColumnSpec(N_SAMPLES, 2, result_bits=20), indicator(N_SAMPLES, 2)
    with pytest.raises(ParameterError, match="Unknown encryption scheme"):
        own_columns("rot13", columns, spec)
    with pytest.raises(ParameterError, match="Unknown encryption scheme"):
        join_columns(PublicKeys("rot13", {}, ()), Ciphertexts("rot13", ()), spec)
    with pytest.raises(KeyTooWeak):
        own_columns("bgv", columns, spec, security_bits=192)


def test_nothing_shows_content(pair: Any) -> None:
    owner, evaluator = pair
    for thing in (owner, evaluator, owner.keys, owner.columns):
        text = repr(thing)
        assert len(text) < 200
        assert "\\x" not in text


def test_errors_have_three_parts(pair: Any) -> None:
    owner, _ = pair
    with pytest.raises(FedsiftError) as caught:
        owner.open_products(Ciphertexts("rot13", ()), 3)
    assert caught.value.found
    assert caught.value.needed
    assert caught.value.action


@pytest.mark.real_keys
def test_paillier_at_full_size() -> None:
    columns, rows = indicator(40, 2), binned(40, 2)
    spec = ColumnSpec(40, 2, result_bits=8, counting=True)
    owner = own_columns("paillier", columns, spec)
    evaluator = join_columns(owner.keys, owner.columns, spec)
    assert owner.keys.numbers["security_bits"] >= 128
    opened = owner.open_products(evaluator.products(rows), rows.n_rows)
    assert (opened == dense(rows) @ columns).all()
