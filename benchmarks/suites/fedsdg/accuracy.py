# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""One split of one data set: FedSDG-FS and everything it is compared with, on the same test rows.

A fifth of the rows is set aside before anything else and looked at once, at the end. Selection,
early stopping and the choice of an epoch happen inside the other rows. Runs are plain: encryption
changes no number of them, which the secure cases of the suite show.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from benchmarks.baselines.fedsdg import PAPER, fedsdg_baseline
from fedsift.data import Federation, catalog, split_vertical
from fedsift.methods.fedsdg.selector import FedSDGSelector

METHODS = (
    "fedsdg",
    "all",
    "original-gate",
    "ms-gini 50 %",
    "sffs 50 %",
    "vflfs 50 %",
    "ms-gini, same number",
    "random, same number",
)
"""Same number: as many features as FedSDG-FS chose on this split."""

FULL = ("madelon",)
"""Where methods differ most. On other data only the profile ``paper`` has them all."""

REPORTED = ("arcene", "gisette_like")
"""No bar depends on these: three seeds are enough to report."""

SHORT = ("fedsdg", "all")

NETWORK_ON_TRUE = "true features, network"
"""What is left to gain by a better selection alone."""

EXTRA = {
    "isolet": ("fedsdg 15 %", "fedsdg 40 %"),
    "madelon": (
        "fedsdg, refit",
        "fedsdg, 5 clients",
        NETWORK_ON_TRUE,
        "true features, 5-NN",
        "true features, SVM",
    ),
    "friedman": ("fedsdg, refit",),
}


def load(name: str) -> tuple[Any, Any, Any]:
    """Features, labels (numbers for FRIEDMAN), and the columns known to matter, if any are."""
    data = catalog.load(name)
    target = data.extras.get("target")
    y = data.y if target is None else np.asarray(target, dtype=np.float64)
    return data.X, y, data.extras.get("informative")


def rows_of(y: Any, seed: int) -> tuple[Any, Any]:
    """Numbers of the training rows and of the test rows."""
    stratify = None if y.dtype.kind == "f" else y
    train, test = train_test_split(
        np.arange(len(y)), test_size=0.2, random_state=seed, stratify=stratify
    )
    return train, test


def rows_inside(y: Any, seed: int) -> tuple[Any, Any]:
    """The training rows of a split alone, split again: to choose by, without its test rows."""
    outer, _ = rows_of(y, seed)
    train, judging = rows_of(y[outer], seed)
    return outer[train], outer[judging]


def split(
    X: Any, y: Any, seed: int, n_clients: int = 2, *, inside: bool = False
) -> tuple[Federation, Federation]:
    """Training and test rows at clients without the label, the same columns in both."""
    numeric = y.dtype.kind == "f"
    train, test = rows_inside(y, seed) if inside else rows_of(y, seed)
    task = "regression" if numeric else "classification"
    halves = [
        split_vertical(X[rows], y[rows], n_clients, random_state=seed, label_holder=None, task=task)
        for rows in (train, test)
    ]
    return halves[0], halves[1]


def one_split(job: Mapping[str, Any]) -> dict[str, Any]:
    """Every method on one split; scores are accuracies, or R2 for a numeric target."""
    X, y, informative = load(job["data"])
    settings = {"security": "plain", "random_state": job["seed"], **job.get("settings", {})}
    results: dict[str, Any] = {}
    n_chosen = 1
    for name in job["methods"]:
        told = name.startswith("true features")
        if told and name != NETWORK_ON_TRUE:
            results[name] = _ceiling(name, X[:, informative], y, job["seed"])
            continue
        n_clients = 5 if "5 clients" in name else 2
        inside = job.get("inside", False)
        columns = informative if told else np.arange(X.shape[1])
        training, test = split(X[:, columns], y, job["seed"], n_clients, inside=inside)
        estimator = make(name, n_chosen, settings, len(columns))
        start = time.perf_counter()
        estimator.fit(training)
        seconds = time.perf_counter() - start
        chosen = columns[estimator.support_]
        if name == "fedsdg":
            n_chosen = len(chosen)
        results[name] = {
            "score": float(estimator.score(test)),
            "n_features": len(chosen),
            "seconds": seconds,
            "epochs": len(estimator.result_.history),
        }
        if informative is not None:
            found = np.isin(chosen, informative)
            results[name]["precision"] = float(found.mean())
            results[name]["found"] = int(found.sum())
    return {
        "data": job["data"],
        "seed": job["seed"],
        "shape": list(X.shape),
        "n_classes": 0 if y.dtype.kind == "f" else len(np.unique(y)),
        "n_informative": None if informative is None else len(informative),
        "methods": results,
    }


def make(name: str, n_chosen: int, settings: Mapping[str, Any], n_features: int) -> Any:
    """The estimator behind a name."""
    settings = PAPER | settings
    if name.startswith("fedsdg"):
        if name.endswith("%"):
            gates = "none" if "elimination" in name else "dual"
            at_most = max(1, int(_share(name) * n_features))
            return FedSDGSelector(n_features_to_select=at_most, gates=gates, **settings)
        return FedSDGSelector(refit="refit" in name, **settings)
    if name == NETWORK_ON_TRUE:
        return fedsdg_baseline("all", **settings)
    kind = name.replace(",", "").split()[0]
    wanted = n_chosen if "same" in name else _share(name)
    return fedsdg_baseline(kind, n_features_to_select=wanted, **settings)


def _ceiling(name: str, X: Any, y: Any, seed: int) -> dict[str, Any]:
    """What classifiers reach that are told the true features: nobody's method, a ceiling."""
    model = KNeighborsClassifier(5) if "5-NN" in name else SVC()
    train, test = rows_of(y, seed)
    start = time.perf_counter()
    fitted = make_pipeline(StandardScaler(), model).fit(X[train], y[train])
    return {
        "score": float(fitted.score(X[test], y[test])),
        "n_features": X.shape[1],
        "seconds": time.perf_counter() - start,
        "epochs": 0,
        "precision": 1.0,
        "found": X.shape[1],
    }


def _share(name: str) -> float:
    return float(name.split()[-2]) / 100.0 if name.endswith("%") else 0.5


def summarise(splits: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Mean and standard error over the splits, one row per data set and method."""
    by_data: dict[str, list[dict[str, Any]]] = {}
    for found in splits:
        by_data.setdefault(found["data"], []).append(found)
    for data, runs in by_data.items():
        for name in runs[0]["methods"]:
            every = [run["methods"][name] for run in runs]
            row = {
                "case": f"{data} {name}",
                "data": data,
                "method": name,
                "shape": runs[0]["shape"],
                "n_classes": runs[0]["n_classes"],
                "seeds": [run["seed"] for run in runs],
                "seconds": float(np.mean([r["seconds"] for r in every])),
                "scores": [r["score"] for r in every],
                "n_features": [r["n_features"] for r in every],
            }
            row["mean"] = float(np.mean(row["scores"]))
            spread = float(np.std(row["scores"], ddof=1)) if len(every) > 1 else 0.0
            row["standard_error"] = spread / len(every) ** 0.5
            row["share"] = float(np.mean(row["n_features"])) / runs[0]["shape"][1]
            if "precision" in every[0]:
                row["precision"] = [r["precision"] for r in every]
                row["found"] = [r["found"] for r in every]
            yield row
