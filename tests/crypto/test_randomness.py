# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Random numbers of the operating system: exact ranges, no visible bias."""

from __future__ import annotations

import numpy as np
import pytest

from fedsift.crypto.modular import random_integers, uniform_below
from fedsift.errors import ParameterError


@pytest.mark.parametrize("modulus", [1, 2, 3, 10, 2**32 + 1, 2**62 + 1, 2**63 - 1])
def test_uniform_below_stays_below(modulus: int) -> None:
    draws = uniform_below(modulus, (7, 11))
    assert draws.shape == (7, 11)
    assert draws.dtype == np.uint64
    assert int(draws.max()) < modulus


def test_uniform_below_has_no_bias() -> None:
    # A remainder of 2 random bits modulo 3 would give the value 0 half of the time.
    n_draws = 30_000
    counts = np.bincount(uniform_below(3, n_draws).astype(np.int64), minlength=3)
    deviation = np.abs(counts - n_draws / 3).max()
    assert deviation < 5 * np.sqrt(n_draws * 2 / 9)


def test_uniform_below_empty() -> None:
    assert uniform_below(5, (0, 3)).shape == (0, 3)


@pytest.mark.parametrize("modulus", [0, -1, 2**63])
def test_uniform_below_refuses_moduli(modulus: int) -> None:
    with pytest.raises(ParameterError):
        uniform_below(modulus, 3)


@pytest.mark.parametrize("bits", [1, 7, 8, 9, 63, 64, 65, 3112])
def test_random_integers_have_their_bits(bits: int) -> None:
    draws = random_integers(bits, 64)
    assert len(draws) == 64
    assert all(0 <= draw < 1 << bits for draw in draws)
    # The top bit is set in some and not in others, or 64 fair coins fell alike.
    assert 0 < sum(draw >> (bits - 1) for draw in draws) < 64


def test_random_integers_edge_cases() -> None:
    assert random_integers(0, 3) == [0, 0, 0]
    assert random_integers(8, 0) == []
    with pytest.raises(ParameterError):
        random_integers(-1, 3)
