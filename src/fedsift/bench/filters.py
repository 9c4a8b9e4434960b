# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Suite ``filters``: secure Gini against python-paillier, side by side in one run.

Claim: at 128-bit security, with 2,000 rows, 2 classes, 500 features and 10 bins, BGV is at least 60
times and packed Paillier at least 12 times as fast as one python-paillier ciphertext per sample and
class.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

from fedsift.errors import ParameterError

_SIZES = {
    "smoke": {"rows": 300, "features": 20, "classes": 2, "bins": 10},
    "regular": {"rows": 2000, "features": 500, "classes": 2, "bins": 10},
    "paper": {"rows": 2000, "features": 500, "classes": 2, "bins": 10},
}
_LARGE = {
    "smoke": {"rows": 3000, "features": 20, "classes": 2, "bins": 10},
    "regular": {"rows": 100_000, "features": 100, "classes": 2, "bins": 10},
    "paper": {"rows": 100_000, "features": 100, "classes": 2, "bins": 10},
}
_REPEATS = {"smoke": 1, "regular": 3, "paper": 5}
_BARS = {
    ("counts", "bgv"): {"ratio": 60, "bytes": 8_000_000, "peak_memory": 2**30},
    ("counts", "paillier"): {"ratio": 12},
    ("scores", "bgv"): {"ratio": 20, "bytes": 40_000_000},
}
"""What a regular run must reach: at least that ratio, at most those bytes and that memory."""

Echo = Callable[[str], None]


def run(profile: str, echo: Echo) -> dict[str, Any]:
    """All cases; prints a line when each is done."""
    rows = list(_cases(profile))
    echo(f"{'case':34} {'seconds':>16} {'ratio':>9} {'MB':>9} {'peak MiB':>9}  bars")
    baseline: float | None = None
    done = []
    for job in rows:
        measures = _measure(job, _REPEATS[profile])
        if job["he"] == "python-paillier":
            baseline = measures["seconds"]
        if baseline is not None and not job["large"]:
            measures["ratio"] = baseline / measures["seconds"]
        measures["bars"] = _judge(job, measures) if profile != "smoke" else {}
        done.append({"case": _name(job), "job": job, **measures})
        echo(_line(done[-1]))
    echo(
        "python-paillier is timed on a part of the operations and scaled; its ratio is 1 by "
        "definition. Seconds are means over fresh processes with the standard error."
    )
    return {"rows": done, "repeats": _REPEATS[profile], "seed": 0}


def _cases(profile: str) -> Iterator[dict[str, Any]]:
    size = {**_SIZES[profile], "large": False, "seed": 0}
    part = 8 if profile == "smoke" else 60
    yield {**size, "he": "python-paillier", "disclose": "counts", "part": part}
    for disclose in ("counts", "scores"):
        for he in ("paillier", "bgv", "plain"):
            yield {**size, "he": he, "disclose": disclose}
    large = {**_LARGE[profile], "large": True, "seed": 0}
    for disclose in ("counts", "scores"):
        yield {**large, "he": "bgv", "disclose": disclose}
    yield {**large, "he": "paillier", "disclose": "counts"}


def _name(job: dict[str, Any]) -> str:
    return f"{job['rows']}x{job['features']} {job['disclose']} {job['he']}"


def _measure(job: dict[str, Any], repeats: int) -> dict[str, Any]:
    """Mean seconds over fresh processes; counts must not differ between them."""
    n = 1 if job["large"] or job["he"] == "python-paillier" else repeats
    runs = [_in_fresh_process(job) for _ in range(n)]
    seconds = [r["seconds"] for r in runs]
    error = statistics.stdev(seconds) / n**0.5 if n > 1 else 0.0
    peak = max(r["peak_memory"] for r in runs)
    return {
        **runs[0],
        "seconds": statistics.mean(seconds),
        "standard_error": error,
        "n": n,
        "peak_memory": peak,
    }


def _in_fresh_process(job: dict[str, Any]) -> dict[str, Any]:
    command = [sys.executable, "-m", "fedsift.bench.worker", json.dumps(job)]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=3600, check=False)  # noqa: S603
    if finished.returncode != 0:
        last = finished.stderr.strip().splitlines()[-1:] or ["no message"]
        raise ParameterError(
            f"The case {_name(job)!r} failed: {last[0][:200]}",
            "Every case of a suite must run.",
            "python-paillier comes with the extra fedsift[dev].",
        )
    measures: dict[str, Any] = json.loads(finished.stdout)
    return measures


def _judge(job: dict[str, Any], measures: dict[str, Any]) -> dict[str, bool]:
    """Whether each bar of the case is met."""
    if job["large"]:
        return {}
    bars = _BARS.get((job["disclose"], job["he"]), {})
    return {
        name: measures[name] >= limit if name == "ratio" else measures[name] < limit
        for name, limit in bars.items()
    }


def _line(row: dict[str, Any]) -> str:
    ratio = f"{row['ratio']:8.1f}x" if "ratio" in row else ""
    seconds = f"{row['seconds']:.3f} +- {row['standard_error']:.3f}"
    bars = " ".join(f"{name}:{'ok' if ok else 'MISSED'}" for name, ok in row["bars"].items())
    peak = row["peak_memory"] / 2**20
    return (
        f"{row['case']:34} {seconds:>16} {ratio:>9} {row['bytes'] / 1e6:9.2f} {peak:9.0f}  {bars}"
    )
