"""The page about attacks says what its committed run found, and what is left open to them."""

import importlib.util
import json
import re
from pathlib import Path

import pytest
from typer.main import get_command

from fedsift.cli import app
from fedsift.evaluate.attack_suite import ATTACKS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "attacks.md").read_text(encoding="utf-8")
RESULTS = json.loads((ROOT / "benchmarks" / "attacks.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def tables():
    path = ROOT / "benchmarks" / "attacks_tables.py"
    spec = importlib.util.spec_from_file_location("attacks_tables", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_figures_are_those_of_the_committed_run(tables):
    assert RESULTS["profile"] == "regular"
    assert {match[2] for match in tables.BLOCK.finditer(PAGE)} == set(tables.BLOCKS)
    assert tables.updated(PAGE, RESULTS) == PAGE


def test_other_results_would_change_every_table(tables):
    other = json.loads(json.dumps(RESULTS))
    for row in other["rows"]:
        row["found"] += 0.3
        row["runs"] += 1
    for name, write in tables.BLOCKS.items():
        assert write(other) != write(RESULTS), name


def test_the_committed_run_is_complete_and_every_default_is_closed_or_declared():
    found = {(row["attack"], row["variant"]): row for row in RESULTS["rows"]}
    assert set(found) == {(a.name, v) for a in ATTACKS for v in a.variants}
    for attack in ATTACKS:
        assert found[attack.name, "unprotected"]["verdict"] == "succeeds", attack.name
        assert found[attack.name, "default"]["verdict"] in ("closed", "declared"), attack.name
        for variant, text in attack.variants.items():
            row = found[attack.name, variant]
            assert (row["runs"], row["protection"]) == (attack.runs[1], text), attack.name


def test_every_option_of_the_page_exists():
    known = {name for option in get_command(app).commands["attack"].params for name in option.opts}
    used = re.findall(r"\$ fedsift attack([^\n#]*)", PAGE)
    assert len(used) == 4
    for rest in used:
        assert set(re.findall(r"(?<!\S)(--?\w[\w-]*)", rest)) <= known
