"""The same job in one process and on a real federation: hub and three sites, mTLS, own processes."""

import json
import re
import zipfile

import msgspec
import pytest

import fedsift as fs
from cli.cli_helpers import call
from fedsift.cli.prepare import prepare, read_job
from fedsift.deploy.local import LocalFederation
from fedsift.deploy.submit import fetch
from fedsift.errors import ConfigError, FedsiftError, MemberDown, PolicyViolation
from flare_helpers import HORIZONTAL, METHODS, PARTIES, POLICIES, STEPS, Tables

pytest.importorskip("nvflare", reason="the extra fedsift[flare] is not installed")

pytestmark = pytest.mark.timeout(600)

SCORE_STEP = 2.0**-12
"""Interaction scores are rounded at another place when the parties' own parts are added up."""


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    return Tables(tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="module")
def federation(tables):
    parties = {party: tables.data(party, horizontal=False) for party in PARTIES}
    with LocalFederation(parties, checkpoints=False) as federation:
        yield federation


def settle(federation, tables, name, policies=None):
    """Give every organisation the data and the policy for a job."""
    for party in PARTIES:
        policy = (policies or {}).get(party, POLICIES.get(name))
        federation.set_party(party, tables.data(party, horizontal=name in HORIZONTAL), policy)


def rows(result):
    """Traffic, without sizes: ciphertexts and keys vary by a few bytes."""
    return [
        (row.message, row.sender, row.receiver, row.messages, row.ciphertexts)
        for row in result.traffic.rows
    ]


def learned(result):
    """The ledger, without sizes."""
    return [msgspec.structs.replace(row, n_bytes=0) for row in result.disclosures]


def close(scores):
    return {
        party: {name: pytest.approx(score, abs=SCORE_STEP) for name, score in own.items()}
        for party, own in scores.items()
    }


@pytest.mark.parametrize("name", METHODS)
def test_the_same_job_gives_the_same_result(federation, tables, name):
    settle(federation, tables, name)
    job = tables.job(name)

    here = prepare(read_job(job)).run()
    there = federation.submit(job)

    assert there.selected == here.selected
    assert there.ranking == here.ranking
    assert there.participants == here.participants
    assert there.scores == (close(here.scores) if name == "interaction" else here.scores)
    assert rows(there) == rows(here)
    assert there.traffic.rounds == here.traffic.rounds
    assert learned(there) == learned(here)
    assert there.shape == here.shape
    assert there.warnings == here.warnings
    assert there.security_bits == here.security_bits >= 128


def test_the_same_chain_gives_the_same_result(federation, tables):
    settle(federation, tables, "filter")
    job = tables.chained()
    place = federation.kits["bank"].settings / "results" / "predictions.csv"
    ready = prepare(read_job(job))

    here = ready.run()
    there = federation.submit(job)

    assert [step.method for step in there.steps] == [step["method"] for step in STEPS]
    assert there.selected == here.selected
    for one, other in zip(there.steps, here.steps, strict=True):
        assert one.selected == other.selected
        assert one.scores == (close(other.scores) if one.method == "interaction" else other.scores)
        assert one.parameters == other.parameters
        assert one.traffic.rounds == other.traffic.rounds
    assert rows(there) == rows(here)
    assert learned(there) == learned(here)
    assert there.warnings == here.warnings
    # The label holder has the predictions, and nobody else does.
    assert place.read_text() == ready.files["predictions.csv"]
    kits = federation.kits["bank"].folder.parent
    assert [path for path in kits.rglob("predictions.csv") if path != place] == []


def test_rows_were_matched_by_ids_that_only_some_have(federation, tables):
    """The parties above hold 68 customers each, and 60 in common; nobody shows the rest."""
    settle(federation, tables, "filter")
    out = tables.folder / "out"
    kit = str(federation.submitter.folder)
    job = tables.job("filter", runtime={"engine": "flare", "kit": kit})

    outcome = call("run", job, "--out", out, "--json")

    assert outcome.exit_code == 0, outcome.err
    result = fs.SelectionResult.load(out / "result.json")
    assert result.shape["n_rows"] == 60
    assert "common-ids" in {row.kind for row in result.disclosures}
    assert outcome.json["result"]["selected"] == {p: list(n) for p, n in result.selected.items()}
    assert (out / "report.html").read_text().startswith("<!")
    assert len((out / "ledger.jsonl").read_text().splitlines()) == len(result.disclosures)


