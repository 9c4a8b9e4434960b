# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Suite ``runtime``: what it costs that the parties are apart.

Claims: a job on FLARE gives the result of the same job in one process and takes at most one and a
half times as long plus 25 seconds, from the command to the written result, fastest run against
fastest run; private set intersection of 100,000 with 100,000 ids takes less than 90 seconds and is
exact, however ids are written. What a round costs in one process, on FLARE (certificates, hub,
sealed lines) and on bare gRPC (none of these) is reported, whatever it is.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.runner import Echo, child_environment, measure_in_fresh_process
from benchmarks.suites.runtime import jobs as runtime_jobs

if TYPE_CHECKING:
    from fedsift.deploy.kits import PartyData
    from fedsift.deploy.local import LocalFederation
    from fedsift.result import SelectionResult

Row = dict[str, Any]

MOST_TIMES, MOST_MORE_SECONDS = 1.5, 25.0
"""How much longer a job on FLARE may take than in one process."""

MOST_PSI_SECONDS = 90.0

_PARTIES = ("bank", "shop", "clinic", "garage")
_MB = 1_000_000
_STEPS = {
    "smoke": ((100, 5), (20_000, 2)),
    "regular": ((100, 100), (_MB, 20), (20 * _MB, 5)),
    "paper": ((100, 300), (_MB, 50), (20 * _MB, 10)),
}
_REPEATS = {"smoke": 1, "regular": 3, "paper": 5}
_ECHO_SECONDS = 600.0


def run(profile: str, echo: Echo) -> dict[str, Any]:
    """All parts of the suite; prints a line when each case is done."""
    load = {"before": os.getloadavg()[0]}
    rows: list[Row] = []

    def add(made: Iterator[Row]) -> None:
        for row in made:
            rows.append(row | {"bars": row.get("bars", {}) if profile != "smoke" else {}})
            echo(_line(rows[-1]))

    echo(f"{'case':70} {'seconds':>10} {'MB/s':>8} {'MB':>8}  bars")
    add(_alignments(profile))
    for engine in ("embedded", "gRPC"):
        job = {"part": "echo", "engine": engine, "steps": _STEPS[profile]}
        add(_echo_rows(engine, _measure(job)["echo"]))
    with tempfile.TemporaryDirectory(prefix="fedsift-bench-") as folder:
        add(_apart(profile, Path(folder)))
    load["after"] = os.getloadavg()[0]
    bars = {f"{row['case']}: {name}": met for row in rows for name, met in row["bars"].items()}
    return {"rows": rows, "bars": bars, "repeats": _REPEATS[profile], "load": load, "seed": 0}


