"""``fedsift run --live``: the page follows the very run, however it ends; names stay where they are."""

import json
import re
import urllib.error
import urllib.request

import pytest

from fedsift.cli.tables import Page
from fedsift.deploy.submit import JobState
from fedsift.methods.filter.label_holder import FeatureHolder
from fedsift.methods.filter.messages import Introduction
from fedsift.report.live import LiveView
from fedsift.report.live_server import LiveServer
from fedsift.result import SelectionResult
from helpers.cli import CELL

DIRECTLY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@pytest.fixture
def pages(monkeypatch):
    """What a reader's page would show at the end of every job."""
    seen, leave = [], LiveServer.__exit__

    def look_and_leave(self, *how):
        with DIRECTLY.open(f"{self.url}state", timeout=30) as answer:
            seen.append(json.load(answer))
        return leave(self, *how)

    monkeypatch.setattr(LiveServer, "__exit__", look_and_leave)
    return seen


def test_the_page_shows_the_run_and_is_gone_afterwards(workshop, pages):
    workshop.sections["method"]["security"] = "plain"

    outcome = workshop.run("--live", "--quiet")

    assert outcome.exit_code == 0
    (url,) = re.findall(r"Live view: (http://127\.0\.0\.1:\d+/\S+/)", outcome.err)
    (state,) = pages
    assert state["ended"] is True
    assert "finished" in state["parts"]["progress"]
    assert "feature-scores" in state["parts"]["ledger"]
    assert "visits" in state["parts"]["steps"]
    assert str(CELL) not in json.dumps(state)
    with pytest.raises(urllib.error.URLError):
        DIRECTLY.open(url, timeout=30)


def test_a_failed_run_says_so_without_details(workshop, pages, monkeypatch):
    async def fail(self, ask, net):
        raise RuntimeError(f"the cell {CELL} is broken")

    monkeypatch.setitem(FeatureHolder.handlers, Introduction, fail)

    assert workshop.run("--live").exit_code == 3
    (state,) = pages
    assert state["ended"] is True
    assert "failed" in state["parts"]["progress"]
    assert str(CELL) not in json.dumps(state)


def test_without_the_option_nothing_listens(workshop, pages):
    workshop.sections["method"]["security"] = "plain"

    outcome = workshop.run("--quiet")

    assert outcome.exit_code == 0
    assert pages == []
    assert "Live view" not in outcome.err


def test_a_job_in_a_federation_shows_its_state():
    view = LiveView("test")
    Page(view).job_state(JobState("job-7", "RUNNING", 3, 12, ("bank",), 5.0))
    shown = view.state()["parts"]["progress"]

    for word in ("job-7", "running", "<dd>12</dd>", "bank"):
        assert word in shown


def test_a_job_in_a_federation_that_is_finished_does_not_run():
    view = LiveView("test")
    page = Page(view)
    page.job_state(JobState("job-7", "RUNNING", 3, 12, (), 5.0))
    page.finish(SelectionResult("filter", "vertical", {"bank": ("income",)}))
    shown = view.state()["parts"]["progress"]

    assert "finished" in shown
    assert "running" not in shown


def test_names_that_a_party_keeps_are_in_no_file(workshop):
    workshop.sections["method"]["security"] = "plain"
    workshop.parties[1]["policy"] = {
        "anonymous_names": True, "min_security_bits": 0, "min_bin_size": 1
    }  # fmt: skip

    assert workshop.run().exit_code == 0
    written = "".join(path.read_text() for path in workshop.out.iterdir())
    assert "shop #1" in written
    assert "visits" not in written


@pytest.mark.parametrize(("setting", "exit_code"), [("vertical", 0), ("horizontal", 4)])
def test_names_of_a_catalogued_set(workshop, setting, exit_code):
    workshop.sections["data"] = {"dataset": "wine", "setting": setting, "parties": ["a", "b"]}
    workshop.parties = [{"name": "b", "policy": {"anonymous_names": True, "min_bin_size": 1}}]

    outcome = workshop.run("--json")

    assert outcome.exit_code == exit_code, outcome.err
    if exit_code == 0:
        assert all(re.match(r"b #\d+$", name) for name in outcome.json["result"]["scores"]["b"])
        assert not any("#" in name for name in outcome.json["result"]["scores"]["a"])
