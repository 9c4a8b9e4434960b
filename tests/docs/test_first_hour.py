"""The page on the first hour shows a run that was really made."""

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "benchmarks" / "first_hour.json"
PAGE = (ROOT / "docs" / "tutorial-first-hour.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def hour():
    path = ROOT / "benchmarks" / "first_hour.py"
    spec = importlib.util.spec_from_file_location("first_hour", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def results():
    return json.loads(FILE.read_text(encoding="utf-8"))


def test_the_page_shows_the_committed_run(hour, results):
    assert {match[2] for match in hour.BLOCK.finditer(PAGE)} == set(hour.BLOCKS)
    assert hour.updated(PAGE, results) == PAGE
    other = json.loads(json.dumps(results))
    other["rows"][1]["seconds"] += 100
    assert hour.updated(PAGE, other) != PAGE


def test_every_step_was_made_and_nothing_took_too_long(hour, results):
    assert [row["step"] for row in results["rows"]] == ["clone", *(s.name for s in hour.STEPS)]
    assert sum(row["seconds"] for row in results["rows"]) < 3600
    times = {row["step"]: row["processor_seconds"] for row in results["rows"]}
    assert all(times[name] < allowed for name, _, allowed in hour.PROMISES)


def test_every_step_is_in_the_readme_or_on_the_page(hour):
    texts = PAGE + (ROOT / "README.md").read_text(encoding="utf-8")
    for step in hour.STEPS:
        assert step.command.removesuffix(" --help") in texts
