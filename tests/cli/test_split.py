"""A toy federation from one file runs as it is."""

import pandas as pd
import pytest

from fedsift.data import catalog
from helpers.cli import call


@pytest.fixture(scope="module")
def wine(tmp_path_factory):
    loaded = catalog.load("wine", as_frame=True)
    path = tmp_path_factory.mktemp("wine") / "wine.csv"
    loaded.X.assign(kind=[f"k{y}" for y in loaded.y]).to_csv(path, index=False)
    return path


def test_columns_are_dealt_out_and_the_job_runs(wine, tmp_path):
    outcome = call("split", wine, "--label", "kind", "--out", tmp_path / "fed", "--json")

    assert outcome.exit_code == 0
    tables = [pd.read_csv(path) for path in outcome.json["files"]]
    columns = [set(table.columns) - {"row_id", "kind"} for table in tables]
    assert len(tables) == 3
    assert sum(map(len, columns)) == len(set.union(*columns)) == 13
    assert ["kind" in table.columns for table in tables] == [True, False, False]
    assert [len(table) for table in tables] == [178] * 3
    assert list(tables[0]["row_id"]) != list(tables[1]["row_id"])
    ran = call("run", outcome.json["job"], "--json")
    assert ran.exit_code == 0, ran.err
    assert sum(map(len, ran.json["result"]["selected"].values())) == 5


def test_rows_are_dealt_out(wine, tmp_path):
    options = ("--setting", "horizontal", "--parties", 2, "--out", tmp_path / "fed", "--json")
    outcome = call("split", wine, "--label", "kind", *options)

    tables = [pd.read_csv(path) for path in outcome.json["files"]]
    assert sum(map(len, tables)) == 178
    assert {tuple(table.columns) for table in tables} == {tuple(pd.read_csv(wine).columns)}
    assert call("run", outcome.json["job"], "--json").exit_code == 0


def test_parties_may_lack_rows(wine, tmp_path):
    outcome = call("split", wine, "--overlap", 0.8, "--out", tmp_path / "fed", "--json")

    ids = [set(pd.read_csv(path)["row_id"]) for path in outcome.json["files"]]
    assert {len(own) for own in ids} == {142}
    assert len(set.intersection(*ids)) < 142


def test_the_same_seed_deals_the_same(wine, tmp_path):
    texts = []
    for name in ("a", "b"):
        call("split", wine, "--seed", 3, "--out", tmp_path / name)
        texts.append((tmp_path / name / "party-2.csv").read_text())
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--label", "kynd"), "no column 'kynd'"),
        (("--id", "kind"), "the same id twice"),
        (("--parties", 1), "at least 2"),
        (("--parties", 99), "Change --parties"),
        (("--overlap", 1.5), "overlap is 1.5"),
        (("--method", "filtre"), "Did you mean 'filter'?"),
        (("--method", "vfps", "--setting", "horizontal"), "does not work"),
    ],
)
def test_bad_input(wine, tmp_path, options, words):
    outcome = call("split", wine, *options, "--out", tmp_path / "fed")

    assert outcome.exit_code == 2
    assert words in outcome.err
    assert outcome.err.count("\n") == 1
    assert not (tmp_path / "fed").exists()


def test_a_job_is_never_overwritten(wine, tmp_path):
    assert call("split", wine, "--out", tmp_path).exit_code == 0

    outcome = call("split", wine, "--out", tmp_path)

    assert outcome.exit_code == 2
    assert "there already" in outcome.err
