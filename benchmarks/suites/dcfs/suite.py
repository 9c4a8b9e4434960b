# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Suite ``dcfs``: cost, worth and leaks of selection through anchor data (paper 003).

Claims: the n x n update equals the m x m one to 1e-8 and is at least 500 times as fast at 5,748
columns; a complete run on TOX-171 takes less than 5 seconds; 20,000 columns and 500 rows per party
take less than 4 GiB; the protocol gives what the open computation gives. Whether DCFS is worth
having is no claim but a table, with random selections and federated filters in it, and so is what
can be seen of a party's rows. With ``FEDSIFT_BENCH_STREAM`` set to a file, every finished row is
appended to it at once.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.runner import Echo, measure_in_fresh_process
from benchmarks.suites.dcfs import accuracy, attack
from fedsift.data import catalog

_LEAST_RATIO, _MOST_DIFFERENCE = 500.0, 1e-8
_MOST_SECONDS, _MOST_MEMORY = 5.0, 4 * 2**30


def run(profile: str, echo: Echo) -> dict[str, Any]:
    """All parts of the suite; prints a line when each case is done."""
    echo(f"{'case':44} {'seconds':>9} {'MB':>7} {'peak MiB':>9}  bars")
    rows = []
    for job in _cases(profile):
        if job["data"] != "generated" and not catalog.is_available(job["data"]):
            echo(f"{_name(job)}: not here (set FEDSIFT_DATA)")
            continue
        measures = measure_in_fresh_process(
            "dcfs.measures", job, _name(job), "Run it alone to see the whole message."
        )
        rows.append({"case": _name(job), "job": job, **measures})
        rows[-1]["bars"] = _judge(rows[-1]) if profile != "smoke" else {}
        _keep("rows")(rows[-1])
        echo(_line(rows[-1]))
    return {
        "rows": rows,
        "attacks": attack.attack_rows(profile, echo, _keep("attacks")),
        "development": accuracy.development_rows(profile, echo, _keep("development")),
        "accuracy": accuracy.accuracy_rows(profile, echo, _keep("accuracy")),
        "seed": 0,
    }


def _cases(profile: str) -> Iterator[dict[str, Any]]:
    columns = 400 if profile == "smoke" else 5748
    yield {"kind": "update", "data": "generated", "rows": 68, "features": columns, "parties": 1}
    small = {"data": "generated", "rows": 40, "features": 120, "parties": 3}
    yield {**small, "kind": "run", "exact": True}
    yield {**small, "kind": "filters"}
    if profile == "smoke":
        return
    yield {"kind": "run", "data": "tox171", "parties": 2, "exact": True}
    yield {"kind": "run", "data": "tox171", "parties": 2, "alignment": "local"}
    yield {"kind": "filters", "data": "tox171", "parties": 2}
    yield {"kind": "run", "data": "generated", "rows": 500, "features": 20_000, "parties": 2}


def _name(job: dict[str, Any]) -> str:
    size = f" {job['rows']} x {job['features']}" if job["data"] == "generated" else ""
    parties = "" if job["kind"] == "update" else f", {job['parties']} parties"
    way = f" {job['alignment']}" if "alignment" in job else ""
    return f"{job['kind']}{way} {job['data']}{size}{parties}"


def _keep(part: str) -> Callable[[dict[str, Any]], None]:
    """Append a finished row to the file that was asked for, so that nothing done is lost."""
    path = os.environ.get("FEDSIFT_BENCH_STREAM")

    def keep(row: dict[str, Any]) -> None:
        if path:
            with Path(path).open("a", encoding="utf-8") as file:
                file.write(json.dumps({"part": part, **row}) + "\n")

    return keep


def _judge(row: dict[str, Any]) -> dict[str, bool]:
    """Whether each bar of the case is met."""
    job, bars = row["job"], {}
    if "difference" in row:
        bars["equal"] = row["difference"] <= _MOST_DIFFERENCE
    if job["kind"] == "update":
        bars["500 times as fast"] = row["ratio"] >= _LEAST_RATIO
    if job["kind"] == "run" and job["data"] == "tox171":
        bars["seconds"] = row["seconds"] < _MOST_SECONDS
    if job["kind"] == "run" and job.get("features") == 20_000:
        bars["memory"] = row["peak_memory"] < _MOST_MEMORY
    return bars


def _line(row: dict[str, Any]) -> str:
    bars = " ".join(f"{name}:{'ok' if ok else 'MISSED'}" for name, ok in row["bars"].items())
    ratio = f" {row['ratio']:.0f}x" if "ratio" in row else ""
    return (
        f"{row['case']:44} {row['seconds']:9.4f} {row.get('bytes', 0) / 1e6:7.1f} "
        f"{row['peak_memory'] / 2**20:9.0f}  {bars}{ratio}"
    )
