# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A bank asks which partner adds to its own columns.

Six own columns make most of the label. One partner has noisy copies of them, one has a column that
nobody else has and that matters, two have noise; each partner has three columns. By its products
with the label alone, a copy of a strong column looks better than the new one.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np

from fedsift.methods.stepwise import plain

N_ROWS, N_OWN, N_EACH = 2000, 6, 3
N_SEEDS = {"smoke": 2, "regular": 20, "paper": 20}
PARTNERS = ("copies", "new", "noise 1", "noise 2")


def jobs(profile: str) -> list[dict[str, Any]]:
    """One per seed."""
    return [{"part": "bank", "seed": seed} for seed in range(N_SEEDS[profile])]


def generated(seed: int) -> tuple[Any, Any, list[str]]:
    """Columns, classes, and who owns each column."""
    rng = np.random.default_rng(seed)
    own = rng.standard_normal((N_ROWS, N_OWN))
    copies = own[:, :N_EACH] + 0.5 * rng.standard_normal((N_ROWS, N_EACH))
    others = rng.standard_normal((N_ROWS, 3 * N_EACH))
    effect = own @ np.linspace(1.2, 0.6, N_OWN) + 0.5 * others[:, 0]
    codes = (rng.uniform(size=N_ROWS) < 1.0 / (1.0 + np.exp(-effect))).astype(np.int64)
    owners = ["bank"] * N_OWN + [partner for partner in PARTNERS for _ in range(N_EACH)]
    return np.hstack([own, copies, others]), codes, owners


def measure(job: dict[str, Any]) -> dict[str, Any]:
    """Which partner's column comes first, and how many are taken."""
    values, codes, owners = generated(job["seed"])
    labels = plain.class_contrasts(codes, 2)
    rng = np.random.default_rng([job["seed"], 1])
    copies = plain.shuffled_copies(labels, plain.N_COPIES, rng)
    forced = tuple(range(N_OWN))
    search = plain.select_plain(
        values, labels, len(owners), forced=forced, copies=copies, level=plain.LEVEL
    )
    alone = plain.search_plain(values, labels)[0].statistics()[0]
    best = max(range(N_OWN, len(owners)), key=lambda f: alone[f])
    return {
        "order": [owners[f] for f in search.selected],
        "one_by_one": owners[best],
        "adds": [step.adds for step in search.steps if not step.forced],
        "own_columns_explain": sum(step.adds for step in search.steps if step.forced),
    }


def table(done: Sequence[tuple[dict[str, Any], dict[str, Any]]]) -> list[dict[str, Any]]:
    """One row per seed."""
    return [{"seed": job["seed"], **result} for job, result in done]


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """How often the new column comes first, and how often the search ends there."""
    first = sum(row["order"][:1] == ["new"] for row in rows)
    stops = sum(row["order"] == ["new"] for row in rows)
    return {
        "runs": len(rows),
        "new_first": first,
        "stops_there": stops,
        "one_by_one": sum(row["one_by_one"] == "new" for row in rows),
        "adds": statistics.mean(row["adds"][0] for row in rows if row["adds"]),
        "own_columns_explain": statistics.mean(row["own_columns_explain"] for row in rows),
        "bars": {
            "new one first": first == len(rows),
            "stops there": 10 * stops >= 9 * len(rows),
        },
    }


def fingerprint() -> Any:
    """One run."""
    return [measure({"part": "bank", "seed": 0}), N_ROWS]
