# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Pairwise masks in Z_t: they cancel modulo t, are uniform there, and are used once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from fedsift.crypto.masking import MaskingKey, PairwiseMasks, unmask_modulo
from fedsift.errors import ParameterError

NAMES = ("ann", "bob", "cy", "dora")
KEYS = {name: MaskingKey.generate() for name in NAMES}
PUBLICS = {name: key.public for name, key in KEYS.items()}
MODULI = (97, 65_537, (1 << 48) - 59)


def parties(names: tuple[str, ...] = NAMES) -> list[PairwiseMasks]:
    publics = {name: PUBLICS[name] for name in names}
    return [PairwiseMasks(name, KEYS[name], publics) for name in names]


@pytest.mark.parametrize("modulus", MODULI)
@pytest.mark.parametrize("n_parties", [2, 3, 4])
def test_masks_cancel_in_the_sum(n_parties: int, modulus: int) -> None:
    rng = np.random.default_rng(0)
    half = modulus // 2
    values = [rng.integers(-half, half + 1, (5, 3)) for _ in range(n_parties)]
    masked = [
        party.mask_modulo(own, "round 1", modulus)
        for party, own in zip(parties(NAMES[:n_parties]), values, strict=True)
    ]
    for array in masked:
        assert array.shape == (5, 3)
        assert array.dtype == np.uint64
        assert (array < modulus).all()
    exact = sum(own.astype(object) for own in values)
    folded = (exact + half) % modulus - half
    assert unmask_modulo(masked, modulus).tolist() == folded.tolist()


@given(st.lists(st.integers(-(2**46), 2**46), min_size=1, max_size=20))
def test_any_numbers_of_the_ring_come_back(values: list[int]) -> None:
    modulus = MODULI[-1]
    ann, bob = parties(("ann", "bob"))
    array = np.array(values, dtype=np.int64)
    masked = [ann.mask_modulo(array, "x", modulus), bob.mask_modulo(0 * array, "x", modulus)]
    assert unmask_modulo(masked, modulus).tolist() == values


@pytest.mark.parametrize("modulus", [97, (1 << 48) - 59])
@pytest.mark.parametrize("value", [0, 40])
def test_a_masked_number_is_uniform_in_the_ring(value: int, modulus: int) -> None:
    """Whatever the value: sixteen equal parts of the ring are hit alike."""
    ann, _ = parties(("ann", "bob"))
    masked = ann.mask_modulo(np.full(40_000, value), "uniform", modulus)
    edges = np.linspace(0, modulus, 17)
    observed = np.histogram(masked.astype(np.float64), edges)[0]
    residues = np.histogram(np.arange(97), edges)[0] if modulus == 97 else np.ones(16)
    expected = 40_000 * residues / residues.sum()
    assert chisquare(observed, expected).pvalue > 1e-4


def test_every_context_and_pair_has_its_own_mask() -> None:
    ann, bob, _ = parties(NAMES[:3])
    zeros = np.zeros(4, dtype=np.int64)
    streams = [
        ann.mask_modulo(zeros, "a", 65_537),
        ann.mask_modulo(zeros, "b", 65_537),
        bob.mask_modulo(zeros, "a", 65_537),
    ]
    assert len({stream.tobytes() for stream in streams}) == 3


def test_a_context_is_used_once_in_either_way() -> None:
    ann, _ = parties(("ann", "bob"))
    zeros = np.zeros(4, dtype=np.int64)
    ann.mask_modulo(zeros, "once", 97)
    with pytest.raises(ParameterError, match="were used before"):
        ann.mask_modulo(zeros, "once", 97)
    with pytest.raises(ParameterError, match="were used before"):
        ann.mask([0], "once")


def test_a_missing_party_leaves_noise() -> None:
    everybody = parties(NAMES[:3])
    values = np.full(200, 5)
    masked = [party.mask_modulo(values, "gone", 65_537) for party in everybody]
    assert (unmask_modulo(masked, 65_537) == 15).all()
    assert (np.abs(unmask_modulo(masked[:2], 65_537) - 10) > 100).mean() > 0.95


@pytest.mark.parametrize(
    "second",
    [
        np.zeros(3, dtype=np.uint64),
        np.zeros(4, dtype=np.int64),
        np.full(4, 97, dtype=np.uint64),
    ],
    ids=["shape", "type", "outside the ring"],
)
def test_arrays_that_do_not_belong_together_are_refused(second: np.ndarray) -> None:
    with pytest.raises(ParameterError, match="is not usable"):
        unmask_modulo([np.zeros(4, dtype=np.uint64), second], 97)
