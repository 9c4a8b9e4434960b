"""Few anchors do not hide who is in the data from whoever has images and anchors; roles do.

That neither role of the server mode tells members apart is part of the attack suite.
"""

import numpy as np
import pytest

from benchmarks.suites.dcfs import attack as dcfs_attack
from benchmarks.suites.dcfs.rankings import Division, Task
from fedsift.lab.attacks import dcfs

N_FEATURES, N_ROWS, N_ANCHORS = 400, 24, 100


@pytest.fixture(scope="module")
def wide():
    """As in gene data: many more columns than rows."""

    def divide(rng):
        victim, attacker, strangers, others = np.split(rng.permutation(4 * N_ROWS), 4)
        return Division((victim, attacker), (strangers, others))

    X = np.random.default_rng(0).normal(size=(4 * N_ROWS, N_FEATURES))
    return Task("noise", X, np.zeros(len(X), dtype=int), divide, 2)


def recordings(task, alignment, target="exact", runs=6):
    return [
        dcfs_attack.record(task, seed, n_anchors=N_ANCHORS, alignment=alignment, target=target)
        for seed in range(runs)
    ]


@pytest.mark.parametrize("target", ["exact", "paper"])
def test_a_member_of_the_open_mode_tells_members_from_strangers(wide, target):
    """A quarter of the columns as anchors, the default: the number of anchors is no protection."""
    found = [dcfs_attack.seen_openly(run) for run in recordings(wide, "open", target, 3)]
    assert np.mean(found) > 0.9


def test_the_coordinator_together_with_a_member_is_in_the_open_mode(wide):
    """The stated limit of the server mode: images from one, anchors from the other."""
    found = [
        run.auc(
            lambda rows, run=run: dcfs.membership_by_images(run.sent["party-1"], run.anchors, rows)
        )
        for run in recordings(wide, "server", runs=3)
    ]
    assert np.mean(found) > 0.9
