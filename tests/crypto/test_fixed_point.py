# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Fixed-point numbers and signed packing: exact there and back, loud when something overflows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsift.crypto.fixed_point import FixedPoint, SignedPacking
from fedsift.errors import FixedPointOverflow, ParameterError

QUICK = settings(max_examples=60, deadline=None)


@QUICK
@given(
    st.lists(st.floats(-1000, 1000), max_size=8),
    st.integers(0, 30),
    st.sampled_from([48, 63, 64, 200]),
)
def test_fixed_point_errs_by_half_a_step(
    reals: list[float], fraction_bits: int, total_bits: int
) -> None:
    point = FixedPoint(fraction_bits, total_bits)
    encoded = point.encode(np.array(reals))
    assert encoded.dtype == (np.int64 if total_bits <= 63 else object)
    assert np.abs(point.decode(encoded) - np.array(reals)).max(initial=0) <= point.resolution / 2


def test_fixed_point_rounds_half_to_even() -> None:
    assert FixedPoint(0, 8).encode([0.5, 1.5, 2.5, -0.5, -1.5]).tolist() == [0, 2, 2, 0, -2]


def test_fixed_point_long_numbers_are_exact() -> None:
    point = FixedPoint(100, 200)
    assert point.encode(np.array([[1.5]]))[0, 0] == 3 << 99
    assert point.decode(np.array([[3 << 99]], dtype=object))[0, 0] == 1.5


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 128.0, -128.0, 1e308])
@pytest.mark.parametrize("total_bits", [8, 72])
def test_fixed_point_refuses_without_showing_the_value(bad: float, total_bits: int) -> None:
    if total_bits == 72:
        bad *= 2.0**64
    with pytest.raises(FixedPointOverflow) as caught:
        FixedPoint(0, total_bits).encode(np.array([[1.0, bad]]))
    assert f"{total_bits} bits" in str(caught.value)
    assert "(1, 2)" in str(caught.value)
    assert str(bad) not in str(caught.value)


def test_fixed_point_refuses_sizes() -> None:
    with pytest.raises(ParameterError):
        FixedPoint(8, 8)


@QUICK
@given(st.data(), st.integers(2, 80), st.integers(1, 12))
def test_packing_there_and_back(data: st.DataObject, digit_bits: int, n_digits: int) -> None:
    half = 1 << (digit_bits - 1)
    digits = data.draw(st.lists(st.integers(-half, half - 1), max_size=n_digits))
    packing = SignedPacking(digit_bits, n_digits)
    assert packing.unpack(packing.pack(digits), len(digits)) == digits


@QUICK
@given(st.lists(st.tuples(*[st.integers(-100, 100)] * 5), min_size=1, max_size=20))
def test_sums_of_packed_numbers_stay_correct(vectors: list[tuple[int, ...]]) -> None:
    packing = SignedPacking(13, 5)
    total = sum(packing.pack(vector) for vector in vectors)
    assert packing.unpack(total, 5) == [sum(column) for column in zip(*vectors, strict=True)]


def test_packing_edges() -> None:
    packing = SignedPacking(4, 2)
    assert packing.unpack(packing.pack([-8, 7]), 2) == [-8, 7]
    assert packing.unpack(packing.pack([-1]), 2) == [-1, 0]
    assert packing.unpack(0, 0) == []
    for too_much in ([8], [-9], [0, 0, 0]):
        with pytest.raises(FixedPointOverflow):
            packing.pack(too_much)
    with pytest.raises(FixedPointOverflow):
        packing.unpack(0, 3)
    for outside in (1 << 7, -(1 << 8)):
        with pytest.raises(FixedPointOverflow):
            packing.unpack(outside, 2)
    with pytest.raises(ParameterError):
        SignedPacking(1, 2)
