"""A protocol played by several sites gives what it gives in one process, and counts the same."""

import subprocess
import sys

import msgspec
import numpy as np
import pytest

from fedsift.data import split_vertical
from fedsift.engine import LOCAL_ENGINE, run_local
from fedsift.engine.local import run_local as embedded
from fedsift.engine.observer import as_observer
from fedsift.engine.remote import server as site_server
from fedsift.errors import ParameterError, PolicyViolation
from fedsift.methods.execution import history_of
from fedsift.methods.filter import label_holder as filters
from fedsift.methods.filter.ranking import Params
from fedsift.methods.interaction import label_owner as interaction
from fedsift.methods.interaction.messages import Params as InteractionParams
from fedsift.protocol import Policy, RemoteRole
from helpers.arrays import bank_and_registry, labelled
from helpers.relay import Sites, at_home
from helpers.toy_protocol import TOY, Answerer, Asker, Helper, Question

MEMBERS = {"a": "site-a", "z": "site-z", "b": "site-b", "h": "site-h"}


def toy_nodes():
    return {"a": (Asker(),), "z": (Answerer(),), "b": (Answerer(),), "h": (Helper(),)}


def run_toy(engine):
    return engine.run(TOY, at_home(engine, toy_nodes()))


def counts(outcome):
    """Everything that must be the same whatever carried the messages."""
    transcript = outcome.transcript
    traffic = msgspec.structs.replace(transcript.traffic(), lines=())
    return traffic, outcome.ledger.rows(), history_of(transcript)


def all_well(ended):
    """No site failed."""
    assert {name: end.error for name, end in ended.items()} == dict.fromkeys(ended)
    return {name: end.value for name, end in ended.items()}


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
    alone = run_local(TOY, toy_nodes())
    outcome = all_well(Sites(members).run(run_toy))[members["a"]]
    assert outcome.value == alone.value == [33, 33]
    assert counts(outcome) == counts(alone)
    assert alone.transcript.traffic().rounds == 3
    assert set(outcome.timings) == set(alone.timings)


def test_the_embedded_player_is_the_embedded_run():
    assert LOCAL_ENGINE.home is None
    assert run_local is embedded
    assert counts(run_toy(LOCAL_ENGINE)) == counts(run_local(TOY, toy_nodes()))


def test_other_sites_see_what_they_sent_and_received():
    outcomes = all_well(Sites(MEMBERS).run(run_toy))
    alone = run_local(TOY, toy_nodes()).transcript.traffic()
    for party in ("z", "b", "h"):
        seen = outcomes[MEMBERS[party]]
        assert seen.value is None
        own = {row for row in alone.rows if party in (row.sender, row.receiver)}
        assert set(seen.transcript.traffic().rows) == own
    assert {row.learner for row in outcomes["site-z"].ledger.rows()} == {"a", "z"}


def test_frames_are_kept_where_they_were_seen():
    def script(engine):
        return engine.run(TOY, at_home(engine, toy_nodes()), keep_frames=True)

    outcomes = all_well(Sites(MEMBERS).run(script))
    helper = outcomes["site-h"].transcript
    assert [entry.message for entry in helper.view("h")] == ["SubQuestion", "SubQuestion"]
    assert all(entry.frame for entry in helper.view("h"))
    # What the answerers and the helper said to each other reaches the driver as counts alone.
    at_driver = outcomes["site-a"].transcript.entries
    assert {e.message for e in at_driver if e.frame is None} == {"SubQuestion", "Hint"}


def test_stages_follow_each_other_with_any_driver():
    def script(engine):
        values = []
        for driver, answerer in (("a", "z"), ("z", "a"), ("b", "z"), ("a", "b")):
            nodes = {driver: (Asker(),), answerer: (Answerer(),), "h": (Helper(),)}
            values.append(engine.run(TOY, at_home(engine, nodes)).value)
        return values

    members = {"a": "site-a", "z": "site-z", "b": "site-b", "h": "site-h"}
    values = all_well(Sites(members).run(script))
    assert values == {
        "site-a": [[33], None, None, [33]],
        "site-z": [None, [33], None, None],
        "site-b": [None, None, [33], None],
        "site-h": [None] * 4,
    }


def test_large_answers_are_fetched(monkeypatch):
    monkeypatch.setattr(site_server, "_INLINE_BYTES", 8)
    outcome = all_well(Sites(MEMBERS).run(run_toy))["site-a"]
    assert counts(outcome) == counts(run_local(TOY, toy_nodes()))


