# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Table 2 and Figures 3 to 5 of paper 002: what the chosen participants are worth.

Selected on 80 % of the rows, tested on 10 %: test accuracy of a nearest-neighbour classifier,
logistic regression and boosted trees, and the mutual information of the chosen columns. Group
testing runs under encryption; the searches over overlapping groups use the plaintext estimator
(``estimator`` says which), and :mod:`benchmarks.suites.vfps.secure` shows that encryption changes
neither their scores nor their choice.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.suites.vfps.measures import run_method
from fedsift.data import catalog, split_vertical
from fedsift.methods.vfps import search
from fedsift.methods.vfps.distances import Params, standardised
from fedsift.methods.vfps.knn_mi import Alike, estimate, exact_terms

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
SPLITS = {"birch1": 3, "birch2": 3}
"""Splits of rows and columns where it is not five."""

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
        n_splits = 1 if profile == "smoke" else SPLITS.get(name, 5)
        queries = 100 if profile == "smoke" else 400
        splits = [Split(name, seed, queries) for seed in range(n_splits)]
        for share in (0.5, 0.25):
            wanted = round(share * DATA[name])
            if wanted < 1:
                continue
            row = {
                "data": name,
                "share": share,
                "n_participants": DATA[name],
                "wanted": wanted,
                "splits": n_splits,
                "estimator": {
                    method: "encrypted protocol" if method == "group-testing" else "plaintext"
                    for method in STRATEGIES
                },
                "methods": _means([split.methods(wanted) for split in splits]),
            }
            done.append(row)
            echo(_line(row))
    return done


def _means(runs: list[dict[str, dict[str, float]]]) -> dict[str, dict[str, float]]:
    """Means over splits and their standard errors, method by method."""
    found: dict[str, dict[str, float]] = {}
    for method in runs[0]:
        found[method] = {}
        for key in runs[0][method]:
            score = estimate([run[method][key] for run in runs])
            found[method][key] = score.value
            found[method][f"{key}_split_error"] = score.standard_error
    return found


class Split:
    """One way to deal out rows and columns; scores and models of a group are made once."""

    def __init__(self, name: str, seed: int, n_queries: int) -> None:
        data = catalog.load(name)
        X, y = np.asarray(data.X, dtype=np.float64), np.unique(data.y, return_inverse=True)[1]
        self._X, self._y = X, y
        self._rng = np.random.default_rng(seed)
        order = self._rng.permutation(len(y))
        self._train, self._test = order[: int(0.8 * len(y))], order[int(0.9 * len(y)) :]
        dealt = np.array_split(self._rng.permutation(X.shape[1]), DATA[name])
        columns = [sorted(part.tolist()) for part in dealt]
        federation = split_vertical(
            X[self._train], y[self._train], columns, label_holder=None, task="classification"
        )
        self._parties = tuple(federation.tables)
        self._columns = dict(zip(self._parties, columns, strict=True))
        self._matrices = {p: standardised(table)[0] for p, table in federation.tables.items()}
        self._labels = Alike(y[self._train])
        # A federation of two cannot be told apart without groups of one.
        params = Params(
            n_participants=1, seed=seed, query_seed=seed, singles=len(self._parties) == 2
        )
        outcome, nodes = run_method(federation, params)
        self._importances = outcome.value.found.importances
        self._seconds = outcome.timings["total"]
        self._queries = nodes["label-holder"][0]._queries.tolist()[:n_queries]
        self._terms: dict[search.Group, Any] = {}
        self._models: dict[search.Group, dict[str, float]] = {}

    def methods(self, wanted: int) -> dict[str, dict[str, float]]:
        """What every method's choice of so many participants is worth."""
        chosen = {"group-testing": search.best(self._importances, wanted)}
        for strategy in STRATEGIES[1:]:
            chosen[strategy] = asyncio.run(self._search(strategy, wanted))
        chosen["lasso"] = tuple(_lasso(self._matrices, self._y[self._train], wanted))
        chosen["all"] = self._parties
        result = {method: self._worth(members) for method, members in chosen.items()}
        result["group-testing"]["seconds"] = self._seconds
        draws = [self._rng.permutation(self._parties)[:wanted].tolist() for _ in range(3)]
        worths = [self._worth(tuple(p for p in self._parties if p in draw)) for draw in draws]
        result["random"] = {
            key: float(np.mean([worth[key] for worth in worths])) for key in worths[0]
        }
        return result

    async def _search(self, strategy: str, wanted: int) -> search.Group:
        """A strategy on the plaintext estimator."""
        players = search.Players(self._parties, None, singles=True)

        async def evaluate(groups: Sequence[search.Group]) -> dict[search.Group, Any]:
            return {group: self._scored(group) for group in groups}

        rng = np.random.default_rng(0)
        return (await search.search(strategy, players, wanted, 50, rng, evaluate)).selected

    def _scored(self, group: search.Group) -> Any:
        if group not in self._terms:
            parts = [self._matrices[name] for name in group]
            self._terms[group] = exact_terms(parts, self._labels, self._queries, 3)
        return self._terms[group]

    def _worth(self, group: search.Group) -> dict[str, float]:
        """Mutual information on the run's own queries, and test accuracies."""
        if group not in self._models:
            kept = sorted(c for name in group for c in self._columns[name])
            rows = [(self._X[some][:, kept], self._y[some]) for some in (self._train, self._test)]
            self._models[group] = _accuracies(*rows[0], *rows[1])
        score = estimate(self._scored(group))
        return {
            "mi": score.value,
            "mi_standard_error": score.standard_error,
            **self._models[group],
        }


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
        f"{method} {values['mi']:.2f}/{values['knn']:.3f}±{values['knn_split_error']:.3f}"
        for method, values in row["methods"].items()
    )
    return f"{row['data']} {row['share']:.0%} (MI/5-NN): {shown}"
