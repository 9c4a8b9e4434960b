# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Runs for paper 000, FedSDG-FS; what they say about its cells is in :mod:`.fedsdg`.

Trainings are plain (``security="plain"``): encrypted ones are the same to the last bit, which
``tests/methods/fedsdg/test_fedsdg.py`` and the suite ``fedsdg`` show. Splits are those of that suite: a
fifth of the rows is set aside before anything else and looked at once. Rounds are epochs here, and
where a figure follows the training round by round, validation rows taken from the training rows
stand for the paper's test rows.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.reproduce.experiments import (
    BENCHMARKS,
    Job,
)

PAPER = "000"
SEED = 10
"""The first split of the suite ``fedsdg`` that nobody looked at while defaults were chosen."""

SETS = {
    "MADELON": "madelon",
    "ARCENE": "arcene",
    "BASEHOCK": "basehock",
    "RELATHE": "relathe",
    "PCMAC": "pcmac",
    "GISETTE": "gisette_like",
    "COIL20": "coil20",
    "ISOLET": "isolet",
}
STAND_IN = "GISETTE"
"""The one set of which only something alike could be obtained."""
METHODS = {
    "allFeatures": "all",
    "SFFS": "sffs 50 %",
    "MS-GINI": "ms-gini 50 %",
    "VFLFS": "vflfs 50 %",
    "original-Gate": "original-gate",
    "FedSDG-FS": "fedsdg",
}
COURSE = {"patience": 80}
"""Trainings that are followed round by round go on to the end."""
FILTERED = ("sffs 50 %", "ms-gini 50 %", "vflfs 50 %")
STOPPING = {"min_epochs": 10, "patience": 10}
"""Networks without gates: nothing has to settle before an epoch may be chosen."""
MANY_CLIENTS = ("arcene", "relathe")
STRONG, FAR = 10.0, 5.0
"""Points of accuracy that make a statement about a strong fall or a large lead true."""
FIGURE_4_SIZES = (20, 250)
FIGURE_5_SHARES = (0.1, 0.5)
FIGURE_1A_SIZES = (100, 1000, 9900)
FIGURE_1B_SIZES = (10, 100, 490)
OVERLAP_EPOCHS = (5, 20)


def network(data: str, method: str, clients: int = 2, **more: Any) -> Job:
    return {
        "experiment": "network",
        "data": data,
        "method": method,
        "clients": clients,
        "seed": SEED,
        **more,
    }


def jobs() -> Iterator[Job]:
    """All trainings, those that most of the page rests on first."""
    if not (BENCHMARKS / "fedsdg.json").is_file():  # else better: several splits
        for data in SETS.values():
            shown = METHODS.values() if data == "madelon" else ("all", "fedsdg")
            yield from (network(data, method) for method in shown)
    for data in SETS.values():
        if data != "madelon":
            yield from (network(data, m, settings=STOPPING) for m in FILTERED)
    for size in FIGURE_1B_SIZES:
        yield growing_job("madelon", 10, size)
    for size in FIGURE_1A_SIZES:
        yield growing_job("arcene", 100, size)
    yield {"experiment": "precision", "data": "madelon", "seed": SEED}
    for epochs in OVERLAP_EPOCHS:
        yield {"experiment": "overlap", "data": "madelon", "epochs": epochs, "seed": SEED}
    for method in ("original-gate", "fedsdg"):
        yield network("arcene", method, settings=COURSE)
    for data in SETS.values():
        if data not in ("madelon", "arcene"):
            yield network(data, "original-gate")
    for method in ("original-gate", "gini-gate"):
        yield network("madelon", method, settings=COURSE)
    for data in ("madelon", "friedman"):
        yield network(data, "all", settings=STOPPING)
        for size in FIGURE_4_SIZES:
            for method in ("ms-gini", "sffs", "random"):
                yield network(data, f"{method}, same number", features=size, settings=STOPPING)
    for share in FIGURE_5_SHARES:
        for method in ("fedsdg", "original-gate", "sffs"):
            settings = {"max_epochs": 20, "min_epochs": 10}
            yield network("arcene", method, share=share, settings=settings)
    for clients in (5, 10):
        for data in MANY_CLIENTS:
            yield network(data, "all", clients, settings=STOPPING)
            yield from (network(data, m, clients, settings=STOPPING) for m in FILTERED)
            yield network(data, "fedsdg", clients)
            yield network(data, "original-gate", clients)


def growing_job(data: str, first: int, second: int) -> Job:
    return {"experiment": "growing", "data": data, "first": first, "second": second, "seed": SEED}


def run(job: Job) -> dict[str, Any]:
    experiments = {
        "network": train,
        "growing": growing,
        "overlap": overlap,
        "precision": filter_precision,
    }
    return experiments[job["experiment"]](job)


def train(job: Job) -> dict[str, Any]:
    """One network on one split: test score, what was selected, and the course of the training."""
    from benchmarks.suites.fedsdg.accuracy import load, split

    X, y, informative = load(job["data"])
    training, test = split(X, y, job["seed"], job["clients"])
    estimator = estimator_of(job, X.shape[1]).fit(training)
    chosen = np.flatnonzero(estimator.support_)
    result = {
        "score": float(estimator.score(test)),
        "n_test": test.n_rows,
        "n_features": len(chosen),
        "share": len(chosen) / X.shape[1],
    }
    if hasattr(estimator, "prediction_traffic_"):
        result["prediction_bytes"] = estimator.prediction_traffic_.n_bytes
    if job.get("settings") == COURSE:
        result["course"] = [
            {
                "open": entry["open_features"],
                "embeddings": entry["open_embeddings"],
                "score": round(float(entry["validation_score"]), 4),
            }
            for entry in estimator.history_
        ]
    if informative is not None:
        result["precision"] = float(np.isin(chosen, informative).mean())
    return result


