# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a change costs: ``python -m benchmarks.checkouts OLD NEW`` runs both in turn.

``OLD`` and ``NEW`` are two checkouts. Their cases of the suites ``filters`` and ``runtime``, and
filters of parties with different rows, run one after the other in fresh processes, so that what else the machine does falls on both. Bytes are
compared as they are. Of seconds the processor time counts, each checkout's smallest: it does not
grow while other programs wait for the processor. Between organisations, where several processes
work, the seconds of the fastest run count. The exit code is 1 if anything grew by more than
``MOST``.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.store import machine_facts, write
from benchmarks.suites import filters
from benchmarks.suites.runtime import jobs as runtime_jobs
from benchmarks.suites.runtime import suite as runtime
from fedsift.config.toml import toml_text

MOST = 1.1
"""What may become of a cost of 1."""

Row = dict[str, Any]
Case = tuple[str, Callable[[Path], Row]]
"""A name, and what a checkout measures for it."""


def compare(
    old: Path, new: Path, profile: str, n_runs: int, suites: list[str], out: Path | None
) -> dict[str, Any]:
    """Run all cases of both checkouts in turn; prints a line when each is done."""
    print(f"{'case':50} {'old':>9} {'new':>9} {'seconds':>8} {'bytes':>8}", flush=True)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="fedsift-bench-") as folder:
        for name, measure in _cases(profile, suites, Path(folder)):
            pairs = [(measure(old), measure(new)) for _ in range(n_runs)]
            rows += _judged(name, pairs)
            if out is not None:
                write(out, _report(rows, profile, n_runs))
    return _report(rows, profile, n_runs)


def _report(rows: list[Row], profile: str, n_runs: int) -> dict[str, Any]:
    facts = {"profile": profile, "runs": n_runs, "machine": machine_facts(), "seed": 0}
    totals = {
        checkout: sum(row[checkout]["seconds"] for row in rows) for checkout in ("old", "new")
    }
    return {**facts, "rows": rows, "seconds": totals["new"] / totals["old"] if rows else 1.0}


def _judged(name: str, pairs: list[tuple[Row, Row]]) -> list[Row]:
    """Ratios of what a case takes; a case may measure several parts."""
    rows = []
    for part in pairs[0][0]:
        old, new = ([pair[which][part] for pair in pairs] for which in (0, 1))
        row: Row = {"case": f"{name}{part}"}
        for checkout, found in (("old", old), ("new", new)):
            seconds = sorted(one["seconds"] for one in found)
            row[checkout] = {"seconds": seconds[0], "all": seconds, "bytes": found[0].get("bytes")}
        row["ratio"] = row["new"]["seconds"] / row["old"]["seconds"]
        sent = [row[checkout]["bytes"] for checkout in ("old", "new")]
        row["bytes ratio"] = sent[1] / sent[0] if all(sent) else 1.0
        rows.append(row)
        print(
            f"{row['case']:50} {row['old']['seconds']:9.3f} {row['new']['seconds']:9.3f} "
            f"{row['ratio']:8.3f} {row['bytes ratio']:8.4f}",
            flush=True,
        )
    return rows


def _cases(profile: str, suites: list[str], folder: Path) -> Iterator[Case]:
    if "filters" in suites:
        for job in filters._cases(profile):
            if job["he"] != "python-paillier":
                yield filters._name(job), _worker("filters", job)
    if "runtime" in suites:
        for engine in ("embedded", "gRPC"):
            job = {"part": "echo", "engine": engine, "steps": runtime._STEPS[profile]}
            yield f"echo, {engine}", _worker("runtime.measures", job)
        for job in runtime._jobs(profile):
            path, _ = runtime_jobs.write_job(job, folder / job["method"])
            yield f"{job['method']} {job['rows']} x {job['features']}, embedded", _command(path)
    if "pooled" in suites:
        for score in ("f", "variance", "gini"):
            for share in (0.0, 0.02):
                path = _pooled_job(folder / f"{score}-{share}", score, share)
                yield f"pooled {score}, {share:.0%} missing", _command(path)
    if "federation" in suites:
        yield "", _federation(folder)


