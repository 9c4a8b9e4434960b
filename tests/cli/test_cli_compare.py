"""``fedsift compare``: files, exit codes, interruptions."""

import re

import pytest

from fedsift.errors import ParameterError
from fedsift.lab.compare import Comparison, cells
from helpers.cli import CELL, call

QUICK = """
[compare]
folds = 2
permutations = 1
models = ["knn"]
security = "plain"
verify = "never"

[[data]]
name = "few"
synthetic = "xor"
rows = 60
options = { n_noise = 3 }
n_features_to_select = 2

[[method]]
name = "gini"
method = "filter"

[[method]]
method = "dcfs"

[output]
directory = "found"
"""


@pytest.fixture
def quick(tmp_path):
    path = tmp_path / "quick.toml"
    path.write_text(QUICK)
    return path


def test_a_compare_file(quick):
    ran = call("compare", quick)

    assert ran.exit_code == 0, ran.err
    assert "1 method on 1 data set, 2 folds, 1 seed." in ran.out
    assert "dcfs is left out: 'dcfs' has no vertical setting" in ran.out
    assert "No run was made with encryption" in ran.out
    assert "few, gini, seed 0, fold 1" in ran.err
    folder = quick.parent / "found"
    assert sorted(path.name for path in folder.iterdir()) == [
        "comparison.json", "comparison.txt", "report.html",
    ]  # fmt: skip
    comparison = Comparison.load(folder / "comparison.json")
    assert comparison.settings["folds"] == 2
    assert comparison.data[0].truth == 2
    assert comparison.text() == (folder / "comparison.txt").read_text()


def test_a_profile_and_json(quick):
    quick.write_text(QUICK.replace("folds = 2", "folds = 3") + "\n[profile.smoke]\nfolds = 2\n")
    out = quick.parent / "else"
    options = ("--seeds", 2, "--model", "tree", "--security", "plain", "--json", "--out", out)
    ran = call("compare", quick, "--profile", "smoke", *options)

    assert ran.exit_code == 0
    settings = ran.json["comparison"]["settings"]
    assert (settings["folds"], settings["seeds"], settings["models"]) == (2, [0, 1], ["tree"])
    assert ran.json["files"]["comparison"] == str(out / "comparison.json")
    assert ran.err == ""


def test_the_report_of_the_job_itself_stays(workshop):
    workshop.sections["output"] = {"directory": "out"}
    workshop.sections["method"]["security"] = "plain"
    job = workshop.write()
    assert call("run", job, "--quiet").exit_code == 0
    report = (workshop.folder / "out" / "report.html").read_bytes()

    ran = call("compare", job, "--profile", "smoke", "--security", "plain", "--json")

    assert ran.exit_code == 0, ran.err
    assert ran.json["files"]["report"] == str(workshop.folder / "compare-out" / "report.html")
    assert (workshop.folder / "out" / "report.html").read_bytes() == report
    assert "filter: 2 features selected" in call("report", workshop.folder / "out").out


def test_jobs_on_the_same_tables(workshop):
    first = workshop.write()
    workshop.sections["method"]["score"] = "mi"
    second = workshop.folder / "information.toml"
    second.write_text(workshop.text())
    out = workshop.folder / "both"
    ran = call("compare", first, second, "--out", out, "--profile", "smoke", "--quiet")

    assert ran.exit_code == 0, ran.err
    comparison = Comparison.load(out / "comparison.json")
    (data,) = comparison.data
    assert [row.label for row in data.rows if row.kind == "method"] == ["job", "information"]
    assert data.parties == ("bank", "shop")
    assert data.n_features == 5
    # Jobs run as they would alone: encrypted.
    assert comparison.settings["security"] == "secure"
    assert data.row("job").cost_of == "secure"
    for name in ("comparison.json", "report.html", "comparison.txt"):
        assert str(CELL) not in (out / name).read_text()