def test_the_vertical_filter_across_sites():
    X, y = labelled(60, 3)
    params = Params(score="gini", n_features_to_select=2, seed=0)

    def nodes():
        federation = bank_and_registry(X, y)
        return filters.build_nodes(
            federation.tables, federation.label_holder, federation.target, 60, params
        )

    def script(engine):
        own = at_home(engine, nodes())
        outcome = engine.run(filters.PROTOCOL, own)
        return outcome, [role.facts() for party in engine.home for role in own[party]]

    alone = run_local(filters.PROTOCOL, nodes())
    found = all_well(Sites({"bank": "bank", "label-holder": "registry"}).run(script))
    outcome, _ = found["registry"]
    assert outcome.value.selected == alone.value.selected
    assert {(r.message, r.sender, r.messages) for r in outcome.transcript.traffic().rows} == {
        (r.message, r.sender, r.messages) for r in alone.transcript.traffic().rows
    }
    assert found["bank"][0].value is None
    assert found["bank"][1]


def test_a_cloud_that_asks_back_and_owners_that_write_to_it():
    """The interaction protocol: roles elsewhere ask each other while they answer."""
    X, y = labelled(60, 4, 2)
    federation = split_vertical(X, y, [[0, 1], [2, 3]], names=["left", "right"])
    params = InteractionParams(n_features_to_select=2, seed=0, scheme="plain", noise_bits=None)

    def nodes():
        return interaction.build_nodes(
            federation.tables, federation.label_holder, federation.target, 60, params
        )

    def script(engine):
        return engine.run(interaction.PROTOCOL, at_home(engine, nodes()), protected=False)

    alone = run_local(interaction.PROTOCOL, nodes(), protected=False)
    members = {party: ("hub" if party == interaction.CLOUD else party) for party in nodes()}
    outcome = all_well(Sites(members).run(script))[federation.label_holder]
    assert outcome.value.order == alone.value.order
    assert np.array_equal(outcome.value.relevance, alone.value.relevance)
    assert counts(outcome) == counts(alone)


def test_every_site_keeps_its_own_policy():
    def script(engine):
        own = {party: Policy(may_not_reveal=("hints",)) for party in engine.home if party == "h"}
        return engine.run(TOY, at_home(engine, toy_nodes()), policies=own)

    ended = Sites(MEMBERS).run(script)
    with pytest.raises(PolicyViolation, match="policy of party 'h' forbids"):
        raise ended["site-a"].error
    assert all(end.error is not None for end in ended.values())


@pytest.mark.parametrize(
    ("nodes", "problem"),
    [
        ({"a": (Asker(),), "z": (Answerer(),)}, "'answerer' of party 'z' is placed"),
        (
            {"a": (RemoteRole(Asker),), "z": (RemoteRole(Answerer),)},
            "'asker' of party 'a' is missing",
        ),
        ({"a": (Asker(),), "stranger": (RemoteRole(Answerer),)}, "No site is known for party"),
        ({"a": (Asker(),), "z": (RemoteRole(Asker),)}, "2 driving roles"),
    ],
)
def test_roles_are_placed_where_their_party_lives(nodes, problem):
    sites = Sites({"a": "site-a", "z": "site-z"})

    def script(engine):
        if engine.home == ("a",):
            engine.run(TOY, nodes)
        else:
            engine.run(TOY, {"a": (RemoteRole(Asker),), "z": (Answerer(),)})

    ended = sites.run(script)
    assert isinstance(ended["site-a"].error, ParameterError)
    assert problem in str(ended["site-a"].error)
    assert problem in str(ended["site-z"].error)


def test_a_run_in_one_process_needs_every_role():
    with pytest.raises(ParameterError, match="roles of z run elsewhere"):
        run_local(TOY, {"a": (Asker(),), "z": (RemoteRole(Answerer),)})
    with pytest.raises(ParameterError, match="roles of a run elsewhere"):
        run_local(TOY, {"a": (RemoteRole(Asker),), "z": (Answerer(),)})


def test_the_observer_is_told_at_every_site():
    seen = {}

    def script(engine):
        steps = seen.setdefault(engine.home[0], [])
        return engine.run(TOY, at_home(engine, toy_nodes()), observer=as_observer(steps.append))

    all_well(Sites(MEMBERS).run(script))
    assert [step.message for step in seen["a"]].count(Question.__name__) == 2
    assert {step.message for step in seen["h"]} == {"SubQuestion", "Hint"}
    assert all(step.round_number == 1 for steps in seen.values() for step in steps)


def test_no_engine_is_loaded_before_it_is_needed():
    code = (
        "import sys, fedsift, fedsift.deploy.member, fedsift.cli; print('nvflare' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
