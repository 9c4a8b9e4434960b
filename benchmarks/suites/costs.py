# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Suite ``costs``: what ``fedsift plan`` predicts against what a run takes, over all six methods.

The machine is calibrated once at the start, as 'fedsift doctor' does. Constants of the model are
chosen on other jobs than these. Time is judged twice: in processor seconds, which hardly depend on
what else the machine is doing, and in seconds on the wall, which only mean something if it does
nothing else (the load is recorded).
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from fedsift.costs import Rates, estimate
from fedsift.costs.measure import measure_rates
from fedsift.data import split_horizontal, split_vertical
from fedsift.methods.registry import method_named
from fedsift.methods.vfps.messages import MESSAGES

_BY_SUMS: dict[str, Any] = {
    "strategy": "group-testing",
    "design": "separate",
    "keep_own": False,
}
"""VF-PS as in the paper."""

TIME_BAR = 1.5
BYTES_BAR = 1.1

_SIZES = {"smoke": 0.12, "regular": 1.0, "paper": 2.0}
_FEWEST_ROWS = 120


_ALLOWING = {
    "may_reveal": sorted({message.declaration.kind for message in MESSAGES}),
    "min_security_bits": 0,
}


def _job(
    case: str,
    method: str,
    rows: int,
    features: int,
    parties: int,
    *,
    horizontal: bool = False,
    classes: int = 2,
    **parameters: Any,
) -> dict[str, Any]:
    return {
        "case": case,
        "method": method,
        "rows": rows,
        "features": features,
        "parties": parties,
        "setting": "horizontal" if horizontal else "vertical",
        "classes": classes,
        "parameters": parameters,
    }


JOBS = (
    _job("filter gini, BGV", "filter", 6000, 60, 3, classes=3, score="gini"),
    _job("filter mi, Paillier", "filter", 4000, 24, 2, score="mi", he="paillier"),
    _job("filter f, regression", "filter", 2500, 48, 2, classes=0, score="f"),
    _job("filter mi, horizontal", "filter", 30_000, 80, 4, horizontal=True, score="mi"),
    _job("interaction", "interaction", 1500, 30, 3, n_features_to_select=6),
    _job("vfps, scores", "vfps", 5000, 30, 5, n_participants=2, n_queries=300),
    _job("vfps, separate groups", "vfps", 5000, 30, 5, n_participants=2, n_queries=300, **_BY_SUMS),
    _job(
        "vfps, shared groups",
        "vfps",
        1500,
        24,
        4,
        n_participants=2,
        n_queries=40,
        n_groups=8,
        **_BY_SUMS | {"design": "shared"},
        policy=_ALLOWING,
    ),
    _job("dcfs", "dcfs", 2400, 100, 3, horizontal=True),
    _job("fpso", "fpso", 1200, 40, 3, horizontal=True),
    _job("fedsdg", "fedsdg", 700, 24, 2, max_epochs=2),
)

UNUSUAL = (
    _job("filter gini, plain", "filter", 20_000, 60, 3, score="gini", security="plain"),
    _job(
        "interaction, plain", "interaction", 2000, 30, 2, n_features_to_select=6, security="plain"
    ),
    _job(
        "vfps, Paillier",
        "vfps",
        2500,
        20,
        4,
        n_participants=2,
        n_queries=80,
        he="paillier",
        **_BY_SUMS,
    ),
    _job(
        "fedsdg, Paillier",
        "fedsdg",
        220,
        16,
        2,
        max_epochs=1,
        batch_size=64,
        embedding=4,
        outputs=4,
        he="paillier",
    ),
)
"""Runs for comparison only: without encryption, and under a scheme that nobody would choose."""


def run(profile: str, echo: Callable[[str], None]) -> dict[str, Any]:
    """Calibrate, then predict and run every job."""
    load = {"before": os.getloadavg()[0]}
    start, wall = time.process_time(), time.perf_counter()
    rates = Rates(measure_rates(), "here", time.time())
    calibration = {
        "cpu_seconds": time.process_time() - start,
        "seconds": time.perf_counter() - wall,
        "units": len(rates.seconds),
    }
    echo(f"calibrated in {calibration['cpu_seconds']:.1f} processor seconds")
    rows, bars = [], {}
    for number, job in enumerate((*JOBS, *UNUSUAL)):
        row = measured(job, _SIZES[profile], rates, seed=number)
        rows.append(row)
        bars[f"{job['case']}: time"] = _within(row["ratios"]["time"], TIME_BAR)
        bars[f"{job['case']}: wall"] = _within(row["ratios"]["wall"], TIME_BAR)
        bars[f"{job['case']}: bytes"] = _within(row["ratios"]["bytes"], BYTES_BAR)
        ratios = ", ".join(f"{name} {value:.2f}" for name, value in row["ratios"].items())
        echo(f"{job['case']}: {row['cpu_seconds']:.2f} s, predicted / real: {ratios}")
    load["after"] = os.getloadavg()[0]
    return {"calibration": calibration, "rows": rows, "bars": bars, "load": load}


def measured(job: dict[str, Any], size: float, rates: Rates, seed: int) -> dict[str, Any]:
    """One job: prediction, reality and their ratios."""
    federation, n_rows = _federation(job, size, seed)
    selector = method_named(job["method"]).estimator(**job["parameters"], random_state=seed)
    told = estimate(selector, federation, rates)
    assert told is not None
    wall, cpu = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        traffic = selector.fit(federation).result_.traffic
    seconds, cpu_seconds = time.perf_counter() - wall, time.process_time() - cpu
    return {
        "case": job["case"],
        "job": {**job, "rows": n_rows, "seed": seed},
        "predicted": told.to_plain(),
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "bytes": traffic.n_bytes,
        "rounds": traffic.rounds,
        "messages": traffic.messages,
        "ciphertexts": traffic.ciphertexts,
        "ratios": {
            "time": told.cpu_seconds / cpu_seconds,
            "wall": told.seconds / seconds,
            "bytes": told.n_bytes / traffic.n_bytes,
            "rounds": told.rounds / traffic.rounds,
        },
    }


def _federation(job: dict[str, Any], size: float, seed: int) -> tuple[Any, int]:
    """Gaussian columns, some of which depend on the label."""
    rng = np.random.default_rng([1_000, seed])
    n_rows = max(_FEWEST_ROWS, int(job["rows"] * size))
    X = rng.normal(size=(n_rows, job["features"]))
    y = rng.integers(0, job["classes"], n_rows) if job["classes"] else rng.normal(size=n_rows)
    relevant = max(1, job["features"] // 8)
    X[:, :relevant] += np.linspace(1.0, 0.2, relevant) * y[:, None]
    split = split_horizontal if job["setting"] == "horizontal" else split_vertical
    return split(X, y, job["parties"], random_state=seed), n_rows


def _within(ratio: float, bar: float) -> bool:
    return 1 / bar <= ratio <= bar
