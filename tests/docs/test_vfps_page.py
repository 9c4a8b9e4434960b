"""The VF-PS page shows the committed run, and that run met its bars."""

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "methods" / "vfps.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def results():
    return json.loads((ROOT / "benchmarks" / "vfps.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def tables():
    path = ROOT / "benchmarks" / "vfps_tables.py"
    spec = importlib.util.spec_from_file_location("vfps_tables", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_figures_are_those_of_the_committed_run(results, tables):
    assert results["profile"] == "regular"
    named = {match[2] for match in tables.BLOCK.finditer(PAGE)}
    assert named == {"cost", "exactness", "information", "accuracy", "models", "leaks"}
    assert tables.updated(PAGE, results) == PAGE


def test_a_changed_result_would_change_the_page(results, tables):
    changed = json.loads(json.dumps(results))
    changed["rows"][-1]["seconds"] += 100
    changed["table"][0]["methods"]["greedy"]["knn"] += 0.1
    assert tables.updated(PAGE, changed) != PAGE


def test_the_committed_run_met_its_bars(results):
    missed = [row["case"] for row in results["rows"] if not all(row["bars"].values())]
    assert missed == []
    assert {row["job"]["parties"] for row in results["rows"]} >= {2, 3, 4, 8, 12, 20}
    claims = results["claims"]
    assert claims["group_testing_within_3_points"]
    assert claims["greedy_equals_brute_force"]
    assert claims["greedy_never_worse"]
    assert claims["secure_equals_plaintext"]
    assert {row["data"] for row in results["table"]} == {
        "synthesis", "g2_4", "g2_128", "bank", "unbalance", "letter", "birch1", "birch2",
    }  # fmt: skip
    assert min(row["splits"] for row in results["table"]) >= 3


def test_the_attacks_succeed_where_they_should_and_fail_on_ours(results):
    leaks = results["leaks"]
    ours = leaks["group-testing, separate"]
    assert ours["solved"] == 0.0
    assert ours["geometry_r2"] < 0.2
    assert leaks["group-testing, separate, all rows"]["geometry_r2"] > 0.99
    assert leaks["group-testing, shared"]["solved"] > 0.99
