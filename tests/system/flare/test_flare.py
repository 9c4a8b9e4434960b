"""The same job in one process and on a real federation: hub and three sites, mTLS, own processes."""

import json
import re
import shutil
import threading
import urllib.error
import urllib.request
import zipfile

import msgspec
import pandas as pd
import pytest

import fedsift as fs
from fedsift.cli.predicting import predicted
from fedsift.cli.prepare import prepare, prepare_shapes, read_job
from fedsift.deploy.site_files import settings_file
from fedsift.deploy.submit import fetch
from fedsift.errors import ConfigError, FedsiftError, MemberDown, PolicyViolation
from fedsift.report.live_server import LiveServer
from helpers.cli import call
from helpers.flare import BLIND, CHAINS, HORIZONTAL, METHODS, PARTIES, POLICIES

pytest.importorskip("nvflare", reason="the extra fedsift[flare] is not installed")

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.xdist_group("federation"),
    pytest.mark.slow(18),
]

PREDICTED = ("interaction", "fedsdg", "dcfs")
"""Methods of this file whose plan is compared with what they sent; tests/costs has all of them."""
SCORE_STEP = 2.0**-12
"""Interaction scores are rounded at another place when the parties' own parts are added up."""


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

    here, states = prepare(read_job(job)).run(), []
    there = federation.submit(job, live=True, watcher=states.append)

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
    assert_told_no_more(states, there)
    if name in PREDICTED:
        assert_the_counts_were_known(tables, name, job, there)


def test_no_row_is_opened_between_organisations(federation, tables):
    """Masks are new in every run, and a lot says who helps: numbers differ, what is told does not."""
    settle(federation, tables, "filter")
    job = tables.job(
        "fedsdg", method=BLIND, policy={"may_reveal": ["basic", "common-ids", "training"]}
    )

    here = prepare(read_job(job)).run()
    there = federation.submit(job)

    assert there.n_selected == here.n_selected == 4
    told = {(row.learner, row.about, row.kind) for row in there.disclosures}
    assert {kind for *_, kind in told} >= {"gate-sums", "block-losses", "selection"}
    assert not {kind for *_, kind in told} & {"embedding-gradients", "single-layer-outputs"}
    assert {kind for *_, kind in told} == {row.kind for row in here.disclosures}
    assert there.traffic.messages == here.traffic.messages
    assert len(there.history) == len(here.history) == 1
    assert_the_counts_were_known(tables, "fedsdg", job, there)


def assert_the_counts_were_known(tables, name, job, result):
    """The sizes of the tables are enough to tell what the job was going to send."""
    horizontal, shapes = name in HORIZONTAL, []
    for party in PARTIES:
        table = tables.rows(party) if horizontal else tables.columns(party)
        frame = pd.read_csv(table).drop(columns=["customer", "default", "region"], errors="ignore")
        shapes.append(f"{party}={len(frame)}x{frame.shape[1]}")
    common = None if horizontal else result.shape["n_rows"]
    told = predicted(prepare_shapes(read_job(job, engine="flare"), shapes, 2, common))

    assert (told.rounds, told.messages) == (result.traffic.rounds, result.traffic.messages)
    assert told.ciphertexts == result.traffic.ciphertexts
    assert told.n_bytes == pytest.approx(result.traffic.n_bytes, rel=0.1)
    assert told.seconds == pytest.approx(told.cpu_seconds + sum(told.waiting.values()))


def assert_told_no_more(states, result):
    """News of a job that is watched tells nothing that its result does not tell."""
    courses = [entry for one in (result, *result.steps) for entry in one.history]
    for news in [state.progress for state in states if state.progress is not None]:
        assert news.messages <= result.traffic.messages
        assert set(news.by_message) <= set(result.traffic.by_message)
        for entry in news.steps:
            # Features have no names on the way; all else is in the history of the result.
            shown = {key: value for key, value in entry.items() if key != "feature"}
            assert any(shown.items() <= one.items() for one in courses), entry
        for row in news.disclosures:
            same = [r for r in result.disclosures if is_of(r, row)]
            assert sum(r.times for r in same) >= row.times


