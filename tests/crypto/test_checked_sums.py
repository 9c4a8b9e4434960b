"""Sums that parties check, and comparisons that open no count."""

import numpy as np
import pytest

from fedsift.crypto.checked_sums import (
    PRIME,
    CheckedSums,
    are_small,
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
        borrowed = hidden.reshape(2, -1).copy()
        borrowed[:, :4] = borrowed[:, 4:8]  # what is known of another count
        best = prove_not_small(hidden, large, smallest)
        for lie in (best, prove_not_small(borrowed.ravel(), large, smallest), proofs, proofs[:0]):
            with pytest.raises(WrongTotals):
                PARTIES[2].check_small(large, lie, smallest, "c")
        with pytest.raises(WrongTotals):  # of another step
            PARTIES[2].check_small(small, proofs, smallest, "d")
        PARTIES[2].check_small(small, proofs, smallest, "c")

    def test_that_nothing_is_there_cannot_be_claimed_where_something_is(self):
        totals, smallest = np.array([0, 3, 9]), np.array([0, 0, 5])
        parts = np.stack([totals // 2, totals - totals // 2, 0 * totals])
        hidden = pooled(parts, "c", "hide", smallest)
        flagged = small_counts(hidden, smallest)
        assert flagged.tolist() == [False, True, False] == are_small(totals, smallest).tolist()
        proof = prove_not_small(hidden, flagged, smallest)
        lie = prove_not_small(hidden, np.zeros(3, bool), smallest)
        for party in PARTIES:
            party.check_small(flagged, proof, smallest, "c")
            with pytest.raises(WrongTotals):
                party.check_small(np.zeros(3, dtype=bool), lie, smallest, "c")

    def test_how_many_there_are_is_not_seen_where_some_are(self):
        smallest, seen = np.zeros(3000, dtype=int), []
        for total in (1, 500):
            counts = np.zeros((3, 3000), dtype=int)
            counts[1] = total
            pairs = pooled(counts, f"total {total}", "hide", smallest).reshape(2, -1)
            assert (pairs[0] != 0).all()
            seen.append(pairs)
        for pairs in seen:
            for numbers in pairs:
                shares = np.histogram(numbers, bins=8, range=(0, PRIME))[0] / 3000
                assert np.abs(shares - 1 / 8).max() < 0.03
            assert abs(np.corrcoef(pairs.astype(float))[0, 1]) < 0.1

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
        proof = prove_not_small(hidden, np.zeros(2000, bool), smallest)
        counts[0] = 5000  # the members know it before, whatever the count is
        others = pooled(counts, "c", "hide", smallest)
        assert (others != hidden).all()
        assert np.array_equal(proof, prove_not_small(others, np.zeros(2000, bool), smallest))


def test_two_residues_share_a_word():
    residues = np.random.default_rng(1).integers(0, PRIME, 7).astype(np.uint64)
    words = pack(residues)
    assert len(words) == 4
    assert np.array_equal(unpack(words)[:7], residues)
