# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What is left to see: membership inference against recorded runs of DCFS on real data sets.

Candidates are rows the victim selected with and rows of the same party that it kept for testing.
The figure is the area under the ROC curve: 0.5 is a guess, 1 is certainty.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.suites.dcfs.accuracy import summary
from benchmarks.suites.dcfs.rankings import Task, source_of, task
from fedsift.data import catalog
from fedsift.lab.attacks import dcfs
from fedsift.lab.attacks.dcfs import (
    Recording,
    seen_by_coordinator,
    seen_by_member,
    seen_openly,
)
from fedsift.methods.dcfs.selector import MAX_AUTO_ANCHORS
from fedsift.methods.dcfs.settings import Params

DATA_SETS = {
    "smoke": ("generated",),
    "regular": ("colon", "tox171", "lung", "lymphoma"),
}
DATA_SETS["paper"] = DATA_SETS["regular"]
RUNS = {"smoke": 2, "regular": 10, "paper": 30}
_MOST_INVERTED, _INVERTED_RUNS = 2500, 5
"""As many anchors as columns are tried up to this width and this often: inverting takes long."""
_VICTIM, _ATTACKER = "party-1", "party-2"


def record(task: Task, seed: int, *, n_anchors: int, alignment: str, target: str) -> Recording:
    """Run DCFS on one division of the rows with all frames kept."""
    division = task.divide(np.random.default_rng((seed, 0)))
    parties = {f"party-{i + 1}": task.X[rows] for i, rows in enumerate(division.train)}
    many = n_anchors >= task.X.shape[1]
    params = Params(
        10,
        n_anchors=n_anchors,
        alignment=alignment,
        scale="pooled" if alignment == "open" else "own",
        target="exact" if target == "exact" else "paper",
        many_anchors=many,
    )
    strangers = task.X[division.test[0]]
    return dcfs.record(parties, strangers, params, _VICTIM, _ATTACKER)


def attack_rows(
    profile: str, echo: Callable[[str], None], keep: Callable[[dict[str, Any]], None]
) -> list[dict[str, Any]]:
    """Every data set that is there: areas under the curve by who looks and at how many anchors."""
    rows = []
    for name in DATA_SETS[profile]:
        if source_of(name) and not catalog.is_available(source_of(name)):
            echo(f"{name}: not here (set FEDSIFT_DATA)")
            continue
        rows.append(_row(task(name), RUNS[profile]))
        keep(rows[-1])
        shown = (f"{k} {v['mean']:.2f}+-{v['se']:.2f}" for k, v in rows[-1]["auc"].items())
        echo(f"{name:10} membership: " + "  ".join(shown))
    return rows


def _row(task: Task, runs: int) -> dict[str, Any]:
    n_features = task.X.shape[1]
    default = max(1, min(MAX_AUTO_ANCHORS, n_features // 4))
    found: dict[str, list[float]] = {}
    errors: list[float] = []

    def note(name: str, value: float) -> None:
        found.setdefault(name, []).append(value)

    for seed in range(runs):
        run = record(task, seed, n_anchors=default, alignment="server", target="exact")
        note("server, member", seen_by_member(run))
        note("server, coordinator", seen_by_coordinator(run, seed))
        for target in ("exact", "paper"):
            run = record(task, seed, n_anchors=default, alignment="open", target=target)
            note(f"open, {target}", seen_openly(run))
            if n_features > _MOST_INVERTED or seed >= _INVERTED_RUNS:
                continue
            run = record(task, seed, n_anchors=n_features, alignment="open", target=target)
            note(f"open, {target}, as many anchors as columns", seen_openly(run))
            if target == "paper":
                errors.append(dcfs.recovery_error(run))
    row = {
        "data": task.name,
        "runs": runs,
        "anchors": default,
        "columns": n_features,
        "auc": {name: summary(np.array(values)) for name, values in found.items()},
    }
    return {**row, "recovery_error": max(errors)} if errors else row
