"""``fedsift attack``: reports, files and exit codes."""

import dataclasses
import json

import pytest

from fedsift.lab.attacks import suite as attack_suite
from fedsift.lab.attacks.attack import Trial
from helpers.cli import CELL, call


@pytest.fixture
def only():
    return ("attack", "--only", "bin-isolation-gini", "--only", "member-sums")


def test_it_prints_what_was_recovered(only):
    ran = call(*only)
    assert ran.exit_code == 0
    for text in ("bin-isolation-gini", "member-sums", "succeeds", "closed", "guess"):
        assert text in ran.out
    assert ran.err.count("\n") == 4


def test_it_writes_a_file_for_machines_and_a_page_for_people(only, tmp_path):
    ran = call(*only, "--json", "--out", tmp_path / "there")
    written = json.loads((tmp_path / "there" / "attack.json").read_text())
    assert written == ran.json["report"]
    assert {row["variant"] for row in written["rows"]} == {"unprotected", "default"}
    assert all(
        {"attack", "uses", "found", "guess", "protection", "verdict"} <= set(row)
        for row in written["rows"]
    )
    page = (tmp_path / "there" / "attack.html").read_text()
    assert "bins of at least 5 rows" in page
    assert "https://" not in page


def test_what_nothing_declares_has_an_exit_code_of_its_own(monkeypatch, tmp_path):
    known = attack_suite.attack_named("bin-isolation-gini")
    open_one = dataclasses.replace(known, trial=lambda variant, seed: Trial(1.0, 0.5))
    monkeypatch.setattr(attack_suite, "list_attacks", lambda: (open_one,))
    ran = call("attack", "--out", tmp_path)
    assert ran.exit_code == 5
    assert "OPEN" in ran.out
    assert "Not as declared." in (tmp_path / "attack.html").read_text()

    powerless = dataclasses.replace(known, trial=lambda variant, seed: Trial(0.5, 0.5))
    monkeypatch.setattr(attack_suite, "list_attacks", lambda: (powerless,))
    ran = call("attack")
    assert ran.exit_code == 5
    assert "FAILS" in ran.out


def test_attacks_are_listed():
    ran = call("attack", "--list", "--json")
    assert [row["name"] for row in ran.json] == [a.name for a in attack_suite.list_attacks()]
    assert "psi-size-probing" in call("attack", "--list").out


def test_an_unknown_attack_is_one_line(only):
    ran = call("attack", "--only", "bin-isolation-ginni")
    assert ran.exit_code == 2
    assert "bin-isolation-gini" in ran.err
    assert ran.err.count("\n") == 1


def test_a_job_on_tables_is_attacked_with_its_alignment(workshop):
    pytest.importorskip("private_set_intersection")
    ran = call("attack", workshop.write(), "--json", "--out", workshop.out)
    assert ran.exit_code == 0
    rows = {row["attack"]: row for row in ran.json["report"]["rows"]}
    assert rows["psi-padded-list"]["attacker"] == "bank (id leader)"
    assert rows["psi-padded-list"]["declared"] == ["common-ids"]
    assert rows["bin-isolation-gini"]["attacker"] == "shop (feature holder)"
    assert rows["bin-isolation-gini"]["verdict"] == "closed"
    assert (workshop.out / "attack.html").exists()
    assert str(CELL) not in ran.out + (workshop.out / "attack.json").read_text()


def test_a_job_on_a_data_set_is_attacked(tmp_path):
    job = tmp_path / "job.toml"
    job.write_text(
        '[job]\nmethod = "filter"\n[data]\ndataset = "wine"\nsetting = "horizontal"\nparties = 3\n'
        '[method]\nscore = "f"\nn_features_to_select = 3\n'
    )
    ran = call("attack", job)
    assert ran.exit_code == 0
    assert "member-sums" in ran.out


def test_a_job_and_names_of_attacks_do_not_go_together(workshop, only):
    ran = call(*only, workshop.write())
    assert ran.exit_code == 2
    assert "--only" in ran.err


def test_a_policy_that_forbids_the_job_forbids_the_attack(workshop):
    workshop.parties[1]["policy"] = {"methods": ["vfps"]}
    assert call("attack", workshop.write()).exit_code == 4
