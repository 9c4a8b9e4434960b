"""The page on comparisons says what the committed run found, good or bad."""

import importlib.util
import json
import tomllib
from pathlib import Path

import msgspec
import pytest

from fedsift.evaluate import Comparison
from fedsift.evaluate.compare_file import SYNTHETIC, load_compare_file
from fedsift.evaluate.downstream import MODELS
from fedsift.evaluate.peers import PEERS
from fedsift.selectors.registry import schemas

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "compare.md").read_text(encoding="utf-8")
SETS = ("madelon", "wine_white", "vehicle", "tox171")


@pytest.fixture(scope="module")
def found():
    return Comparison.load(ROOT / "benchmarks" / "compare.json")


@pytest.fixture(scope="module")
def tables():
    spec = importlib.util.spec_from_file_location(
        "compare_tables", ROOT / "benchmarks" / "compare_tables.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tables_are_those_of_the_committed_run(tables, found):
    assert tables.updated(PAGE, found) == PAGE


def test_other_results_would_change_every_table(tables, found):
    """The comparison above can fail: each block follows its part of the results."""
    raw = json.loads(found.to_json())
    raw["seconds"] += 1000
    for data in raw["data"]:
        for row in data["rows"]:
            for scores in row["scores"].values():
                scores["accuracy"]["value"] += 1
    changed = tables.blocks(msgspec.convert(raw, Comparison))
    for name, text in tables.blocks(found).items():
        assert changed[name] != text


def test_the_committed_run_is_complete_and_every_method_is_chance_on_shuffled_labels(found):
    assert tuple(data.name for data in found.data) == SETS
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


def test_the_examples_are_the_ones_described():
    for name in ("compare.toml", "compare_small.toml"):
        plan = load_compare_file(ROOT / "examples" / name, schemas(), [*SETS, "wine"])
        assert plan.data
    plan = load_compare_file(ROOT / "examples" / "compare.toml", schemas(), SETS)
    assert tuple(entry.name for entry in plan.data) == SETS


def test_the_file_on_the_page_is_valid(tmp_path):
    (text,) = [b.split("```")[0] for b in PAGE.split("```toml\n")[1:]]
    tomllib.loads(text)
    path = tmp_path / "page.toml"
    path.write_text(text)
    assert load_compare_file(path, schemas(), ["wine"], "smoke").settings["folds"] == 2


def test_every_name_is_on_the_page():
    for name in (*MODELS, *SYNTHETIC, *(peer.name for peer in PEERS)):
        assert f"`{name}`" in PAGE
