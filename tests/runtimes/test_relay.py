"""A protocol played by several sites gives what it gives in one process, and counts the same."""

import pytest

from fedsift.runtime import run_embedded
from relay_helpers import Sites, at_home
from toy_protocol import TOY, Answerer, Asker, Helper

MEMBERS = {"a": "site-a", "z": "site-z", "b": "site-b", "h": "site-h"}


def toy_nodes():
    return {"a": (Asker(),), "z": (Answerer(),), "b": (Answerer(),), "h": (Helper(),)}


def counts(outcome):
    """Everything that must be the same whatever carried the messages."""
    return outcome.value, outcome.transcript.traffic(), outcome.ledger.rows()


def play_toy(player):
    return player.play(TOY, at_home(player, toy_nodes()))


@pytest.mark.parametrize(
    "members",
    [
        MEMBERS,
        {"a": "site-a", "z": "site-z", "b": "site-a", "h": "site-z"},
        {"a": "hub", "z": "site-z", "b": "site-z", "h": "hub"},
        dict.fromkeys(MEMBERS, "only"),
    ],
    ids=["four sites", "two and two", "several parties at a site", "one site"],
)
def test_the_driver_sees_what_an_embedded_run_shows(members):
    expected = counts(run_embedded(TOY, toy_nodes()))
    sites = Sites(members)
    ended = sites.run(play_toy)
    assert {name: end.error for name, end in ended.items()} == dict.fromkeys(sites.names)
    assert counts(ended[members["a"]].value) == expected
    assert expected[0] == [33, 33]
    assert expected[1].rounds == 3
