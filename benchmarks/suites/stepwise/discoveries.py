# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""False discoveries: knockoffs on generated federations, and ``auto`` where there is nothing.

Federations have 1,000 rows and 200 columns in a chain, each correlated with the one before, dealt
to five parties at random; 10 to 50 of them make the label, a number with even seeds and two
classes with odd ones.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.suites.stepwise.accuracy import paired
from fedsift.methods.stepwise import plain

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]

RATE = 0.1
N_ROWS, N_COLUMNS, N_PARTIES = 1000, 200, 5
N_FEDERATIONS = {"smoke": 2, "regular": 200, "paper": 200}
N_NULLS = {"smoke": 4, "regular": 400, "paper": 400}
_CHUNK = 20
_CORRELATIONS = (0.0, 0.3, 0.6, 0.8)


def jobs(profile: str) -> list[dict[str, Any]]:
    """Federations with causes, in chunks, then the same without."""
    counts = {"knockoffs": N_FEDERATIONS[profile], "null": N_NULLS[profile]}
    return [
        {"part": part, "seeds": list(range(start, min(start + _CHUNK, count)))}
        for part, count in counts.items()
        for start in range(0, count, _CHUNK)
    ]


def generated(seed: int) -> tuple[Floats, Floats, Codes, npt.NDArray[np.bool_], float]:
    """Columns, label columns, owner of each column, which are causes, and the correlation."""
    rng = np.random.default_rng(seed)
    correlation = _CORRELATIONS[seed // 2 % len(_CORRELATIONS)]
    values = _chain(rng, N_ROWS, N_COLUMNS, correlation)
    causes = np.zeros(N_COLUMNS, dtype=np.bool_)
    causes[rng.choice(N_COLUMNS, rng.integers(10, 51), replace=False)] = True
    weights = causes * rng.choice([-1.0, 1.0], N_COLUMNS) * rng.uniform(0.2, 0.4, N_COLUMNS)
    effect = values @ weights
    if seed % 2:
        chances = 1.0 / (1.0 + np.exp(-2.0 * effect))
        labels = plain.class_contrasts((rng.uniform(size=N_ROWS) < chances).astype(np.int64), 2)
    else:
        labels = plain.number_column(effect + rng.standard_normal(N_ROWS))
    return values, labels, rng.integers(0, N_PARTIES, N_COLUMNS), causes, correlation


def _chain(rng: np.random.Generator, n_rows: int, n_columns: int, correlation: float) -> Floats:
    values = rng.standard_normal((n_rows, n_columns))
    for f in range(1, n_columns):
        values[:, f] *= np.sqrt(1.0 - correlation**2)
        values[:, f] += correlation * values[:, f - 1]
    return values


def measure(job: dict[str, Any]) -> dict[str, Any]:
    """One entry per seed."""
    one = _knockoffs if job["part"] == "knockoffs" else _null
    return {"runs": [one(seed) for seed in job["seeds"]]}


def _knockoffs(seed: int) -> dict[str, Any]:
    values, labels, owner, causes, correlation = generated(seed)
    found: dict[str, Any] = {"seed": seed, "correlation": correlation, "causes": int(causes.sum())}
    for way, split in (("federated", owner), ("pooled", np.zeros_like(owner))):
        order = np.argsort(split, kind="stable")
        parts = [values[:, split == party] for party in np.unique(split)]
        rng = np.random.default_rng([seed, 1])
        kept = np.zeros(N_COLUMNS, dtype=np.bool_)
        kept[order] = plain.keep_true(parts, labels, RATE, rng)
        found[way] = {
            "kept": int(kept.sum()),
            "false": float((kept & ~causes).sum() / max(1, kept.sum())),
            "power": float((kept & causes).sum() / causes.sum()),
        }
    return found


def _null(seed: int) -> dict[str, Any]:
    """Correlated columns and labels that have nothing to do with each other."""
    rng = np.random.default_rng([seed, 2])
    n_rows, n_columns = int(rng.choice([100, 400])), int(rng.choice([10, 60, 200]))
    n_classes = int(rng.choice([0, 2, 5]))
    values = _chain(rng, n_rows, n_columns, 0.5)
    codes = rng.permutation(np.arange(n_rows) % max(2, n_classes))
    labels = (
        plain.class_contrasts(codes, n_classes)
        if n_classes
        else plain.number_column(rng.standard_normal(n_rows))
    )
    copies = plain.shuffled_copies(labels, plain.N_COPIES, rng)
    search = plain.select_plain(values, labels, n_columns, copies=copies, level=plain.LEVEL)
    return {"seed": seed, "selected": len(search.selected)}


def table(done: Sequence[tuple[dict[str, Any], dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """Runs of both parts."""
    return {
        part: [run for job, result in done if job["part"] == part for run in result["runs"]]
        for part in ("knockoffs", "null")
    }


def summary(runs: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Realised rates, power, and the bars."""
    groups = {"all": runs["knockoffs"]} | {
        f"{c:g}": own
        for c in _CORRELATIONS
        if (own := [run for run in runs["knockoffs"] if run["correlation"] == c])
    }
    rates = {name: _rates(own) for name, own in groups.items()}
    rate, null = rates["all"], [run["selected"] > 0 for run in runs["null"]]
    something = statistics.mean(null)
    false, power = rate["federated"]["false"], rate["federated"]["power"]["mean"]
    return {
        "rate": RATE,
        "by_correlation": rates,
        "null": {"runs": len(null), "selected_something": something},
        "bars": {
            "false discoveries": false["mean"] <= RATE + 2 * false["error"],
            "power": power >= 0.9 * rate["pooled"]["power"]["mean"],
            "nothing from nothing": something <= 0.07,
        },
    }


def _rates(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        way: {
            name: paired([run[way][name] for run in runs], [0.0] * len(runs))
            for name in ("false", "power", "kept")
        }
        for way in ("federated", "pooled")
    }


def fingerprint() -> Any:
    """One run of each part."""
    return [_knockoffs(1), _null(1), N_ROWS, N_COLUMNS]
