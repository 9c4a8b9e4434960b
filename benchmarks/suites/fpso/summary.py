# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""From single runs of the FPSO-FS comparison to rows with means, errors and the paper's figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

TABLE_2 = {
    "wine": (95.24, 2.13),
    "vowel": (60.18, 4.47),
    "vehicle": (67.43, 2.37),
    "segmentation": (90.38, 1.98),
    "ionosphere": (87.45, 2.27),
    "sonar": (74.76, 3.27),
    "musk1": (74.37, 4.17),
    "dna": (76.53, 2.83),
    "yale": (65.37, 4.38),
}
"""Accuracy and standard deviation that the paper prints, for three parties."""

TABLE_3 = {
    "wine": (90.07, 95.39),
    "vowel": (52.71, 60.04),
    "vehicle": (60.41, 66.83),
    "dna": (71.94, 76.37),
    "sonar": (72.05, 73.71),
}
"""Local only and federated, as the paper prints them."""

BY_CLUSTER = ("musk1", "dna", "satellite")
"""Sets that the paper deals out by clusters."""

_TEST_TO_TRAINING = 0.25
"""Test rows per training row of an outer fold."""


def summarise(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row per data set, split and number of parties."""
    groups: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    shapes = {}
    for run in sorted(runs, key=lambda r: (r["repeat"], r["fold"])):
        shapes[run["data"]] = (run["shape"], run["n_classes"])
        for part in run["splits"]:
            groups.setdefault((run["data"], part["split"], part["parties"]), []).append(part)
    return [_row(*key, shapes[key[0]], parts) for key, parts in groups.items()]


def _row(
    data: str,
    split: str,
    n_parties: int,
    shape: tuple[list[int], int],
    parts: list[dict[str, Any]],
) -> dict[str, Any]:
    names = list(parts[0]["accuracy"])
    values = {name: np.array([part["accuracy"][name] for part in parts]) for name in names}
    return {
        "case": f"{data} {split} M={n_parties}",
        "data": data,
        "split": split,
        "parties": n_parties,
        "shape": shape[0],
        "n_classes": shape[1],
        "runs": len(parts),
        "accuracy": {name: float(v.mean()) for name, v in values.items()},
        "standard_error": {name: standard_error(v) for name, v in values.items()},
        "effect_of_federation": difference(values["fpso"], values["local"]),
        "effect_of_sharing_once": difference(values["best-of-local"], values["local"]),
        "effect_with_own_if_better": difference(values["fpso, own if better"], values["local"]),
        "n_features": {
            name: float(np.mean([part["n_features"][name] for part in parts])) for name in names
        },
        "claimed": float(np.mean([part["claimed"] for part in parts])),
        "seconds": float(np.sum([part["seconds"] for part in parts])),
        "bytes": int(np.max([part["bytes"] for part in parts])),
        "messages": int(np.max([part["messages"] for part in parts])),
        "rounds": int(np.max([part["rounds"] for part in parts])),
    }


def standard_error(values: Any) -> float:
    """Of a mean over runs; zero for a single run."""
    return float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else 0.0


def difference(left: Any, right: Any) -> dict[str, float]:
    """Mean paired difference with two standard errors.

    The plain one takes runs as independent; the corrected one (Nadeau and Bengio) allows for
    training rows that the runs have in common, and is the one to believe.
    """
    gain = np.asarray(left) - np.asarray(right)
    n = len(gain)
    corrected = (
        math.sqrt((1 / n + _TEST_TO_TRAINING) * float(np.var(gain, ddof=1))) if n > 1 else 0.0
    )
    return {
        "mean": float(gain.mean()),
        "standard_error": standard_error(gain),
        "corrected_standard_error": corrected,
    }


def overall(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The effect of federation over all data sets of Table 2, by split and number of parties."""
    found = {}
    for split in ("random", "kmeans"):
        for n_parties in (2, 3, 4, 5):
            chosen = [
                row
                for row in rows
                if row["data"] in TABLE_2 and (row["split"], row["parties"]) == (split, n_parties)
            ]
            if len(chosen) < 2:
                continue
            gains = {
                name: np.array([row[name]["mean"] for row in chosen])
                for name in ("effect_of_federation", "effect_with_own_if_better")
            }
            federation = gains["effect_of_federation"]
            own = gains["effect_with_own_if_better"]
            found[f"{split} M={n_parties}"] = {
                "data_sets": len(chosen),
                "federation": float(federation.mean()),
                "standard_error": standard_error(federation),
                "better": int((federation > 0).sum()),
                "own_if_better": float(own.mean()),
                "own_if_better_standard_error": standard_error(own),
                "mean_accuracy": {
                    name: float(np.mean([row["accuracy"][name] for row in chosen]))
                    for name in chosen[0]["accuracy"]
                    if all(name in row["accuracy"] for row in chosen)
                },
            }
    return found
