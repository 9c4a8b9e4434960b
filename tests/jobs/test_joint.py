"""A job in one process goes through the stages of sites; members build their part of it alone."""

import json
import secrets
import sys
import threading
import time
from dataclasses import replace

import msgspec
import numpy as np
import pytest

import fedsift as fs
from fedsift.config.toml import toml_text
from fedsift.crypto.envelope import OrganisationKey
from fedsift.data.federation import RemoteTable, TargetOutline
from fedsift.deploy.member import JobMember
from fedsift.deploy.sealed_reports import sign_job
from fedsift.deploy.site import OWN_FILE, make_site
from fedsift.deploy.site_files import HUB, HUB_FILE, SITE_FILE, public_text
from fedsift.errors import (
    AlignmentError,
    BadEnvelope,
    JobError,
    PartyFailed,
    PolicyViolation,
    UndeclaredFlow,
)
from fedsift.jobs.history import History
from fedsift.jobs.inbox import Inbox
from fedsift.jobs.run import LocalParty, plan_joint, run_joint
from fedsift.jobs.spec import JointJob, JointStep
from fedsift.methods.fpso.messages import Candidates
from fedsift.methods.fpso.third_party import Participant
from fedsift.result import SelectionResult
from fedsift.testing.memory import MemoryHub
from helpers.joint import (
    COLUMNS,
    columns_homes,
    horizontal,
    people,
    rows_homes,
    rows_sources,
    vertical,
)

SUBMITTER = "ann@bank.example"


class TestInOneProcess:
    @pytest.mark.parametrize(
        ("job", "homes"),
        [
            (vertical("filter", n_features_to_select=2), columns_homes),
            (
                horizontal("filter", score="mi", n_features_to_select=1),
                lambda _: rows_homes(["income", "region"]),
            ),
        ],
        ids=["vertical", "horizontal"],
    )
    def test_the_plan_is_what_happens(self, job, homes):
        own = homes(job)

        federation, plan = plan_joint(job, own)
        result = run_joint(job, own)

        def keys(rows):
            return {(row.learner, row.about, row.kind, row.message) for row in rows}

        assert keys(plan.disclosures) == keys(result.disclosures)
        assert federation.n_rows == result.shape["n_rows"]
        assert set(federation.warnings) <= set(result.warnings)

    def test_a_policy_stops_it_before_the_first_message(self):
        job = vertical("filter", n_features_to_select=2)
        policies = {"store": fs.Policy(may_reveal=("basic", "common-ids", "feature-count"))}
        sent = []

        with pytest.raises(PolicyViolation, match="'store'"):
            run_joint(job, columns_homes(job, policies=policies), observer=sent.append)
        assert sent == []

    def test_few_common_rows_stop_it_before_the_first_message(self):
        job = vertical("filter", n_features_to_select=2)
        policies = {"shop": fs.Policy(min_rows=77)}
        sent = []

        with pytest.raises(PolicyViolation, match="at least 77 rows"):
            run_joint(job, columns_homes(job, policies=policies), observer=sent.append)
        assert sent == []

    def test_without_the_package_rows_are_matched_in_the_clear(self, monkeypatch):
        job = vertical("filter", n_features_to_select=2)
        homes = columns_homes(job)
        private = run_joint(job, homes)
        monkeypatch.setitem(sys.modules, "private_set_intersection.python", None)

        result = run_joint(job, homes)

        assert (result.selected, result.scores) == (private.selected, private.scores)
        assert "openmined-psi is not installed" in " ".join(result.warnings)
        assert "common-ids" not in {row.kind for row in result.disclosures}
        assert "common-ids" in {row.kind for row in private.disclosures}

    def test_a_party_alone(self):
        job = vertical("filter", ("bank",), n_features_to_select=1)

        result = run_joint(job, columns_homes(job))

        assert result.selected == {"bank": ("income",)}
        assert (result.traffic.messages, result.disclosures) == (0, ())

    def test_the_name_of_the_neutral_party_is_taken(self):
        job = vertical("interaction", ("bank", "cloud"))
        with pytest.raises(fs.errors.PartyError, match="neutral party"):
            job.check()

    def test_nothing_in_common(self):
        job = vertical("filter", ("bank", "shop"), n_features_to_select=1)
        homes = columns_homes(job)
        part = homes["shop"].load()
        others = np.array([f"another-{number}" for number in range(part.n_rows)])
        renamed = replace(part, ids=others)

        with pytest.raises(AlignmentError, match="No id is common"):
            run_joint(job, homes | {"shop": LocalParty.of(renamed)})


