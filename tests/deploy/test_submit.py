"""What is submitted, and what is made of the reports that come back; no process is started."""

import base64
import json
from dataclasses import replace

import msgspec
import pytest

from fedsift.config.job import load_job
from fedsift.crypto.envelope import OrganisationKey
from fedsift.deploy.flare import hub_session
from fedsift.deploy.flare.hub_session import HubSession
from fedsift.deploy.flare.wire import job_folder, read_job_text
from fedsift.deploy.kits import PartyData, set_party, share_keys
from fedsift.deploy.sealed_reports import Report, decode_job, seal_report, sign_job, verify_job
from fedsift.deploy.site import make_site
from fedsift.deploy.site_files import load_site, read_key
from fedsift.deploy.submit import (
    ProgressReader,
    _find_keys,
    _JobResult,
    _open_result,
    _refuse_missing,
    submit,
)
from fedsift.engine.observer import ProgressSnapshot
from fedsift.engine.timeouts import Timeouts
from fedsift.errors import (
    BadEnvelope,
    ConfigError,
    FedsiftError,
    FileProblem,
    JobError,
    LedgerAltered,
    MemberDown,
    PartyFailed,
    PolicyViolation,
    ProtocolError,
)
from fedsift.jobs.chain_files import ChainModel
from fedsift.jobs.spec import JointJob
from fedsift.methods.registry import schemas
from fedsift.protocol.commitments import Signer
from fedsift.protocol.verify import verify_result
from fedsift.result import SelectionResult
from helpers.deploy import ANN

JOB = """
[job]
method = "filter"
[data]
setting = "vertical"
label = { party = "bank", column = "default" }
id = "customer_id"
[[party]]
name = "bank"
data = "somewhere/else.csv"
[[party]]
name = "shop-2"
"""
RESULT = SelectionResult(
    "filter",
    "vertical",
    {"bank": ("income",), "shop-2": ()},
    created="2026-01-02T03:04:05+00:00",
)


@pytest.fixture
def shared(kits):
    share_keys(kits.values())
    return kits


@pytest.fixture
def job(tmp_path):
    path = tmp_path / "job.toml"
    path.write_text(JOB)
    return load_job(path, schemas(), engine="flare")


@pytest.fixture
def text(job):
    return JointJob.from_job(job, submitter=ANN, nonce="1").to_text()


@pytest.fixture
def opened(shared, text):
    """Open reports as the submitter; each is (name of the sealer, report)."""
    ann = load_site(shared[ANN].settings)

    def open_(
        *reports, status=None, ended="", spoil=lambda sealed: sealed, alter=lambda result: result
    ):
        sealed = {}
        for name, report in reports:
            key = read_key(shared[name].settings / "organisation.key")
            if report.result == msgspec.json.encode(RESULT):
                signed = Signer("run", key.signing).sign_ledger(RESULT, name, ())
                report = Report(name, msgspec.json.encode(alter(signed)))
            sealed[name] = spoil(seal_report(report, name, key, ANN, ann.key().public, text))
        return _open_result(_JobResult(sealed, status or {}, ended), shared[ANN], ann, text)

    return open_


def result_of(site):
    return site, Report(site, msgspec.json.encode(RESULT))


def failure_of(site, error):
    return site, Report.from_error(site, error, drove=True)


def test_the_job_names_no_path(text):
    assert "else.csv" not in text
    assert json.loads(text)["parties"] == ["bank", "shop-2"]


def test_what_a_job_carries(text):
    with job_folder("filter", text, {"bank": "ab"}, ["bank", "shop-2"]) as folder:
        files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
        meta = json.loads((folder / "meta.json").read_text())
        server = json.loads((folder / "fedsift/config/config_fed_server.json").read_text())
        client = json.loads((folder / "fedsift/config/config_fed_client.json").read_text())
        assert read_job_text(folder) == text

    assert not folder.exists()
    assert files == {
        "meta.json",
        "fedsift/config/config_fed_server.json",
        "fedsift/config/config_fed_client.json",
    }
    assert meta["deploy_map"] == {"fedsift": ["server", "bank", "shop-2"]}
    assert meta["mandatory_clients"] == ["bank", "shop-2"]
    (workflow,), (executor,) = server["workflows"], client["executors"]
    assert workflow["path"] == "fedsift.deploy.flare.controller.HubController"
    assert executor["executor"]["path"] == "fedsift.deploy.flare.executor.SiteExecutor"
    assert workflow["args"] == executor["executor"]["args"]
    assert set(workflow["args"]) == {"job", "signatures"}
    assert decode_job(workflow["args"]["job"]) == text


