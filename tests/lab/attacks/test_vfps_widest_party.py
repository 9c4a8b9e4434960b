"""Attack: a participant of VF-PS wants to know how many columns the widest one has."""

import pytest

from fedsift.lab.attacks.attack import DEFAULT, UNPROTECTED
from fedsift.lab.attacks.suite import attack_named


@pytest.mark.parametrize("seed", [0, 1])
def test_a_common_scale_tells_nothing(seed):
    trial = attack_named("widest-party").trial(DEFAULT, seed)
    assert trial.found == pytest.approx(trial.guess)


def test_the_scale_of_version_0_1_0_told_all():
    assert attack_named("widest-party").trial(UNPROTECTED, 0).found == 1.0
