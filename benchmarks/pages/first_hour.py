# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A new user's first hour: clone, install and follow the README, every step timed.

Run ``python -m benchmarks.pages.first_hour --folder /tmp/firsthour`` for a fresh run (it writes
``benchmarks/first_hour.json`` and the page), and ``python -m benchmarks.pages first_hour`` to write
the page from that file; ``make bench-check`` compares the two.
"""

import argparse
import json
import os
import shlex
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.pages.writer import ROOT, Page, load, table

RESULTS = ROOT / "benchmarks" / "first_hour.json"
LIMIT_SECONDS = 1800
PROMISES = (
    ("demo", "`make demo` once everything is installed", 60.0),
    ("help", "`fedsift --help`", 0.5),
)


@dataclass(frozen=True)
class Step:
    """One thing the README says to do."""

    name: str
    command: str
    says: str
    repeat: int = 1


STEPS = (
    Step("install and demo", "make demo", "builds `.venv`, installs, runs the demo"),
    Step("demo", "make demo", "the same once everything is installed"),
    Step("help", "fedsift --help", "the fastest of five calls", 5),
    Step("first run", "fedsift run examples/filters_vertical.toml", "a bank's and a shop's file"),
    Step(
        "own file",
        "fedsift split examples/data/bank.csv --label default --id customer_id --out toy",
        "one CSV file, cut into three parties and a job",
    ),
    Step("plan", "fedsift plan toy/job.toml", "who will learn what, and what it will cost"),
    Step("run", "fedsift run toy/job.toml", "encrypted, all parties in one process"),
    Step(
        "compare",
        "fedsift compare toy/job.toml --profile smoke --out comparison",
        "against all, random and local-only features, inside folds",
    ),
    Step(
        "federation",
        "fedsift deploy local toy/job.toml --out federated",
        "hub and three organisations as processes, with certificates and sealed messages",
    ),
)


def run(repository: str, folder: Path) -> dict:
    """Clone and follow the steps; stops at the first that fails."""
    source = Path(repository)
    repository = str(source.resolve()) if source.exists() else repository
    started = os.getloadavg()[0]
    rows = [timed(Step("clone", f"git clone --quiet {repository} {folder}", ""), Path.cwd(), 1)]
    rows[0]["command"] = "git clone"
    for step in STEPS:
        row = timed(step, folder, step.repeat)
        rows.append(row)
        print(f"{step.name}: {row['seconds']:.1f} s", flush=True)
    version = subprocess.run(  # noqa: S603
        [folder / ".venv" / "bin" / "python", "--version"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return {
        "rows": rows,
        "cores": os.cpu_count(),
        "load": [round(started, 1), round(os.getloadavg()[0], 1)],
        "python": version.stdout.split()[1],
    }


def timed(step: Step, folder: Path, repeat: int) -> dict:
    """Run one step as a user would, in a shell with the environment activated."""
    path = f"{folder / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "COLUMNS": "100"}
    fastest, used = float("inf"), 0.0
    for _ in range(repeat):
        before, began = os.times(), time.perf_counter()
        done = subprocess.run(  # noqa: S603 - the steps above
            shlex.split(step.command),
            cwd=folder if folder.exists() else None,
            env=environment,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
        )
        took, after = time.perf_counter() - began, os.times()
        if done.returncode:
            raise SystemExit(f"{step.command}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        if took < fastest:
            fastest = took
            used = after.children_user + after.children_system
            used -= before.children_user + before.children_system
    return {
        "step": step.name,
        "command": step.command,
        "says": step.says,
        "seconds": round(fastest, 2),
        "processor_seconds": round(used, 2),
    }


def times_table(results: dict) -> str:
    """What every step took."""
    rows = [
        [
            row["step"],
            f"`{row['command']}`",
            row["says"],
            f"{row['seconds']:.1f}",
            f"{row['processor_seconds']:.1f}",
        ]
        for row in results["rows"]
    ]
    total = sum(row["seconds"] for row in results["rows"])
    before, after = results["load"]
    return (
        table(["step", "command", "what it does", "seconds", "processor seconds"], rows)
        + f"\nTogether {total / 60:.0f} minutes, on a machine with {results['cores']} cores, "
        + f"Python {results['python']}; other work went on meanwhile (load average {before} before, "
        + f"{after} after), so processor seconds say more than the clock.\n"
    )


def promises(results: dict) -> str:
    """What was promised, and whether it held: by the clock, and in processor time."""
    rows = []
    for name, words, allowed in PROMISES:
        row = next(row for row in results["rows"] if row["step"] == name)
        clock, processor = (f"{row[kind]:.2f} s" for kind in ("seconds", "processor_seconds"))
        rows.append([words, f"{allowed:g} s", clock, processor, verdict(row, allowed)])
    return table(["promised", "allowed", "by the clock", "processor time", "kept"], rows)


def verdict(row: dict, allowed: float) -> str:
    """Whether a promise was kept, if need be only without the waiting for a busy machine."""
    if row["seconds"] < allowed:
        return "yes"
    return "in processor time only" if row["processor_seconds"] < allowed else "**no**"


BLOCKS = {"times": times_table, "promises": promises}


PAGE = Page("docs/tutorial-first-hour.md", lambda: load("first_hour"), BLOCKS)


def main() -> None:
    """Run the hour if a folder is given, then write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repository", default=str(ROOT))
    parser.add_argument("--folder", type=Path, help="must not exist; without it no run")
    arguments = parser.parse_args()
    if arguments.folder is not None:
        results = run(arguments.repository, arguments.folder)
        RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    PAGE.write()


if __name__ == "__main__":
    main()
