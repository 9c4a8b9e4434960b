"""On FLARE, members remember their jobs, and a person at a member approves or rejects them."""

import threading
import time

import pytest

from fedsift.deploy.site_files import settings_file
from fedsift.errors import PolicyViolation
from fedsift.jobs.history import History
from fedsift.jobs.inbox import Inbox
from fedsift.protocol import Policy
from helpers.flare import PARTIES

pytest.importorskip("nvflare", reason="the extra fedsift[flare] is not installed")
pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.xdist_group("federation"),
    pytest.mark.slow(25),
]


def decide(folder, **decision):
    """A person who looks into the inbox now and then."""
    inbox = Inbox(folder)
    for _ in range(600):
        waiting = [one for one in inbox.list_requests(Policy()) if one.state == "waiting"]
        if waiting:
            inbox.decide(waiting[0].job, **decision)
            return
        time.sleep(0.2)


def submit(federation, job, **decision):
    """The states that the submitter sees while a person at the shop decides."""
    states = []
    person = threading.Thread(
        target=decide, args=(federation.kits["shop"].settings,), kwargs=decision, daemon=True
    )
    person.start()
    try:
        return federation.submit(job, watcher=states.append), states
    except PolicyViolation as refusal:
        return refusal, states
    finally:
        person.join(10)


def test_a_job_waits_for_a_person_and_is_remembered(federation, tables):
    for party in PARTIES:
        policy = {"approval": "ask"} if party == "shop" else {}
        federation.set_party(party, tables.data(party, horizontal=True), policy)
    job = tables.job("filter-horizontal")

    rejected, states = submit(federation, job, approve=False, reason="no purpose given")
    assert isinstance(rejected, PolicyViolation)
    assert "'shop' rejected the job: no purpose given" in str(rejected)
    assert ("shop",) in [state.waiting for state in states]
    assert all(History(kit.settings).list_jobs() == () for kit in federation.kits.values())

    result, states = submit(federation, job, approve=True)
    assert result.n_selected == 2
    assert ("shop",) in [state.waiting for state in states]
    for party in PARTIES:
        (past,) = History(federation.kits[party].settings).list_jobs()
        assert (past.state, past.n_rows, past.counted) == ("finished", 24, True)
        assert "pooled-sums" in {row.kind for row in past.revealed}


def test_a_job_that_nobody_decides_on_is_refused_after_the_time_limit(federation, tables):
    for party in PARTIES:
        policy = {"approval": "ask"} if party == "shop" else {}
        federation.set_party(party, tables.data(party, horizontal=True), policy)
    settings = settings_file(federation.kits["shop"].settings)
    before = settings.read_text(encoding="utf-8")
    limited = before.replace("[limits]\n", "[limits]\napproval_seconds = 1.0\n")
    assert limited != before
    settings.write_text(limited, encoding="utf-8")
    states = []
    try:
        with pytest.raises(PolicyViolation, match="Nobody at 'shop' approved the job within 1 sec"):
            federation.submit(tables.job("filter-horizontal"), watcher=states.append)
    finally:
        settings.write_text(before, encoding="utf-8")
    assert ("shop",) in [state.waiting for state in states]
    (request,) = Inbox(federation.kits["shop"].settings).list_requests(Policy())
    assert request.state == "expired"
