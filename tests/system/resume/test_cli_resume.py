"""Checkpoints on the command line: what is refused, what is said, and what comes out."""

import os
import signal
import time

import pytest

from fedsift.data.state_files import unfinished
from helpers.cli import CELL, Workshop, call
from helpers.resume import before_handling, failing_party


@pytest.fixture
def workshop(tmp_path) -> Workshop:
    folder = tmp_path / "work"
    folder.mkdir()
    made = Workshop(folder)
    made.sections["runtime"] = {"checkpoint": "kept"}
    made.sections["method"]["security"] = "plain"
    return made


@pytest.fixture
def broken(workshop, monkeypatch) -> Workshop:
    """A job whose shop failed when it was told the outcome."""
    with monkeypatch.context() as patched:
        failing_party(patched, "shop", "Selected")
        workshop.ended = workshop.run()
    return workshop


def kept(workshop):
    return unfinished(workshop.folder / "kept")


def same_outcome(workshop, outcome):
    del workshop.sections["runtime"]
    whole = workshop.run("--json").json["result"]
    ours = outcome.json["result"]
    return all(ours[key] == whole[key] for key in ("selected", "scores", "ranking"))


def test_a_failed_party_is_named_and_resuming_is_offered(broken):
    assert broken.ended.exit_code == 3
    assert "Party 'shop' failed while answering Selected in round" in broken.ended.err
    assert "fedsift run job.toml --resume" in broken.ended.err
    assert str(CELL) not in broken.ended.err
    assert not broken.out.exists()
    assert kept(broken)


def test_resume_goes_on_and_ends_as_if_nothing_had_happened(broken, monkeypatch):
    asked = []
    before_handling(monkeypatch, lambda received, _: asked.append(type(received).__name__))
    resumed = broken.run("--resume", "--json")
    assert resumed.exit_code == 0
    assert "Resuming the run in" in resumed.err
    assert "EncryptedLabels" not in asked  # that was answered before
    assert not kept(broken)
    assert same_outcome(broken, resumed)


def test_an_unfinished_run_is_not_overwritten(broken):
    before = kept(broken)
    refused = broken.run()
    assert refused.exit_code == 2
    assert "holds the checkpoints of an unfinished run." in refused.err
    assert "Resume with --resume, or remove the directory to start again." in refused.err
    assert kept(broken) == before
    for path in (broken.folder / "kept").iterdir():
        path.unlink()
    assert broken.run().exit_code == 0


def test_nothing_to_resume_starts_from_the_beginning_and_says_so(workshop):
    resumed = workshop.run("--resume", "--json")
    assert resumed.exit_code == 0
    assert "nothing to resume" in resumed.err
    assert "starting from the beginning" in resumed.err
    assert same_outcome(workshop, resumed)


def test_a_job_without_checkpoints_cannot_be_resumed(workshop):
    del workshop.sections["runtime"]
    refused = workshop.run("--resume")
    assert refused.exit_code == 2
    assert "The job keeps no checkpoints." in refused.err
    assert "[runtime]" in refused.err


def test_a_failure_without_checkpoints_promises_nothing(workshop, monkeypatch):
    del workshop.sections["runtime"]
    failing_party(monkeypatch, "shop", "Selected")
    ended = workshop.run()
    assert ended.exit_code == 3
    assert "--resume" not in ended.err


def test_changed_data_is_refused_with_the_party_s_name(broken):
    broken.shop.loc[0, "visits"] += 1
    refused = broken.run("--resume")
    assert refused.exit_code == 3
    assert "The data of party 'shop' is not what it was at the checkpoint." in refused.err
    assert kept(broken)


def test_changed_settings_are_refused_by_name(broken):
    broken.sections["method"]["n_features_to_select"] = 1
    refused = broken.run("--resume")
    assert refused.exit_code == 2
    assert "belongs to a job with another n_features_to_select" in refused.err


def test_ctrl_c_says_how_to_go_on(workshop, monkeypatch):
    def interrupt(received, _):
        if type(received).__name__ == "Selected":
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(3)  # long enough for the main thread to notice and to go
            raise RuntimeError("this party is left behind")

    with monkeypatch.context() as patched:
        before_handling(patched, interrupt)
        ended = workshop.run()
    assert ended.exit_code == 130
    assert "nothing was written" in ended.err
    assert "--resume' continues from there" in ended.err
    resumed = workshop.run("--resume", "--json")
    assert resumed.exit_code == 0
    assert same_outcome(workshop, resumed)


def test_the_place_is_given_in_the_runtime_section_only(workshop):
    workshop.sections["method"]["checkpoint"] = "elsewhere"
    refused = workshop.run()
    assert refused.exit_code == 2
    assert "checkpoint in [runtime]" in refused.err
    workshop.sections["runtime"] = {"engine": "flare", "kit": "kit", "checkpoint": "kept"}
    del workshop.sections["method"]["checkpoint"]
    refused = workshop.run()
    assert refused.exit_code == 2
    assert "every organisation names a place of its own" in refused.err


def test_paths_are_relative_to_the_job_file(broken, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert call("run", "work/job.toml", "--out", broken.out, "--resume").exit_code == 0
    assert not kept(broken)


def test_rows_dealt_out_at_random_cannot_be_resumed_and_the_job_is_told_at_once(tmp_path):
    job = tmp_path / "job.toml"
    text = (
        '[job]\nmethod = "fpso"\n[data]\ndataset = "wine"\nsetting = "horizontal"\n'
        '[runtime]\ncheckpoint = "kept"\n'
    )
    job.write_text(text)
    refused = call("run", job)
    assert refused.exit_code == 2
    assert "the job has no seed" in refused.err