def test_what_is_no_job_of_fedsift(tmp_path):
    (tmp_path / "config_fed_server.json").write_text('{"workflows": []}')

    with pytest.raises(FileProblem, match="not a job of fedsift"):
        read_job_text(tmp_path)


def test_every_member_can_check_the_signature(shared, text):
    ann = load_site(shared[ANN].settings)
    members = _find_keys(shared[ANN], ann, ("bank", "shop-2"))
    signatures = sign_job(text, ANN, ann.key(), members)

    assert set(signatures) == {"hub", "bank", "shop-2"}
    key = read_key(shared["bank"].settings / "organisation.key")
    verify_job(text, "bank", key, ANN, ann.key().public, signatures["bank"])
    with pytest.raises(BadEnvelope):
        verify_job(text + " ", "bank", key, ANN, ann.key().public, signatures["bank"])


def test_a_party_that_is_not_in_the_federation(shared):
    ann = load_site(shared[ANN].settings)

    with pytest.raises(ConfigError, match="'clinic', which is not in the federation"):
        _find_keys(shared[ANN], ann, ("bank", "clinic"))


def test_a_member_whose_key_is_not_pinned(kits):
    share_keys([kits[ANN], kits["bank"]])

    with pytest.raises(ConfigError, match="not pinned the keys of: hub, shop-2"):
        _find_keys(kits[ANN], load_site(kits[ANN].settings), ("bank", "shop-2"))


def test_organisations_that_are_away():
    with pytest.raises(MemberDown, match="Not connected to the hub: shop, clinic") as caught:
        _refuse_missing({"bank": True, "shop": False}, ("bank", "shop", "clinic"))
    assert caught.value.exit_code == 3


def test_the_coordinators_result_is_opened(opened):
    result = opened(result_of("bank"))
    assert msgspec.structs.replace(result, commitments=None) == RESULT
    assert verify_result(result).passed


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"selected": {"bank": ("age",), "shop-2": ()}}, "'selected' was changed"),
        ({"security_bits": 128}, "'security_bits' was changed"),
        ({"commitments": None}, "Nobody signed it"),
    ],
    ids=str,
)
def test_a_result_that_was_altered_is_refused_and_kept(opened, changes, words):
    def alter(result):
        return msgspec.structs.replace(result, **changes)

    with pytest.raises(LedgerAltered, match=words) as caught:
        opened(result_of("bank"), alter=alter)
    assert caught.value.exit_code == 5
    for name, value in changes.items():
        assert getattr(caught.value.result, name) == value


def test_a_result_counts_only_from_the_coordinator(opened):
    with pytest.raises(ProtocolError, match="no member said why"):
        opened(result_of("shop-2"))


def test_a_forged_report_is_told(opened):
    with pytest.raises(BadEnvelope):
        opened(result_of("bank"), spoil=lambda sealed: sealed[:-1] + b"\0")


def test_a_report_of_another_member_does_not_pass_for_the_coordinators(shared, text, opened):
    ann = load_site(shared[ANN].settings)
    forged = seal_report(
        Report("bank", msgspec.json.encode(RESULT)),
        "bank",
        OrganisationKey.generate(),
        ANN,
        ann.key().public,
        text,
    )

    with pytest.raises(BadEnvelope):
        _open_result(_JobResult({"bank": forged}, {}), shared[ANN], ann, text)


