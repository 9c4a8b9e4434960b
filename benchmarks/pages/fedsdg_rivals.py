# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The table of rivals on the evidence page of FedSDG-FS: accuracy and traffic of selections."""

import statistics

from benchmarks.pages.writer import table

TITLES = {
    "ms-gini": "MS-GINI, cut at the mean",
    "sffs": "SFFS",
    "vflfs": "VFLFS",
    "less-vfl": "LESS-VFL",
    "lassonet": "LassoNet, all columns in one place",
}


def rivals(rows: list[dict]) -> str:
    """A line for every rival and number of features, over the splits."""
    groups: dict[tuple[str, str], list[dict]] = {}
    for row in rows:
        groups.setdefault((row["kind"], row["number"]), []).append(row)
    lines = []
    for (kind, number), runs in groups.items():
        sizes = [run["selection_bytes"] for run in runs]
        lines.append(
            [
                TITLES[kind],
                number,
                ", ".join(str(run["seed"]) for run in runs),
                ", ".join(str(run["n_features"]) for run in runs),
                ", ".join(str(run["found"]) for run in runs),
                _percent([run["score"] for run in runs]),
                "" if None in sizes else f"{statistics.mean(sizes) / 1e6:.2f} MB",
            ]
        )
    header = ["method", "number", "splits", "selected", "relevant among them"]
    return table([*header, "test accuracy", "traffic of the selection"], lines)


def _percent(scores: list[float]) -> str:
    if len(scores) == 1:
        return f"{100 * scores[0]:.1f}"
    error = statistics.stdev(scores) / len(scores) ** 0.5
    return f"{100 * statistics.mean(scores):.1f} ({100 * error:.1f})"
