# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Selections of others on MADELON, in accuracy of the same network and in traffic.

    python -m benchmarks.suites.fedsdg.rivals --out benchmarks/fedsdg_rivals.json

Same splits and test rows as ``fedsift bench fedsdg``. Every rival chooses half of the features, and
as many as FedSDG-FS did on the same split (from ``benchmarks/fedsdg.json``). LassoNet, which sees
all columns in one place, is left out where the package is not installed. Results are written after
every split.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.baselines.fedsdg import fedsdg_baseline
from benchmarks.store import machine_facts
from benchmarks.suites.fedsdg.accuracy import load, split
from benchmarks.suites.fedsdg.suite import FIRST_SEED
from fedsift.errors import MissingPackage

KINDS = ("ms-gini", "sffs", "vflfs", "less-vfl", "lassonet")
_SUITE = Path("benchmarks/fedsdg.json")


def numbers_of_suite(path: Path = _SUITE) -> dict[int, int]:
    """How many features of MADELON FedSDG-FS selected, by split."""
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    (row,) = [r for r in rows if (r["data"], r["method"]) == ("madelon", "fedsdg")]
    return dict(zip(row["seeds"], row["n_features"], strict=True))


def one_split(
    seed: int, n_same: int, kinds: Sequence[str] = KINDS, **settings: Any
) -> list[dict[str, Any]]:
    """All rivals on one split of MADELON."""
    X, y, informative = load("madelon")
    training, test = split(X, y, seed)
    settings = {"security": "plain", "random_state": seed, **settings}
    found = []
    for kind in kinds:
        for name, wanted in (("50 %", X.shape[1] // 2), ("same number", n_same)):
            start = time.perf_counter()
            model = fedsdg_baseline(kind, n_features_to_select=wanted, **settings)
            try:
                model.fit(training)
            except MissingPackage as error:
                print(error, flush=True)
                break
            found.append(
                {
                    "seed": seed,
                    "kind": kind,
                    "number": name,
                    "n_features": int(model.support_.sum()),
                    "found": int(np.isin(np.flatnonzero(model.support_), informative).sum()),
                    "score": float(model.score(test)),
                    "selection_bytes": model.selection_bytes_,
                    "seconds": time.perf_counter() - start,
                }
            )
            print(found[-1], flush=True)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    numbers, rows = numbers_of_suite(), []
    for seed in range(FIRST_SEED, FIRST_SEED + options.seeds):
        rows += one_split(seed, numbers[seed])
        outcome = {"data": "madelon", "rows": rows, "machine": machine_facts()}
        options.out.write_text(json.dumps(outcome, indent=2) + "\n", encoding="utf-8")