def _alignments(profile: str) -> Iterator[Row]:
    """Private set intersection, every party in this process."""
    size = {"smoke": 100, "regular": 1, "paper": 1}[profile]
    text = ("text",) * 3
    cases = [
        (100_000 // size, 50_000 // size, text[:2]),
        (20_000 // size, 8_000 // size, text),
        (5_000 // size, 2_000 // size, ("integers", "text with blanks", "floats")),
        (5_000 // size, 2_000 // size, ("days in seconds", "days in nanoseconds")),
        (5_000 // size, 2_000 // size, ("text and integer", "category and text")),
    ]
    for n_rows, n_common, spellings in cases[:2] if profile == "smoke" else cases:
        job = {"part": "psi", "rows": n_rows, "common": n_common, "spellings": spellings, "seed": 0}
        measures = _measure(job)
        bars = {"exact": measures["exact"] and measures["common"] == n_common}
        if n_rows == 100_000:
            bars["under 90 s"] = measures["seconds"] < MOST_PSI_SECONDS
        named = " / ".join(dict.fromkeys(spellings))
        case = f"psi {' x '.join([f'{n_rows:,}'] * len(spellings))} ids, {named}"
        yield {"case": case, "job": job, **measures, "bars": bars}


def _apart(profile: str, folder: Path) -> Iterator[Row]:
    """What needs a federation: its start, the echo, and the jobs."""
    from benchmarks.suites.runtime.flare import allow_echo, submit_echo
    from fedsift.deploy.local import LocalFederation

    jobs = [_write(job, folder) for job in _jobs(profile)]
    most = max((parties for _, _, parties in jobs), key=len)
    start = time.perf_counter()
    federation = LocalFederation(most, folder=folder / "federation", checkpoints=False)
    provisioned = time.perf_counter() - start
    for name in most:
        allow_echo(federation.kits[name])
    os.environ.update(child_environment())  # sites inherit it, and must find the echo
    with federation:
        seconds = time.perf_counter() - start
        phases = {"provision": provisioned, "start": seconds - provisioned}
        yield {
            "case": f"federation of a hub and {len(most)} organisations, from nothing to up",
            "job": {"part": "start", "parties": list(most)},
            "seconds": seconds,
            "phases": phases,
        }
        pair = {"method": "filter", "parties": _PARTIES[:2], "parameters": {}, "ids": False}
        path, parties = runtime_jobs.write_job(
            pair | {"rows": 40, "features": 4, "seed": 0}, folder / "echo"
        )
        _settle(federation, parties)
        found = submit_echo(federation.submitter, path, _STEPS[profile], _ECHO_SECONDS)
        yield from _echo_rows("FLARE", found)
        for job, path, parties in jobs:
            _settle(federation, parties)
            yield from _job_rows(job, path, federation, _REPEATS[profile])


def _jobs(profile: str) -> Iterator[dict[str, Any]]:
    """A filter on rows that lie alike, and VF-PS on rows that are matched by id; all defaults."""
    small = profile == "smoke"
    yield {
        "part": "job",
        "method": "filter",
        "parties": _PARTIES[:2] if small else _PARTIES[:3],
        "rows": 200 if small else 20_000,
        "features": 6 if small else 200,
        "ids": False,
        "parameters": {"n_features_to_select": 2 if small else 20},
        "seed": 0,
    }
    if not small:
        yield {
            "part": "job",
            "method": "vfps",
            "parties": _PARTIES,
            "rows": 10_000,
            "features": 40,
            "ids": True,
            "parameters": {"n_participants": 1},
            "seed": 0,
        }


def _write(job: dict[str, Any], folder: Path) -> tuple[dict[str, Any], Path, dict[str, PartyData]]:
    return job, *runtime_jobs.write_job(job, folder / job["method"])


def _settle(federation: LocalFederation, parties: Mapping[str, PartyData]) -> None:
    for name, data in parties.items():
        federation.set_party(name, data)


def _job_rows(
    job: dict[str, Any], path: Path, federation: LocalFederation, repeats: int
) -> Iterator[Row]:
    """Both engines in turn, so that what else the machine does falls on both."""
    case = f"{job['method']} {job['rows']:,} x {job['features']}, {len(job['parties'])} parties"
    taken: dict[str, list[tuple[float, SelectionResult]]] = {"embedded": [], "FLARE": []}
    for number in range(repeats):
        out = path.parent / f"out-{number}"
        here = runtime_jobs.run_here(path, out / "here")
        there = runtime_jobs.run_there(path, out / "there", federation.submitter)
        # The queries of VF-PS are drawn by the parties in every run.
        drawn = job["method"] == "vfps"
        runtime_jobs.refuse_difference(case, here[1], there[1], drawn=drawn)
        taken["embedded"].append(here)
        taken["FLARE"].append(there)
    # The fastest run of each: other work on the machine only ever adds.
    best = {engine: min(runs, key=itemgetter(0)) for engine, runs in taken.items()}
    limit = MOST_TIMES * best["embedded"][0] + MOST_MORE_SECONDS
    for engine, (seconds, result) in best.items():
        row = {
            "case": f"{case}, {engine}",
            "job": job | {"engine": engine},
            "seconds": seconds,
            "runs": [one for one, _ in taken[engine]],
            "protocol_seconds": result.timings["total"],
            "sent_bytes": result.traffic.n_bytes,
            "messages": result.traffic.messages,
            "rounds": result.traffic.rounds,
            "selected": {party: list(names) for party, names in result.selected.items()},
        }
        if engine == "FLARE":
            row["limit"] = limit
            row["bars"] = {"at most 1.5 times + 25 s": seconds <= limit}
        yield row


def _echo_rows(engine: str, found: list[dict[str, Any]]) -> Iterator[Row]:
    """One row per size; both ways count for the speed."""
    for one in found:
        seconds = statistics.median(one["seconds"])
        yield {
            "case": f"echo {_size(one['size'])}, {engine}",
            "job": {"part": "echo", "engine": engine, "size": one["size"]},
            "seconds": seconds,
            "mb_per_second": 2 * one["size"] / seconds / _MB,
            "n": len(one["seconds"]),
            "slowest": max(one["seconds"]),
        }


def _size(n_bytes: int) -> str:
    for unit, name in ((_MB, "MB"), (1000, "kB")):
        if n_bytes >= unit:
            return f"{n_bytes // unit} {name}"
    return f"{n_bytes} B"


def _measure(job: dict[str, Any]) -> dict[str, Any]:
    action = "FLARE, gRPC and private set intersection come with fedsift[flare,psi]."
    return measure_in_fresh_process("runtime.measures", job, job["part"], action)


def _line(row: Row) -> str:
    bars = " ".join(f"{name}:{'ok' if met else 'MISSED'}" for name, met in row["bars"].items())
    digits = 5 if row["seconds"] < 0.1 else 2
    speed = f"{row['mb_per_second']:8.1f}" if "mb_per_second" in row else " " * 8
    sent = row.get("bytes", row.get("sent_bytes"))
    shown = " " * 8 if sent is None else f"{sent / _MB:8.2f}"
    return f"{row['case']:70} {row['seconds']:10.{digits}f} {speed} {shown}  {bars}"
