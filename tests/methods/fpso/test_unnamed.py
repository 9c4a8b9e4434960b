"""Subsets from sums of powers: all of them, in an order that tells nothing, and nothing else."""

import numpy as np
import pytest

from fedsift.errors import ProtocolError
from fedsift.methods.fpso import unnamed


def drawn(n_parties, n_features, seed=0):
    rng = np.random.default_rng(seed)
    subsets = rng.random((n_parties, n_features)) < 0.3
    subsets[:, rng.integers(n_features)] = True
    return subsets


def sums_of(subsets):
    parts = [unnamed.summands(subset, len(subsets)) for subset in subsets]
    return [sum(column) for column in zip(*parts, strict=True)]


@pytest.mark.parametrize("n_features", [1, 7, 8, 64, 65, 1000])
@pytest.mark.parametrize("n_parties", [2, 3, 10, 40])
def test_all_subsets_come_back(n_parties, n_features):
    subsets = drawn(n_parties, n_features)
    subsets[-1] = subsets[0]  # equal ones too
    sums = sums_of(subsets)
    assert np.array_equal(unnamed.subsets_in(sums, n_features), unnamed.in_order(subsets))
    words = unnamed.words_needed(n_features, n_parties)
    assert max(abs(total) for total in sums) < 2 ** (64 * words - 1)


def test_the_order_of_parties_makes_no_difference():
    """All that the third party reads is the same for any owners."""
    subsets = drawn(5, 30)
    for seed in range(5):
        turned = np.random.default_rng(seed).permutation(subsets)
        assert np.array_equal(unnamed.subsets_in(sums_of(turned), 30), unnamed.in_order(subsets))


def test_tags_are_new_every_time():
    subset = drawn(2, 30)[0]
    tags = {unnamed.summands(subset, 2)[0] for _ in range(50)}
    assert len(tags) == 50


@pytest.mark.parametrize("place", range(6))
def test_sums_that_no_subsets_have_are_refused(place):
    sums = sums_of(drawn(3, 12))
    for change in (1, -1, 12345, -(2**70), 2**190):
        changed = list(sums)
        changed[place] += change
        with pytest.raises(ProtocolError, match="do not add up to subsets"):
            unnamed.subsets_in(changed, 12)


@pytest.mark.parametrize("bad", [0, 2**12])
def test_no_columns_and_columns_that_are_not_there_are_refused(bad):
    tags = (5, 9)
    sums = [sum(tags), sum(t * t for t in tags), bad + 3, bad * tags[0] + 3 * tags[1]]
    with pytest.raises(ProtocolError, match="do not add up to subsets"):
        unnamed.subsets_in(sums, 12)


def test_two_parties_with_one_tag_end_the_run(monkeypatch):
    monkeypatch.setattr(unnamed.secrets, "randbits", lambda _: 77)
    with pytest.raises(ProtocolError, match="do not add up to subsets"):
        unnamed.subsets_in(sums_of(drawn(3, 12)), 12)