def test_all_problems_of_a_file_are_listed(tmp_path):
    path = tmp_path / "bad.toml"
    path.write_text(
        """[compare]
fold = 3
models = ["knm"]
security = "open"
peers = ["borutta"]
[[data]]
dataset = "wyne"
setting = "vertical"
skew = "kmeans"
methods = ["ginni", "dcfs"]
[[data]]
synthetic = "xor"
options = { n_nose = 3 }
[[method]]
name = "gini"
method = "filter"
scores = "gini"
[[method]]
method = "dcfs"
[[method]]
method = "fitler"
"""
    )
    ran = call("compare", path)

    assert ran.exit_code == 2
    found = re.findall(r"line (\d+): (.*)", ran.err)
    assert [int(line) for line, _ in found] == sorted(int(line) for line, _ in found)
    told = {int(line): text for line, text in found}
    for line, words in {
        2: "Did you mean 'folds'?",
        3: "Did you mean 'knn'?",
        4: "security = 'open' is not known",
        5: "Did you mean 'boruta'?",
        7: "Did you mean 'wine'?",
        9: "skew is given in a vertical set",
        13: "Did you mean 'n_noise'?",
        17: "Did you mean 'score'?",
        21: "Did you mean 'filter'?",
    }.items():
        assert words in told[line], line
    assert "Did you mean 'gini'?" in ran.err
    assert "'dcfs' is named for vertical data" in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[compare]\n", "There is nothing to compare"),
        ("[compare]\nfolds = 1\n", "folds = 1 is not possible. A whole number of at least 2"),
        (QUICK + '[[method]]\nname = "gini"\nmethod = "filter"\n', "Two methods are called 'gini'"),
        (QUICK.replace("rows = 60", "rows = 1"), "has one class only in all 1 rows"),
        (QUICK.replace("n_features_to_select = 2", "n_features_to_select = 50"), "has 5 features"),
        ("folds 3", "Not valid TOML"),
    ],
)
def test_bad_files_end_with_2(tmp_path, text, words):
    path = tmp_path / "bad.toml"
    path.write_text(text)
    ran = call("compare", path)

    assert ran.exit_code == 2
    assert words in ran.err
    assert not (tmp_path / "bad-out").exists()


def test_wrong_options_end_with_2(quick):
    assert "folds=0" in call("compare", quick, "--folds", 0).err
    assert "Did you mean 'forest'?" in call("compare", quick, "--model", "forrest").err


def test_a_compare_file_stands_alone(quick, workshop):
    assert "Give it alone" in call("compare", quick, workshop.write()).err


def test_an_interrupt_leaves_a_valid_comparison_and_goes_on(quick, monkeypatch):
    do, done = cells.Workplace.do, []

    def interrupted(self, task):
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append(task)
        return do(self, task)

    with monkeypatch.context() as patch:
        patch.setattr(cells.Workplace, "do", interrupted)
        ran = call("compare", quick)
    folder = quick.parent / "found"
    part = Comparison.load(folder / "comparison.json")
    assert ran.exit_code == 130
    assert "what was finished has been written" in ran.err
    assert part.interrupted
    assert len(part.cells) == 3
    assert (folder / ".compare-journal.jsonl").exists()

    ran = call("compare", quick)
    whole = Comparison.load(folder / "comparison.json")
    assert ran.exit_code == 0
    assert "3 finished cells of an interrupted comparison are used again" in ran.err
    assert not whole.interrupted
    assert whole.reused == 3
    assert not (folder / ".compare-journal.jsonl").exists()


def test_a_failing_method_gives_exit_3_and_the_others_a_table(quick, monkeypatch):
    run = cells.Workplace._run

    def failing(self, contestant, *arguments):
        if contestant.label == "gini":
            raise ParameterError("No luck.", "Luck is needed.", "Try again.")
        return run(self, contestant, *arguments)

    monkeypatch.setattr(cells.Workplace, "_run", failing)
    quick.write_text(QUICK + '[[method]]\nname = "f"\nmethod = "filter"\nscore = "f"\n')
    ran = call("compare", quick)

    assert ran.exit_code == 3
    assert "few, gini: E201: No luck." in ran.err
    (data,) = Comparison.load(quick.parent / "found" / "comparison.json").data
    assert data.row("f").scores
    assert not data.row("gini").scores
