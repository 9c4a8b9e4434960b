# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Who holds which rows in the DCFS benchmark, and how every method ranks the columns there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.baselines import oracles
from benchmarks.baselines.oracles import borda
from fedsift.data import catalog
from fedsift.methods.dcfs import anchor
from fedsift.methods.dcfs.selector import MAX_AUTO_ANCHORS
from fedsift.methods.dcfs.settings import ANCHOR_RANGE, Scale
from fedsift.methods.dcfs.unsupervised import local_selection

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Setting = tuple[float, float]
"""alpha and beta."""

PAPER_ANCHORS = 500
"""Of every party in the paper."""

_PARTIES = {"colon": 2, "tox171": 2, "lung": 3, "lymphoma": 3}
_TRAINING_SHARE = 0.8


@dataclass(frozen=True, eq=False)
class Division:
    """Rows of every party: those it selects and trains with, and those it is tested on."""

    train: tuple[Integers, ...]
    test: tuple[Integers, ...]


@dataclass(frozen=True, eq=False)
class Task:
    """One data set of the benchmark."""

    name: str
    X: Floats
    y: Integers
    divide: Callable[[np.random.Generator], Division]
    n_parties: int


def task(name: str) -> Task:
    """A data set with the paper's way of dealing its rows out; other sets go to two parties."""
    if name == "generated":
        X, y = _generated()
        return Task(name, X, y, lambda rng: _at_random(len(y), 2, rng), 2)
    if name.startswith("mnist-"):
        return _digits(name)
    data = catalog.load(name)
    y = np.asarray(data.y, dtype=np.int64)
    n_parties = _PARTIES.get(name, 2)
    X = np.asarray(data.X, dtype=np.float64)
    return Task(name, X, y, lambda rng: _at_random(len(y), n_parties, rng), n_parties)


def source_of(name: str) -> str:
    """The catalogued set behind a task; empty if it is generated."""
    if name == "generated":
        return ""
    return "mnist5k" if name.startswith("mnist-") else name


def _generated() -> tuple[Floats, Integers]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 120)
    X = rng.normal(size=(120, 60))
    X[:, :8] += 3 * rng.normal(size=(3, 8))[y]
    return X, y


def _at_random(n_rows: int, n_parties: int, rng: np.random.Generator) -> Division:
    """Parties of equal size, four fifths of each for training."""
    train, test = [], []
    for own in np.array_split(rng.permutation(n_rows), n_parties):
        cut = round(_TRAINING_SHARE * len(own))
        train.append(own[:cut])
        test.append(own[cut:])
    return Division(tuple(train), tuple(test))


