"""Submitters sign their jobs; members report to them, in words that nobody else can read."""

from dataclasses import dataclass
from pathlib import Path
from threading import Thread

import pytest

from fedsift.crypto.envelope import OrganisationKey
from fedsift.deploy import member as members
from fedsift.deploy.member import JobMember
from fedsift.deploy.sealed_reports import (
    Report,
    choose_report,
    decode_job,
    encode_job,
    fingerprint_of,
    open_report,
    seal_report,
    sign_job,
    verify_job,
)
from fedsift.deploy.site import log_refusal
from fedsift.engine.observer import ProgressSnapshot
from fedsift.errors import (
    BadEnvelope,
    BadFrame,
    FedsiftError,
    FileProblem,
    ParameterError,
    PartyFailed,
    PolicyViolation,
    ProtocolError,
    RunEnded,
    SiteUnreachable,
)
from fedsift.testing.memory import MemoryHub
from helpers.relay import QUICK, at_home
from helpers.toy_protocol import TOY, Answerer, Asker, Helper

SECRET = "s3cr3t-cell"
JOB = '{"method": "toy"}'
MEMBERS = {"a": "bank", "b": "shop", "h": "hub"}


class Federation:
    """Members and a submitter with keys of their own."""

    def __init__(self):
        self.keys = {n: OrganisationKey.generate() for n in (*MEMBERS.values(), "ann")}
        self.public = {name: key.public for name, key in self.keys.items()}

    def signatures(self, job=JOB, key="ann"):
        """The submitter's signatures; ``key`` is whose it really is."""
        public = {name: self.public[name] for name in MEMBERS.values()}
        return sign_job(job, "ann", self.keys[key], public)


@dataclass
class Work:
    """A member that runs the toy protocol; the driver's numbers are the result."""

    federation: Federation
    name: str
    members = MEMBERS
    timeouts = QUICK

    @property
    def key(self):
        return self.federation.keys[self.name]

    @property
    def pinned(self):
        return {n: self.federation.public[n] for n in MEMBERS.values() if n != self.name}

    @property
    def submitter(self):
        return "ann", self.federation.public["ann"]

    @property
    def reports_progress(self):
        return self.federation.live and self.name == MEMBERS["a"]

    def run(self, engine, observer=None):
        if self.name == self.federation.failing:
            raise self.federation.error
        nodes = {"a": (Asker(),), "b": (Answerer(),), "h": (Helper(),)}
        value = engine.run(TOY, at_home(engine, nodes), observer=observer).value
        return None if value is None else bytes(value)


@pytest.fixture
def federation(monkeypatch):
    """The code that members start, as it is installed at each of them."""
    made = Federation()
    made.failing = None
    made.live = False
    monkeypatch.setattr(members, "make_site", lambda folder, job, name: Work(made, name))
    return made


def member(federation, name, *, job=JOB, signatures=None):
    given = federation.signatures(job) if signatures is None else signatures
    return JobMember(name, Path("settings"), job, given, session="run 1")


