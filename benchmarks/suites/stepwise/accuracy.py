# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Which ten columns predict best: one at a time, against each other, or at random.

Selectors see training rows only. They are open computations: an encrypted run selects what its
open computation selects, which the tests of each method check.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.data import catalog
from fedsift.maths.binning import cut, quantile_edges
from fedsift.methods.stepwise import mrmr, plain

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]

DATA_SETS = {
    "smoke": ("wine",),
    "regular": (
        *("wine", "vehicle", "vowel", "segmentation", "satellite", "letter", "wine_white"),
        *("ionosphere", "sonar", "musk1", "lsvt", "dna", "madelon", "isolet"),
        *("colon", "lung", "lymphoma", "cnae9"),
    ),
}
DATA_SETS["paper"] = DATA_SETS["regular"]
N_SELECTED, N_FOLDS, MOST_ROWS, N_BINS = 10, 3, 1500, 5
N_SEEDS = {"smoke": 1, "regular": 2, "paper": 2}


def random_order(values: Floats, codes: Codes, n_select: int, seed: int) -> list[int]:  # noqa: ARG001
    """Any columns."""
    rng = np.random.default_rng(seed)
    return [int(f) for f in rng.permutation(values.shape[1])[:n_select]]


def f_order(values: Floats, codes: Codes, n_select: int, seed: int) -> list[int]:  # noqa: ARG001
    """The columns with the largest F statistics, as ``FilterSelector(score="f")`` ranks them."""
    return [int(f) for f in np.argsort(-_f_statistics(values, codes), kind="stable")[:n_select]]


def mrmr_order(values: Floats, codes: Codes, n_select: int, seed: int) -> list[int]:  # noqa: ARG001
    """MRMR as most libraries compute it: F over the mean correlation with what is selected."""
    relevance = _f_statistics(values, codes)
    _, columns = plain.search_plain(values, plain.class_contrasts(codes, int(codes.max()) + 1))
    chosen = [int(np.argmax(relevance))]
    total = np.zeros(len(relevance))
    while len(chosen) < n_select:
        total += np.abs(columns.T @ columns[:, chosen[-1]])
        found = relevance / np.maximum(total / len(chosen), 1e-3)
        found[chosen] = -1.0
        chosen.append(int(np.argmax(found)))
    return chosen


def information_order(values: Floats, codes: Codes, n_select: int, seed: int) -> list[int]:  # noqa: ARG001
    """MRMR by mutual information of quantile bins, relevance less mean redundancy."""
    binned = [cut(column, quantile_edges(column, N_BINS)).codes for column in values.T]
    return mrmr.select_open(np.stack(binned, axis=1).astype(np.int64), codes, n_select)


def stepwise_order(values: Floats, codes: Codes, n_select: int, seed: int) -> list[int]:  # noqa: ARG001
    """``StepwiseSelector()``: partial Wilks' lambda with the ridge that is the default."""
    contrasts = plain.class_contrasts(codes, int(codes.max()) + 1)
    return plain.select_plain(values, contrasts, n_select).selected


SELECTORS: dict[str, Callable[[Floats, Codes, int, int], list[int]]] = {
    "random": random_order,
    "f": f_order,
    "mrmr": mrmr_order,
    "mrmr_information": information_order,
    "stepwise": stepwise_order,
}


def _f_statistics(values: Floats, codes: Codes) -> Floats:
    search, _ = plain.search_plain(values, plain.class_contrasts(codes, int(codes.max()) + 1))
    return search.statistics()[0]