def is_of(row, other):
    return all(
        getattr(row, name) == getattr(other, name)
        for name in ("learner", "about", "kind", "what", "form", "key_owner", "message")
    )


@pytest.mark.parametrize("setting", CHAINS)
def test_the_same_chain_gives_the_same_result(federation, tables, setting):
    settle(federation, tables, "dcfs" if setting == "horizontal" else setting)
    job = tables.chained(setting)
    ready, states = prepare(read_job(job)), []

    here = ready.run()
    there = federation.submit(job, live=True, watcher=states.append)

    assert [step.method for step in there.steps] == [step["method"] for step in CHAINS[setting]]
    assert there.selected == here.selected
    for one, other in zip(there.steps, here.steps, strict=True):
        assert one.selected == other.selected
        assert one.scores == (close(other.scores) if one.method == "interaction" else other.scores)
        assert one.parameters == other.parameters
        assert one.traffic.rounds == other.traffic.rounds
    assert rows(there) == rows(here)
    assert learned(there) == learned(here)
    assert there.warnings == here.warnings
    # So many steps take many seconds, and the submitter is told on the way what happens.
    told = [state.progress for state in states if state.progress is not None]
    assert told[-1].site == ("hub" if setting == "horizontal" else "bank")
    assert told[-1].messages > 0
    assert told[-1].disclosures
    assert any(news.steps for news in told)
    numbers = [int(news.part.split()[0]) for news in told if news.part]
    assert numbers == sorted(numbers)
    assert numbers
    assert_told_no_more(states, there)
    if setting == "vertical":
        predictions = ready.files["predictions.csv"]
        assert_only_the_label_holder_has_predictions(federation, predictions)
        assert_parts_of_the_model_are_at_home(federation, there, tables, predictions)


def assert_parts_of_the_model_are_at_home(federation, result, tables, predictions):
    """Every member has its own part and no other; together they predict as the job did."""
    in_model = [
        party for party, names in result.steps[-2].scores.items() if names or party == "bank"
    ]
    together = tables.folder / "together"
    together.mkdir()
    for name, kit in federation.kits.items():
        files = list(kit.folder.rglob("*.fedsift-part*"))
        assert [path.name for path in files] == [f"{name}.fedsift-part"] * (name in in_model)
        assert len(list(kit.folder.rglob("model.json"))) == (name == "bank")
        for path in files:
            job = path.parent.name
            own = json.loads((kit.settings / "results" / job / "own.json").read_text())
            assert path.parent == kit.settings / "results" / "model" / own["job"][:32]
            assert path.stat().st_mode & 0o077 == 0
            assert path.parent.stat().st_mode & 0o077 == 0
            for one in path.parent.iterdir():
                shutil.copy(one, together)
    leave = fs.Policy.from_mapping(POLICIES["vertical"])
    model = fs.FedSDGSelector.load(together, policy=leave)
    lines = [line.split(",") for line in predictions.splitlines()[1:]]
    rows = [name for name, *_ in lines]
    parts = {
        party: pd.read_csv(tables.columns(party)).set_index("customer").loc[rows].reset_index()
        for party in in_model
    }
    own = {p: parts[p][part["columns"]] for p, part in model._parts.items() if part["columns"]}
    label = parts["bank"]["default"]
    new = fs.Federation.vertical(own, ("bank", label))
    assert model.predict(new).tolist() == [predicted for _, predicted, _ in lines]


def assert_only_the_label_holder_has_predictions(federation, text):
    (place,) = federation.kits["bank"].settings.glob("results/*/predictions.csv")
    assert place.read_text() == text
    kits = federation.kits["bank"].folder.parent
    assert [path for path in kits.rglob("predictions.csv") if path != place] == []


@pytest.fixture
def pages(monkeypatch):
    """What somebody who looks at the live view of a job sees, again and again."""
    seen, begin, end, over = [], LiveServer.__enter__, LiveServer.__exit__, threading.Event()
    directly = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def look(url):
        with directly.open(f"{url}state", timeout=30) as answer:
            seen.append(json.load(answer))

    def keep_looking(url):
        while not over.wait(0.3):
            try:
                look(url)
            except urllib.error.URLError:
                return

    def begin_and_look(self):
        server = begin(self)
        threading.Thread(target=keep_looking, args=(server.url,), daemon=True).start()
        return server

    def look_and_end(self, *how):
        look(self.url)
        over.set()
        return end(self, *how)

    monkeypatch.setattr(LiveServer, "__enter__", begin_and_look)
    monkeypatch.setattr(LiveServer, "__exit__", look_and_end)
    return seen