def _pooled_job(folder: Path, score: str, missing: float) -> Path:
    """A filter of three parties with different rows; so many of its values are missing."""
    folder.mkdir()
    X, y = filters.generated(1000, 200, 2, seed=0)
    X[np.random.default_rng(0).random(X.shape) < missing] = np.nan
    table = pd.DataFrame(X).add_prefix("x").assign(outcome=np.where(y == 1, "yes", "no"))
    parties = [{"name": name, "data": f"{name}.csv"} for name in ("north", "south", "west")]
    for party, rows in zip(parties, np.array_split(np.arange(len(table)), 3), strict=True):
        table.iloc[rows].to_csv(folder / party["data"], index=False)
    content: dict[str, Any] = {
        "job": {"method": "filter"},
        "data": {"setting": "horizontal", "label": {"column": "outcome"}},
        "method": {"score": score, "n_features_to_select": 5},
        "party": parties,
    }
    (folder / "job.toml").write_text(toml_text(content), encoding="utf-8")
    return folder / "job.toml"


def _timed(checkout: Path, command: list[str]) -> tuple[float, str]:
    """Processor seconds of a command with the code of a checkout, and what it printed."""
    paths = os.pathsep.join([str(checkout), str(checkout / "src")])
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    finished = subprocess.run(  # noqa: S603 - our own modules, no shell
        [sys.executable, *command],
        capture_output=True,
        text=True,
        check=False,
        cwd=checkout,
        env=os.environ | {"PYTHONPATH": paths, "PYTHONSAFEPATH": "1"},
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if finished.returncode:
        sys.exit(f"{checkout}: {' '.join(command)} failed:\n{finished.stderr[-2000:]}")
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return used, finished.stdout


def _worker(module: str, job: Row) -> Callable[[Path], Row]:
    def measure(checkout: Path) -> Row:
        command = ["-m", "benchmarks.worker", module, json.dumps(job)]
        seconds, printed = _timed(checkout, command)
        return {"": {"seconds": seconds, "bytes": json.loads(printed).get("bytes")}}

    return measure


def _command(path: Path) -> Callable[[Path], Row]:
    """``fedsift run`` on a job file."""

    def measure(checkout: Path) -> Row:
        out = path.parent / f"out-{time.monotonic_ns()}"
        command = ["-m", "fedsift.cli", "run", str(path), "--out", str(out), "--quiet"]
        seconds, _ = _timed(checkout, command)
        result = json.loads((out / "result.json").read_text(encoding="utf-8"))
        return {"": {"seconds": seconds, "bytes": sum(r["n_bytes"] for r in _traffic(result))}}

    return measure


def _traffic(result: dict[str, Any]) -> list[dict[str, Any]]:
    return result["traffic"]["rows"]


def _federation(folder: Path) -> Callable[[Path], Row]:
    """The small suite ``runtime``, for its cases on FLARE."""

    def measure(checkout: Path) -> Row:
        out = folder / f"runtime-{time.monotonic_ns()}.json"
        _timed(checkout, ["-m", "benchmarks", "runtime", "--profile", "smoke", "--out", str(out)])
        rows = json.loads(out.read_text(encoding="utf-8"))["rows"]
        return {
            row["case"]: {"seconds": row["seconds"], "bytes": row.get("sent_bytes")}
            for row in rows
            if "FLARE" in row["case"] or "federation" in row["case"]
        }

    return measure


def main() -> int:
    """Read the command line; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.checkouts")
    parser.add_argument("old", type=Path, help="checkout to compare with")
    parser.add_argument("new", type=Path, help="checkout with the change")
    parser.add_argument("--profile", choices=("smoke", "regular"), default="smoke")
    parser.add_argument("--runs", type=int, default=5, help="runs of every case per checkout")
    parser.add_argument(
        "--suites", nargs="+", default=["filters", "pooled", "runtime", "federation"]
    )
    parser.add_argument("--out", "-o", type=Path, help="JSON file to write, case by case")
    asked = parser.parse_args()
    checkouts = asked.old.resolve(), asked.new.resolve()
    report = compare(*checkouts, asked.profile, asked.runs, asked.suites, asked.out)
    print(f"All cases together: {report['seconds']:.3f} of the seconds of the old checkout.")
    grown = [r for r in report["rows"] if max(r["ratio"], r["bytes ratio"]) > MOST]
    for row in grown:
        print(f"{row['case']}: more than {MOST} times as much")
    return int(bool(grown))


if __name__ == "__main__":
    sys.exit(main())
