# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Suite ``false_discoveries``: what a filter with a bounded share of false discoveries selects.

Claim: over 200 generated federations with 200 columns, of which 10 to 50 tell something, at most a
share of 0.1 of the selected columns tells nothing, within two standard errors, and at least 0.9
times as many of the others are found as by scipy on the pooled table.

Columns that tell something share factors with each other, whoever holds them, and so do those that
tell nothing; the label depends on columns of the first kind alone. A column is falsely discovered
if it is independent of the label.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy.stats import false_discovery_control
from sklearn.feature_selection import f_classif, f_regression

from benchmarks.runner import Echo
from fedsift.data import split_horizontal, split_vertical
from fedsift.methods.filter.selector import FilterSelector

FDR = 0.1
_COLUMNS = 200
_FEDERATIONS = {"smoke": 6, "regular": 200, "paper": 200}
_LEAST_POWER = 0.9
_CASES: dict[str, dict[str, Any]] = {
    "f, classes": {"score": "f"},
    "f, numbers": {"score": "f", "numbers": True},
    "f, classes, different rows": {"score": "f", "horizontal": True},
    "gini": {"score": "gini"},
    "gini, 20 copies": {"score": "gini", "n_permutations": 20},
    "mi": {"score": "mi"},
}
"""How features are tested; the bars are for ``f``."""


def generated(seed: int) -> tuple[Any, Any, Any, int]:
    """Columns in random order, a number for a label, which columns tell something, and parties."""
    rng = np.random.default_rng([seed, 18])
    n_rows, n_true = int(rng.integers(300, 801)), int(rng.integers(10, 51))
    shared = rng.uniform(0.0, 0.7)
    blocks = []
    for n_columns in (n_true, _COLUMNS - n_true):
        factors = rng.normal(size=(n_rows, max(2, n_columns // 10)))
        own = factors[:, rng.integers(0, factors.shape[1], n_columns)]
        noise = rng.normal(size=own.shape)
        blocks.append(np.sqrt(shared) * own + np.sqrt(1 - shared) * noise)
    strength = rng.uniform(0.05, 0.5, n_true)
    y = blocks[0] @ strength / np.sqrt((strength**2).sum()) + rng.normal(size=n_rows)
    order = rng.permutation(_COLUMNS)
    return np.hstack(blocks)[:, order], y, (np.arange(_COLUMNS) < n_true)[order], 2 + seed % 4


def run(profile: str, echo: Echo) -> dict[str, Any]:
    """All cases; prints a line when each is done."""
    seeds = range(_FEDERATIONS[profile])
    echo(f"{'case':28} {'false discoveries':>20} {'found':>16} {'pooled':>16}  bars")
    rows = []
    for name, case in _CASES.items():
        row = {"case": name, "score": case["score"], **_summary(_measure(case, s) for s in seeds)}
        row["bars"] = _judge(row) if case["score"] == "f" and profile != "smoke" else {}
        rows.append(row)
        echo(_line(row))
    return {"rows": rows, "fdr": FDR, "columns": _COLUMNS, "federations": len(seeds), "seed": 0}


def _measure(case: dict[str, Any], seed: int) -> dict[str, float]:
    """Shares of one federation: false among the selected, and found among the others."""
    X, numbers, tells, n_parties = generated(seed)
    y = numbers if case.get("numbers") else (numbers > np.median(numbers)).astype(int)
    split = split_horizontal if case.get("horizontal") else split_vertical
    federation = split(X, y, n_parties, random_state=seed)
    selector = FilterSelector(
        case["score"],
        n_features_to_select="fdr",
        fdr=FDR,
        n_permutations=case.get("n_permutations", 0),
        security="plain",
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        chosen = selector.fit(federation).support_
    pooled = (f_regression if case.get("numbers") else f_classif)(X, y)[1]
    return {
        "false": _false(chosen, tells),
        "found": float(chosen[tells].mean()),
        "pooled_false": _false(false_discovery_control(pooled) <= FDR, tells),
        "pooled_found": float((false_discovery_control(pooled) <= FDR)[tells].mean()),
        "selected": float(chosen.sum()),
    }


def _false(chosen: Any, tells: Any) -> float:
    """Share of false discoveries; 0 of none."""
    return float((chosen & ~tells).sum() / max(1, chosen.sum()))


def _summary(runs: Iterable[dict[str, float]]) -> dict[str, Any]:
    each = list(runs)
    found: dict[str, Any] = {}
    for name in each[0]:
        values = np.array([one[name] for one in each])
        error = float(values.std(ddof=1) / np.sqrt(len(values)))
        found[name] = {"mean": float(values.mean()), "standard_error": error}
    return found


def _judge(row: dict[str, Any]) -> dict[str, bool]:
    """Whether each bar is met."""
    most = FDR + 2 * row["false"]["standard_error"]
    least = _LEAST_POWER * row["pooled_found"]["mean"]
    return {"false": row["false"]["mean"] <= most, "found": row["found"]["mean"] >= least}


def _line(row: dict[str, Any]) -> str:
    shown = [f"{row[n]['mean']:.4f} +- {row[n]['standard_error']:.4f}" for n in
             ("false", "found", "pooled_found")]  # fmt: skip
    bars = " ".join(f"{name}:{'ok' if ok else 'MISSED'}" for name, ok in row["bars"].items())
    return f"{row['case']:28} {shown[0]:>20} {shown[1]:>16} {shown[2]:>16}  {bars}"