def test_a_party_that_refuses_ends_the_job_with_its_reason(federation, tables):
    settle(federation, tables, "filter", {"shop": {"methods": ["vfps"]}})
    out = tables.folder / "refused"

    outcome = call(
        "deploy", "submit", tables.job("filter"), "--kit", federation.submitter.folder, "--out", out
    )

    assert outcome.exit_code == PolicyViolation.exit_code == 4
    assert "'filter'" in outcome.err
    assert "'shop'" in outcome.err
    assert not out.exists()


def test_what_cannot_be_submitted(federation, tables, tmp_path):
    settle(federation, tables, "filter")
    text = tables.job("filter").read_text()
    job = tmp_path / "job.toml"
    job.write_text(text.replace("clinic", "stranger"))

    with pytest.raises(ConfigError, match="'stranger', which is not in the federation"):
        federation.submit(job)

    federation.kill("clinic")
    try:
        with pytest.raises(MemberDown, match=r"does not answer|Not connected"):
            federation.submit(tables.job("filter"))
    finally:
        federation.restart("clinic")


def test_a_hub_cannot_have_a_job_run_again(federation, tables, monkeypatch):
    settle(federation, tables, "dcfs")
    monkeypatch.setattr("fedsift.deploy.submit.secrets.token_hex", lambda n: "ab" * n)

    assert federation.submit(tables.job("dcfs")).n_selected == 2
    with pytest.raises(FedsiftError, match="run here before") as caught:
        federation.submit(tables.job("dcfs"))
    assert caught.value.exit_code == 3


def test_a_class_that_is_on_no_list_does_not_run(federation, tables):
    """Installed, warranted, and harmless: but no site has been given it."""
    from fedsift.bench.runtime_flare import submit_echo

    settle(federation, tables, "filter")

    with pytest.raises(MemberDown, match="it ended without one"):
        submit_echo(federation.submitter, tables.job("filter"), [(10, 1)], limit_seconds=300)
    # The first to refuse it ends the job, perhaps before the others look at it.
    logs = "".join(federation.log(party) for party in PARTIES)
    assert re.search(r"Component 'fedsift.bench.runtime_flare.EchoExecutor' .* is not in", logs)


def test_an_interrupt_ends_the_job_everywhere(federation, tables):
    settle(federation, tables, "filter")
    states = []

    def interrupt(state):
        states.append(state)
        if state.status == "RUNNING":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        federation.submit(tables.job("filter"), watcher=interrupt)

    federation.wait_for(
        lambda: not any(federation.job_pids(name) for name in federation.members),
        timeout_seconds=200,
        what="no job process is left",
    )
    with pytest.raises(FedsiftError):
        fetch(states[-1].job_id, federation.submitter)


def test_the_hub_holds_nothing_that_it_could_read(federation):
    """After all those jobs: no id, category, score or selected feature in anything it stores.

    The job itself, with the columns that it names, is no secret from the hub.
    """
    words = [b"north", b'"scores"', b'"selected"', b"region"]
    ids = [b"C%d" % number for number in range(10, 40)]
    stored = dict(stored_files(federation.kits["hub"].folder))

    assert any(name.endswith("bank.letter") for name in stored)
    for name, content in stored.items():
        assert not [word for word in words if word in content], name
        # Three bytes turn up in ciphertexts by chance, but never most of these ids together.
        assert sum(one in content for one in ids) < 20, name


def stored_files(folder):
    """Names and contents of all files, also of those in archives."""
    for path in folder.rglob("*"):
        if path.is_file():
            yield str(path), path.read_bytes()
        if path.is_file() and zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                for name in archive.namelist():
                    yield f"{path}/{name}", archive.read(name)


def test_every_organisation_keeps_its_own_view(federation):
    for party in PARTIES:
        kept = federation.kits[party].settings / "results" / "own.json"
        assert json.loads(kept.read_text())["party"] == party
