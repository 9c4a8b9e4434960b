"""Masks that cancel in the sum of all members, and in nothing less."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsift.errors import BadFrame, FixedPointOverflow, ParameterError
from fedsift.methods.vfps.zero_shares import masked, n_words, total

SECRET = bytes(range(32))


@settings(max_examples=50, deadline=None)
@given(n_members=st.integers(2, 20), n_numbers=st.integers(0, 40), seed=st.integers(0, 2**32 - 1))
def test_the_sum_over_all_members_is_exact(n_members, n_numbers, seed):
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 2**21 // n_members, size=(n_members, n_numbers))
    members = [f"party-{i}" for i in range(n_members)]
    sent = [masked(v, SECRET, "sum", members, m) for v, m in zip(values, members, strict=True)]
    assert all(array.shape == (n_words(n_numbers),) for array in sent)
    assert total(sent, n_numbers).tolist() == values.sum(axis=0).tolist()


def test_what_one_member_sends_is_spread_evenly_and_changes_with_every_context():
    zeros = np.zeros(40_000, dtype=np.int64)
    first, second = (masked(zeros, SECRET, c, ["a", "b", "c"], "a") for c in ("one", "two"))
    for array in (first, second):
        assert int(array.max()) < 2**63  # three numbers of 21 bits
        counts = np.bincount((total([array], 40_000) >> 17).astype(int), minlength=16)
        assert abs(counts - 2500).max() < 6 * np.sqrt(2500)
    assert np.mean(total([first], 40_000) == total([second], 40_000)) < 0.001
    other = masked(zeros, bytes(32), "one", ["a", "b", "c"], "a")
    assert np.mean(total([first], 40_000) == total([other], 40_000)) < 0.001


def test_a_sum_that_lacks_a_member_tells_nothing():
    values = np.full(20_000, 7)
    members = ["a", "b", "c"]
    sent = [masked(values, SECRET, "sum", members, m) for m in members]
    partial = total(sent[:2], 20_000).astype(float)
    assert abs(partial.mean() / 2**21 - 0.5) < 0.02
    assert set(total(sent, 20_000).tolist()) == {21}


@pytest.mark.parametrize("members", [["a"], ["a", "a"], ["b", "c"], []])
def test_groups_that_cannot_hide_anything_are_refused(members):
    with pytest.raises(ParameterError, match="masked"):
        masked(np.zeros(3, dtype=np.int64), SECRET, "sum", members, "a")


@pytest.mark.parametrize("value", [-1, 2**21])
def test_numbers_that_do_not_fit_are_refused(value):
    with pytest.raises(FixedPointOverflow, match="21 bits"):
        masked(np.array([value]), SECRET, "sum", ["a", "b"], "a")


@pytest.mark.parametrize("array", [np.zeros(4, dtype=np.uint64), np.zeros(3)])
def test_arrays_of_another_shape_or_type_are_refused(array):
    with pytest.raises(BadFrame, match="masked array"):
        total([array], 8)