def run_all(federation, members_run=None):
    """What every member reports to the submitter, as the submitter reads it."""
    hub, reports = MemoryHub(), {}
    members_run = {} if members_run is None else members_run

    def run(name):
        here = members_run[name] = member(federation, name)
        reports[name] = here.seal_report(here.run(hub.transport(name)))

    threads = [Thread(target=run, args=(name,), daemon=True) for name in MEMBERS.values()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(reports) == sorted(MEMBERS.values())
    key, public = federation.keys["ann"], federation.public
    return {
        n: open_report(Report, raw, "ann", key, n, public[n], JOB) if raw else Report(n)
        for n, raw in reports.items()
    }


def test_the_coordinator_reports_the_result(federation):
    reports = run_all(federation)
    assert choose_report(reports.values()) == reports["bank"]
    assert reports["bank"].result == bytes([33])
    assert [reports[name].result for name in ("shop", "hub")] == [None, None]
    assert {report.code for report in reports.values()} == {""}


def test_a_failure_is_reported_with_its_party_and_without_data(federation):
    federation.failing, federation.error = "shop", RuntimeError(f"row 7 holds {SECRET}")
    reports = run_all(federation)
    error = choose_report(reports.values()).to_error()
    assert isinstance(error, PartyFailed)
    assert (error.party, error.exit_code) == ("b", 3)
    assert "RuntimeError" in str(error)
    assert isinstance(reports["shop"].to_error(), ProtocolError)
    assert not any(SECRET in str(report) for report in reports.values())


def test_a_submitter_who_watches_is_told_the_coordinators_own_view(federation):
    federation.live, members_run = True, {}
    run_all(federation, members_run)
    keys, public = federation.keys, federation.public
    sealed = {name: one.seal_progress() for name, one in members_run.items()}

    assert [name for name, one in sealed.items() if one] == ["bank"]
    snapshot = open_report(
        ProgressSnapshot, sealed["bank"], "ann", keys["ann"], "bank", public["bank"], JOB
    )
    assert (snapshot.site, snapshot.messages) == ("bank", 2)
    assert set(snapshot.by_message) == {"Question", "Answer"}
    assert [row.kind for row in snapshot.disclosures] == ["answers"]
    assert snapshot.steps == ({"step": "asking", "number": 3},)
    assert members_run["bank"].seal_progress() == b""  # nothing has happened since
    for name, site, job in (("hub", "bank", JOB), ("ann", "shop", JOB), ("ann", "bank", JOB + " ")):
        with pytest.raises(BadEnvelope):
            open_report(ProgressSnapshot, sealed["bank"], name, keys[name], site, public[site], job)


def test_progress_that_cannot_be_sealed_harms_no_job(federation):
    """A number that no report can hold; the next snapshot is sealed again."""
    federation.live, members_run = True, {}
    run_all(federation, members_run)
    bank = members_run["bank"]
    bank._tracker.step({"step": 1, "n": 1 << 80})

    assert bank.seal_progress() == b""
    bank._tracker._steps.pop()
    assert bank.seal_progress() != b""


def test_without_a_submitter_who_watches_nobody_tells(federation):
    members_run = {}
    run_all(federation, members_run)
    assert [one.seal_progress() for one in members_run.values()] == [b"", b"", b""]


def test_a_refusal_by_policy_is_told_as_one(federation):
    federation.failing, federation.error = "hub", PolicyViolation("Party 'h' forbids this.")
    error = choose_report(run_all(federation).values()).to_error()
    assert isinstance(error, PolicyViolation)
    assert error.exit_code == 4


def test_a_member_takes_no_job_that_its_submitter_did_not_sign(federation):
    member(federation, "bank")
    for signatures in (
        {},
        {"bank": ""},
        {"bank": "no signature"},
        {"bank": federation.signatures()["shop"]},
        federation.signatures(job=JOB + " "),
        federation.signatures(key="hub"),
    ):
        with pytest.raises(BadEnvelope, match="claims to come from 'ann' was refused"):
            member(federation, "bank", signatures=signatures)


def test_a_member_without_a_party_takes_no_part(federation, monkeypatch):
    monkeypatch.setattr(Work, "members", {"a": "bank", "b": "shop"})
    assert member(federation, "bank").takes_part
    assert not member(federation, "hub").takes_part
    assert member(federation, "bank").driving is None


def test_reports_are_for_the_submitter_and_for_one_job(federation):
    keys, public = federation.keys, federation.public
    sealed = seal_report(Report("bank", b"seven"), "bank", keys["bank"], "ann", public["ann"], JOB)
    assert (
        open_report(Report, sealed, "ann", keys["ann"], "bank", public["bank"], JOB).result
        == b"seven"
    )
    for name, site, job in (
        ("hub", "bank", JOB),
        ("ann", "shop", JOB),
        ("ann", "bank", JOB + " "),
    ):
        with pytest.raises(BadEnvelope):
            open_report(Report, sealed, name, keys[name], site, public[site], job)


@pytest.mark.parametrize(
    "error",
    [
        ParameterError("Found.", "Needed.", "Do."),
        PolicyViolation("Found.", "Needed.", "Do."),
        PartyFailed("b", "Question", 3, "it was slow", cause_code="E302"),
        SiteUnreachable("shop", "it is gone"),
        RunEnded("Found."),
    ],
)
def test_errors_survive_the_way(error):
    again = Report.from_error("bank", error, drove=True).to_error()
    assert type(again) is type(error)
    assert (str(again), again.code, again.exit_code) == (str(error), error.code, error.exit_code)
    if isinstance(error, PartyFailed):
        assert (again.party, again.round_number, again.cause_code) == ("b", 3, "E302")


def test_strange_reports_do_no_harm():
    report = Report("bank", None, "E999", "\x1b[31mred\n" + "x" * 5000)
    assert "\x1b" not in str(report.to_error())
    assert len(str(report.to_error())) < 1000
    assert choose_report([]) is None


def test_the_report_that_says_most():
    def report(code, drove=False):
        return Report("s", None, code, drove=drove)

    ended, driver, other = report("E406"), report("E105", drove=True), report("E105")
    refused, names = report("E501"), report("E403")
    assert choose_report([ended, other, names, driver, refused]) is refused
    assert choose_report([ended, other, names, driver]) is driver
    assert choose_report([ended, other, names]) is names
    assert choose_report([ended, other]) is other
    assert choose_report([ended, Report("s", b"")]).result == b""


def test_a_job_travels_as_text_that_no_engine_reads_as_its_own(federation):
    arguments = encode_job(JOB, federation.signatures())
    assert not set("{}$[]") & set(arguments["job"])
    assert decode_job(arguments["job"]) == JOB
    assert fingerprint_of(JOB) != fingerprint_of(JOB + " ")
    for damaged in ("{", "AA=A", "/w=="):
        with pytest.raises(BadFrame):
            decode_job(damaged)


def test_a_signature_that_is_none_is_refused(federation):
    keys, public = federation.keys, federation.public
    with pytest.raises(BadEnvelope):
        verify_job(JOB, "bank", keys["bank"], "ann", public["ann"], "00" * 32)


def test_the_hub_learns_a_code_and_the_log_no_data(caplog):
    assert log_refusal(FileProblem("The table is gone.")) == "E105"
    assert log_refusal(RuntimeError(SECRET)) == FedsiftError.code
    assert "E105: The table is gone." in caplog.text
    assert "RuntimeError" in caplog.text
    assert SECRET not in caplog.text
