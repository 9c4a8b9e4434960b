"""A prober's list of ids: a short one is refused before any id is compared, a long one answered."""

import numpy as np
import pytest

from fedsift.engine import run_local
from fedsift.engine.observer import as_observer
from fedsift.errors import PolicyViolation
from fedsift.jobs import align
from fedsift.protocol import Policy

HELD = np.array([f"person {i}" for i in range(40)])


def nodes(asked, least):
    pytest.importorskip("private_set_intersection")
    policies = {"holder": Policy(min_rows=least)}
    return align.build_nodes({"prober": asked, "holder": HELD}, "prober", policies)


def test_a_list_shorter_than_the_policy_asks_for_learns_nothing():
    made = nodes(HELD[:9], least=10)
    messages = []
    with pytest.raises(PolicyViolation, match="at least 10 rows"):
        run_local(
            align.PROTOCOL, made, observer=as_observer(lambda seen: messages.append(seen.message))
        )
    assert set(messages) <= {"AlignmentStart", "Fault"}  # the start, and the refusal
    assert len(made["prober"][0].facts()["rows"]) == 0


def test_a_long_list_with_few_common_rows_is_refused_after_the_leader_knows_them():
    """The limit that the page about attacks states."""
    strangers = np.array([f"stranger {i}" for i in range(20)])
    made = nodes(np.concatenate([HELD[:5], strangers]), least=10)
    with pytest.raises(PolicyViolation, match="at least 10 rows"):
        run_local(align.PROTOCOL, made)
    assert made["prober"][0].facts()["rows"].tolist() == list(range(5))
    assert len(made["holder"][0].facts()["rows"]) == 0


def test_a_long_list_is_answered():
    made = nodes(HELD[5:25], least=10)
    run_local(align.PROTOCOL, made)
    assert len(made["holder"][0].facts()["rows"]) == 20
