"""The smaller commands, real processes, and the examples."""

import io
import json
import os
import runpy
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

import fedsift
import fedsift as fs
from fedsift.cli import doctor
from fedsift.cli.tables import live_progress
from fedsift.data import catalog
from fedsift.engine.observer import Progress
from helpers.cli import CELL, call

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
HEAVY = ("numpy", "pandas", "sklearn", "scipy", "seal", "gmpy2", "torch")


def process(*arguments, cwd=None, code=None):
    """A command in a process of its own."""
    start = ["-c", code] if code else ["-m", "fedsift.cli", *map(str, arguments)]
    return subprocess.run(
        [sys.executable, *start], capture_output=True, text=True, cwd=cwd, timeout=100, check=False
    )


def test_version():
    assert call("--version").out == f"fedsift {fedsift.__version__}\n"


def test_help_starts_fast():
    process("--help")  # compiles what was never imported before
    seconds, unavoidable = [], []
    for _ in range(3):
        start = time.perf_counter()
        ran = process("--help")
        seconds.append(time.perf_counter() - start)
        start = time.perf_counter()
        process(code="import typer, rich.table")
        unavoidable.append(time.perf_counter() - start)

    assert ran.returncode == 0
    assert "doctor" in ran.stdout
    # A machine that is slow to start anything else is slow to start this.
    assert min(seconds) < max(1.0, 4 * min(unavoidable))


