# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Pairwise masks: they cancel in the sum, hide everything else, and are used once."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsift.crypto.masking import MaskingKey, PairwiseMasks, from_limbs, to_limbs, unmask_sum
from fedsift.crypto.wire import PublicKeys
from fedsift.errors import BadCiphertext, FixedPointOverflow, ParameterError

NAMES = ("ann", "bob", "cy", "dora")
KEYS = {name: MaskingKey.generate() for name in NAMES}
PUBLICS = {name: key.public for name, key in KEYS.items()}


def parties(names: tuple[str, ...] = NAMES) -> list[PairwiseMasks]:
    publics = {name: PUBLICS[name] for name in names}
    return [PairwiseMasks(name, KEYS[name], publics) for name in names]


@pytest.mark.parametrize("limbs", [1, 2, 3])
@pytest.mark.parametrize("n_parties", [2, 3, 4])
def test_masks_cancel_in_the_sum(limbs: int, n_parties: int) -> None:
    limit = 1 << (64 * limbs - 4)
    values = [[0, -1, limit - i, -limit + i, 12345 * i] for i in range(n_parties)]
    masked = [
        party.mask(row, "round 1", limbs)
        for party, row in zip(parties(NAMES[:n_parties]), values, strict=True)
    ]
    assert all(array.shape == (5, limbs) and array.dtype == np.uint64 for array in masked)
    assert unmask_sum(masked, limbs) == [sum(column) for column in zip(*values, strict=True)]


def test_arrays_and_lists_are_the_same() -> None:
    values = np.array([3, -4, 2**40])
    ann, bob = parties(("ann", "bob"))
    assert unmask_sum([ann.mask(values, "x"), bob.mask(values.tolist(), "x")]) == [6, -8, 2**41]


def test_masked_numbers_look_uniform() -> None:
    """Equal values, different values: the view of one array says nothing about them."""
    ann, bob = parties(("ann", "bob"))
    zeros, ones = ann.mask([0] * 4000, "a"), ann.mask([1] * 4000, "b")
    for array in (zeros, ones, bob.mask([0] * 4000, "b")):
        assert len(np.unique(array)) == 4000
        bits = np.unpackbits(array.view(np.uint8))
        assert abs(bits.mean() - 0.5) < 0.005


def test_every_context_and_pair_has_its_own_mask() -> None:
    ann, bob, _ = parties(NAMES[:3])
    streams = [ann.mask([0] * 4, "a"), ann.mask([0] * 4, "b"), bob.mask([0] * 4, "a")]
    assert len({stream.tobytes() for stream in streams}) == 3
    fresh = MaskingKey.generate()
    renewed = PairwiseMasks("ann", fresh, PUBLICS | {"ann": fresh.public})
    assert (renewed.mask([0] * 4, "a") != streams[0]).all()


def test_without_one_party_nothing_is_learned() -> None:
    values = [10, 20, 30]
    masked = [party.mask([v], "x") for party, v in zip(parties(NAMES[:3]), values, strict=True)]
    assert unmask_sum(masked[:2]) != [30]
    assert unmask_sum(masked) == [60]


def test_names_cannot_be_shifted_into_each_other() -> None:
    """("a", "bc") and ("ab", "c") are different pairs, also when joined."""
    left = PairwiseMasks("a", KEYS["ann"], {"bc": PUBLICS["bob"]})
    right = PairwiseMasks("ab", KEYS["ann"], {"c": PUBLICS["bob"]})
    assert (left.mask([0], "x") != right.mask([0], "x")).all()


def test_a_context_serves_once() -> None:
    ann, _ = parties(("ann", "bob"))
    ann.mask([1], "round 1")
    with pytest.raises(ParameterError, match="used before"):
        ann.mask([1], "round 1")
    ann.mask([1], "round 2")


def test_a_refused_value_does_not_use_up_the_context() -> None:
    ann, _ = parties(("ann", "bob"))
    with pytest.raises(FixedPointOverflow):
        ann.mask([1 << 63], "round 1")
    ann.mask([1], "round 1")


@pytest.mark.parametrize("wrong", [1.5, "1", None, True, np.float64(2.0)])
def test_only_integers_are_masked(wrong: object) -> None:
    ann, _ = parties(("ann", "bob"))
    with pytest.raises(ParameterError, match="integers"):
        ann.mask([wrong], "x")  # type: ignore[list-item]


@pytest.mark.parametrize(
    "public",
    [
        PublicKeys("x25519", {}, (b"\x00" * 32,)),
        PublicKeys("x25519", {}, (b"\x01" + b"\x00" * 31,)),
        PublicKeys("x25519", {}, (b"short",)),
        PublicKeys("x25519", {}, (b"\x05" * 33,)),
        PublicKeys("x25519", {}, ()),
        PublicKeys("x25519", {"n": 1}, (b"\x05" * 32,)),
        PublicKeys("bgv", {}, (b"\x05" * 32,)),
        PUBLICS["ann"],
    ],
    ids=["zero", "small order", "short", "long", "none", "numbers", "scheme", "own"],
)
def test_bad_public_keys(public: PublicKeys) -> None:
    with pytest.raises(BadCiphertext):
        PairwiseMasks("ann", KEYS["ann"], {"bob": public})


def test_keys_announced_twice_or_under_our_name() -> None:
    with pytest.raises(BadCiphertext, match="same key"):
        PairwiseMasks("ann", KEYS["ann"], {"bob": PUBLICS["bob"], "cy": PUBLICS["bob"]})
    with pytest.raises(BadCiphertext, match="own name"):
        PairwiseMasks("ann", KEYS["ann"], {"ann": PUBLICS["cy"], "bob": PUBLICS["bob"]})
    with pytest.raises(ParameterError, match="no one"):
        PairwiseMasks("ann", KEYS["ann"], {"ann": PUBLICS["ann"]})


def test_arrays_that_do_not_fit_together() -> None:
    ann, bob = parties(("ann", "bob"))
    one, two = ann.mask([1, 2], "x"), bob.mask([1], "x")
    with pytest.raises(ParameterError, match="shape"):
        unmask_sum([one, two])
    with pytest.raises(ParameterError, match="shape"):
        unmask_sum([one], limbs=2)
    with pytest.raises(ParameterError, match="type"):
        unmask_sum([one.astype(np.int64)])  # type: ignore[list-item]
    with pytest.raises(ParameterError, match="No masked"):
        unmask_sum([])


def test_secrets_stay_inside() -> None:
    ann, _ = parties(("ann", "bob"))
    assert repr(KEYS["ann"]) == "<masking key>"
    assert "secret" not in repr(ann)
    with pytest.raises(TypeError):
        pickle.dumps(KEYS["ann"])


@given(st.lists(st.integers(-(2**126), 2**126 - 1), min_size=1, max_size=5))
def test_limbs_round_trip(values: list[int]) -> None:
    assert from_limbs(to_limbs(values, 2)) == values
