# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Paper 000, FedSDG-FS: Tables I to IV, figures 1 and 3 to 8, from runs of :mod:`.fedsdg_runs`."""

import contextlib
from typing import Any

import numpy as np

from benchmarks.reproduce.experiments import (
    BENCHMARKS,
    Cells,
    Runs,
    binomial_error,
    mean_and_error,
    printed_rows,
    resolve,
    shape_of,
)
from benchmarks.reproduce.fedsdg_runs import (
    COURSE,
    FAR,
    FIGURE_1B_SIZES,
    FIGURE_4_SIZES,
    FIGURE_5_SHARES,
    FILTERED,
    METHODS,
    PAPER,
    SETS,
    STAND_IN,
    STOPPING,
    STRONG,
    jobs,
    parameters_of,
    run,
)

__all__ = ["PAPER", "cells", "jobs", "run"]


def cells(runs: Runs, answers: Cells) -> None:
    _data(answers)
    _table_3(runs, answers)
    _table_4(runs, answers)
    _figure_1(runs, answers)
    _figure_3(runs, answers)
    _figure_4(runs, answers)
    _figure_5(runs, answers)
    _figure_6(runs, answers)
    _figure_7(runs, answers)
    _figure_8(runs, answers)


def _data(answers: Cells) -> None:
    sizes = printed_rows(PAPER, "table-1")
    for name, data in {"FRIEDMAN": "friedman", **SETS}.items():
        rows, features, classes = shape_of(data)
        outputs = 1 if name == "FRIEDMAN" else classes
        model = "VFLLR" if name == "FRIEDMAN" else "VFLNN"
        answers.put(
            "table-2", f"{model}-{name}", "# of parameters", ours=parameters_of(features, outputs)
        )
        if name == STAND_IN:
            continue  # only a stand-in is public
        answers.put("table-1", name, "Features", ours=features)
        answers.put("table-1", name, "Classes", ours=classes)
        train, test = sizes[name][1:3]
        for column in ("Train size", "Test size"):
            answers.put(
                "table-1",
                name,
                column,
                holds=train + test == rows,
                shown=f"{train + test:,} printed in all, {rows:,} public",
            )


def _measured(runs: Runs, data: str, method: str, clients: int = 2) -> dict[str, Any] | None:
    """Score in per cent and share of features: of the suite ``fedsdg`` where it has them."""
    suite = BENCHMARKS / "fedsdg.json"
    if clients == 2 and suite.is_file():
        where = ["fedsdg.json", "rows", {"data": data, "method": method}]
        with contextlib.suppress(StopIteration):
            row = resolve(where)
            return {
                "ours": 100 * row["mean"],
                "error": 100 * row["standard_error"],
                "share": row["share"],
                "n": len(row["scores"]),
                "source": {"path": [*where, "mean"], "times": 100},
                "share_source": {"path": [*where, "share"], "times": 1},
            }
    alike = {"experiment": "network", "data": data, "method": method, "clients": clients}
    every = [
        (job, result)
        for job, result in runs.of(**alike)
        if "share" not in job and "features" not in job
    ]
    default = [result for job, result in every if "settings" not in job]
    found = default or [result for _, result in every[:1]]
    if not found:
        return None
    ours, error = mean_and_error([result["score"] for result in found])
    if error is None:
        error = binomial_error(ours, found[0]["n_test"])
    share, share_error = mean_and_error([result["share"] for result in found])
    measured = {"ours": 100 * ours, "error": 100 * error, "share": share, "n": len(found)}
    return {**measured, "share_error": share_error}


def _table_3(runs: Runs, answers: Cells) -> None:
    for name, data in SETS.items():
        for column, method in METHODS.items():
            _answer("table-3", name, column, _measured(runs, data, method), answers)
    ours = _measured(runs, "madelon", "fedsdg")
    filters = [_measured(runs, "madelon", method) for method in FILTERED]
    if ours and all(filters):
        best = max(found["ours"] for found in filters if found)
        row = "points of accuracy ahead"
        answers.put("text-madelon", row, "printed", ours=ours["ours"] - best, error=ours["error"])
        row = "points of the features fewer"
        answers.put("text-madelon", row, "printed", ours=100 * (0.5 - ours["share"]))


def _answer(
    table: str, row: str, column: str, found: dict[str, Any] | None, answers: Cells
) -> None:
    if found is None:
        if column not in ("original-Gate", "FedSDG-FS"):  # a setting, not a finding
            share = 1.0 if column == "allFeatures" else 0.5
            answers.put(f"{table}-share", row, column, ours=share)
        return
    kept = {name: found.get(name) for name in ("ours", "error", "n", "source")}
    stand_in = row == STAND_IN or None
    answers.put(f"{table}-accuracy", row, column, **kept, stand_in=stand_in)
    answers.put(
        f"{table}-share",
        row,
        column,
        ours=found["share"],
        error=found.get("share_error"),
        n=found["n"],
        source=found.get("share_source"),
        stand_in=stand_in,
    )