def test_a_report_about_another_submission_does_not_open(shared, job, text, opened):
    ann = load_site(shared[ANN].settings)
    other = JointJob.from_job(job, submitter=ANN, nonce="2").to_text()
    key = read_key(shared["bank"].settings / "organisation.key")
    old = seal_report(result_of("bank")[1], "bank", key, ANN, ann.key().public, other)

    with pytest.raises(BadEnvelope):
        _open_result(_JobResult({"bank": old}, {}), shared[ANN], ann, text)


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [
        (PolicyViolation("No.", "Yes.", "Ask."), 4),
        (PartyFailed("shop-2", "Introduction", 3, "it was lost"), 3),
        (JobError("Wrong.", "Right.", "Mend."), 2),
        (ValueError("secret 17"), 3),
    ],
)
def test_a_failure_comes_back_as_it_was(opened, error, exit_code):
    with pytest.raises(FedsiftError) as caught:
        opened(failure_of("bank", error))

    assert caught.value.exit_code == exit_code
    assert "17" not in str(caught.value)
    if isinstance(error, PartyFailed):
        assert (caught.value.party, caught.value.round_number) == ("shop-2", 3)


def test_a_refusal_by_policy_says_more_than_its_consequences(opened):
    refusal = failure_of("shop-2", PolicyViolation("The run needs x.", "y.", "z."))
    lost = failure_of("bank", PartyFailed("shop-2", "Invitation", 1, "gone"))

    with pytest.raises(PolicyViolation, match="needs x"):
        opened(lost, refusal)


@pytest.mark.parametrize(
    ("status", "ended", "kind", "words"),
    [
        ({"refused": {"bank": "E202", "shop-2": "E501"}}, "", PolicyViolation, "'shop-2' refused"),
        ({"refused": {"bank": "E305"}}, "", ProtocolError, "submitter's key"),
        ({"refused": {"bank": "E999"}}, "", ProtocolError, "see its log"),
        ({"failed": ["shop-2"], "round": 4}, "", PartyFailed, "in round 4"),
        ({}, "FINISHED:CAN_NOT_SCHEDULE", MemberDown, "does not answer the hub"),
        ({}, "FINISHED:ABNORMAL", ProtocolError, "no member said why"),
    ],
)
def test_an_end_without_letters(opened, status, ended, kind, words):
    with pytest.raises(kind, match=words):
        opened(status=status, ended=ended)


def test_progress_counts_only_from_the_coordinator_and_never_goes_back(shared, text):
    ann = load_site(shared[ANN].settings)
    reader = ProgressReader(shared[ANN], ann, text)

    def told(count, name="bank", sealer="bank", job=text, **counts):
        key = read_key(shared[sealer].settings / "organisation.key")
        sealed = seal_report(
            ProgressSnapshot(sealer, **counts), sealer, key, ANN, ann.key().public, job
        )
        return {"n_snapshots": count, "snapshots": {name: base64.b64encode(sealed).decode()}}

    assert reader.read({}) is None
    assert reader.read(told(1, "shop-2", "shop-2", number=9)) is None
    assert reader.read(told(2, "bank", "shop-2", number=9)) is None
    assert reader.read(told(3, job=f"{text} ", number=9)) is None
    assert reader.read({"n_snapshots": 4, "snapshots": {"bank": "no report"}}) is None
    assert reader.read(told(5, number=2)) == ProgressSnapshot("bank", 2)
    assert reader.n_passed == 5
    assert reader.read({"n_snapshots": 5, "snapshots": {}}) == ProgressSnapshot("bank", 2)
    assert reader.read(told(6, number=1, messages=9)) == ProgressSnapshot("bank", 2)
    assert reader.read(told(7, number=2, messages=9)) == ProgressSnapshot("bank", 2)
    assert reader.read(told(8, number=8)) == ProgressSnapshot("bank", 8)


