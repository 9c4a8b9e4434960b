"""The FPSO-FS page says what the committed run found, good or bad."""

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "methods" / "fpso.md").read_text(encoding="utf-8")
RESULTS = json.loads((ROOT / "benchmarks" / "fpso.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def tables():
    spec = importlib.util.spec_from_file_location(
        "fpso_tables", ROOT / "benchmarks" / "fpso_tables.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tables_are_those_of_the_committed_run(tables):
    assert (RESULTS["suite"], RESULTS["profile"]) == ("fpso", "regular")
    assert tables.updated(PAGE, RESULTS) == PAGE


def test_other_results_would_change_every_table(tables):
    """The comparison above can fail: each block follows its part of the results."""
    other = json.loads(json.dumps(RESULTS))
    for row in other["rows"]:
        row["accuracy"] = {name: value + 1 for name, value in row["accuracy"].items()}
        row["effect_of_federation"]["mean"] += 1
        row["bytes"] *= 2
    for row in other["overall"].values():
        row["federation"] += 1
        row["mean_accuracy"] = {name: value + 1 for name, value in row["mean_accuracy"].items()}
    for row in other["speed"]:
        row["ratio"] *= 2
    for row in other["leaks"]:
        row["told_the_mean"] += 1
    for name, write in tables.BLOCKS.items():
        assert write(other) != write(RESULTS), name


def test_the_committed_run_is_complete():
    splits = {(split, m) for split in ("random", "kmeans") for m in (2, 3, 4, 5)}
    for data in RESULTS["paper"]["table_2"]:
        own = [row for row in RESULTS["rows"] if row["data"] == data]
        assert {(row["split"], row["parties"]) for row in own} == splits, data
    for data in ("satellite", "cnae9", "orl"):
        assert any(row["data"] == data for row in RESULTS["rows"])
    assert min(row["runs"] for row in RESULTS["rows"]) >= 15
    assert not RESULTS["seconds"]["resumed"]


def test_every_bar_is_met():
    missed = [name for name, met in RESULTS["bars"].items() if not met]
    assert missed == []
    assert f"by the clock {RESULTS['seconds']['table 2'] / 60:.0f} minutes" in PAGE
