"""The FPSO-FS page says what the committed run found, good or bad."""

import json

from benchmarks.pages import fpso as tables

RESULTS = tables.PAGE.read()


def test_other_results_would_change_every_table():
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
    assert (RESULTS["suite"], RESULTS["profile"]) == ("fpso", "regular")
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
    assert f"by the clock {RESULTS['seconds']['table 2'] / 60:.0f} minutes" in tables.PAGE.text()
