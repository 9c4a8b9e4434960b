"""The page on differential privacy shows the committed run, and accuracy grows with epsilon."""

import importlib.util
import json
import math
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "differential-privacy.md"
FILE = ROOT / "benchmarks" / "dp.json"


@pytest.fixture(scope="module")
def results():
    return json.loads(FILE.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def tables():
    path = ROOT / "benchmarks" / "dp_tables.py"
    spec = importlib.util.spec_from_file_location("dp_tables", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_figures_are_those_of_the_committed_run(results, tables):
    page = PAGE.read_text(encoding="utf-8")
    assert results["profile"] == "regular"
    assert tables.updated(page, results) == page
    changed = json.loads(json.dumps(results))
    changed["rows"][3]["overlap"]["mean"] += 0.5
    assert tables.updated(page, changed) != page


def test_less_noise_keeps_more_of_the_selection(results):
    courses = {}
    for row in results["rows"]:
        job = row["job"]
        if job["epsilon"] is not None:
            key = (job["data"], job["setting"], job["delta"])
            courses.setdefault(key, []).append((job["epsilon"], row["overlap"]["mean"]))
    assert len(courses) == 8
    for course in courses.values():
        (_, first), *_, (_, last) = sorted(course)
        assert last > first


def test_randomised_response_of_a_subset_is_as_weak_as_the_page_says():
    bit = math.exp(1 / 40)
    assert f"{bit / (1 + bit):.3f}" == "0.506"
    assert "probability 0.506" in PAGE.read_text(encoding="utf-8")
