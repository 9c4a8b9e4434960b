"""``fedsift deploy`` on good and bad input; no process is started here."""

import http.client
import json
import subprocess
import sys
import types
import urllib.parse

import msgspec
import numpy as np
import pytest

from fedsift.deploy.kits import PartyData, load_kit, set_party, share_keys
from fedsift.deploy.own_table import digest_table, read_table
from fedsift.deploy.site_files import load_site, settings_file
from fedsift.engine.timeouts import Timeouts
from fedsift.errors import LedgerAltered, PolicyViolation
from fedsift.jobs.history import History, JobRecord
from fedsift.jobs.inbox import Inbox
from fedsift.protocol import Policy
from fedsift.protocol.policy import PlannedDisclosure
from fedsift.report.inbox import InboxServer
from fedsift.result import SelectionResult
from helpers.cli import Workshop, call
from helpers.deploy import ANN, files_of, write_project
from helpers.joint import horizontal


@pytest.fixture
def workshop(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    return Workshop(folder)


def refused(outcome, code, *words, exit_code=2):
    assert outcome.exit_code == exit_code
    assert outcome.err.startswith(code)
    assert all(word in outcome.err for word in words), outcome.err
    assert "Traceback" not in outcome.err
    assert outcome.err.count("\n") == 1


def test_init_tells_who_gets_what(tmp_path):
    pytest.importorskip("nvflare")
    outcome = call("deploy", "init", write_project(tmp_path), "--out", tmp_path / "out")

    assert outcome.exit_code == 0
    assert "keep it away from the hub operator" in " ".join(outcome.out.split())
    assert {path.name for path in (tmp_path / "out" / "kits").iterdir()} == {
        "hub",
        "bank",
        "shop-2",
        ANN,
    }
    assert not list((tmp_path / "out").rglob("organisation.key"))


def test_init_with_keys_says_that_it_is_a_trial(tmp_path):
    pytest.importorskip("nvflare")
    project = write_project(tmp_path)
    outcome = call("deploy", "init", project, "--out", tmp_path / "out", "--with-keys")

    assert "for trials" in outcome.out
    assert len(list((tmp_path / "out").rglob("organisation.key"))) == 4


def test_init_refuses_a_wrong_project(tmp_path):
    project = write_project(tmp_path, {"8002": "0"})

    refused(call("deploy", "init", project, "--out", tmp_path / "out"), "E202", "line 6")
    assert not (tmp_path / "out").exists()


def test_keys_go_round(kits, tmp_path):
    files = []
    for name in ("hub", "shop-2", ANN):
        files.append(tmp_path / f"{name}.toml")
        assert call("deploy", "key", kits[name].folder, "--out", files[-1]).exit_code == 0

    first = call("deploy", "pin", kits["bank"].folder, files[0])
    rest = call("deploy", "pin", kits["bank"].folder, *files[1:])

    assert f"Still to be pinned: shop-2, {ANN}." in first.out
    assert "Still to be pinned" not in rest.out


def test_a_strangers_key_is_not_pinned(kits, tmp_path):
    call("deploy", "key", kits["shop-2"].folder, "--out", tmp_path / "shop.toml")
    text = (tmp_path / "shop.toml").read_text()

    (tmp_path / "shop.toml").write_text(text.replace('"shop-2"', '"clinic"'))
    refused(call("deploy", "pin", kits["bank"].folder, tmp_path / "shop.toml"), "E200", "'clinic'")
    (tmp_path / "shop.toml").write_text(text.replace('"shop-2"', '"bank"'))
    refused(call("deploy", "pin", kits["bank"].folder, tmp_path / "shop.toml"), "E200", "another")
    (tmp_path / "shop.toml").write_text(text.replace('"organisation"', '"submitter"'))
    refused(call("deploy", "pin", kits["bank"].folder, tmp_path / "shop.toml"), "E200", "agree")


def test_a_member_who_joined_later_is_added(kits, tmp_path):
    (tmp_path / "clinic.toml").write_text(
        f'[key]\nname = "clinic"\nkind = "organisation"\npublic = "{"A" * 43}="\n'
    )
    bank = kits["bank"].folder

    refused(call("deploy", "pin", bank, tmp_path / "clinic.toml"), "E200", "--add")
    assert call("deploy", "pin", bank, tmp_path / "clinic.toml", "--add").exit_code == 0

    assert load_kit(bank).organisations == ("bank", "shop-2", "clinic")
    assert "clinic" in settings_file(kits["bank"].settings).read_text()


def test_party_says_what_could_be_disclosed(kits, bank_csv, tmp_path):
    policy = tmp_path / "policy.toml"
    policy.write_text('[policy]\nmethods = ["filter"]\nmay_not_reveal = ["feature-scores"]\n')
    options = ("--data", bank_csv, "--id", "customer_id", "--label", "default", "--policy", policy)

    told = call("deploy", "party", kits["bank"].folder, *options, "--json").json

    assert (told["n_rows"], len(told["features"])) == (40, 3)
    assert {row["method"] for row in told["disclosures"]} == {"any", "filter"}
    scores = [row["allowed"] for row in told["disclosures"] if row["kind"] == "feature-scores"]
    assert scores
    assert not any(scores)
    assert any(row["allowed"] for row in told["disclosures"])


def test_party_never_shows_a_value(kits, bank_csv):
    outcome = call("deploy", "party", kits["bank"].folder, "--data", bank_csv)

    assert outcome.exit_code == 0
    assert "C17" not in outcome.out
    assert "north" not in outcome.out


def test_party_refuses_bad_input(kits, bank_csv, tmp_path):
    bank = kits["bank"].folder

    refused(call("deploy", "party", bank, "--data", tmp_path / "none.csv"), "E105")
    refused(call("deploy", "party", bank, "--data", bank_csv, "--id", "x"), "E101", "'x'")
    refused(call("deploy", "party", kits["hub"].folder, "--data", bank_csv), "E200", "the hub")
    policy = tmp_path / "policy.toml"
    policy.write_text('[policy]\nmay_reveal = ["feature-scorse"]\n')
    given = ("--data", bank_csv, "--policy", policy)
    refused(call("deploy", "party", bank, *given), "E202", "Did you mean 'feature-scores'?")


def test_start_refuses_what_is_not_ready(kits, tmp_path):
    refused(call("deploy", "start", tmp_path), "E105", "not a startup kit")
    refused(call("deploy", "start", kits["bank"].folder), "E202", "deploy party")
    two = (kits["bank"].folder, kits["hub"].folder)
    refused(call("deploy", "start", "--foreground", *two), "E201", "one kit")


def test_stop_status_and_logs_of_a_member_that_never_ran(kits):
    bank = kits["bank"].folder

    assert "was not running" in call("deploy", "stop", bank).out
    (row,) = call("deploy", "status", bank, "--json").json
    assert (row["running"], row["pid"], row["job_pids"]) == (False, None, [])
    assert "not running" in call("deploy", "status", bank).out
    assert "no log yet" in call("deploy", "logs", bank).out


def test_logs_show_the_end(kits):
    bank = kits["bank"].folder
    (bank / "log.txt").write_text("".join(f"line {n}\x1b[31m\n" for n in range(100)))

    outcome = call("deploy", "logs", bank, "--lines", 2)

    assert [line.split()[1] for line in outcome.out.splitlines()] == ["98", "99"]
    assert "\x1b" not in outcome.out


@pytest.mark.timeout(180)
def test_a_hub_that_is_not_there(kits, monkeypatch):
    share_keys(kits.values())
    from fedsift.deploy.flare import hub_session

    monkeypatch.setattr(
        hub_session.HubSession.__init__, "__defaults__", (Timeouts(connect_seconds=3.0),)
    )

    refused(call("deploy", "status", kits[ANN].folder), "E407", "cannot be reached", exit_code=3)


WITHOUT_FLARE = """
import sys
sys.modules["nvflare"] = None
sys.modules["psutil"] = None
from typer.testing import CliRunner
from fedsift.cli import app
ran = CliRunner().invoke(app, sys.argv[1:])
print(ran.exit_code, ran.output)
"""


def test_the_missing_extra_is_named(tmp_path):
    arguments = ["deploy", "init", str(write_project(tmp_path)), "--out", str(tmp_path / "out")]
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_FLARE, *arguments],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )

    assert ran.stdout.startswith("2 E204")
    assert "fedsift[flare]" in ran.stdout
    assert files_of(tmp_path / "out") == set()


