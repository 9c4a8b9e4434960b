"""Nothing that people copy sets a seed: it would make private draws of a simulation public."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from helpers.cli import call

ROOT = Path(__file__).parents[2]
PAGES = (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md"))
SEED = re.compile(r"^[ \t#]*seed[ \t]*=(?P<rest>.*)$", re.MULTILINE)
SIMULATION = "# simulation in one process: figures in docs/compare.md need it"
"""What a line says that may set one all the same."""


def blocks(page):
    return re.findall(r"^ *```toml\n(.*?)^ *```", page.read_text(encoding="utf-8"), re.M | re.S)


def seeds_in(text):
    return [found["rest"] for found in SEED.finditer(text)]


def test_what_it_finds():
    assert seeds_in("[job]\nseed = 7\n  seed=1 # why\n# seed = 0\nseeds = 2\n") == [
        " 7", "1 # why", " 0",
    ]  # fmt: skip


def test_no_example_sets_a_seed():
    files = {
        path.relative_to(ROOT).as_posix(): seeds_in(path.read_text(encoding="utf-8"))
        for path in ROOT.glob("examples/**/*.toml")
    }
    assert len(files) > 10
    found = {name: seeds for name, seeds in files.items() if seeds}
    assert list(found) == ["examples/compare.toml"]
    ((seed,),) = found.values()
    assert seed.endswith(SIMULATION)
    # It compares catalogued data sets, which are split in this process.
    assert "[[party]]" not in (ROOT / "examples/compare.toml").read_text(encoding="utf-8")


def test_no_page_shows_a_job_with_a_seed():
    every = [(page.name, block) for page in PAGES for block in blocks(page)]
    assert len(every) > 10
    assert [name for name, block in every if seeds_in(block)] == []


OPTIONS = {
    "vertical": ("--setting", "vertical", "--label", "paid", "--id", "customer"),
    "horizontal": ("--setting", "horizontal", "--label", "paid"),
    "no label": ("--setting", "vertical", "--label", "none", "--id", "customer"),
}


@pytest.mark.parametrize("setting", OPTIONS)
def test_init_writes_no_seed(tmp_path, setting):
    random = np.random.default_rng(0)
    for number, party in enumerate(("bank", "shop")):
        names = ["a", "b"] if setting == "horizontal" else [f"{party}_a", f"{party}_b"]
        frame = pd.DataFrame(random.normal(size=(30, 2)), columns=names)
        frame["customer"] = [f"C{row}" for row in range(30)]
        if number == 0 or setting == "horizontal":
            frame["paid"] = np.where(np.arange(30) % 2, "yes", "no")
        frame.to_csv(tmp_path / f"{party}.csv", index=False)
    job = tmp_path / "job.toml"
    files = [tmp_path / "bank.csv", tmp_path / "shop.csv"]

    outcome = call("init", *files, "--yes", "--out", job, *OPTIONS[setting])

    assert outcome.exit_code == 0, outcome.err
    text = job.read_text(encoding="utf-8")
    assert "[job]" in text
    assert seeds_in(text) == []
