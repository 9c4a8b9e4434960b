"""``run`` and ``plan``: what they write and print, policies, failing parties, interruption."""

import json
from pathlib import Path

import pytest

import fedsift as fs
from fedsift.engine.session import Session
from fedsift.methods.filter.label_holder import FeatureHolder
from fedsift.methods.filter.messages import Introduction
from helpers.cli import CELL, call

NAMES = ["ledger.jsonl", "report.html", "result.json"]


@pytest.fixture
def sent(monkeypatch):
    """Names of the messages that were handed to a network."""
    names = []
    seal = Session.seal

    def noting(self, message, sender, receiver):
        names.append(type(message).__name__)
        return seal(self, message, sender, receiver)

    monkeypatch.setattr(Session, "seal", noting)
    return names


def test_a_run_writes_three_files(workshop):
    outcome = workshop.run()

    assert outcome.exit_code == 0, outcome.err
    assert sorted(path.name for path in workshop.out.iterdir()) == NAMES
    result = fs.SelectionResult.load(workshop.out / "result.json")
    assert result.selected == {"bank": ("income",), "shop": ("visits",)}
    rows = [json.loads(line) for line in (workshop.out / "ledger.jsonl").read_text().splitlines()]
    assert [row["kind"] for row in rows] == [row.kind for row in result.disclosures]
    for word in ("2 features selected", "visits", "feature-scores", "Cost:", "report.html"):
        assert word in outcome.out
    assert str(CELL) not in outcome.out + (workshop.out / "report.html").read_text()


def test_the_terminal_shows_p_values_where_there_are_some(workshop):
    without = workshop.run()
    workshop.sections["method"]["score"] = "mi"
    workshop.sections["method"]["bins"] = 3
    tested = workshop.run()

    assert "p-value" not in without.out
    assert "p-value" in tested.out
    assert "q-value" in tested.out
    result = fs.SelectionResult.load(workshop.out / "result.json")
    for values in (result.p_values, result.q_values):
        assert f"{values['bank']['income']:.2g}" in tested.out


def test_the_rows_are_aligned_by_id(workshop):
    """The shop lists its customers backwards; its best feature is found all the same."""
    by_id = workshop.run("--json").json["result"]["scores"]["shop"]["visits"]
    workshop.shop = workshop.shop.iloc[::-1]
    same_order = workshop.run("--json").json["result"]["scores"]["shop"]["visits"]

    assert by_id == same_order


def test_rows_that_not_all_parties_have_are_left_out(workshop):
    workshop.shop.loc[0, "customer_id"] = "somebody-else"

    outcome = workshop.run("--json")

    assert outcome.exit_code == 0, outcome.err
    result = outcome.json["result"]
    assert result["shape"]["n_rows"] == 59
    assert "Party 'shop' takes part with 59 of 60 rows" in " ".join(result["warnings"])
    assert "somebody-else" not in outcome.out + outcome.err


def test_json_holds_paths_and_result(workshop):
    outcome = workshop.run("--json")

    assert sorted(outcome.json) == ["files", "logged", "remarks", "result"]
    assert outcome.json["files"]["result"] == str(workshop.out / "result.json")
    assert outcome.json["result"]["format"] == "fedsift-result/1"


def test_quiet_prints_paths_only(workshop):
    outcome = workshop.run("--quiet")

    assert [line.split(":")[0] for line in outcome.out.splitlines()] == [
        "result",
        "report",
        "ledger",
    ]


def test_the_job_names_the_place_relative_to_itself(workshop):
    workshop.sections["output"] = {"directory": "deep/er"}

    assert call("run", workshop.write()).exit_code == 0
    assert sorted(path.name for path in (workshop.folder / "deep/er").iterdir()) == NAMES


def test_a_second_run_replaces_the_files_and_nothing_else(workshop):
    workshop.run()
    (workshop.out / "notes.txt").write_text("mine")
    workshop.sections["method"]["n_features_to_select"] = 1

    assert workshop.run().exit_code == 0
    assert fs.SelectionResult.load(workshop.out / "result.json").n_selected == 1
    assert sorted(path.name for path in workshop.out.iterdir()) == [
        *NAMES[:1],
        "notes.txt",
        *NAMES[1:],
    ]


def test_plain_runs_are_marked(workshop):
    workshop.sections["method"]["security"] = "plain"

    outcome = workshop.run("--quiet")

    assert outcome.exit_code == 0
    assert "WARNING" in outcome.out
    assert "Not secure." in (workshop.out / "report.html").read_text()


def test_fewer_features_than_the_default_is_a_remark(workshop):
    del workshop.sections["method"]["n_features_to_select"]

    outcome = workshop.run()

    assert outcome.exit_code == 0
    assert "Only 5 features are there" in outcome.out
    assert "UserWarning" not in outcome.err


def test_wanted_columns_only(workshop):
    workshop.parties[0]["columns"] = ["age"]

    scores = workshop.run("--json").json["result"]["scores"]

    assert sorted(scores["bank"]) == ["age"]


def test_a_party_may_have_a_file_of_its_own(workshop):
    (workshop.folder / "shop.party.toml").write_text(
        '[party]\nname = "shop"\n[data]\npath = "shop.csv"\nid = "customer_id"\n'
        '[policy]\nmethods = ["filter"]\n'
        'may_reveal = ["basic", "common-ids", "feature-count", "feature-scores"]\n'
    )
    workshop.parties[1] = {"file": "shop.party.toml"}

    assert workshop.run().exit_code == 0