def models() -> dict[str, Callable[[], Any]]:
    """Three kinds of models, each with settings that nobody chose by these data."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier

    return {
        "logistic": lambda: LogisticRegression(max_iter=300),
        "neighbours": lambda: KNeighborsClassifier(5),
        "trees": lambda: HistGradientBoostingClassifier(
            max_iter=30, max_leaf_nodes=8, min_samples_leaf=5, early_stopping=False
        ),
    }


def measure(job: dict[str, Any]) -> dict[str, Any]:
    """Accuracies of all selectors with all models, one per split of one data set."""
    from sklearn.model_selection import StratifiedKFold

    values, codes = _read(job["data"], job["seed"])
    folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=job["seed"])
    found: dict[str, dict[str, list[float]]] = {s: {m: [] for m in models()} for s in SELECTORS}
    for fold, (train, test) in enumerate(folds.split(values, codes)):
        mean, spread = values[train].mean(axis=0), values[train].std(axis=0)
        scaled = (values - mean) / np.where(spread > 0, spread, 1.0)
        for name, select in SELECTORS.items():
            # Classes that a fold lacks would leave empty contrasts.
            own = np.unique(codes[train], return_inverse=True)[1].astype(np.int64)
            n_select = min(N_SELECTED, values.shape[1])
            chosen = select(values[train], own, n_select, 100 * job["seed"] + fold)
            for model, make in models().items():
                fitted = make().fit(scaled[train][:, chosen], codes[train])
                share = float(fitted.score(scaled[test][:, chosen], codes[test]))
                found[name][model].append(100.0 * share)
    return {"shape": list(values.shape), "n_classes": int(codes.max()) + 1, "accuracy": found}


def _read(name: str, seed: int) -> tuple[Floats, Codes]:
    """Rows of a set, no more than so many, of classes that every fold can have."""
    data = catalog.load(name)
    values, labels = np.asarray(data.X, dtype=np.float64), np.asarray(data.y)
    codes = np.unique(labels, return_inverse=True)[1]
    kept = np.flatnonzero(np.bincount(codes)[codes] >= 2 * N_FOLDS)
    rows = np.random.default_rng(seed).permutation(kept)[:MOST_ROWS]
    rows = rows[np.bincount(codes[rows], minlength=codes.max() + 1)[codes[rows]] >= N_FOLDS]
    return values[rows], np.unique(codes[rows], return_inverse=True)[1].astype(np.int64)


def jobs(profile: str) -> list[dict[str, Any]]:
    """One job per data set and seed."""
    return [
        {"part": "accuracy", "data": name, "seed": seed}
        for name in DATA_SETS[profile]
        if catalog.is_available(name)
        for seed in range(N_SEEDS[profile])
    ]


def table(done: Sequence[tuple[dict[str, Any], dict[str, Any]]]) -> list[dict[str, Any]]:
    """One row per data set: means over its splits, and paired errors over the same splits."""
    rows = []
    for name in dict.fromkeys(job["data"] for job, _ in done):
        own = [result for job, result in done if job["data"] == name]
        splits = {
            s: {m: [v for r in own for v in r["accuracy"][s][m]] for m in models()}
            for s in SELECTORS
        }
        rows.append(
            {
                "data": name,
                "shape": own[0]["shape"],
                "n_classes": own[0]["n_classes"],
                "n_splits": len(splits["f"]["logistic"]),
                "accuracy": _means(splits),
                "lead": {
                    s: {m: paired(splits["stepwise"][m], splits[s][m]) for m in models()}
                    for s in SELECTORS
                    if s != "stepwise"
                },
            }
        )
    return rows


def _means(splits: dict[str, dict[str, list[float]]]) -> dict[str, dict[str, float]]:
    return {s: {m: statistics.mean(v) for m, v in own.items()} for s, own in splits.items()}


def paired(ours: Sequence[float], theirs: Sequence[float]) -> dict[str, float]:
    """Mean difference and its standard error over what both were measured on."""
    differences = np.subtract(ours, theirs)
    error = (
        float(differences.std(ddof=1) / np.sqrt(len(differences))) if len(differences) > 1 else 0.0
    )
    return {"mean": float(differences.mean()), "error": error}


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means over data sets, differences with errors over data sets, and the bars."""
    means = {
        s: {m: statistics.mean(row["accuracy"][s][m] for row in rows) for m in models()}
        for s in SELECTORS
    }
    leads = {
        s: {
            m: paired(
                [row["accuracy"]["stepwise"][m] for row in rows],
                [row["accuracy"][s][m] for row in rows],
            )
            for m in models()
        }
        for s in SELECTORS
        if s != "stepwise"
    }
    bars = {}
    if len(rows) >= 14:
        bars["2 points ahead of f"] = leads["f"]["logistic"]["mean"] >= 2.0
        behind = leads["mrmr"]["logistic"]
        bars["not behind mrmr"] = behind["mean"] >= -behind["error"]
    return {"mean": means, "lead": leads, "bars": bars}


def fingerprint() -> Any:
    """What the selectors select of generated columns."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(120, 15)) @ rng.normal(size=(15, 15))
    codes = np.argmax(values[:, :3] + rng.normal(size=(120, 3)), axis=1).astype(np.int64)
    orders = {s: select(values, codes, N_SELECTED, 0) for s, select in SELECTORS.items()}
    return [orders, DATA_SETS, N_FOLDS, MOST_ROWS]