def test_nothing_imports_flare_by_itself():
    script = (
        "import sys, fedsift, fedsift.cli, fedsift.deploy.local, fedsift.deploy.submit\n"
        "import fedsift.deploy.flare.hub_session, fedsift.deploy.site\n"
        "assert not [name for name in sys.modules if name.split('.')[0] == 'nvflare']\n"
    )
    subprocess.run([sys.executable, "-c", script], timeout=100, check=True)


def test_submit_refuses_bad_input(kits, tmp_path):
    job = tmp_path / "job.toml"
    job.write_text(
        '[job]\nmethod = "filter"\n[data]\nsetting = "vertical"\n[[party]]\nname = "x"\n'
    )
    out = tmp_path / "result"

    def submit(path, kit):
        return call("deploy", "submit", path, "--kit", kit, "--out", out)

    refused(submit(tmp_path / "none.toml", kits[ANN].folder), "E105", "Cannot read")
    refused(submit(job, kits["bank"].folder), "E200", "a submitter")
    refused(submit(job, tmp_path), "E105", "not a startup kit")
    refused(submit(job, kits[ANN].folder), "E200", "'x', which is not in the federation")
    assert not out.exists()


@pytest.mark.parametrize("command", ["submit", "result", "run"])
def test_a_result_that_was_altered_is_kept_and_the_command_fails(
    kits, tmp_path, monkeypatch, command
):
    kit, out = kits[ANN].folder, tmp_path / "result"
    altered = LedgerAltered("Something was changed.", "Nothing must be.", "Ask.")
    altered.result = SelectionResult("filter", "vertical", {"bank": ("income",), "shop-2": ()})

    def fail(*_, **__):
        raise altered

    monkeypatch.setattr("fedsift.deploy.submit.submit_job", fail)
    monkeypatch.setattr("fedsift.deploy.submit.fetch", fail)
    job = tmp_path / "job.toml"
    job.write_text(
        '[job]\nmethod = "filter"\n[data]\nsetting = "vertical"\n'
        'label = { party = "bank", column = "default" }\nid = "customer_id"\n'
        f"[runtime]\nengine = \"flare\"\nkit = '{kit}'\n"
        '[[party]]\nname = "bank"\n[[party]]\nname = "shop-2"\n'
    )
    given = {"submit": ["deploy", "submit", job], "result": ["deploy", "result", "1"], "run": []}
    options = ["--out", out] + (["--kit", kit] if command != "run" else [])

    outcome = call(*(given[command] or ["run", job]), *options)

    assert outcome.exit_code == 5
    assert outcome.err.startswith("E502: Something was changed.")
    assert f"The result is in {out}" in outcome.err
    assert files_of(out) == {"result.json", "report.html", "ledger.jsonl"}
    assert SelectionResult.load(out / "result.json") == altered.result