def _table_4(runs: Runs, answers: Cells) -> None:
    for clients in (5, 10):
        for name in ("ARCENE", "RELATHE"):
            for column, method in METHODS.items():
                found = _measured(runs, SETS[name], method, clients)
                _answer("table-4", f"{name}, {clients} clients", column, found, answers)


def _figure_1(runs: Runs, answers: Cells) -> None:
    found = {
        data: {job["second"]: result for job, result in runs.of(experiment="growing", data=data)}
        for data in ("arcene", "madelon")
    }
    for item, data, limit in (("figure-1a", "arcene", 10.0), ("figure-1b", "madelon", None)):
        sizes = sorted(found[data])
        if len(sizes) < 2:
            continue
        scores = {size: 100 * found[data][size]["score"] for size in sizes}
        drop = scores[sizes[0]] - scores[sizes[-1]]
        shown = ", ".join(f"{size}: {score:.1f}" for size, score in scores.items())
        if item == "figure-1b":
            row, holds = "accuracy falls strongly with more noise features", drop > STRONG
        else:
            row = "accuracy falls slightly with more redundant features"
            holds = 0 < drop <= limit
        answers.put(item, row, "claim", holds=holds, shown=f"per cent by features added: {shown}")
    if len(found["arcene"]) > 1:
        sizes = sorted(found["arcene"])
        grown = [found["arcene"][size]["parameters"] for size in sizes]
        answers.put(
            "figure-1a",
            "the model grows fast with them",
            "claim",
            holds=grown[-1] >= 5 * grown[0],
            shown=f"from {grown[0]:,} to {grown[-1]:,} parameters",
        )
    ends = {"few noise features": FIGURE_1B_SIZES[0], "many noise features": FIGURE_1B_SIZES[-1]}
    for row, size in ends.items():
        if size in found["madelon"]:
            score, n_test = (found["madelon"][size][name] for name in ("score", "n_test"))
            error = 100 * binomial_error(score, n_test)
            answers.put("figure-1b-numbers", row, "printed", ours=100 * score, error=error, n=1)


def _course(runs: Runs, data: str, method: str) -> list[dict[str, Any]] | None:
    for _, result in runs.of(experiment="network", data=data, method=method, clients=2):
        if "course" in result:
            return result["course"]
    return None


def _settled(course: list[dict[str, Any]]) -> int:
    """The first round from which on the number of open gates stays near its last value."""
    last = course[-1]["open"]
    away = [n for n, entry in enumerate(course) if abs(entry["open"] - last) > 0.25 * max(last, 1)]
    return away[-1] + 2 if away else 1


def _figure_3(runs: Runs, answers: Cells) -> None:
    found = {job["epochs"]: result for job, result in runs.of(experiment="overlap")}
    if found:
        few = {e: r["same"] / r["open"] for e, r in found.items() if 0 < r["open"] <= 250}
        shown = ", ".join(
            f"round {e}: {r['same']} of {r['open']}" for e, r in sorted(found.items())
        )
        answers.put(
            "figure-3",
            "a: in some rounds, gates and Gini impurity choose much the same features",
            "claim",
            holds=bool(few) and max(few.values()) >= 0.5,
            shown=shown,
        )
    plain, started = (_course(runs, "madelon", m) for m in ("original-gate", "gini-gate"))
    if plain and started:
        answers.put(
            "figure-3",
            "b: gates that start from Gini impurity settle sooner",
            "claim",
            holds=_settled(started) < _settled(plain),
            shown=f"settled in round {_settled(started)} with Gini impurity, "
            f"in round {_settled(plain)} without",
        )


def _figure_4(runs: Runs, answers: Cells) -> None:
    for row, data in (("MADELON", "madelon"), ("FRIEDMAN", "friedman")):
        alike = {"experiment": "network", "data": data, "settings": STOPPING}
        every = runs.one(**alike, method="all")
        means: dict[str, float] = {}
        for method in ("ms-gini", "sffs", "random"):
            scores = runs.values("score", **alike, method=f"{method}, same number")
            if len(scores) == len(FIGURE_4_SIZES):
                means[method] = 100 * float(np.mean(scores))
        if every is None or len(means) < 3:
            continue
        means["all"] = 100 * every["score"]
        for column, method in (("random", "random"), ("allFeatures", "all"), ("SFFS", "sffs")):
            answers.put("figure-4", row, column, ours=means["ms-gini"] - means[method], n=1)