def _digits(name: str) -> Task:
    """MNIST-d1: digits 0 to 3, two parties. MNIST-d2: digits 4 to 9, six parties, one each."""
    data = catalog.load("mnist5k")
    labels = np.asarray(data.y, dtype=np.int64)
    wanted: tuple[int, ...]
    if name == "mnist-d1":
        wanted = (0, 1, 2, 3)
        counts = [{1: 270, 0: 10, 2: 10, 3: 10}, {1: 30, 0: 90, 2: 90, 3: 90}]
    else:
        wanted = (4, 5, 6, 7, 8, 9)
        counts = [{d: 275 if d == own else 5 for d in wanted} for own in wanted]
    kept = np.flatnonzero(np.isin(labels, wanted))
    X, y = np.asarray(data.X, dtype=np.float64)[kept], labels[kept]

    def divide(rng: np.random.Generator) -> Division:
        return _skewed(y, counts, 600 // len(wanted), rng)

    return Task(name, X, y, divide, len(counts))


def _skewed(
    y: Integers, counts: Sequence[dict[int, int]], n_test: int, rng: np.random.Generator
) -> Division:
    """Parties with given numbers of every class; one test set with all classes alike for all."""
    pools = {int(c): rng.permutation(np.flatnonzero(y == c)) for c in np.unique(y)}
    train = []
    for own in counts:
        train.append(np.concatenate([pools[c][:n] for c, n in own.items()]))
        pools = {c: pool[own[c] :] for c, pool in pools.items()}
    test = np.concatenate([pool[:n_test] for pool in pools.values()])
    return Division(tuple(train), (test,) * len(counts))


def scaled(X: Floats, train: Sequence[Integers], *, shared: bool = False) -> Floats:
    """All rows in the common units of the training rows, as masked sums would give them."""
    rows = X[np.concatenate(train)]
    spread = rows.std(axis=0)
    if shared:
        spread = np.full(len(spread), np.sqrt((spread**2).mean()))
    return np.asarray((X - rows.mean(axis=0)) / np.where(spread > 0, spread, 1.0))


class Ranker:
    """All methods on one division; what does not depend on alpha and beta is computed once.

    What is computed here for every party by itself is scaled by the party itself; pooled rows, and
    DCFS as printed, have one scale.
    """

    def __init__(self, task: Task, division: Division, seed: int) -> None:
        self._rng = np.random.default_rng((seed, 1))
        self._X, self._y = task.X, task.y
        self._train = division.train
        self.values = scaled(task.X, division.train)
        self._parts = [self.values[rows] for rows in division.train]
        self._starts = [anchor.starting_point(part, 10, 5) for part in self._parts]
        rows = [task.X[own] for own in division.train]
        self._own = [Scale.of_rows(part, "columns").of(part) for part in rows]
        self._own_starts = [anchor.starting_point(part, 10, 5) for part in self._own]
        self._shared = [Scale.of_rows(part, "shared").of(part) for part in rows]
        self._shared_starts = [anchor.starting_point(part, 10, 5) for part in self._shared]
        self._pool = np.concatenate(self._parts)
        self._pool_graph = anchor.neighbour_graph(self._pool, 5)
        n_features = task.X.shape[1]
        r = max(1, min(MAX_AUTO_ANCHORS, n_features // 4))
        self._anchors = ANCHOR_RANGE * (2 * self._rng.random((r, n_features)) - 1)
        self._paper_anchors = self._between_ends()

    def _between_ends(self) -> Floats:
        """As in the paper: every party draws between its own smallest and largest values."""
        drawn = [
            part.min(axis=0)
            + (part.max(axis=0) - part.min(axis=0))
            * self._rng.random((PAPER_ANCHORS, part.shape[1]))
            for part in self._parts
        ]
        return np.concatenate(drawn)

    def tuned(self, setting: Setting) -> dict[str, list[Floats]]:
        """Scores by method and party for one alpha and beta."""
        alpha, beta = setting
        options: dict[str, Any] = {"alpha": alpha, "beta": beta}
        n_parties = len(self._parts)
        lfs = [
            local_selection(part, graph=start.graph, **options)
            for part, start in zip(self._own, self._own_starts, strict=True)
        ]
        afs = local_selection(self._pool, graph=self._pool_graph, **options)
        printed = oracles.collaborate(
            self._parts, self._paper_anchors, target="paper", starts=self._starts, **options
        )
        ours = oracles.collaborate(self._own, self._anchors, starts=self._own_starts, **options)
        pixels = oracles.collaborate(
            self._shared, self._anchors, starts=self._shared_starts, **options
        )
        return {
            "random": [np.asarray(self._rng.random(self._X.shape[1]))] * n_parties,
            "LFS": lfs,
            "AFS": [afs] * n_parties,
            "Borda": [borda(lfs)] * n_parties,
            "DCFS as printed": printed,
            "DCFS": ours,
            "DCFS joint": [np.mean(ours, axis=0)] * n_parties,
            "DCFS joint, shared": [np.mean(pixels, axis=0)] * n_parties,
        }

    def fixed(self) -> dict[str, list[Floats]]:
        """Scores by method and party of what has no alpha and beta."""
        from sklearn.feature_selection import f_classif

        n_parties = len(self._parts)
        rows = np.concatenate(self._train)
        spread = self._X[rows].std(axis=0)
        f = np.zeros(len(spread))
        moving = spread > 0
        f[moving] = f_classif(self._pool[:, moving], self._y[rows])[0]
        return {"variance": [spread**2] * n_parties, "ANOVA": [np.nan_to_num(f)] * n_parties}


TUNED = ("random", "LFS", "AFS", "Borda", "DCFS as printed", "DCFS", "DCFS joint")
"""Searched over alpha, beta and the number of features (random: over as many draws)."""
TUNED_SHARED = "DCFS joint, shared"
FIXED = ("variance", "ANOVA")
"""Searched over the number of features only: less selection, less optimism."""
METHODS = ("all", *TUNED, TUNED_SHARED, *FIXED)
