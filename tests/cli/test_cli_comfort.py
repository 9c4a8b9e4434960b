"""``init``, ``completion``, and job files that are shown where they are wrong."""

import io
import os
import subprocess
import sys
import tomllib

import pytest
from rich.console import Console
from typer.testing import CliRunner

import fedsift as fs
from fedsift.cli import app
from fedsift.cli.common import show, typed
from fedsift.cli.prepare import read_job
from fedsift.errors import JobError
from helpers.cli import CELL, call

BAD = """\
[job]
method = "fliter"     # a comment
seed = -3
[data]
dataset = "wine"
colour = "red"
"""


@pytest.fixture
def wrong(tmp_path):
    path = tmp_path / "job.toml"
    path.write_text(BAD, encoding="utf-8")
    return path


def mistakes(path):
    with pytest.raises(JobError) as caught:
        read_job(path)
    return caught.value


def screen_of(error, **options):
    out = io.StringIO()
    show(Console(file=out, width=100, highlight=False, **options), error)
    return out.getvalue()


class TestMistakes:
    def test_every_mistake_has_its_place_and_its_change(self, wrong):
        misspelt, negative, unknown = mistakes(wrong).mistakes

        assert (misspelt.line, misspelt.column, misspelt.width) == (2, 11, 6)
        assert misspelt.replacement == 'method = "filter"     # a comment'
        assert (negative.line, negative.column, negative.width) == (3, 8, 2)
        assert negative.replacement is None
        assert (unknown.line, unknown.replacement) == (6, "")

    def test_they_are_shown_as_a_diff(self, wrong):
        lines = screen_of(mistakes(wrong), no_color=True).splitlines()

        first = lines.index("  line 2: Unknown method 'fliter'.")
        assert [line.rstrip() for line in lines[first + 1 : first + 5]] == [
            '  2 | method = "fliter"     # a comment',
            "    |           ^^^^^^",
            '  - method = "fliter"     # a comment',
            '  + method = "filter"     # a comment',
        ]
        assert '  - colour = "red"' in lines
        assert not [line for line in lines if line.startswith("  + colour")]

    def test_colours_are_for_terminals_that_want_them(self, wrong, monkeypatch):
        monkeypatch.delenv("NO_COLOR", raising=False)
        monkeypatch.setenv("TERM", "xterm")
        error = mistakes(wrong)

        assert "\x1b[32m" in screen_of(error, force_terminal=True)
        monkeypatch.setenv("NO_COLOR", "1")
        assert "\x1b[32m" not in screen_of(error, force_terminal=True)

    def test_elsewhere_a_problem_stays_one_line(self, wrong):
        outcome = call("plan", wrong)

        assert outcome.exit_code == 2
        assert len(outcome.err.strip().splitlines()) == 4
        assert "^" not in outcome.err

    def test_machines_get_json(self, wrong):
        outcome = call("plan", wrong, "--json")

        assert outcome.exit_code == 2
        error = outcome.json["error"]
        assert error["code"] == "E202"
        assert [one["line"] for one in error["mistakes"]] == [2, 3, 6]
        assert error["mistakes"][0]["replacement"].startswith('method = "filter"')
        assert outcome.err.startswith("E202: ")

    def test_other_errors_are_json_too(self, tmp_path):
        outcome = call("run", tmp_path / "nothing.toml", "--json")

        assert outcome.exit_code == 2
        assert outcome.json["error"]["code"] == "E105"
        assert outcome.json["error"]["mistakes"] == []

    @pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a terminal")
    def test_a_real_terminal(self, wrong):
        ours, theirs = os.openpty()
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
        environment.pop("NO_COLOR", None)
        command = [sys.executable, "-m", "fedsift.cli", "plan", str(wrong)]

        ran = subprocess.run(command, stderr=theirs, env=environment, timeout=100, check=False)
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # what Linux says at the end
                break
            if not part:
                break
            shown += part
        os.close(ours)

        assert ran.returncode == 2
        assert b"\x1b[" in shown
        assert b'+ method = "filter"' in shown