def test_a_hub_that_changes_progress_changes_nothing(shared, text):
    """Reports of another kind or direction, another run's progress, spoilt ones, and nonsense."""
    ann = load_site(shared[ANN].settings)
    bank = read_key(shared["bank"].settings / "organisation.key")
    public = ann.key().public
    reader = ProgressReader(shared[ANN], ann, text)
    true = seal_report(ProgressSnapshot("bank", 3), "bank", bank, ANN, public, text)
    other = msgspec.json.encode(json.loads(text) | {"nonce": "2"}).decode()
    bad = {
        "a report": seal_report(Report("bank", b"{}"), "bank", bank, ANN, public, text),
        "of an earlier run": seal_report(
            ProgressSnapshot("bank", 9), "bank", bank, ANN, public, other
        ),
        "a signature, sent back": bytes.fromhex(
            sign_job(text, ANN, ann.key(), {"bank": bank.public})["bank"]
        ),
        "its own progress, sent back": seal_report(
            ProgressSnapshot("bank", 9), ANN, ann.key(), "bank", bank.public, text
        ),
        "spoilt": true[:-1] + bytes([true[-1] ^ 1]),
        "cut": true[:40],
        "nothing": b"",
    }

    def passed_on(sealed):
        return {"n_snapshots": 1, "snapshots": {"bank": base64.b64encode(sealed).decode()}}

    for told in (
        {"snapshots": 3},
        {"snapshots": {"bank": 3}, "n_snapshots": "x"},
        {"snapshots": {"bank": "é"}},
    ):
        assert reader.read(told) is None
        assert reader.n_passed == 0
    for why, sealed in bad.items():
        assert reader.read(passed_on(sealed)) is None, why
    assert reader.read(passed_on(true)) == ProgressSnapshot("bank", 3)
    for why, sealed in bad.items():
        assert reader.read(passed_on(sealed)) == ProgressSnapshot("bank", 3), why


@pytest.mark.parametrize("name", ["bank", "shop-2", "hub"])
def test_only_the_coordinator_of_a_watched_job_reports_progress(shared, job, bank_csv, name):
    if name != "hub":
        label = "default" if name == "bank" else None
        set_party(shared[name], PartyData(bank_csv, ("customer_id",), label))
    for live in (False, True):
        made = JointJob.from_job(job, submitter=ANN, live=live, nonce="1")
        site = make_site(shared[name].settings, made.to_text(), name)
        assert site.reports_progress is (live and name == "bank")


def test_what_cannot_be_kept_is_told_without_its_place(shared, text, bank_csv, tmp_path):
    set_party(shared["bank"], PartyData(bank_csv, ("customer_id",), "default"))
    site = make_site(shared["bank"].settings, text, "bank")
    taken = tmp_path / "private-place"
    taken.write_text("a file")
    site = replace(site, settings=replace(site.settings, output=taken))
    part = {"classes": [], "columns": [], "selected": []}
    model = ChainModel(None, "shop-2", {"bank": part}, {})

    for keep in (
        lambda: site._keep_predictions("id,prediction\n"),
        lambda: site._keep_own("bank", {"n": 1}),
        lambda: site._keep_model(model),
    ):
        with pytest.raises(FileProblem, match="'bank' cannot keep its") as caught:
            keep()
        assert "private-place" not in str(caught.value)


def test_watching_a_job_does_not_make_it_another_computation(job):
    watched = JointJob.from_job(job, submitter=ANN, live=True)

    assert watched.run_key == JointJob.from_job(job, submitter=ANN).run_key
    assert JointJob.from_text(watched.to_text()).live is True


def test_a_result_of_another_version(opened):
    with pytest.raises(BadEnvelope, match="Compare the versions"):
        opened(("bank", Report("bank", b"{}")))


def test_a_hub_proxy_that_dies_is_a_hub_that_cannot_be_reached(shared, monkeypatch):
    monkeypatch.setattr(hub_session.sys, "executable", "/bin/true")

    with pytest.raises(MemberDown, match="connection ended"), HubSession(shared[ANN]):
        pytest.fail("it must not connect")


def test_a_hub_proxy_that_says_nothing_is_given_up(shared, monkeypatch, tmp_path):
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\nexec sleep 600\n")
    script.chmod(0o700)
    monkeypatch.setattr(hub_session.sys, "executable", str(script))
    timeouts = Timeouts(connect_seconds=0.1, command_margin_seconds=0.2, proxy_end_seconds=0.2)

    with pytest.raises(MemberDown, match="no answer"), HubSession(shared[ANN], timeouts):
        pytest.fail("it must not connect")


def test_a_job_that_splits_a_data_set_is_not_submitted(shared, tmp_path):
    path = tmp_path / "split.toml"
    path.write_text('[job]\nmethod = "filter"\n[data]\ndataset = "wine"\n')

    with pytest.raises(JobError, match="table of its own"):
        submit(path, shared[ANN])