class TestOutlines:
    def test_values_elsewhere_cannot_be_read(self):
        table = RemoteTable("shop", ("visits",), 40)
        assert (table.n_rows, table.n_columns, table.feature_names) == (40, 1, ("visits",))
        for touch in (
            lambda: table.columns,
            lambda: table.ids,
            lambda: table.column("visits"),
            lambda: table.numeric_matrix(),
            lambda: TargetOutline("classes").codes,
            lambda: TargetOutline("numbers").values,
            lambda: TargetOutline("classes").classes,
        ):
            with pytest.raises(UndeclaredFlow, match="at another site"):
                touch()


class TestJobTexts:
    def test_a_text_is_canonical(self):
        job = vertical("filter", n_features_to_select=2, bins={"age": [20, 40.5]})

        again = JointJob.from_text(job.to_text())

        assert again == job
        assert again.fingerprint == job.fingerprint
        resumed = msgspec.structs.replace(job, resume=True, submitter="eve", nonce="7")
        assert resumed.fingerprint != job.fingerprint
        assert resumed.run_key == job.run_key
        assert msgspec.structs.replace(job, seed=8).run_key != job.run_key

    @pytest.mark.parametrize(
        "changes",
        [
            {"method": "fliter"},
            {"setting": "diagonal"},
            {"parties": []},
            {"parties": ["bank", "Bank"]},
            {"label_party": "nobody"},
            {"label_party": None},
            {"task": "guess"},
            {"seed": -1},
            {"timeout_seconds": 0},
            {"version": "0.0.1"},
            {"format": "fedsift-job/9"},
            {"columns": {"nobody": ["age"]}},
            {"parameters": {"policy": {}}},
            {"parameters": {"checkpoint": "/etc"}},
            {"parameters": {"n_features_to_select": "two"}},
            {"data": "/etc/passwd"},
        ],
        ids=lambda changes: "-".join(map(str, changes)),
    )
    def test_a_job_that_no_site_could_run_is_refused(self, changes):
        content = json.loads(vertical("filter", n_features_to_select=2).to_text()) | changes
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))

        with pytest.raises((JobError, fs.errors.PartyError, fs.errors.UnknownMethod)) as caught:
            JointJob.from_text(text)
        assert caught.value.exit_code == 2

    @pytest.mark.parametrize("text", ["", "[]", "{}", "null", "[" * 5000, '{"method": 3}'])
    def test_what_is_no_job_is_refused(self, text):
        with pytest.raises(JobError):
            JointJob.from_text(text)

    def test_another_spelling_of_a_job_is_refused(self):
        text = vertical("filter", n_features_to_select=2).to_text()
        with pytest.raises(JobError):
            JointJob.from_text(text + " ")


