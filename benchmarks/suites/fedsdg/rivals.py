# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Selections of others on MADELON, in accuracy of the same network and in traffic.

    python -m benchmarks.suites.fedsdg.rivals --out benchmarks/fedsdg_rivals.json

Same splits and test rows as ``fedsift bench fedsdg``. Every rival chooses half of the features, and
as many as FedSDG-FS did on the same split (from ``benchmarks/fedsdg.json``). LassoNet, which sees
all columns in one place, is left out where the package is not installed. Results are written after
every fit, and what the file has already is not run again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.baselines.fedsdg import fedsdg_baseline
from benchmarks.store import machine_facts
from benchmarks.suites.fedsdg.accuracy import load, split
from benchmarks.suites.fedsdg.suite import FIRST_SEED
from fedsift.errors import MissingPackage

KINDS = ("less-vfl", "vflfs", "ms-gini", "sffs", "lassonet")
NUMBERS = ("50 %", "same number")
_SUITE = Path("benchmarks/fedsdg.json")


def numbers_of_suite(path: Path = _SUITE) -> dict[int, int]:
    """How many features of MADELON FedSDG-FS selected, by split."""
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    (row,) = [r for r in rows if (r["data"], r["method"]) == ("madelon", "fedsdg")]
    return dict(zip(row["seeds"], row["n_features"], strict=True))


def one_fit(
    seed: int, kind: str, number: str, n_same: int, **settings: Any
) -> dict[str, Any] | None:
    """One rival on one split of MADELON; None where its package is not there."""
    X, y, informative = load("madelon")
    training, test = split(X, y, seed)
    wanted = n_same if number == "same number" else X.shape[1] // 2
    settings = {"security": "plain", "random_state": seed, **settings}
    start = time.perf_counter()
    try:
        model = fedsdg_baseline(kind, n_features_to_select=wanted, **settings).fit(training)
    except MissingPackage as error:
        print(error, flush=True)
        return None
    return {
        "seed": seed,
        "kind": kind,
        "number": number,
        "n_features": int(model.support_.sum()),
        "found": int(np.isin(np.flatnonzero(model.support_), informative).sum()),
        "score": float(model.score(test)),
        "selection_bytes": model.selection_bytes_,
        "seconds": time.perf_counter() - start,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    numbers, rows = numbers_of_suite(), []
    if options.out.exists():
        rows = json.loads(options.out.read_text(encoding="utf-8"))["rows"]
    known = {(row["kind"], row["seed"], row["number"]) for row in rows}
    seeds = range(FIRST_SEED, FIRST_SEED + options.seeds)
    for kind, seed, number in itertools.product(KINDS, seeds, NUMBERS):
        if (kind, seed, number) in known:
            continue
        row = one_fit(seed, kind, number, numbers[seed])
        if row is None:
            break
        print(row, flush=True)
        rows.append(row)
        order = [*itertools.product(KINDS, seeds, NUMBERS)]
        rows.sort(key=lambda row: order.index((row["kind"], row["seed"], row["number"])))
        outcome = {"data": "madelon", "rows": rows, "machine": machine_facts()}
        options.out.write_text(json.dumps(outcome, indent=2) + "\n", encoding="utf-8")
