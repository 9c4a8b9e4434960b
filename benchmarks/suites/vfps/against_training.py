# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Selecting participants against training with all of them, both under protection, in one run.

Run ``python -m benchmarks.suites.vfps.against_training --out benchmarks/vfps_training.json`` (with
``FEDSIFT_DATA``). The training is fedsift's own encrypted logistic regression over all columns
(``FedSDGSelector`` with ``model="linear"`` and without gates), with one output for two classes and
with one for each of 26. Processor seconds are compared too: they depend less on what else runs.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

import fedsift as fs
from fedsift.data import catalog
from fedsift.methods.registry import method_named

_PARTIES = 4


def federation_of(n_rows: int, n_classes: int) -> Any:
    """The first rows of letter, the label at the first of four parties; 2 or all 26 classes."""
    data = catalog.load("letter")
    X, y = np.asarray(data.X, dtype=np.float64)[:n_rows], np.asarray(data.y)[:n_rows]
    return fs.split_vertical(
        X, y if n_classes > 2 else y % 2, _PARTIES, label_holder=0, task="classification"
    )


def timed(selector: Any, federation: Any) -> dict[str, float]:
    """Seconds of a fit, by the clock and of the processor, and what it sent."""
    start, spent = time.perf_counter(), time.process_time()
    selector.fit(federation)
    return {
        "seconds": time.perf_counter() - start,
        "processor_seconds": time.process_time() - spent,
        "megabytes": selector.result_.traffic.n_bytes / 1e6,
    }


def measure(n_rows: int, n_epochs: int) -> list[dict[str, Any]]:
    """One line per number of classes."""
    kinds = tuple({known.kind for _, known in method_named("fedsdg").declarations()})
    found = []
    for n_classes in (2, 26):
        federation = federation_of(n_rows, n_classes)
        selection = timed(
            fs.VFPSSelector(n_participants=2, n_queries=400, random_state=0), federation
        )
        training = timed(
            fs.FedSDGSelector(
                protocol="paper", model="linear", gates="none", init="constant",
                n_features_to_select=federation.n_features, max_epochs=n_epochs, min_epochs=0,
                policy=fs.Policy(may_reveal=kinds), random_state=0,
            ),
            federation,
        )  # fmt: skip
        found.append(
            {
                "rows": n_rows,
                "classes": n_classes,
                "epochs": n_epochs,
                "selection": selection,
                "training": training,
                "ratio": training["processor_seconds"] / selection["processor_seconds"],
            }
        )
        print(json.dumps(found[-1]), flush=True)
    return found


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--epochs", type=int, default=1)
    given = parser.parse_args()
    given.out.write_text(json.dumps(measure(given.rows, given.epochs), indent=1) + "\n")


if __name__ == "__main__":
    main()
