# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Who adds to a bank's own columns, and how many do? 20 generated federations.

Run ``python -m benchmarks.suites.vfps.own_columns --out benchmarks/vfps_own.json``. The bank has
strong columns, one partner a noisy copy of them, one something new, two have noise. Runs are
repeated with masks on some seeds: selection, gains and errors must be the same.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

import fedsift as fs

NAMES = ("bank", "copy", "new", "noise-1", "noise-2")
COLUMNS = [list(range(4)), list(range(4, 8)), list(range(8, 11)), [11, 12, 13], [14, 15, 16]]
SEEDS, MASKED = 20, 4


STRENGTHS = {"clear": 1.5, "weak": 1.0}
"""How far apart the means of two classes are in the new partner's first column."""


def federation_of(seed: int, strength: str = "clear", n_rows: int = 600) -> Any:
    """Two classes; the copy is the bank's columns with half a standard deviation of noise."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n_rows)
    own = rng.normal(size=(n_rows, 4)) + y[:, None] * np.array([1.2, 1.0, 0.6, 0.0])
    copy = own + 0.5 * rng.normal(size=own.shape)
    new = rng.normal(size=(n_rows, 3)) + y[:, None] * np.array([STRENGTHS[strength], 0.6, 0.0])
    X = np.hstack([own, copy, new, rng.normal(size=(n_rows, 6))])
    return fs.split_vertical(X, y, COLUMNS, names=NAMES, label_holder="bank", task="classification")


def one_run(seed: int, strength: str = "clear", **settings: Any) -> dict[str, Any]:
    """What is selected with this seed; the search ends by itself."""
    federation = federation_of(seed, strength)
    selector = fs.VFPSSelector(n_participants="auto", random_state=seed, **settings)
    selector.fit(federation)
    return {
        "selected": selector.selected_participants_,
        "gains": selector.importances_,
        "errors": selector.standard_errors_,
    }


def measure(strength: str, n_seeds: int = SEEDS, n_masked: int = MASKED) -> dict[str, Any]:
    """All seeds, and the claims over them."""
    runs = [one_run(seed, strength, security="plain") for seed in range(n_seeds)]
    masked = [one_run(seed, strength) for seed in range(n_masked)]
    return {
        "runs": runs,
        "claims": {
            "seeds": n_seeds,
            "named_first": sum(
                max(NAMES[1:], key=lambda name: run["gains"][name]) == "new" for run in runs
            ),
            "new_first": sum(run["selected"][:1] == ["new"] for run in runs),
            "stops_there": sum(run["selected"] == ["new"] for run in runs),
            "masked_runs": n_masked,
            "masked_equals_plain": masked == runs[:n_masked],
        },
    }


def main() -> None:
    """Write the file and print the claims."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    found = {strength: measure(strength) for strength in STRENGTHS}
    given.out.write_text(json.dumps(found, indent=1) + "\n")
    for strength, measured in found.items():
        print(strength, json.dumps(measured["claims"]))


if __name__ == "__main__":
    main()
