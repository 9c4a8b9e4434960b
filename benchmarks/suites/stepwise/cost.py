# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Seconds and memory of vertical stepwise selection, next to one ``f`` filter of the same table.

    python -m benchmarks.suites.stepwise.cost --out benchmarks/stepwise_cost.json

Every run has a process of its own, so that its memory is known. The label holder has no columns,
as many as all others, or so many as ``--own`` says.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np

import fedsift as fs

RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "filter f": ("FilterSelector", {"score": "f"}),
    "stepwise": ("StepwiseSelector", {}),
    "stepwise with 50 shuffled labels": ("StepwiseSelector", {"n_features_to_select": "auto"}),
}


def make_tables(n_rows: int, n_columns: int, n_own: int, n_added: int, seed: int) -> fs.Federation:
    """Two partners beside the label holder; so many columns say something that no other says."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n_rows) % 2)
    X = rng.normal(size=(n_rows, n_columns))
    told = rng.permutation(np.arange(n_own, n_columns))[:n_added]
    X[:, told] += 0.3 * y[:, None]
    halves = np.array_split(np.arange(n_own, n_columns), 2)
    parts = [list(range(n_own))] * (n_own > 0) + [half.tolist() for half in halves]
    return fs.split_vertical(X, y, parts, label_holder=0 if n_own else None)


def measure(name: str, given: argparse.Namespace) -> dict[str, Any]:
    """One run: seconds, bytes, and the largest memory of its process."""
    kind, settings = RUNS[name]
    federation = make_tables(given.rows, given.columns, given.own, given.selected, given.seed)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wanted = {"n_features_to_select": given.selected, "random_state": 0} | settings
    start = time.perf_counter()
    selector = getattr(fs, kind)(**wanted).fit(federation)
    seconds = time.perf_counter() - start
    result = selector.result_
    return {
        "run": name,
        "seconds": round(seconds, 1),
        "processor_seconds": round(_processor_seconds(), 1),
        "n_bytes": result.traffic.n_bytes,
        "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "megabytes_of_tables": before // 1024,
        "n_selected": result.n_selected,
        "n_shuffles": result.parameters.get("n_shuffles", 0),
        "seconds_by_phase": {k: round(v, 1) for k, v in result.timings.items()},
    }


def ratios(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Processor seconds of every run over those of the run before it."""
    return {
        f"{run['run']} / {before['run']}": round(
            run["processor_seconds"] / before["processor_seconds"], 2
        )
        for before, run in itertools.pairwise(rows)
    }


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Measure all runs, and write them down as they come."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--own", type=int, default=0)
    parser.add_argument("--selected", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    rows = []
    for name in RUNS:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            rows.append(pool.apply(measure, (name, given)))
        print(json.dumps(rows[-1]), flush=True)
        if given.out is not None:
            settings = {name: value for name, value in vars(given).items() if name != "out"}
            found = {"given": settings, "rows": rows, "ratios": ratios(rows)}
            given.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
