# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Table 2 and Figures 3 to 5 of paper 002: what the chosen participants are worth.

Selected on 80 % of the rows, tested on 10 %: test accuracy of a nearest-neighbour classifier,
logistic regression and boosted trees, and the mutual information of the chosen columns. Group
testing runs under encryption; the searches over overlapping groups use the plaintext estimator,
whose scores the cases ``exact`` of the suite show to be the same.
"""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fedsift.bench.vfps_worker import run_method
from fedsift.data import catalog, split_vertical
from fedsift.maths.knn_mi import Alike, estimate, exact_terms
from fedsift.methods import vfps_search as search
from fedsift.methods.vfps_local import Params, standardised

Echo = Callable[[str], None]
DATA = {
    "synthesis": 5,
    "g2_4": 4,
    "g2_128": 4,
    "bank": 4,
    "unbalance": 2,
    "letter": 4,
    "birch1": 2,
    "birch2": 2,
}
"""Data sets of the paper and their number of participants."""

STRATEGIES = ("group-testing", "greedy", "shapley", "individual", "brute-force")
_MOST_TRAINING_ROWS = 4000
_MOST_CLASSES = 30


def table_rows(profile: str, echo: Echo) -> list[dict[str, Any]]:
    """One row per data set and share; methods side by side."""
    names = ("g2_4",) if profile == "smoke" else tuple(DATA)
    done = []
    for name in names:
        if not catalog.is_available(name):
            echo(f"table {name}: not here (set FEDSIFT_DATA)")
            continue
        for share in (0.5, 0.25):
            wanted = round(share * DATA[name])
            if wanted < 1:
                continue
            splits = 1 if profile == "smoke" or name.startswith(("birch", "letter")) else 3
            row = {
                "data": name,
                "share": share,
                "n_participants": DATA[name],
                "wanted": wanted,
                "splits": splits,
                "methods": _compare(name, wanted, splits, 100 if profile == "smoke" else 400),
            }
            done.append(row)
            echo(_line(row))
    return done


def _compare(name: str, wanted: int, splits: int, queries: int) -> dict[str, dict[str, float]]:
    """Means over splits, method by method."""
    runs = [_one_split(name, wanted, seed, queries) for seed in range(splits)]
    return {
        method: {key: float(np.mean([run[method][key] for run in runs])) for key in runs[0][method]}
        for method in runs[0]
    }


def _one_split(name: str, wanted: int, seed: int, queries: int) -> dict[str, dict[str, float]]:
    data = catalog.load(name)
    X, y = np.asarray(data.X, dtype=np.float64), np.unique(data.y, return_inverse=True)[1]
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    train, test = order[: int(0.8 * len(y))], order[int(0.9 * len(y)) :]
    columns = [
        sorted(part.tolist()) for part in np.array_split(rng.permutation(X.shape[1]), DATA[name])
    ]
    federation = split_vertical(
        X[train], y[train], columns, label_holder=None, task="classification"
    )
    parties = list(federation.tables)
    matrices = {p: standardised(table)[0] for p, table in federation.tables.items()}
    labels = Alike(y[train])
    # A federation of two cannot be told apart without groups of one.
    params = Params(n_participants=wanted, seed=seed, singles=len(parties) == 2)
    outcome, nodes = run_method(federation, params)
    scored = nodes["label-holder"][0]._queries.tolist()[:queries]
    found = outcome.value.found
    chosen: dict[str, tuple[list[str], float]] = {
        "group-testing": (list(found.selected), outcome.timings["total"])
    }
    for strategy in STRATEGIES[1:]:
        start = time.perf_counter()
        members = asyncio.run(_search(strategy, parties, wanted, matrices, labels, scored))
        chosen[strategy] = (members, time.perf_counter() - start)
    chosen["lasso"] = (_lasso(matrices, y[train], wanted), 0.0)
    chosen["all"] = (parties, 0.0)
    result = {}
    by_name = dict(zip(parties, columns, strict=True))
    for method, (members, seconds) in chosen.items():
        result[method] = {
            **_worth(members, matrices, labels, scored, by_name, (X, y, train, test)),
            "seconds": seconds,
        }
    draws = [sorted(rng.permutation(parties)[:wanted].tolist()) for _ in range(3)]
    worths = [_worth(d, matrices, labels, scored, by_name, (X, y, train, test)) for d in draws]
    result["random"] = {
        key: float(np.mean([worth[key] for worth in worths])) for key in worths[0]
    } | {"seconds": 0.0}
    return result


async def _search(
    strategy: str,
    parties: list[str],
    wanted: int,
    matrices: dict[str, Any],
    labels: Alike,
    queries: list[int],
) -> list[str]:
    """A strategy on the plaintext estimator."""
    players = search.Players(tuple(parties), None, singles=True)

    async def evaluate(groups: Sequence[search.Group]) -> dict[search.Group, Any]:
        return {
            group: exact_terms([matrices[m] for m in group], labels, queries, 3) for group in groups
        }

    if strategy == "greedy":
        found = await search.greedy(players, wanted, evaluate)
    elif strategy == "brute-force":
        found = await search.brute_force(players, wanted, evaluate)
    elif strategy == "shapley":
        rng = np.random.default_rng(0)
        found = await search.shapley(players, wanted, 50, rng, evaluate)
    else:
        terms = await evaluate([(party,) for party in parties])
        found = search.from_shared(players, wanted, terms)
    return list(found.selected)


def _worth(
    members: list[str],
    matrices: dict[str, Any],
    labels: Alike,
    queries: list[int],
    columns: dict[str, list[int]],
    split: tuple[Any, ...],
) -> dict[str, float]:
    """Mutual information on the run's own queries, and test accuracies."""
    score = estimate(exact_terms([matrices[m] for m in members], labels, queries, 3))
    X, y, train, test = split
    kept = sorted(c for m in members for c in columns[m])
    accuracies = _accuracies(X[train][:, kept], y[train], X[test][:, kept], y[test])
    return {"mi": score.value, "mi_standard_error": score.standard_error, **accuracies}


