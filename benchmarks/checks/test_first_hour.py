"""The page on the first hour shows a run that was really made."""

import json

import pytest

from benchmarks.pages import first_hour as hour
from benchmarks.pages.writer import ROOT


@pytest.fixture(scope="module")
def results():
    return hour.PAGE.read()


def test_a_changed_result_would_change_the_page(results):
    other = json.loads(json.dumps(results))
    other["rows"][1]["seconds"] += 100
    assert hour.PAGE.updated(hour.PAGE.text(), other) != hour.PAGE.text()


def test_every_step_was_made_and_nothing_took_too_long(results):
    assert [row["step"] for row in results["rows"]] == ["clone", *(s.name for s in hour.STEPS)]
    assert sum(row["seconds"] for row in results["rows"]) < 3600
    times = {row["step"]: row["processor_seconds"] for row in results["rows"]}
    assert all(times[name] < allowed for name, _, allowed in hour.PROMISES)


def test_every_step_is_in_the_readme_or_on_the_page():
    texts = hour.PAGE.text() + (ROOT / "README.md").read_text(encoding="utf-8")
    for step in hour.STEPS:
        assert step.command.removesuffix(" --help") in texts
