"""Sums that parties check, and comparisons that open no count."""

import numpy as np
import pytest

from fedsift.crypto.checked_sums import (
    PRIME,
    CheckedSums,
    pack,
    prove_not_small,
    small_counts,
    unpack,
)
from fedsift.errors import WrongTotals

SECRET = bytes(range(32))
PARTIES = [CheckedSums(SECRET, first=number == 0) for number in range(3)]


def pooled(parts, context, way, *more):
    found = [getattr(p, way)(own, *more, context) for p, own in zip(PARTIES, parts, strict=True)]
    return np.sum(found, axis=0) % PRIME


@pytest.fixture
def parts():
    return np.random.default_rng(0).integers(0, 40, (3, 20))


class TestTags:
    def test_the_right_sums_pass_at_every_party(self, parts):
        sums = pooled(parts, "a", "with_tag")
        assert np.array_equal(sums[:-1], parts.sum(axis=0))
        for party in PARTIES:
            party.check(sums[:-1], int(sums[-1]), "a")

    def test_wrong_ones_do_not(self, parts):
        sums = pooled(parts, "a", "with_tag")
        totals, tag = sums[:-1], int(sums[-1])
        lies = [totals + np.eye(20, dtype=int)[3], totals[::-1], 2 * totals, totals - totals]
        for lie in lies:
            for claimed in (tag, 2 * tag % PRIME, 0):
                with pytest.raises(WrongTotals, match="not the sums"):
                    PARTIES[1].check(lie, claimed, "a")
        with pytest.raises(WrongTotals):
            PARTIES[1].check(totals, tag, "b")  # of another step
        with pytest.raises(WrongTotals):
            PARTIES[1].check(totals + PRIME, tag, "a")  # the same number modulo the prime

    def test_one_party_adds_the_constant(self, parts):
        sums = (
            np.sum([CheckedSums(SECRET, first=True).with_tag(own, "a") for own in parts], axis=0)
            % PRIME
        )
        with pytest.raises(WrongTotals):
            PARTIES[0].check(sums[:-1], int(sums[-1]), "a")


class TestComparisons:
    def test_counts_from_one_to_the_minimum_less_one_are_small(self):
        totals = np.arange(12)
        parts = np.stack([totals // 3, totals // 3, totals - 2 * (totals // 3)])
        smallest = np.full(12, 5)
        hidden = pooled(parts, "c", "hide", smallest)
        small = small_counts(hidden, smallest)
        assert np.flatnonzero(small).tolist() == [1, 2, 3, 4]
        proofs = prove_not_small(hidden, small, smallest)
        for party in PARTIES:
            party.check_small(small, proofs, smallest, "c")

    def test_minima_may_differ_and_one_asks_for_nothing(self):
        totals, smallest = np.array([3, 3, 3, 1, 0]), np.array([3, 4, 1, 10, 10])
        parts = np.stack([totals, 0 * totals, 0 * totals])
        hidden = pooled(parts, "c", "hide", smallest)
        assert len(hidden) == 2 * (2 + 3 + 0 + 9 + 9)
        assert small_counts(hidden, smallest).tolist() == [False, True, False, True, False]

    def test_a_small_count_cannot_be_passed_off_as_large(self):
        totals, smallest = np.array([1, 30, 0, 7]), np.full(4, 5)
        parts = np.stack([totals, 0 * totals, 0 * totals])
        hidden = pooled(parts, "c", "hide", smallest)
        small = small_counts(hidden, smallest)
        proofs = prove_not_small(hidden, small, smallest)
        large = np.zeros(4, dtype=bool)
        pairs = hidden.reshape(2, -1).astype(np.uint64)
        ones = np.ones_like(pairs)
        borrowed = pairs.copy()
        borrowed[:, :4] = pairs[:, 4:8]  # the proofs of another count
        for lie in (pairs, ones, borrowed, proofs, np.roll(pairs, 4, axis=1)):
            with pytest.raises(WrongTotals):
                PARTIES[2].check_small(large, lie, smallest, "c")
        PARTIES[2].check_small(small, proofs, smallest, "c")

    def test_what_the_collector_sees_does_not_depend_on_the_count(self):
        """Of counts that are not small, and of the place of the one that is."""
        smallest, seen = np.full(3000, 5), {}
        for total in (0, 5, 1000, 1, 4):
            counts = np.full((3, 3000), 0)
            counts[1] = total
            hidden = pooled(counts, f"total {total}", "hide", smallest)[: 4 * 3000].reshape(-1, 4)
            assert ((hidden == 0).sum(axis=1) == (0 < total < 5)).all()
            seen[total] = hidden
        for total in (0, 5, 1000):
            shares = np.histogram(seen[total], bins=8, range=(0, PRIME))[0] / 12000
            assert np.abs(shares - 1 / 8).max() < 0.02
        for total in (1, 4):  # the place of the zero tells nothing of which number it was
            places = np.bincount((seen[total] == 0).argmax(axis=1), minlength=4) / 3000
            assert np.abs(places - 1 / 4).max() < 0.04

    def test_proofs_tell_the_members_nothing_of_the_count(self):
        smallest = np.full(2000, 5)
        counts = np.zeros((3, 2000), dtype=int)
        counts[0] = 9
        hidden = pooled(counts, "c", "hide", smallest)
        first, second = (
            prove_not_small(hidden, np.zeros(2000, bool), smallest)[0] for _ in range(2)
        )
        assert (first != second).mean() > 0.999
        shares = np.histogram(first, bins=8, range=(0, PRIME))[0] / 8000
        assert np.abs(shares - 1 / 8).max() < 0.02


def test_two_residues_share_a_word():
    residues = np.random.default_rng(1).integers(0, PRIME, 7).astype(np.uint64)
    words = pack(residues)
    assert len(words) == 4
    assert np.array_equal(unpack(words)[:7], residues)