def test_horizontal_files(workshop):
    workshop.sections["data"] = {"setting": "horizontal", "label": "default", "id": "customer_id"}
    workshop.parties = [{"name": n, "data": f"{n}.csv"} for n in ("north", "south")]
    workshop.bank.iloc[:30].to_csv(workshop.folder / "north.csv", index=False)
    workshop.bank.iloc[30:].to_csv(workshop.folder / "south.csv", index=False)
    workshop.sections["method"]["n_features_to_select"] = 1

    selected = workshop.run("--json").json["result"]["selected"]

    assert selected == {"north": ["income"], "south": ["income"]}


@pytest.mark.parametrize("setting", ["vertical", "horizontal"])
def test_a_catalogued_set_with_policies(workshop, setting):
    workshop.sections["data"] = {"dataset": "wine", "setting": setting, "parties": ["a", "b"]}
    workshop.parties = [{"name": "b", "policy": {"min_security_bits": 128}}]

    outcome = workshop.run("--json")

    assert outcome.exit_code == 0, outcome.err
    assert list(outcome.json["result"]["selected"]) == ["a", "b"]


def test_labels_at_a_party_of_their_own(workshop):
    workshop.sections["data"] = {"dataset": "wine", "label_holder": "label-holder"}
    workshop.parties = []

    result = workshop.run("--json").json["result"]

    assert result["shape"]["label_holder"] == "label-holder"


@pytest.mark.parametrize("command", ["run", "plan"])
@pytest.mark.parametrize(
    "policy",
    [
        {"may_reveal": ["basic", "common-ids", "feature-count"]},
        {"may_reveal": ["common-ids", "scores"]},
        {"may_not_reveal": ["feature-count"]},
        {"methods": ["vfps"]},
        {"min_bin_size": 50, "min_class_size": 5},
        {"min_security_bits": 200},
        {"min_rows": 61},
        {"may_not_reveal": ["outline"]},
        {"may_not_reveal": ["named-scores"]},
        {
            "may_reveal": ["basic", "feature-count", "feature-scores"]
        },  # and not which customers it has
    ],
)
def test_a_policy_stops_the_run_before_any_message(workshop, sent, command, policy):
    workshop.parties[1]["policy"] = policy

    outcome = getattr(workshop, command)()

    assert outcome.exit_code == 4
    assert sent == []
    assert outcome.err.startswith("E501: ")
    assert len(outcome.err.strip().splitlines()) == 1
    assert "'shop'" in outcome.err
    assert not workshop.out.exists()


def test_a_run_does_send_messages(workshop, sent):
    """The counter of the tests above counts."""
    workshop.run()

    assert "EncryptedLabels" in sent


def test_a_failing_party(workshop, monkeypatch):
    async def fail(self, ask, net):
        raise RuntimeError(f"the cell {CELL} is broken")

    monkeypatch.setitem(FeatureHolder.handlers, Introduction, fail)

    outcome = workshop.run()

    assert outcome.exit_code == 3
    assert outcome.err.startswith("E403: Party 'shop' failed while answering Introduction")
    assert len(outcome.err.strip().splitlines()) == 1
    assert str(CELL) not in outcome.err
    assert not workshop.out.exists()


def test_an_interrupted_run(workshop, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("fedsift.jobs.run.run_joint", interrupt)

    outcome = workshop.run()

    assert outcome.exit_code == 130
    assert outcome.err.strip() == "Interrupted; nothing was written."
    assert not workshop.out.exists()


def test_an_unknown_error_keeps_its_traceback(workshop, monkeypatch):
    def stumble(*_, **__):
        raise ZeroDivisionError

    monkeypatch.setattr("fedsift.jobs.run.run_joint", stumble)

    with pytest.raises(ZeroDivisionError):
        workshop.run()
    assert not workshop.out.exists()


def test_a_full_disk_leaves_the_old_files(workshop, monkeypatch):
    workshop.run()
    before = {path.name: path.read_bytes() for path in workshop.out.iterdir()}
    workshop.sections["method"]["n_features_to_select"] = 1
    rename = Path.rename
    done = []

    def fail_late(self, target):
        done.append(self)
        if len(done) == 4:
            raise OSError(28, "No space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail_late)

    outcome = workshop.run()

    assert outcome.exit_code == 2
    assert "No space left on device" in outcome.err
    assert {path.name: path.read_bytes() for path in workshop.out.iterdir()} == before
    assert not list(workshop.folder.rglob(".fedsift-*"))


def test_plan_says_who_will_learn_what(workshop, sent):
    outcome = workshop.plan()

    assert outcome.exit_code == 0, outcome.err
    for word in (
        "feature-scores",
        "bgv, 128-bit",
        "no policy",
        "Predicted cost",
        "Nothing was sent",
    ):
        assert word in outcome.out
    assert sent == []
    assert sorted(p.name for p in workshop.folder.iterdir()) == ["bank.csv", "job.toml", "shop.csv"]


def test_plan_and_run_agree(workshop):
    planned = workshop.plan("--json").json
    made = workshop.run("--json").json["result"]["disclosures"]

    def keys(rows):
        return {(row["learner"], row["about"], row["kind"], row["message"]) for row in rows}

    assert keys(planned["disclosures"]) == keys(made)
    assert planned["cost"]["rounds"] > 0
    assert planned["policies"] == {}