def test_help_imports_nothing_heavy():
    code = (
        "import sys\nfrom typer.testing import CliRunner\nfrom fedsift.cli import app\n"
        "assert CliRunner().invoke(app, ['run', '--help']).exit_code == 0\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )

    assert process(code=code).stdout.strip() == "[]"


def test_an_unknown_command_is_bad_input():
    assert call("rnu").exit_code == 2


def test_demo(tmp_path):
    start = time.perf_counter()
    ran = process("demo", cwd=tmp_path)

    assert ran.returncode == 0, ran.stderr
    assert time.perf_counter() - start < 60
    assert ran.stderr == ""
    for word in ("1. The parties.", "2. The plan.", "3. The run.", "4. The result.", "128-bit"):
        assert word in ran.stdout
    result = fs.SelectionResult.load(tmp_path / "fedsift-demo" / "result.json")
    assert result.n_selected == 8
    assert result.security_bits == 128
    assert (tmp_path / "fedsift-demo" / "report.html").read_text().startswith("<!doctype html>")
    assert (tmp_path / "fedsift-demo" / "ledger.jsonl").stat().st_size > 0


def test_a_real_process_refuses_in_one_line(workshop):
    workshop.bank["default"] = "no"
    ran = process("run", workshop.write(), "--out", workshop.out)

    assert ran.returncode == 2
    assert ran.stdout == ""
    assert ran.stderr.startswith("E102: ")
    assert ran.stderr.count("\n") == 1
    assert not workshop.out.exists()


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_real_interrupt_in_the_middle_of_a_run(workshop):
    code = f"""
import os, signal, sys
from fedsift.engine.session import Session
from fedsift.cli import main
record = Session.record
def interrupt(self, *a, **k):
    Session.record = record
    os.kill(os.getpid(), {int(signal.SIGINT)})
    return record(self, *a, **k)
Session.record = interrupt
sys.argv = ["fedsift", "run", {str(workshop.write())!r}, "--out", {str(workshop.out)!r}]
main()
"""
    ran = process(code=code)

    assert ran.returncode == 130, ran.stderr
    assert ran.stderr.splitlines() == ["Interrupted; nothing was written."]
    assert ran.stdout == ""
    assert not workshop.out.exists()


def test_live_progress_shows_counts():
    screen = Console(file=io.StringIO(), force_terminal=True, width=200)
    with live_progress(screen) as observer:
        observer.message(Progress(2, "bank", "[shop]", "Labels", 1500))
        observer.message(Progress(2, "[shop]", "bank", "Scores", 500))

    shown = screen.file.getvalue()
    assert "round 2: Scores, [shop] -> bank, 500 B (2.0 kB so far)" in shown


@pytest.mark.parametrize(("terminal", "quiet"), [(False, False), (True, True)])
def test_no_progress_without_a_terminal_or_when_quiet(terminal, quiet):
    screen = Console(file=io.StringIO(), force_terminal=terminal)
    with live_progress(screen, quiet=quiet) as observer:
        assert observer is None
    assert screen.file.getvalue() == ""


def test_methods_list_their_disclosures():
    entries = call("methods", "--json").json

    by_name = {entry["name"]: entry for entry in entries}
    assert {"dcfs", "filter"} <= set(by_name)
    kinds = {(row["setting"], row["kind"]) for row in by_name["filter"]["disclosures"]}
    assert {("vertical", "feature-scores"), ("horizontal", "pooled-sums")} <= kinds
    assert by_name["filter"]["parameters"]["n_features_to_select"] == 10
    assert all(entry["disclosures"] for entry in entries)
    assert "own-scores" in call("methods").out


def test_an_unknown_method_name():
    outcome = call("methods", "filtre")

    assert outcome.exit_code == 2
    assert outcome.err.startswith("E203: ")
    assert "Did you mean 'filter'?" in outcome.err


def test_datasets_list_the_catalog():
    entries = call("datasets", "--json").json

    assert [entry["name"] for entry in entries] == list(catalog.names())
    wine = next(entry for entry in entries if entry["name"] == "wine")
    assert (wine["n_rows"], wine["n_features"], wine["where"]) == (178, 13, "shipped")
    assert "breast_cancer" in call("datasets").out


def test_doctor_measures():
    found = call("doctor", "--json")

    assert found.exit_code == 0
    assert found.json["missing"] == []
    assert set(found.json["speed"]) == {
        "bgv_keygen_ms",
        "bgv_encrypt_ms",
        "bgv_rotate_ms",
        "paillier_keygen_ms",
        "paillier_encrypt_per_second",
        "paillier_decrypt_per_second",
        "message_ms",
    }
    assert all(value > 0 for value in found.json["speed"].values())


def test_doctor_misses_a_library(monkeypatch):
    monkeypatch.setattr(doctor, "NEEDED", ("numpy", "no-such-library"))

    outcome = call("doctor")

    assert outcome.exit_code == 2
    assert "Missing: no-such-library" in outcome.out


@pytest.mark.parametrize("form", ["text", "json", "html"])
def test_report_prints_and_writes_the_same(workshop, tmp_path, form):
    workshop.run()
    result = workshop.out / "result.json"

    printed = call("report", result, "--format", form)
    written = call("report", result, "--format", form, "--out", tmp_path / "r")

    assert printed.exit_code == written.exit_code == 0
    assert printed.out == (tmp_path / "r").read_text()
    assert str(CELL) not in printed.out


def test_bench_passes_suite_and_profile_on(monkeypatch, tmp_path):
    calls = []

    def run_suite(suite, profile, echo):
        calls.append((suite, profile))
        echo("[a line]")
        return {"suite": suite}

    monkeypatch.setattr("benchmarks.runner.run_suite", run_suite)

    options = ("--profile", "regular", "--out", tmp_path / "b.json", "--json", "--root", ROOT)
    outcome = call("bench", "filters", *options)

    assert calls == [("filters", "regular")]
    assert outcome.json == json.loads((tmp_path / "b.json").read_text()) == {"suite": "filters"}
    assert "[a line]" in outcome.err


def test_bench_compare_hands_on_the_exit_code(monkeypatch):
    monkeypatch.setattr("benchmarks.runner.compare", lambda a, b: ([f"{a} {b}"], 1))

    outcome = call("bench", "compare", "old.json", "new.json", "--root", ROOT)

    assert (outcome.exit_code, outcome.out) == (1, "old.json new.json\n")


@pytest.mark.parametrize("arguments", [("compare", "one.json"), ("filters", "one.json")])
def test_bench_with_a_wrong_number_of_files(arguments):
    outcome = call("bench", *arguments, "--root", ROOT)

    assert outcome.exit_code == 2
    assert outcome.err.startswith("E201: ")


def test_bench_without_a_checkout_says_where_benchmarks_are(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    outcome = call("bench", "filters")

    assert outcome.exit_code == 2
    assert "belong to the source checkout" in outcome.err
    assert "--root" in outcome.err


@pytest.mark.parametrize(
    "name",
    [
        *("dcfs", "fedsdg", "filters_horizontal", "filters_vertical", "fpso", "interaction"),
        *("select_then_train", "stepwise", "vfps"),
    ],
)
def test_the_example_jobs(name, tmp_path):
    job = EXAMPLES / f"{name}.toml"

    assert call("plan", job).exit_code == 0
    outcome = call("run", job, "--out", tmp_path / "out", "--json")

    assert outcome.exit_code == 0, outcome.err
    assert outcome.json["result"]["security"] == "secure"


def test_the_python_example(capsys):
    runpy.run_path(str(EXAMPLES / "filters.py"))

    assert "6 features selected" in capsys.readouterr().out


def test_the_example_data_is_what_its_script_writes(tmp_path):
    runpy.run_path(str(EXAMPLES / "make_data.py"))["write"](tmp_path)

    for name in ("bank.csv", "shop.csv"):
        assert (tmp_path / name).read_text() == (EXAMPLES / "data" / name).read_text()
