# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""One run of the FPSO-FS comparison: an outer fold, all its splits, every method on test rows.

Outer folds are drawn before the rows are dealt out, so that the search on pooled rows is the same
whatever the split. Every subset is judged alike: inside each party, its own training rows classify
its own test rows, and the parties' accuracies are averaged. Test rows take part in nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.baselines import oracles
from benchmarks.baselines.fpso import random_subset, relief_subsets
from fedsift.data import Federation, catalog, split_horizontal
from fedsift.engine import run_local
from fedsift.methods.fpso import subset_fitness, swarm
from fedsift.methods.fpso import third_party as fpso
from fedsift.methods.fpso.local_search import LocalSearch, Params, classes_of, fewest_rows

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Masks = npt.NDArray[np.bool_]

PAPER_ROWS = {"dna": 2000, "satellite": 856, "cnae9": 540}
"""Sets of which the paper uses fewer rows than there are."""

N_FOLDS = 5
_TRIES = 50


def load(name: str) -> tuple[Floats, Integers]:
    """A data set with as many rows as the paper has, drawn by class where it has fewer."""
    data = catalog.load(name)
    X = np.asarray(data.X, dtype=np.float64)
    y = np.unique(data.y, return_inverse=True)[1].astype(np.int64)
    wanted = PAPER_ROWS.get(name, len(y))
    if wanted < len(y):
        by_class = np.argsort(np.random.default_rng(0).permutation(len(y)))
        by_class = by_class[np.argsort(y[by_class], kind="stable")]
        kept = np.sort(by_class[np.linspace(0, len(y) - 1, wanted).astype(np.int64)])
        X, y = X[kept], y[kept]
    return X, y


def owners_of(X: Floats, y: Integers, split: str, n_parties: int, seed: int) -> Integers:
    """Who gets which row: by chance class by class, or by clusters inside every class (k-means)."""
    rng = np.random.default_rng([seed, n_parties])
    if split == "random":
        return subset_fitness.stratified_folds(y, n_parties, rng)
    clusters = _clusters_by_class(X, y, n_parties, rng)
    best: Integers = np.zeros(len(y), dtype=np.int64)
    # A party needs rows enough for its folds in spite of small clusters: take the fairest draw.
    for _ in range(_TRIES):
        orders = np.stack([rng.permutation(n_parties) for _ in range(int(y.max()) + 1)])
        drawn = orders[y, clusters]
        if _smallest(drawn, n_parties) > _smallest(best, n_parties):
            best = drawn
    return _topped_up(best, n_parties, rng)


def _clusters_by_class(
    X: Floats, y: Integers, n_parties: int, rng: np.random.Generator
) -> Integers:
    from sklearn.cluster import KMeans

    spread = X.std(axis=0)
    Z = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    clusters = np.zeros(len(y), dtype=np.int64)
    for label in np.unique(y):
        members = np.flatnonzero(y == label)
        different = len(np.unique(Z[members], axis=0))
        model = KMeans(
            min(n_parties, different), n_init=3, random_state=int(rng.integers(2**31 - 1))
        )
        clusters[members] = model.fit_predict(Z[members])
    return clusters


def _smallest(owners: Integers, n_parties: int) -> int:
    return int(np.bincount(owners, minlength=n_parties).min())


def _topped_up(owners: Integers, n_parties: int, rng: np.random.Generator) -> Integers:
    """Move single rows from the largest to the smallest party until all can take part."""
    least = 3 * fewest_rows(N_FOLDS, Params.k)
    owners = owners.copy()
    while _smallest(owners, n_parties) < least:
        sizes = np.bincount(owners, minlength=n_parties)
        moved = rng.choice(np.flatnonzero(owners == sizes.argmax()))
        owners[moved] = sizes.argmin()
    return owners


def one_run(job: Mapping[str, Any]) -> dict[str, Any]:
    """All splits of one outer fold; see the module for what is compared."""
    start, processor_start = time.perf_counter(), time.process_time()
    X, y = load(job["data"])
    repeat, fold = job["repeat"], job["fold"]
    folds = subset_fitness.stratified_folds(y, N_FOLDS, np.random.default_rng(repeat))
    train = folds != fold
    params = Params(seed=N_FOLDS * repeat + fold, **job.get("settings", {}))
    pooled = LocalSearch.over_arrays(X[train], y[train], params, "all parties").run_alone(params)
    pooled_seconds = time.perf_counter() - start
    splits = []
    for split, n_parties in job["splits"]:
        owners = owners_of(X, y, split, n_parties, repeat)
        case = _Case(X, y, train, owners, params)
        splits.append(
            {
                "split": split,
                "parties": n_parties,
                **case.compare(pooled.mask, more_modes=(split, n_parties) in job["more_modes"]),
            }
        )
    return {
        "data": job["data"],
        "repeat": repeat,
        "fold": fold,
        "shape": list(X.shape),
        "n_classes": int(y.max()) + 1,
        "pooled_seconds": pooled_seconds,
        "seconds": time.perf_counter() - start,
        "processor_seconds": time.process_time() - processor_start,
        "splits": splits,
    }


