"""Attacks on VF-PS with scores succeed without its protections and fail with them."""

import pytest

from fedsift.lab.attacks.attack import DEFAULT, UNPROTECTED
from fedsift.lab.attacks.vfps.scores import ATTACKS

BY_NAME = {attack.name: attack for attack in ATTACKS}


@pytest.mark.parametrize(("name", "least"), [("own-distances", 0.7), ("query-distances", 0.95)])
def test_lists_are_lined_up_only_without_protection(name, least):
    attack = BY_NAME[name]
    assert attack.trial(UNPROTECTED, 0).found > least
    assert attack.trial(DEFAULT, 0).found < 0.05


def test_a_count_is_read_from_an_exact_mean_only():
    attack = BY_NAME["single-query"]
    seeds = range(6)
    assert all(attack.trial(UNPROTECTED, seed).found == 1.0 for seed in seeds)
    trials = [attack.trial(DEFAULT, seed) for seed in seeds]
    assert sum(t.found for t in trials) <= sum(t.guess for t in trials) + 1
    assert sum(t.found for t in trials) < len(seeds)
