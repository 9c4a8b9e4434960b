# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What the chosen half of six participants is worth, strategy by strategy, and a simple control.

Run ``python -m benchmarks.suites.vfps.halves --out benchmarks/vfps_halves.json`` (with
``FEDSIFT_DATA``). Columns are dealt out at random to six parties; in half of the cases the label
holder has a seventh share, which every choice is added to. Three are chosen on the training rows,
by the searches of ``design="scores"`` on pooled columns, and three models are tested once on rows
held back. Differences from the control, the sum of a party's ten best F values, are paired.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_selection import f_classif

from benchmarks.suites.vfps.tables import _accuracies
from fedsift.data import Federation, catalog, split_vertical
from fedsift.methods.vfps import score_lists
from fedsift.methods.vfps.distances import Distances, Params
from fedsift.methods.vfps.knn_mi import Alike, Estimate
from fedsift.methods.vfps.score_search import Pair, search_scores
from fedsift.methods.vfps.search import Group, Players

DATA = (
    "sonar", "ionosphere", "vehicle", "musk1", "segmentation", "wine_white", "bank", "vowel",
    "satellite", "dna", "madelon", "letter",
)  # fmt: skip
METHODS = (
    ("greedy", "parties"), ("greedy", "columns"), ("submodular", "parties"),
    ("shapley", "parties"), ("group-testing", "parties"), ("brute-force", "parties"),
)  # fmt: skip
"""Strategies and scalings."""

PARTIES, WANTED, BEST, SEEDS = 6, 3, 10, 3
_MOST_ROWS, _MOST_QUERIES = 1500, 200


class Pool:
    """All training columns in one place, scored as the aggregator scores lists."""

    def __init__(self, federation: Federation, params: Params, own: str | None) -> None:
        self._labels = Alike(federation.target.codes)  # type: ignore[union-attr]
        self._params, self._own, n_rows = params, own, federation.n_rows
        self._queries = np.random.default_rng(0).permutation(n_rows)[:_MOST_QUERIES]
        self._rows = [
            score_lists.listed_rows(self._queries, i, n_rows) for i in range(len(self._queries))
        ]
        self._parts = {
            name: self._lists(Distances(table, params, len(federation.tables)))
            for name, table in federation.tables.items()
        }
        self._known: dict[Group, Any] = {}
        self._reach = score_lists.most_changed(n_rows, likelihood=params.likelihood)

    def _lists(self, distances: Distances) -> list[Any]:
        return [
            distances.part(int(query))[rows]
            for query, rows in zip(self._queries, self._rows, strict=True)
        ]

    def _score(self, group: Group) -> Any:
        """Per query; nothing is told by no columns."""
        members = (*group, *([self._own] if self._own else []))
        if not members:
            return np.zeros(len(self._queries))
        if group not in self._known:
            self._known[group] = np.array(
                [
                    score_lists.worth(
                        sum(self._parts[name][i] for name in members),
                        self._labels.rows(int(query))[rows],
                        self._params.k,
                        likelihood=self._params.likelihood,
                    )
                    for i, (query, rows) in enumerate(zip(self._queries, self._rows, strict=True))
                ]
            )
        return self._known[group]

    async def ask(self, pairs: Sequence[Pair]) -> dict[Pair, Estimate]:
        """What the leader would be told."""
        return {
            (group, base): score_lists.rounded_mean(
                self._best(group) - self._best(base), self._reach
            )
            for group, base in pairs
        }

    def _best(self, group: Group) -> Any:
        if not self._params.likelihood:
            return self._score(group)
        return np.max([self._score(()), *(self._score((name,)) for name in group)], axis=0)


def choices(federation: Federation, own: str | None, X: Any, y: Any) -> dict[str, Group]:
    """What every strategy selects, and the control."""
    names = tuple(name for name in federation.tables if name != own)
    players = Players(names, None, singles=True)
    f = np.nan_to_num(f_classif(X, y)[0])
    columns = {n: [int(c[1:]) for c in federation.tables[n].feature_names] for n in names}
    best = {name: np.sort(f[columns[name]])[-BEST:].sum() for name in names}
    found = {"ten best F": tuple(sorted(names, key=lambda name: -best[name])[:WANTED])}
    pools: dict[tuple[str, bool], Pool] = {}
    for strategy, scaling in METHODS:
        params = Params(
            n_participants=WANTED, strategy=strategy, design="scores",
            keep_own=own is not None, scaling=scaling,
        )  # fmt: skip
        kind = (scaling, params.likelihood)
        if kind not in pools:
            pools[kind] = Pool(federation, params, own)
        pool = pools[kind]
        rng = np.random.default_rng(0)
        chosen = asyncio.run(search_scores(params, players, rng, pool.ask)).selected
        found[f"{strategy}, {scaling}"] = players.group(chosen)
    return found


def one_split(name: str, seed: int, *, given: bool) -> dict[str, Any]:
    """Test accuracies of every choice."""
    data = catalog.load(name)
    X = np.nan_to_num(np.asarray(data.X, dtype=np.float64))
    y = np.unique(data.y, return_inverse=True)[1]
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(y))[:_MOST_ROWS]
    train, test = np.split(rows, [round(0.68 * len(rows))])
    dealt = np.array_split(rng.permutation(X.shape[1]), PARTIES + given)
    federation = split_vertical(
        X[train], y[train], [sorted(part.tolist()) for part in dealt],
        label_holder=0 if given else None, task="classification",
    )  # fmt: skip
    own = "party-1" if given else None
    worth: dict[Group, dict[str, float]] = {}
    chosen = choices(federation, own, X[train], y[train])
    for group in set(chosen.values()):
        members = {*group, *([own] if own else [])}
        kept = [int(column[1:]) for n in members for column in federation.tables[n].feature_names]
        worth[group] = _accuracies(X[train][:, kept], y[train], X[test][:, kept], y[test])
    return {
        "data": name,
        "seed": seed,
        "own": given,
        "accuracy": {method: worth[group] for method, group in chosen.items()},
    }


def summary(runs: Sequence[dict[str, Any]]) -> dict[str, dict[str, dict[str, float]]]:
    """Points ahead of the control, mean over models, with paired standard errors over splits."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for given in (False, True):
        some = [run["accuracy"] for run in runs if run["own"] == given]
        for method in some[0] if some else ():
            ahead = [
                100 * np.mean([run[method][m] - run["ten best F"][m] for m in run[method]])
                for run in some
            ]
            found.setdefault("own columns" if given else "no own columns", {})[method] = {
                "points": float(np.mean(ahead)),
                "error": float(np.std(ahead, ddof=1) / np.sqrt(len(ahead))),
                "splits": len(ahead),
            }
    return found


def main() -> None:
    """Write the file after every split."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    runs: list[dict[str, Any]] = []
    for seed in range(SEEDS):
        for name in DATA:
            if not catalog.is_available(name):
                print(f"{name}: not here (set FEDSIFT_DATA)")
                continue
            for own in (False, True):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    runs.append(one_split(name, seed, given=own))
            found = {"summary": summary(runs), "runs": runs}
            given.out.write_text(json.dumps(found, indent=1) + "\n")
            print(name, seed, flush=True)
    print(json.dumps(summary(runs), indent=1))


if __name__ == "__main__":
    main()
