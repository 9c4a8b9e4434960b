"""The page on comparisons: its file is valid, and the names it explains are those of the code."""

import tomllib
from pathlib import Path

from fedsift.lab.compare.file import SYNTHETIC, load_compare_file
from fedsift.lab.compare.judge import MODELS
from fedsift.lab.peers import PEERS
from fedsift.methods.registry import schemas

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "compare.md").read_text(encoding="utf-8")
SETS = ("madelon", "wine_white", "vehicle", "tox171")


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
