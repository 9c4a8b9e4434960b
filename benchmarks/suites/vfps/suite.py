# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Suite ``vfps``: exactness, cost and worth of participant selection (paper 002).

Claims: the federated score is the plaintext estimator's, for 2 to 20 participants, with every
optimisation on or off; on letter with 4 participants both optimisations together need a tenth of
the ciphertext slots and a fifth of the time of neither; every strategy scores and chooses under encryption as on pooled columns; 20,000
rows with at least 10 groups and 200 queries take less than a minute, 100,000 rows less than 2 GiB;
group testing is within 3 points of brute force, and does not give single participants away.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from benchmarks.runner import Echo, measure_in_fresh_process
from benchmarks.suites.vfps import leaks, secure, tables
from fedsift.data import catalog

_LARGEST_ERROR = 0.005
"""Fixed-point distances: neighbours nearer to each other than the last digit count as a tie."""


def run(profile: str, echo: Echo) -> dict[str, Any]:
    """All parts of the suite; prints a line when each case is done."""
    echo(f"{'case':46} {'seconds':>8} {'slots':>10} {'cipher':>7} {'MB':>8} {'peak MiB':>9}  bars")
    rows: list[dict[str, Any]] = []
    for job in _cases(profile):
        if job["data"] != "generated" and not catalog.is_available(job["data"]):
            echo(f"{_name(job)}: not here (set FEDSIFT_DATA)")
            continue
        measures = measure_in_fresh_process(
            "vfps.measures", job, _name(job), "Run 'fedsift doctor'."
        )
        rows.append({"case": _name(job), "job": job, **measures})
        rows[-1]["bars"] = _judge(rows[-1], rows) if profile != "smoke" else {}
        echo(_line(rows[-1]))
    table = tables.table_rows(profile, echo)
    encrypted = secure.rows(profile, echo)
    claims = tables.judge(table) | secure.judge(encrypted)
    echo(f"claims: {json.dumps(claims)}")
    leaked = leaks.measure()
    for design, found in leaked.items():
        echo(
            f"{design}: the leader solves for {found['solved']:.0%} of the participants' parts, "
            f"and has their distances by geometry with r2 {found['geometry_r2']:.3f}"
        )
    return {
        "rows": rows,
        "table": table,
        "secure": encrypted,
        "claims": claims,
        "leaks": leaked,
        "seed": 0,
    }


def _cases(profile: str) -> Iterator[dict[str, Any]]:
    sizes = (2, 4) if profile == "smoke" else (2, 3, 4, 8, 12, 20)
    for parties in sizes:
        for fagin in (True, False):
            for batching in (True, False):
                yield {
                    "part": "exact",
                    "data": "generated",
                    "rows": 200 if profile == "smoke" else 500,
                    "parties": parties,
                    "strategy": "shapley",
                    "groups": 2 * parties,
                    "queries": 20,
                    "singles": True,
                    "fagin": fagin,
                    "batching": batching,
                    "exact": True,
                }
    for parties in sizes[-4:]:
        if parties > 2:  # two cannot be told apart without groups of one
            yield {
                "part": "exact",
                "data": "generated",
                "rows": 500,
                "parties": parties,
                "strategy": "group-testing",
                "groups": 10,
                "queries": 40,
                "exact": True,
            }
    if profile == "smoke":
        return
    letter = {"data": "letter", "parties": 4, "strategy": "shapley", "groups": 32}
    for fagin, batching in ((False, False), (False, True), (True, False), (True, True)):
        yield {
            **letter,
            "part": "ablation",
            "queries": 50,
            "fagin": fagin,
            "batching": batching,
        }
    yield {**letter, "part": "large", "queries": 200, "exact": True}
    groups = {**letter, "part": "large", "strategy": "group-testing", "groups": 50, "exact": True}
    yield {**groups, "queries": 400}
    yield {**groups, "parties": 16, "groups": 10, "queries": 200}
    birch = {"data": "birch1", "parties": 2, "strategy": "individual", "groups": 2}
    yield {**birch, "part": "large", "queries": 200, "singles": True, "exact": True}


def _name(job: dict[str, Any]) -> str:
    text = f"{job['part']} {job['data']} m={job['parties']} {job['strategy']}"
    if "fagin" in job:
        switches = [name for name in ("fagin", "batching") if job[name]]
        text += f" {'+'.join(switches) or 'neither'}"
    return text


def _judge(row: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, bool]:
    """Whether each bar of the case is met."""
    bars = {}
    job = row["job"]
    if "largest_error" in row:
        bars["exact"] = row["largest_error"] <= _LARGEST_ERROR
    if job["part"] == "ablation" and job["fagin"] and job["batching"]:
        base = next(r for r in rows if r["case"].endswith("neither") and "ablation" in r["case"])
        row["slots_ratio"] = base["slots"] / row["slots"]
        row["seconds_ratio"] = base["seconds"] / row["seconds"]
        bars["slots"] = row["slots_ratio"] >= 10
        bars["seconds"] = row["seconds_ratio"] >= 5
    if job["part"] == "large":
        bars["memory"] = row["peak_memory"] < 2 * 2**30
        if job["data"] == "letter":
            bars["minute"] = row["seconds"] < 60
    return bars


def _line(row: dict[str, Any]) -> str:
    bars = " ".join(f"{name}:{'ok' if ok else 'MISSED'}" for name, ok in row["bars"].items())
    error = f" error {row['largest_error']:.1e}" if "largest_error" in row else ""
    return (
        f"{row['case']:46} {row['seconds']:8.2f} {row.get('slots', 0):10} "
        f"{row['ciphertexts']:7} {row['bytes'] / 1e6:8.1f} {row['peak_memory'] / 2**20:9.0f}  "
        f"{bars}{error}"
    )
