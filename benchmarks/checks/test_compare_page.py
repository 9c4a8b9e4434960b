"""The page on comparisons says what the committed run found, good or bad."""

import json

import msgspec
import pytest

from benchmarks.pages import compare as tables
from fedsift.lab.compare import Comparison


@pytest.fixture(scope="module")
def found():
    return tables.read()


def test_other_results_would_change_every_table(found):
    """The comparison above can fail: each block follows its part of the results."""
    raw = json.loads(found.to_json())
    raw["seconds"] += 1000
    for data in raw["data"]:
        for row in data["rows"]:
            for scores in row["scores"].values():
                scores["accuracy"]["value"] += 1
    changed = msgspec.convert(raw, Comparison)
    for name, write in tables.BLOCKS.items():
        assert write(changed) != write(found), name


def test_the_committed_run_is_complete_and_every_method_is_chance_on_shuffled_labels(found):
    assert tuple(data.name for data in found.data) == tables.SETS
    assert not found.interrupted
    assert not found.failures
    for data in found.data:
        kinds = {row.kind for row in data.rows}
        assert kinds == {"method", "peer", "all", "random", "local", "pooled"}
        for row in data.rows:
            if row.kind in ("method", "peer", "all"):
                assert row.leak
            for check in row.leak.values():
                away = abs(check.value - check.chance)
                assert away <= 2 * check.standard_error + 1e-9, (data.name, row.label)
            if row.kind == "method":
                assert row.cost_of == "secure run of the first fold"


def test_the_committed_run_had_peers_of_every_package(found):
    names = {row.label for data in found.data for row in data.rows if row.kind == "peer"}
    assert {"sklearn-f", "stg", "lassonet", "boruta", "mrmr"} <= names
    assert not [note for data in found.data for note in data.notes if "left out" in note]


def test_filters_and_fedsdg_select_the_same_under_encryption(found):
    for data in found.data:
        for row in data.rows:
            if row.label in ("gini", "anova", "fedsdg"):
                assert row.verified is True, (data.name, row.label)