def _accuracies(X: Any, y: Any, X_test: Any, y_test: Any) -> dict[str, float]:
    """Test accuracies; the slower models learn from a sample of the rows, few classes only."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    knn = make_pipeline(StandardScaler(), KNeighborsClassifier(5)).fit(X, y)
    found = {"knn": float(knn.score(X_test, y_test))}
    if len(np.unique(y)) > _MOST_CLASSES:
        return found
    X, y = X[:_MOST_TRAINING_ROWS], y[:_MOST_TRAINING_ROWS]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logistic = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)).fit(X, y)
        trees = HistGradientBoostingClassifier(max_iter=15, max_leaf_nodes=8, random_state=0)
        trees.fit(X, y)
    found["logistic"] = float(logistic.score(X_test, y_test))
    found["trees"] = float(trees.score(X_test, y_test))
    return found


def _lasso(matrices: dict[str, Any], y: Any, wanted: int) -> list[str]:
    """Participants with the largest sum of absolute coefficients, as in the paper."""
    from sklearn.linear_model import Lasso

    joint = np.concatenate(list(matrices.values()), axis=1)
    target = np.eye(int(y.max()) + 1)[y] - np.bincount(y) / len(y)
    weights = np.abs(Lasso(alpha=1e-3, max_iter=2000).fit(joint, target).coef_).sum(axis=0)
    ends = np.cumsum([0, *(m.shape[1] for m in matrices.values())])
    sums = {p: weights[ends[i] : ends[i + 1]].sum() for i, p in enumerate(matrices)}
    return sorted(sorted(sums, key=lambda p: -sums[p])[:wanted])


def judge(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The claims over all rows."""
    if not rows:
        return {}

    def mean(method: str, key: str) -> float:
        return float(np.mean([row["methods"][method][key] for row in rows]))

    gap = mean("brute-force", "knn") - mean("group-testing", "knn")
    behind = [row["methods"]["brute-force"]["mi"] - row["methods"]["greedy"]["mi"] for row in rows]
    worse = [
        row["methods"]["group-testing"]["mi"]
        - row["methods"]["greedy"]["mi"]
        - row["methods"]["greedy"]["mi_standard_error"]
        for row in rows
    ]
    return {
        "knn_gap_to_brute_force": gap,
        "largest_mi_gap_of_greedy": max(behind),
        "group_testing_within_3_points": gap <= 0.03,
        "greedy_equals_brute_force": max(behind) < 1e-9,
        "greedy_never_worse": max(worse) <= 0,
    }


def _line(row: dict[str, Any]) -> str:
    shown = " ".join(
        f"{method} {values['mi']:.2f}/{values['knn']:.3f}"
        for method, values in row["methods"].items()
    )
    return f"{row['data']} {row['share']:.0%} (MI/5-NN): {shown}"