def estimator_of(job: Job, n_features: int) -> Any:
    from benchmarks.baselines.fedsdg import PAPER, fedsdg_baseline
    from benchmarks.suites.fedsdg.accuracy import make
    from fedsift.methods.fedsdg.selector import FedSDGSelector

    settings = {**PAPER, "security": "plain", "random_state": job["seed"]}
    settings |= job.get("settings", {})
    method = job["method"]
    if method == "gini-gate":
        return FedSDGSelector(gates="input", init="gini", **settings)
    if "share" not in job:
        return make(method, job.get("features", 1), settings, n_features)
    if method == "fedsdg":
        return FedSDGSelector(n_features_to_select=job["share"], **settings)
    if method == "original-gate":
        gates = {"gates": "input", "init": "constant"}
        return FedSDGSelector(n_features_to_select=job["share"], **gates, **settings)
    return fedsdg_baseline(method, n_features_to_select=job["share"], **settings)


def growing(job: Job) -> dict[str, Any]:
    """All features of two clients, the first with few, the second with more and more of them.

    MADELON: three true features at the first client and two at the second, the rest noise.
    """
    from benchmarks.baselines.fedsdg import fedsdg_baseline
    from benchmarks.suites.fedsdg.accuracy import load, rows_of
    from fedsift.data import split_vertical

    X, y, informative = load(job["data"])
    rng = np.random.default_rng(job["seed"])
    columns = rng.permutation(X.shape[1])
    first, second = job["first"], job["second"]
    if informative is None:
        parts = [columns[:first], columns[first : first + second]]
    else:
        true = rng.permutation(informative)[:5]
        noise = columns[~np.isin(columns, informative)]
        parts = [
            np.concatenate([true[:3], noise[: first - 3]]),
            np.concatenate([true[3:], noise[first - 3 : first + second - 5]]),
        ]
    kept = np.concatenate(parts)
    places = [list(range(len(parts[0]))), list(range(len(parts[0]), len(kept)))]
    train_rows, test_rows = rows_of(y, job["seed"])
    halves = [
        split_vertical(X[rows][:, kept], y[rows], places, label_holder=None)
        for rows in (train_rows, test_rows)
    ]
    model = fedsdg_baseline("all", security="plain", random_state=job["seed"], **STOPPING).fit(
        halves[0]
    )
    return {
        "score": float(model.score(halves[1])),
        "n_test": len(test_rows),
        "n_features": len(kept),
        "parameters": parameters_of(len(kept), len(np.unique(y))),
    }


def parameters_of(n_features: int, n_outputs: int) -> int:
    """Weights of the network that the paper's Table II describes, counted by PyTorch.

    Two clients with a hidden layer and an embedding of 100 each, an interactive layer of 50, and
    one output per class.
    """
    from torch import nn

    half = n_features // 2
    layers = [
        layer
        for width in (half, n_features - half)
        for layer in (nn.Linear(width, 100), nn.Linear(100, 100))
    ]
    layers += [nn.Linear(200, 50), nn.Linear(50, n_outputs)]
    return sum(weights.numel() for layer in layers for weights in layer.parameters())


def overlap(job: Job) -> dict[str, Any]:
    """Share of the features open after so many epochs that Gini impurity would choose as well."""
    from benchmarks.baselines.fedsdg import PAPER
    from benchmarks.suites.fedsdg.accuracy import load, split
    from fedsift.methods.fedsdg.selector import FedSDGSelector
    from fedsift.methods.filter.selector import FilterSelector

    X, y, _ = load(job["data"])
    training, _ = split(X, y, job["seed"])
    epochs = job["epochs"]
    gates = FedSDGSelector(
        gates="input",
        init="constant",
        security="plain",
        max_epochs=epochs,
        min_epochs=epochs,
        random_state=job["seed"],
        **PAPER,
    ).fit(training)
    n_open = int(gates.support_.sum())
    gini = FilterSelector(
        "gini", n_features_to_select=n_open, security="plain", random_state=job["seed"]
    ).fit(training)
    return {"open": n_open, "same": int((gates.support_ & gini.support_).sum())}


def filter_precision(job: Job) -> dict[str, Any]:
    """Share of MADELON's true features among the first k of two filters."""
    from benchmarks.suites.fedsdg.accuracy import load, split
    from fedsift.methods.filter.selector import FilterSelector

    X, y, informative = load(job["data"])
    training, _ = split(X, y, job["seed"])
    found: dict[str, dict[str, float]] = {}
    for name, score in (("SFFS", "f"), ("MS-GINI", "gini")):
        found[name] = {}
        for size in (5, 10, 20, 50, 100, 250):
            filtered = FilterSelector(
                score, n_features_to_select=size, security="plain", random_state=job["seed"]
            ).fit(training)
            chosen = np.flatnonzero(filtered.support_)
            found[name][str(size)] = float(np.isin(chosen, informative).mean())
    return found