class Federation:
    """Members with folders of their own, as startup kits have them, and a hub between threads."""

    def __init__(self, folder, job, tables, **settings):
        self.folder = folder
        self.job = msgspec.structs.replace(job, submitter=SUBMITTER)
        self.submitter = OrganisationKey.generate()
        names = [*job.parties, HUB]
        self.keys = {name: OrganisationKey.generate() for name in names}
        publics = {name: public_text(key.public) for name, key in self.keys.items()}
        for name in names:
            place = folder / name
            place.mkdir()
            secret = public_text(self.keys[name].to_bytes())  # both kinds are 32 bytes in base64
            (place / "organisation.key").write_text(secret)
            sections = {
                "party": {"name": name},
                "keys": {"pinned": {other: publics[other] for other in names if other != name}},
                "accepts": {"submitters": {SUBMITTER: public_text(self.submitter.public)}},
                "runtime": {"output": "results", "checkpoint": "checkpoints"},
            }
            if name in tables:
                tables[name].to_csv(place / "data.csv", index=False)
                sections["data"] = {"path": "data.csv"}
            for section, entries in settings.get(name, {}).items():
                sections[section] = sections.get(section, {}) | entries
            (place / (HUB_FILE if name == HUB else SITE_FILE)).write_text(toml_text(sections))

    def run(self):
        """Every member's report; each run is a submission of its own."""
        self.job = msgspec.structs.replace(self.job, nonce=secrets.token_hex(16))
        text = self.job.to_text()
        publics = {name: key.public for name, key in self.keys.items()}
        signatures = sign_job(text, SUBMITTER, self.submitter, publics)
        hub, reports = MemoryHub(), {}
        members = {
            name: JobMember(name, self.folder / name, text, signatures, session="run 1")
            for name in self.keys
        }
        threads = [
            threading.Thread(
                target=lambda n=name, m=member: reports.update({n: m.run(hub.transport(n))}),
                daemon=True,
            )
            for name, member in members.items()
            if member.takes_part
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(90)
            assert not thread.is_alive()
        return reports

    def own(self, name):
        return json.loads((self.place(name) / OWN_FILE).read_text())

    def place(self, name):
        """Where a member keeps what concerns it in the latest job."""
        return self.folder / name / "results" / self.job.fingerprint[:32]


class TestMembers:
    def test_a_vertical_job_from_folders(self, tmp_path):
        job = vertical("filter", ("bank", "shop"), n_features_to_select=1, seed=None)
        frame = people()
        tables = {
            "bank": frame[["id", "income", "age", "paid"]],
            "shop": frame[["id", "visits", "spend", "hours"]].iloc[::-1],
        }
        ids = {"id": "id"}
        shop = {**ids, "columns": ["visits", "spend"]}
        federation = Federation(
            tmp_path,
            job,
            tables,
            bank={"data": {**ids, "label": "paid"}, "policy": {"min_rows": 50}},
            shop={"data": shop, "policy": {"methods": ["filter"], "min_security_bits": 128}},
        )

        reports = federation.run()

        assert [report.code for report in reports.values()] == ["", ""]
        result = msgspec.json.decode(reports["bank"].result, type=SelectionResult)
        assert reports["shop"].result is None
        assert result.selected == {"bank": (), "shop": ("visits",)}
        assert set(result.scores["shop"]) == {"visits", "spend"}
        own = federation.own("shop")
        assert own["own"]["selected"] == ["visits"]
        assert own["job"] == federation.job.fingerprint
        assert (federation.place("shop") / OWN_FILE).stat().st_mode & 0o077 == 0
        left = [path for path in tmp_path.rglob("checkpoints/*/*") if path.is_file()]
        assert left == []

    def test_members_remember_what_they_revealed(self, tmp_path):
        job = vertical("filter", ("bank", "shop"), n_features_to_select=1, seed=None)
        frame = people()
        tables = {"bank": frame[["id", "income", "paid"]], "shop": frame[["id", "visits", "spend"]]}
        federation = Federation(
            tmp_path,
            job,
            tables,
            bank={"data": {"id": "id", "label": "paid"}},
            shop={"data": {"id": "id"}},
        )
        federation.run()
        record = json.loads((federation.place("shop") / "record.json").read_text())
        assert record["state"] == "finished"
        assert record["n_rows"] == len(frame)
        kinds = {(row["learner"], row["kind"]) for row in record["revealed"]}
        assert {("bank", "common-ids"), ("bank", "feature-scores")} <= kinds
        assert not {who for who, _ in kinds} - {"bank"}

        fewer = frame.drop(index=3)[["id", "visits", "spend"]]
        fewer.to_csv(tmp_path / "shop" / "data.csv", index=False)
        reports = federation.run()
        refusal = reports["bank"].to_error()
        assert isinstance(refusal, PolicyViolation)
        assert "differ in few rows" in str(refusal)
        for name in ("bank", "shop"):
            states = [job.state for job in History(tmp_path / name).list_jobs()]
            assert states[0] == "finished"
            assert states[1] in ("refused", "failed")

    @pytest.mark.parametrize("answer", ["none yet", "no", "too late", "yes"])
    def test_a_person_decides_whether_a_member_takes_part(self, tmp_path, answer, monkeypatch):
        job = vertical("filter", ("bank", "shop"), n_features_to_select=1, ids=False)
        frame = people()
        tables = {"bank": frame[["income", "paid"]], "shop": frame[["visits", "spend"]]}
        limit = 1.0 if answer == "too late" else 60.0
        federation = Federation(
            tmp_path,
            job,
            tables,
            bank={"data": {"label": "paid"}},
            shop={"policy": {"approval": "ask"}, "limits": {"approval_seconds": limit}},
        )
        monkeypatch.setattr(secrets, "token_hex", lambda n: "ab" * n)  # one submission, run later
        federation.job = msgspec.structs.replace(federation.job, nonce=secrets.token_hex(16))
        site = make_site(tmp_path / "shop", federation.job.to_text(), "shop")
        assert site.is_approved() is False
        inbox = Inbox(tmp_path / "shop")
        if answer in ("yes", "no"):
            inbox.decide(site.job.fingerprint, approve=answer == "yes", reason="no purpose")
        if answer == "too late":
            time.sleep(1.1)
        told = {
            "none yet": "has not approved",
            "no": "rejected the job: no purpose",
            "too late": "within 1 seconds",
        }
        if answer == "yes":
            assert site.is_approved() is True
            assert federation.run()["bank"].code == ""
        else:
            refusal = federation.run()["shop"].to_error()
            assert isinstance(refusal, PolicyViolation)
            assert told[answer] in str(refusal)
            assert History(tmp_path / "shop").list_jobs() == ()

    def test_the_steps_of_a_submitted_chain_add_up_before_data_is_used(self, tmp_path):
        step = JointStep(method="filter", parameters={"score": "mi", "bins": [0.0], "epsilon": 0.6})
        job = msgspec.structs.replace(horizontal("filter"), method="chain", steps=(step, step))
        data = {"data": {"label": "paid"}, "policy": {"max_epsilon": 1.0}}
        federation = Federation(
            tmp_path, job, rows_sources(["income", "visits"]), **dict.fromkeys(job.parties, data)
        )
        for path in tmp_path.glob("*/*.toml"):
            path.write_text(path.read_text().replace('checkpoint = "checkpoints"\n', ""))
        reports = federation.run()
        assert "more epsilon than is left" in str(reports[HUB].to_error())
        # Another member may have refused, and ended the job, before this one noted it.
        assert not any(job.counted for job in History(tmp_path / "north").list_jobs())

    @pytest.mark.usefixtures("repeatable")
    def test_what_only_a_party_may_know_stays_in_its_own_folder(self, tmp_path):
        job = horizontal("fpso", n_rounds=1, n_iterations=3)
        columns = ["income", "visits", "hours"]
        label = {"data": {"label": "paid"}, "policy": {}}
        federation = Federation(
            tmp_path, job, rows_sources(columns), **dict.fromkeys(job.parties, label)
        )

        reports = federation.run()

        result = msgspec.json.decode(reports[HUB].result, type=SelectionResult)
        assert result.participants == {}
        assert result.selected == run_joint(job, rows_homes(columns)).selected
        for party in job.parties:
            own = federation.own(party)["own"]
            assert 0.5 < own["accuracy"] <= 1
            assert own["columns"] == columns
            assert len(own["kept"]) == 3
        assert not (tmp_path / HUB / "results").exists()

    @pytest.mark.parametrize(
        ("settings", "changes", "word"),
        [
            ({"label": "age"}, {"label_column": "paid"}, "label"),
            ({}, {}, "label"),
            ({"label": "paid"}, {"columns": {"bank": ("income", "paid")}}, "columns"),
            (
                {"label": "paid", "columns": ["age"]},
                {"columns": {"bank": ("income",)}},
                "columns",
            ),
        ],
        ids=["another label", "no label", "the label as a feature", "a closed column"],
    )
    def test_a_job_cannot_take_what_was_not_set_free(self, tmp_path, settings, changes, word):
        job = vertical("filter", ("bank", "shop"), n_features_to_select=1, ids=False)
        job = msgspec.structs.replace(job, **changes)
        frame = people()
        tables = {
            "bank": frame[["income", "age", "paid"]],
            "shop": frame[COLUMNS["shop"]],
        }
        federation = Federation(tmp_path, job, tables, bank={"data": settings})

        reports = federation.run()

        error = reports["bank"].to_error()
        assert isinstance(error, PolicyViolation)
        assert word in str(error)
        assert "not released" in str(error)

    def test_a_file_that_cannot_be_read_is_a_failure_without_a_path(self, tmp_path):
        job = vertical("filter", ("bank", "shop"), n_features_to_select=1, ids=False)
        frame = people()
        tables = {"bank": frame[["income", "paid"]], "shop": frame[["visits"]]}
        federation = Federation(tmp_path, job, tables, bank={"data": {"label": "paid"}})
        (tmp_path / "shop" / "data.csv").write_bytes(bytes(range(256)))

        error = federation.run()["bank"].to_error()

        assert isinstance(error, PartyFailed)
        assert error.party == "shop"
        assert "data.csv" not in str(error)

    @pytest.mark.parametrize(
        ("changes", "kind", "word"),
        [
            ({"accepts": {"drivers": ["shop"]}}, PolicyViolation, "'bank' as the coordinator"),
            ({"accepts": {"submitters": {}}}, BadEnvelope, "does not know the submitter"),
            ({"keys": {"pinned": {}}}, PolicyViolation, "does not accept 'bank'"),
            ({"party": {"name": "shopp"}}, JobError, "'shopp'"),
        ],
        ids=["driver", "submitter", "pinned key", "name"],
    )
    def test_a_member_refuses_strangers(self, tmp_path, changes, kind, word):
        job = vertical("filter", ("bank", "shop"), n_features_to_select=1, ids=False)
        tables = {party: people()[COLUMNS[party]] for party in job.parties}
        federation = Federation(tmp_path, job, tables, shop=changes)

        with pytest.raises(kind, match=word) as caught:
            make_site(tmp_path / "shop", federation.job.to_text(), "shop")
        assert caught.value.exit_code == (4 if kind is PolicyViolation else caught.value.exit_code)

    def test_a_member_takes_part_in_jobs_that_name_it(self, tmp_path):
        job = vertical("filter", ("bank", "shop"), n_features_to_select=1, ids=False)
        tables = {party: people()[COLUMNS[party]] for party in job.parties}
        federation = Federation(tmp_path, job, tables)
        other = msgspec.structs.replace(federation.job, parties=("bank", "store"))

        with pytest.raises(JobError, match="none of the parties"):
            make_site(tmp_path / "shop", other.to_text(), "shop")

    def test_without_a_policy_a_member_refuses_a_run_without_encryption(self, tmp_path):
        job = vertical("filter", ("bank", "shop"), ids=False, security="plain")
        job = msgspec.structs.replace(job, parameters={**job.parameters, "n_features_to_select": 1})
        frame = people()
        tables = {"bank": frame[["income", "paid"]], "shop": frame[["visits"]]}
        federation = Federation(tmp_path, job, tables, bank={"data": {"label": "paid"}})

        error = federation.run()["bank"].to_error()

        assert isinstance(error, PolicyViolation)
        assert "without encryption" in str(error)

    def test_every_job_has_checkpoints_of_its_own_and_starts_anew_unless_resumed(self, tmp_path):
        job = vertical("filter", ("bank", "shop"), n_features_to_select=1, ids=False)
        tables = {party: people()[COLUMNS[party]] for party in job.parties}
        federation = Federation(tmp_path, job, tables)
        left = tmp_path / "shop" / "checkpoints" / federation.job.run_key[:32]
        for resume, stays in ((True, True), (False, False)):
            left.mkdir(parents=True, exist_ok=True)
            (left / "state").write_text("")
            asked = msgspec.structs.replace(federation.job, resume=resume, nonce="1")
            site = make_site(tmp_path / "shop", asked.to_text(), "shop")
            with site._checkpoint() as place:
                assert place == left
                assert (left / "state").exists() is stays

    @pytest.mark.usefixtures("repeatable")
    def test_an_interrupted_run_goes_on_where_it_was(self, tmp_path, monkeypatch):
        job = horizontal("fpso", n_rounds=3, n_iterations=3)
        label = {"data": {"label": "paid"}}
        sources = rows_sources(["income", "visits", "hours"])
        federation = Federation(tmp_path, job, sources, **dict.fromkeys(job.parties, label))
        whole = federation.run()[HUB].result
        answer, asked = Participant.handlers[Candidates], []

        async def fail_once(self, ask, net):
            asked.append(ask.step)
            if len(asked) == 5:
                raise RuntimeError("out of memory")
            return await answer(self, ask, net)

        monkeypatch.setitem(Participant.handlers, Candidates, fail_once)
        broken = federation.run()[HUB]
        federation.job = msgspec.structs.replace(federation.job, resume=True)
        resumed = federation.run()

        assert isinstance(broken.to_error(), PartyFailed)
        assert [report.code for report in resumed.values()] == [""] * 4
        results = [
            msgspec.json.decode(raw, type=SelectionResult) for raw in (whole, resumed[HUB].result)
        ]
        assert results[0].selected == results[1].selected
        assert results[0].history == results[1].history
        assert 1 not in asked[5:]