def test_the_page_shows_gates_and_ledger_before_the_job_has_ended(federation, tables, pages):
    settle(federation, tables, "fedsdg")
    longer = METHODS["fedsdg"] | {"max_epochs": 3}
    job = tables.job("fedsdg", method=longer)
    out = tables.folder / "watched"

    outcome = call(
        "deploy", "submit", job, "--kit", federation.submitter.folder, "--live", "--out", out, "-q"
    )

    assert outcome.exit_code == 0, outcome.err
    before = [state["parts"] for state in pages if not state["ended"]]
    assert any("Open gates" in parts["steps"] for parts in before)
    assert any(re.search("Epoch [123] of 3", parts["progress"]) for parts in before)
    assert any("common-ids" in parts["ledger"] for parts in before)
    assert any("What bank sent and received" in parts["traffic"] for parts in before)
    assert pages[-1]["ended"] is True
    assert "finished" in pages[-1]["parts"]["progress"]
    result = fs.SelectionResult.load(out / "result.json")
    names = {name for own in result.scores.values() for name in own}
    assert not any(name in json.dumps(before) for name in names)


def assert_only_what_was_signed_verifies(out, federation):
    """Check a result with the keys that the submitter pinned; then alter its selection."""
    keys = ("--keys", settings_file(federation.submitter.settings))
    outcome = call("verify", out, *keys, "--json")
    assert outcome.exit_code == 0, outcome.err
    assert outcome.json["pinned"] is True
    assert set(outcome.json["parties"]) == set(PARTIES)
    assert set(outcome.json["covered"]["selected"]) == set(PARTIES)
    plain = json.loads((out / "result.json").read_text())
    plain["selected"]["shop"].append("made up")
    altered = out.with_name("altered.json")
    altered.write_text(json.dumps(plain))
    outcome = call("verify", altered, *keys, "--json")
    assert outcome.exit_code == 5
    assert {one["where"] for one in outcome.json["problems"]} == {"result", "messages of 'shop'"}


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
    assert_only_what_was_signed_verifies(out, federation)
    assert (out / "report.html").read_text().startswith("<!")
    assert len((out / "ledger.jsonl").read_text().splitlines()) == len(result.disclosures)


def test_a_party_that_refuses_ends_the_job_with_its_reason(federation, tables, pages):
    settle(federation, tables, "filter", {"shop": {"methods": ["vfps"]}})
    out, kit = tables.folder / "refused", federation.submitter.folder

    outcome = call("deploy", "submit", tables.job("filter"), "--kit", kit, "--out", out, "--live")

    assert pages[-1]["ended"] is True
    assert "failed: see the terminal" in pages[-1]["parts"]["progress"]

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
    """Warranted and harmless: but no site has been given it."""
    from benchmarks.suites.runtime.flare import submit_echo

    settle(federation, tables, "filter")

    with pytest.raises(MemberDown, match="it ended without one"):
        submit_echo(federation.submitter, tables.job("filter"), [(10, 1)], limit_seconds=300)
    # The first to refuse it ends the job, perhaps before the others look at it.
    logs = "".join(federation.log(party) for party in PARTIES)
    assert re.search(r"Component 'benchmarks.suites.runtime.flare.EchoExecutor' .* is not in", logs)


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
    words = [b"north", b'"scores"', b'"selected"', b"region", b"open_features", b"common-ids"]
    ids = [b"C%d" % number for number in range(10, 40)]
    stored = dict(stored_files(federation.kits["hub"].folder))

    assert any(name.endswith("bank.report") for name in stored)
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
        kept = list(federation.kits[party].settings.glob("results/*/own.json"))
        assert kept
        assert {json.loads(path.read_text())["party"] for path in kept} == {party}