class TestInit:
    def test_what_is_proposed_passes_the_plan(self, workshop):
        workshop.write()
        job = workshop.folder / "made" / "new.toml"
        files = [workshop.folder / name for name in ("bank.csv", "shop.csv")]

        outcome = call("init", *files, "--yes", "--out", job)

        assert outcome.exit_code == 0, outcome.err
        text = job.read_text(encoding="utf-8")
        read = tomllib.loads(text)
        assert read["data"]["label"] == {"party": "bank", "column": "default"}
        assert (read["data"]["setting"], read["data"]["id"]) == ("vertical", "customer_id")
        assert [party["data"] for party in read["party"]] == ["../bank.csv", "../shop.csv"]
        assert str(CELL) not in text
        plan = call("plan", job, "--json")
        assert plan.exit_code == 0, plan.err
        assert plan.json["parties"] == ["bank", "shop"]

    def test_same_columns_are_a_horizontal_job(self, workshop):
        workshop.shop = workshop.bank.iloc[::-1]
        workshop.write()
        job = workshop.folder / "new.toml"
        files = [workshop.folder / name for name in ("bank.csv", "shop.csv")]

        outcome = call("init", *files, "--json", "--out", job)

        assert outcome.json["parties"] == ["bank", "shop"]
        read = read_job(job)
        assert (read.data.setting, read.data.label_column) == ("horizontal", "default")
        assert call("plan", job).exit_code == 0

    def test_questions_are_asked_again_until_they_are_answered(self, workshop):
        workshop.write()
        job = workshop.folder / "new.toml"
        answers = [
            str(workshop.folder / "bnak.csv"),
            str(workshop.folder / "bank.csv"),
            str(workshop.folder / "shop.csv"),
            "",
            "",
            "",
            "defalt",
            "default",
            "vfsp",
            "vfps",
        ]

        ran = CliRunner().invoke(app, ["init", "--out", str(job)], input="\n".join(answers) + "\n")

        assert ran.exit_code == 0, ran.output
        assert "was not found" in ran.output
        assert "Did you mean 'default'?" in ran.output
        assert read_job(job).method == "vfps"

    @pytest.mark.parametrize(
        ("options", "code", "text"),
        [
            (("--label", "defualt"), "E201", "Did you mean 'default'?"),
            (("--method", "dcfs"), "E201", "--method 'dcfs' is not known here."),
            (("--setting", "diagonal"), "E201", "vertical, horizontal"),
        ],
    )
    def test_wrong_answers(self, workshop, options, code, text):
        workshop.write()
        job = workshop.folder / "new.toml"
        outcome = call("init", workshop.folder / "bank.csv", "--yes", "--out", job, *options)

        assert outcome.exit_code == 2
        assert outcome.err.startswith(code)
        assert text in outcome.err
        assert not job.exists()

    def test_files_are_named_as_terminals_and_people_name_them(self, workshop, tmp_path):
        workshop.write()
        folder = tmp_path / "my files"
        folder.mkdir()
        for old, new in (("bank", "Müller & Söhne"), ("shop", "_CON_")):
            (workshop.folder / f"{old}.csv").rename(folder / f"{new}.csv")
        job = folder / "my job.toml"
        mueller = str(folder / "Müller & Söhne.csv")
        answers = [
            f"'{mueller}'",
            mueller,
            "~no-such-user/x.csv",
            f'"{folder / "_CON_.csv"}"',
            *[""] * 5,
        ]

        ran = CliRunner().invoke(app, ["init", "--out", str(job)], input="\n".join(answers) + "\n")

        assert ran.exit_code == 0, ran.output
        assert "was named before" in ran.output
        assert "a home that is not known here" in ran.output
        assert f"fedsift run '{job}'" in ran.output
        read = read_job(job)
        assert [entry.name for entry in read.parties] == ["muller-sohne", "con"]
        assert call("plan", job).exit_code == 0

    def test_nothing_is_overwritten(self, workshop):
        job = workshop.write()
        before = job.read_text()

        outcome = call("init", workshop.folder / "bank.csv", "--yes", "--out", job)

        assert outcome.exit_code == 2
        assert "is there already" in outcome.err
        assert job.read_text() == before

    def test_a_table_is_one_partys(self, workshop):
        workshop.write()
        bank = workshop.folder / "bank.csv"
        outcome = call("init", bank, bank, "--yes", "--out", workshop.folder / "new.toml")

        assert outcome.exit_code == 2
        assert "is named twice" in outcome.err
        assert not (workshop.folder / "new.toml").exists()

    def test_no_table_no_job(self, tmp_path):
        assert "No table was named" in call("init", "--yes", "--out", tmp_path / "job.toml").err