def test_local_refuses_bad_input(tmp_path, workshop):
    workshop.sections["data"] = {"dataset": "wine"}
    workshop.parties = []
    job = workshop.write()
    out = ("--out", tmp_path / "out")

    refused(call("deploy", "local", job, *out), "E201", "fedsift split")
    refused(call("deploy", "local", "--try", "filtre", *out), "E203", "Did you mean 'filter'?")
    assert not (tmp_path / "out").exists()


def test_a_plan_needs_the_tables(workshop):
    workshop.sections["runtime"] = {"engine": "flare", "kit": "kit"}

    refused(workshop.plan(), "E200", "at the organisations")


class TestHistory:
    @pytest.fixture
    def bank(self, kits, bank_csv):
        """A kit whose organisation took part in two jobs, one of which was refused."""
        share_keys(list(kits.values()))
        policy = {"max_epsilon": 2.0, "max_jobs_per_table": 3}
        set_party(kits["bank"], PartyData(bank_csv, ("customer_id",), "default"), policy)
        kept = History(kits["bank"].settings)
        for epsilon in (1.5, 1.0):
            job = horizontal("filter", score="mi", epsilon=epsilon)
            job = msgspec.structs.replace(job, submitter=ANN, nonce=f"{epsilon}")
            kept.begin(job, str(bank_csv))
            record = JobRecord(kept, job, "bank", Policy.from_mapping(policy), str(bank_csv))
            error = None
            try:
                record.charge({"ids": np.arange(40, dtype=np.uint64)})
                record.note_plan(
                    [PlannedDisclosure("hub", "coordinator", "bank", "member", "sums", "all", "M")]
                )
                record.admit()
            except PolicyViolation as refusal:
                error = refusal
            kept.end(job.fingerprint, error)
        return kits["bank"].folder

    def test_it_is_listed(self, bank, tmp_path):
        page = tmp_path / "history.html"
        outcome = call("deploy", "history", bank, "--report", page)
        assert outcome.exit_code == 0
        words = " ".join(outcome.out.split())
        assert all(word in words for word in ("finished", "refused", ANN, "hub: sums", "1.5"))
        text = page.read_text()
        assert "History of bank: 1 finished, 1 refused" in text
        assert "release_epsilon" not in text
        first, second = json.loads(call("deploy", "history", bank, "--json").out)
        assert (first["state"], first["n_rows"], first["counted"]) == ("finished", 40, True)
        assert (second["state"], second["counted"]) == ("refused", False)

    def test_what_is_left_is_told(self, bank, tmp_path):
        page = tmp_path / "budget.html"
        outcome = call("deploy", "budget", bank, "--report", page)
        assert outcome.exit_code == 0
        assert "jobs</" in page.read_text()
        assert "0.5" in outcome.out
        (told,) = json.loads(call("deploy", "budget", bank, "--json").out)
        assert (told["jobs"], told["most_jobs"], told["jobs_left"]) == (1, 3, 2)
        assert told["left"] == {"epsilon": 0.5, "release_epsilon": None, "epsilon_total": None}

    def test_a_renamed_table_has_the_budget_that_its_rows_have_left(self, kits, bank_csv):
        data, policy = PartyData(bank_csv, ("customer_id",), "default"), {"max_epsilon": 2.0}
        set_party(kits["bank"], data, policy)
        settings = load_site(kits["bank"].settings)
        job = horizontal("filter", score="mi", epsilon=1.5)
        job = msgspec.structs.replace(job, submitter=ANN, nonce="1")
        kept = History(settings.folder)
        kept.begin(job, str(bank_csv))
        digests = digest_table(settings, read_table(settings), kept.row_key)
        JobRecord(kept, job, "bank", Policy(max_epsilon=2.0), str(bank_csv)).charge(digests)
        renamed = bank_csv.rename(bank_csv.with_name("export_2.csv"))
        set_party(kits["bank"], PartyData(renamed, ("customer_id",), "default"))

        told = json.loads(call("deploy", "budget", kits["bank"].folder, "--json").out)

        assert [one["data"] for one in told] == [str(bank_csv), str(renamed)]
        for one in told:
            assert (one["jobs"], one["left"]["epsilon"]) == (1, 0.5)

    def test_before_the_first_job_there_is_nothing(self, kits, bank_csv):
        set_party(kits["bank"], PartyData(bank_csv))
        assert "no job yet" in call("deploy", "history", kits["bank"].folder).out
        assert "20" in call("deploy", "budget", kits["bank"].folder).out
        assert not list(kits["bank"].folder.rglob("history.sqlite"))