class _Case:
    """The rows of one outer fold at some parties."""

    def __init__(
        self, X: Floats, y: Integers, train: Masks, owners: Integers, params: Params
    ) -> None:
        self._X, self._y, self._train, self._owners = X, y, train, owners
        self._params = params
        names = [f"party-{number + 1}" for number in range(int(owners.max()) + 1)]
        self._numbers = {name: number for number, name in enumerate(names)}
        self._federation: Federation = split_horizontal(
            X[train], y[train], owners[train], names=names, task="classification"
        )
        self._known: dict[str, subset_fitness.SubsetFitness] = {}

    def compare(self, pooled: Masks, *, more_modes: bool) -> dict[str, Any]:
        """Test accuracy of every method in percent, sizes, and the cost of the protocol."""
        start = time.perf_counter()
        local = self._local()
        common, kept, facts = self._federated("rounds", "mean")
        size = int(common.sum())
        n_features = self._X.shape[1]
        subsets: dict[str, Masks | Mapping[str, Masks]] = {
            "all features": np.ones(n_features, dtype=bool),
            "random": random_subset(n_features, size, self._params.seed),
            "relieff": relief_subsets(self._federation, size),
            "local": local,
            "fpso": common,
            "fpso, own if better": kept,
            "best-of-local": self._best_of(local),
            "pooled": pooled,
        }
        if more_modes:
            subsets["max-min"] = self._federated("rounds", "max-min")[0]
            subsets["federated-fitness"] = self._federated("federated-fitness", "mean")[0]
        return {
            "accuracy": self._accuracies(subsets),
            "n_features": {name: _size(subset) for name, subset in subsets.items()},
            **facts,
            "seconds": time.perf_counter() - start,
        }

    def _local(self) -> dict[str, Masks]:
        found = {}
        for party, table in self._federation.tables.items():
            target = classes_of(party, self._federation.targets)
            search = LocalSearch.over(table, target, self._params)
            found[party] = search.run_alone(self._params).mask
            # The first round of the federated search is the same: it need not be computed again.
            self._known[party] = search.fitness
        return found

    def _federated(
        self, mode: str, integration: str
    ) -> tuple[Masks, dict[str, Masks], dict[str, Any]]:
        from dataclasses import replace

        params = replace(self._params, mode=mode, integration=integration)
        nodes = fpso.build_nodes(
            self._federation.tables, self._federation.targets, params, self._known
        )
        outcome = run_local(fpso.PROTOCOL, nodes, timeout_seconds=3600.0)
        traffic = outcome.transcript.traffic()
        facts = {
            "claimed": 100.0 * outcome.value.accuracy,
            "bytes": traffic.n_bytes,
            "messages": traffic.messages,
            "rounds": traffic.rounds,
        }
        kept = {party: nodes[party][0].facts()["kept"] for party in self._federation.tables}
        return outcome.value.mask, kept, facts

    def _best_of(self, local: Mapping[str, Masks]) -> Masks:
        """One exchange after the local searches (``n_rounds=1`` with as many steps)."""
        masks = np.stack(list(local.values()))
        steps = [
            np.rint(fitness.correct(masks) * (fpso.ACCURACY_STEPS / self._n_rows(party)))
            for party, fitness in self._known.items()
        ]
        best: swarm.Best | None = None
        for mask, mean in zip(masks, np.mean(steps, axis=0), strict=True):
            found = swarm.Best(mask, float(mean))
            best = found if found.beats(best) else best
        assert best is not None
        return best.mask

    def _n_rows(self, party: str) -> int:
        return self._federation.tables[party].n_rows

    def _accuracies(self, subsets: Mapping[str, Masks | Mapping[str, Masks]]) -> dict[str, float]:
        """Mean over the parties that have test rows in this fold."""
        shares: dict[str, list[float]] = {name: [] for name in subsets}
        for party, number in self._numbers.items():
            own = self._owners == number
            known, new = own & self._train, own & ~self._train
            if not new.any():
                continue
            masks = [m if isinstance(m, np.ndarray) else m[party] for m in subsets.values()]
            predicted = oracles.knn_predict(
                self._X[known], self._y[known], self._X[new], masks, self._params.k
            )
            for name, classes in zip(subsets, predicted, strict=True):
                shares[name].append(float((classes == self._y[new]).mean()))
        return {name: 100.0 * float(np.mean(values)) for name, values in shares.items()}


def _size(subset: Masks | Mapping[str, Masks]) -> float:
    if isinstance(subset, np.ndarray):
        return float(subset.sum())
    return float(np.mean([mask.sum() for mask in subset.values()]))