def _figure_5(runs: Runs, answers: Cells) -> None:
    found: dict[str, list[float]] = {}
    for method in ("fedsdg", "original-gate", "sffs"):
        for share in FIGURE_5_SHARES:
            result = runs.one(experiment="network", data="arcene", method=method, share=share)
            if result is None:
                return
            found.setdefault(method, []).append(100 * result["score"])
    texts = {m: " / ".join(f"{s:.1f}" for s in scores) for m, scores in found.items()}
    shares = " / ".join(f"{100 * share:.0f}" for share in FIGURE_5_SHARES)
    for method, name in (("fedsdg", "FedSDG-FS"), ("original-gate", "the original gate")):
        lead = float(np.mean(found[method]) - np.mean(found["sffs"]))
        answers.put(
            "figure-5",
            f"{name} is far more accurate than SFFS",
            "ARCENE",
            holds=lead > FAR,
            shown=f"{texts[method]} against {texts['sffs']} with {shares} % of the features",
        )
    spread = max(found["fedsdg"]) - min(found["fedsdg"])
    answers.put(
        "figure-5",
        "FedSDG-FS hardly varies with the number of features",
        "ARCENE",
        holds=spread <= FAR,
        shown=f"by {spread:.1f} points",
    )


def _figure_6(runs: Runs, answers: Cells) -> None:
    names = ("FedSDG-FS", "original-Gate")
    courses = {name: _course(runs, "arcene", METHODS[name]) for name in names}
    if not all(courses.values()):
        return
    half_of_all = shape_of("arcene")[1] / 2
    highest, lost, half = {}, {}, {}
    for name, course in courses.items():
        scores = [100 * entry["score"] for entry in course]
        highest[name], lost[name] = max(scores), max(scores) - scores[-1]
        few = [n for n, entry in enumerate(course, start=1) if entry["open"] < half_of_all]
        half[name] = few[0] if few else len(course) + 1
    ours, original = names
    answers.put(
        "figure-6ab",
        "FedSDG-FS and the original gate come to similar accuracies",
        "ARCENE",
        holds=abs(highest[ours] - highest[original]) <= FAR,
        shown=f"highest on validation rows: {highest[ours]:.1f} and {highest[original]:.1f}",
    )
    answers.put(
        "figure-6ab",
        "FedSDG-FS loses less until round 80 than the original gate",
        "ARCENE",
        holds=lost[ours] < lost[original],
        shown=f"points lost: {lost[ours]:.1f} and {lost[original]:.1f}",
    )
    answers.put(
        "figure-6cd",
        "with the initialisation, features are filtered out sooner",
        "ARCENE",
        holds=half[ours] < half[original],
        shown=f"less than half of the features from round {half[ours]} and {half[original]}",
    )
    for name in names:
        answers.put("figure-6ab-numbers", "drop", name, ours=lost[name], n=1)


def _figure_7(runs: Runs, answers: Cells) -> None:
    filters = runs.one(experiment="precision")
    ours, gate = (_precision(runs, method) for method in ("fedsdg", "original-gate"))
    if filters is None or ours is None or gate is None:
        return
    means = {name: float(np.mean(list(by.values()))) for name, by in filters.items()}
    others = {"original gate": gate, **means}
    shown = ", ".join(f"{name} {value:.2f}" for name, value in others.items())
    answers.put(
        "figure-7",
        "FedSDG-FS has the highest precision",
        "claim",
        holds=ours >= max(others.values()),
        shown=f"FedSDG-FS {ours:.2f}, {shown}",
    )
    ends = {name: (by["5"], by["250"]) for name, by in filters.items()}
    answers.put(
        "figure-7",
        "precision of SFFS and MS-GINI falls strongly with the number of features",
        "claim",
        holds=all(first - last > 0.1 for first, last in ends.values()),
        shown="; ".join(f"{n}: {a:.2f} with 5, {b:.2f} with 250" for n, (a, b) in ends.items()),
    )
    row = "FedSDG-FS ahead by"
    answers.put("figure-7-numbers", row, "original-Gate", ours=100 * (ours - gate))
    answers.put("figure-7-numbers", row, "SFFS", ours=100 * (ours - means["SFFS"]))


def _precision(runs: Runs, method: str) -> float | None:
    """Mean precision on MADELON over the splits of the suite, or of the runs here."""
    if (BENCHMARKS / "fedsdg.json").is_file():
        row = resolve(["fedsdg.json", "rows", {"data": "madelon", "method": method}])
        return float(np.mean(row["precision"]))
    found = [
        result["precision"]
        for job, result in runs.of(experiment="network", data="madelon", method=method, clients=2)
        if "features" not in job
    ]
    return float(np.mean(found)) if found else None


def _figure_8(runs: Runs, answers: Cells) -> None:
    alike = {"experiment": "network", "data": "arcene", "settings": COURSE}
    sizes = [runs.one(**alike, method=method) for method in ("fedsdg", "original-gate")]
    if all(sizes):
        gated, every = (found["prediction_bytes"] for found in sizes if found)
        answers.put("figure-8", "ARCENE", "printed", ours=100 * (1 - gated / every), n=1)
