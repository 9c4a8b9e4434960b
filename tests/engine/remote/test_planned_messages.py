"""The plan is a promise: a message that it does not show is refused, wherever the parties are."""

from __future__ import annotations

import pytest

from fedsift.engine import run_local
from fedsift.errors import PartyFailed, UnplannedMessage
from fedsift.jobs import phases
from fedsift.methods.filter import horizontal_messages, messages
from helpers.joint import at_sites, columns_homes, horizontal, rows_homes, run_joint, vertical
from helpers.toy_protocol import TOY, Answerer, Asker, Question

VERTICAL = vertical("filter", ids=False, n_features_to_select=2, security="plain")
HORIZONTAL = horizontal("filter", n_features_to_select=1, score="gini")
CASES = {
    "vertical": (VERTICAL, columns_homes(VERTICAL), messages),
    "horizontal": (HORIZONTAL, rows_homes(["income", "age"]), horizontal_messages),
    "setup between columns": (VERTICAL, columns_homes(VERTICAL), phases),
    "setup between rows": (HORIZONTAL, rows_homes(["income", "region"]), phases),
}


def sent_in(case):
    """Types of the planned messages that a run of the job really sends."""
    job, homes, module = CASES[case]
    planned, seen = [], set()
    original = module.messages_used

    def note(*arguments):
        planned.extend(original(*arguments))
        return original(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "messages_used", note)
        run_joint(job, homes, observer=lambda step: seen.add(step.message))
    return [cls for cls in dict.fromkeys(planned) if cls.__name__ in seen]


def cut(monkeypatch, module, left_out):
    original = module.messages_used
    monkeypatch.setattr(
        module,
        "messages_used",
        lambda *arguments: tuple(cls for cls in original(*arguments) if cls is not left_out),
    )


def is_refusal(error):
    """By the sender itself, or by the party that was asked."""
    if isinstance(error, PartyFailed):
        return error.cause_code == UnplannedMessage.code
    return isinstance(error, UnplannedMessage)


@pytest.mark.parametrize("case", CASES)
def test_a_message_that_the_plan_does_not_show_is_refused(case, monkeypatch):
    job, homes, module = CASES[case]
    sent = sent_in(case)
    assert len(sent) >= 3
    for left_out in sent:
        seen = []
        with monkeypatch.context() as patch:
            cut(patch, module, left_out)
            with pytest.raises((UnplannedMessage, PartyFailed)) as caught:
                run_joint(job, homes, observer=lambda step, seen=seen: seen.append(step.message))
        assert is_refusal(caught.value), left_out
        assert left_out.__name__ not in seen


@pytest.mark.parametrize("case", CASES)
def test_sites_refuse_it_too(case, monkeypatch):
    job, homes, module = CASES[case]
    first, last = sent_in(case)[0], sent_in(case)[-1]
    for left_out in (first, last):
        with monkeypatch.context() as patch:
            cut(patch, module, left_out)
            coordinator, ended = at_sites(job, homes)
        assert is_refusal(ended[coordinator].error), left_out


def test_the_receiver_refuses_what_the_sender_lets_through(monkeypatch):
    """A sender with another version of the plan does not get its message past a party."""
    received = []

    class Listening(Answerer):
        async def handle(self, message, net):
            received.append(type(message))
            return await super().handle(message, net)

    nodes = {"a": (Asker(),), "b": (Listening(),)}
    others = [cls for cls in TOY.messages if cls is not Question]
    monkeypatch.setattr(
        "fedsift.engine.session.Session.seal",
        lambda session, message, sender, receiver: session.codec.encode(message),
    )
    with pytest.raises(PartyFailed) as caught:
        run_local(TOY, nodes, planned=others)
    assert caught.value.cause_code == UnplannedMessage.code
    assert not received