class TestCompletion:
    @pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell"])
    def test_a_script_for_every_shell(self, shell):
        script = call("completion", shell).out
        assert "_FEDSIFT_COMPLETE" in script
        assert f"complete_{shell}" in script

    def test_another_shell(self):
        outcome = call("completion", "bahs")
        assert outcome.exit_code == 2
        assert "Did you mean 'bash'?" in outcome.err

    @pytest.mark.parametrize(
        ("typed", "answer"), [("fedsift pl", "plan"), ("fedsift completion ba", "bash")]
    )
    @pytest.mark.parametrize("shell", ["bash", "powershell"])
    def test_a_shell_gets_an_answer(self, shell, typed, answer):
        environment = {
            **os.environ,
            "_FEDSIFT_COMPLETE": f"complete_{shell}",
            "COMP_WORDS": typed,
            "COMP_CWORD": str(len(typed.split()) - 1),
            "_TYPER_COMPLETE_ARGS": typed,
            "_TYPER_COMPLETE_WORD_TO_COMPLETE": typed.split()[-1],
        }
        command = [sys.executable, "-c", "from fedsift.cli import main; main()"]
        ran = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=100, check=False
        )
        assert [line.split(":::")[0] for line in ran.stdout.splitlines()] == [answer]


def test_the_package_runs_as_a_module():
    command = [sys.executable, "-m", "fedsift", "--version"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)

    assert (ran.returncode, ran.stdout) == (0, f"fedsift {fs.__version__}\n")


@pytest.mark.parametrize(
    ("system", "path", "shown"),
    [
        ("posix", "job.toml", "job.toml"),
        ("posix", "my job's.toml", "'my job'\"'\"'s.toml'"),
        ("nt", "C:\\my files\\job.toml", '"C:\\my files\\job.toml"'),
        ("nt", "C:\\files\\job.toml", "C:\\files\\job.toml"),
    ],
)
def test_commands_to_copy_have_the_quotes_that_a_shell_needs(monkeypatch, system, path, shown):
    monkeypatch.setattr("fedsift.cli.common.os.name", system)
    assert typed(path) == shown


def test_names_with_blanks_umlauts_and_other_signs_run(workshop):
    """Names of parties, and of the folders for results and checkpoints."""
    names = ['Müller: & "Söhne"?', "CON"]
    for party, name in zip(workshop.parties, names, strict=True):
        party["name"] = name
    workshop.sections["data"]["label"]["party"] = names[0]
    workshop.sections["method"]["security"] = "plain"
    workshop.sections["runtime"] = {"checkpoint": "kept & sound"}
    workshop.sections["output"] = {"directory": "Ergebnis für alle"}
    job = workshop.write()

    outcome = call("run", job, "--json")

    assert outcome.exit_code == 0, outcome.err
    result = fs.SelectionResult.load(workshop.folder / "Ergebnis für alle" / "result.json")
    assert list(result.selected) == names


def test_the_version():
    assert call("--version").out.startswith("fedsift ")