class TestInbox:
    @pytest.fixture
    def waiting(self, kits, bank_csv):
        """A kit with a job that waits, and the job."""
        policy = {"approval": "ask", "max_epsilon": 2}
        set_party(kits["bank"], PartyData(bank_csv, ("customer_id",), "default"), policy)
        job = horizontal("filter", score="mi", epsilon=0.5, bins=[0.0])
        job = msgspec.structs.replace(
            job, parties=("bank", "south"), submitter=ANN, nonce="1", columns={"bank": ("income",)}
        )
        Inbox(kits["bank"].settings).ask(job, 60)
        return kits["bank"], job

    def test_it_shows_the_plan(self, waiting):
        kit, job = waiting
        outcome = call("deploy", "inbox", kit.folder)
        words = " ".join(outcome.out.split())
        told = (job.fingerprint[:12], ANN, "epsilon 0.5", "pooled-sums", "learned nothing before")
        assert all(word in words for word in told), words
        told = ("bank: income; south: all", "jobs 20, epsilon 2", "rounds, ")
        assert all(word in words for word in told), words
        (listed,) = json.loads(call("deploy", "inbox", kit.folder, "--json").out)
        assert (listed["job"], listed["state"]) == (job.fingerprint, "waiting")
        assert (listed["columns"], listed["refusal"]) == (["income"], "")
        assert listed["left"] == {"jobs": 20, "epsilon": 2.0}
        assert ("bank", "coordinator", "pooled-sums") in {
            (one["about"], one["learner"], one["kind"]) for one in listed["planned"]
        }
        assert listed["predicted"]["bytes"] > 0

    def test_the_page_is_served_until_ctrl_c(self, waiting, monkeypatch):
        kit, job = waiting
        pages = []

        class Person:
            """Looks at the page, approves, and presses Ctrl-C."""

            def wait(self):
                address = urllib.parse.urlsplit(Person.server.url)
                form = {"Content-Type": "application/x-www-form-urlencoded"}
                same = {"Sec-Fetch-Site": "same-origin", **form}
                for method, name, body in (
                    ("GET", "", None),
                    ("POST", "approve", f"job={job.fingerprint}"),
                ):
                    link = http.client.HTTPConnection(address.netloc, timeout=10)
                    link.request(method, address.path + name, body, same)
                    pages.append(link.getresponse().read().decode())
                    link.close()
                raise KeyboardInterrupt

        enter = InboxServer.__enter__

        def begin(self):
            Person.server = enter(self)
            return Person.server

        monkeypatch.setattr(InboxServer, "__enter__", begin)
        monkeypatch.setattr(
            "fedsift.cli.deploy_history.threading", types.SimpleNamespace(Event=Person)
        )

        outcome = call("deploy", "inbox", kit.folder, "--web")

        assert outcome.exit_code == 0
        assert outcome.err == f"Inbox of bank: {Person.server.url}\n"
        assert outcome.out == ""
        assert "Who would learn what" in pages[0]
        assert "bank: income" in pages[0]
        assert f"Job {job.fingerprint[:12]}: approved." in pages[1]
        assert Inbox(kit.settings).ask(job, 60) == ("approved", "")
        gone = http.client.HTTPConnection(urllib.parse.urlsplit(Person.server.url).netloc)
        with pytest.raises(ConnectionRefusedError):
            gone.connect()

    def test_a_job_is_approved(self, waiting):
        kit, job = waiting
        outcome = call("deploy", "approve", job.fingerprint[:12], "--kit", kit.folder)
        assert outcome.out == f"Job {job.fingerprint[:12]}: approved.\n"
        assert Inbox(kit.settings).ask(job, 60) == ("approved", "")
        assert "No job waits" in call("deploy", "inbox", kit.folder).out
        again = call("deploy", "reject", job.fingerprint, "--kit", kit.folder, "--reason", "late")
        refused(again, "E200", "approved")

    def test_a_job_is_rejected_with_a_reason(self, waiting):
        kit, job = waiting
        given = (job.fingerprint, "--kit", kit.folder, "--reason", "no purpose", "--json")
        told = json.loads(call("deploy", "reject", *given).out)
        assert told == {"job": job.fingerprint, "state": "rejected"}
        assert Inbox(kit.settings).ask(job, 60) == ("rejected", "no purpose")
        refused(call("deploy", "approve", "ffff", "--kit", kit.folder), "E200", "begin with")
