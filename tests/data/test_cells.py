"""No cell that fedsift writes is a formula to a spreadsheet, and numbers stay numbers."""

import csv
import io

import numpy as np
import pandas as pd
import pytest

from fedsift.data.files import plain_cell, plain_cells
from fedsift.deploy.local import Toy, write_toy
from fedsift.jobs.chain_steps import write_predictions
from helpers.cli import call

FORMULAS = ["=1+1", "+cmd|x", "-2+3", "@SUM(A1)", "\t=1", " =1", '=HYPERLINK("x")', "-"]
HARMLESS = ["a", "a=b", "", "-1.5", "+3", "-1e5", "-inf", 7, -7, -1.5, np.float64(-2.0), None]


@pytest.mark.parametrize("cell", FORMULAS)
def test_formulas_become_text(cell):
    assert plain_cell(cell) == "'" + cell


def test_a_cell_is_one_line_to_every_reader():
    assert plain_cell("\r=1") == "' =1"
    assert plain_cell("a\rb") == "a b"


@pytest.mark.parametrize("cell", HARMLESS)
def test_everything_else_stays(cell):
    assert plain_cell(cell) is cell


@pytest.mark.parametrize("formula", FORMULAS)
def test_predictions(formula):
    text = write_predictions([formula, "C2"], ["yes", formula], [0.5, 0.75], by_id=True)
    rows = list(csv.reader(io.StringIO(text)))
    assert rows[1:] == [["'" + formula, "yes", "0.5"], ["C2", "'" + formula, "0.75"]]
    numbers = write_predictions([0, 1], [-1.5, 2.0], None, by_id=False)
    assert numbers == "row,prediction\n0,-1.5\n1,2.0\n"


def test_tables_with_their_names():
    kinds = {"=a": ["=1", "b"], "n": [-1.5, 2.0], "c": pd.Categorical(["@x", "y"])}
    made = plain_cells(pd.DataFrame(kinds))
    assert made.columns.tolist() == ["'=a", "n", "c"]
    assert made["'=a"].tolist() == ["'=1", "b"]
    assert made["n"].tolist() == [-1.5, 2.0]
    assert made["c"].tolist() == ["'@x", "y"]


def formulas(n_rows=40):
    rng = np.random.default_rng(0)
    ids = [f"=id{number}" for number in range(n_rows)]
    label = np.where(np.arange(n_rows) % 2, "=yes", "-no")
    return pd.DataFrame({"id": ids, "=label": label, "a": rng.normal(size=n_rows), "b": ids})


def test_tables_of_a_trial_can_still_be_used(tmp_path):
    job = write_toy(formulas(), tmp_path / "toy", Toy("=label", n_parties=2, id_column="id"))
    texts = [path.read_text() for path in job.parent.glob("*.csv")]
    cells = [cell for text in texts for row in csv.reader(io.StringIO(text)) for cell in row]
    assert not [cell for cell in cells if plain_cell(cell) != cell]
    assert call("plan", job).exit_code == 0


def test_aligned_tables(tmp_path):
    pytest.importorskip("private_set_intersection")
    for name in ("bank", "shop"):
        formulas().to_csv(tmp_path / f"{name}.csv", index=False)
    paths = [tmp_path / "bank.csv", tmp_path / "shop.csv"]
    outcome = call("align", *paths, "--on", "id", "--out", tmp_path / "out")
    assert outcome.exit_code == 0, outcome.err
    written = list((tmp_path / "out").glob("*.csv"))
    assert len(written) == 2
    for path in written:
        assert next(iter(pd.read_csv(path)["id"])).startswith("'=id")
