# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Is a selection worth having? DCFS and its controls, by three ways of choosing the parameters.

One nearest neighbour inside every party, as in the paper, over many divisions of the rows:

- ``paper``: alpha, beta and the number of features that do best on the *test* rows;
- ``honest``: those that do best by leave-one-out on the party's own training rows;
- ``untuned``: alpha = beta = 1 and 50 features.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache, partial
from multiprocessing import get_context
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.suites.dcfs.rankings import (
    FIXED,
    METHODS,
    TUNED,
    TUNED_SHARED,
    Floats,
    Integers,
    Ranker,
    Setting,
    source_of,
    task,
)
from fedsift.data import catalog

DATA_SETS = {
    "smoke": ("generated",),
    "regular": ("colon", "tox171", "lung", "lymphoma", "mnist-d1", "mnist-d2"),
}
DATA_SETS["paper"] = DATA_SETS["regular"]
DEVELOPMENT = {
    "smoke": (),
    "regular": ("sonar", "musk1", "lsvt", "yale", "orl", "arcene"),
}
DEVELOPMENT["paper"] = DEVELOPMENT["regular"]
"""Sets that are not in the table: defaults were chosen on these."""

SPLITS = {"smoke": 2, "regular": 30, "paper": 30}
DEVELOPMENT_SPLITS = 10
_SEVEN = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
_SETTINGS: dict[str, tuple[Setting, ...]] = {
    "smoke": ((1.0, 1.0),),
    "regular": ((1.0, 1.0), (0.01, 1.0), (100.0, 1.0), (1.0, 0.01), (1.0, 100.0)),
    "paper": tuple((alpha, beta) for alpha in _SEVEN for beta in _SEVEN),
}
"""alpha and beta: the paper's 49 pairs, or a cross around the defaults."""
_COARSE = (*range(1, 11), 12, 15, 20, 25, 30, 40, 50, 60, 80, 100, 125, 150, 200, 250, 300)
_SIZES = {"smoke": (5, 10, 50), "regular": _COARSE, "paper": tuple(range(1, 301))}
_DEFAULT: Setting = (1.0, 1.0)
_DEFAULT_SIZE = 50

_WORTH_PROCESSES = 10
"""From this many divisions on, processes of their own pay."""

_task = lru_cache(maxsize=1)(task)
PROTOCOLS = ("paper", "honest", "untuned")
_COMPARED = ("DCFS", "DCFS joint")
Echo = Callable[[str], None]


def accuracy_rows(profile: str, echo: Echo, keep: Callable[[dict[str, Any]], None]) -> list[Any]:
    """Every data set that is there; ``keep`` gets each row as soon as it is done."""
    rows = []
    for name in DATA_SETS[profile]:
        if source_of(name) and not catalog.is_available(source_of(name)):
            echo(f"{name}: not here (set FEDSIFT_DATA)")
            continue
        rows.append(_row(name, SPLITS[profile], _SETTINGS[profile], _SIZES[profile]))
        keep(rows[-1])
        for line in _lines(rows[-1]):
            echo(line)
    return rows


def development_rows(
    profile: str, echo: Echo, keep: Callable[[dict[str, Any]], None]
) -> list[dict[str, Any]]:
    """The choice of the defaults: untuned methods on sets that are not in the table."""
    rows = []
    sizes = (5, 10, 20, 50, 100, 200)
    for name in DEVELOPMENT[profile]:
        if not catalog.is_available(source_of(name)):
            echo(f"{name}: not here (set FEDSIFT_DATA)")
            continue
        measured = _measure(name, DEVELOPMENT_SPLITS, [_DEFAULT], sizes)
        means = {m: summary(v["test"].mean(axis=(1, 2, 3))) for m, v in measured.items()}
        rows.append({"data": name, "splits": DEVELOPMENT_SPLITS, "methods": means})
        keep(rows[-1])
        shown = (f"{m} {v['mean']:.1f}+-{v['se']:.1f}" for m, v in means.items())
        echo(f"{name:10} defaults: " + "  ".join(shown))
    return rows


def _row(
    name: str, splits: int, settings: Sequence[Setting], sizes: Sequence[int]
) -> dict[str, Any]:
    task = _task(name)
    measured = _measure(name, splits, settings, sizes)
    sizes = [k for k in sizes if k <= task.X.shape[1]]
    chosen = {method: _choose(method, m, settings, sizes) for method, m in measured.items()}
    return {
        "data": name,
        "shape": list(task.X.shape),
        "n_classes": len(np.unique(task.y)),
        "parties": task.n_parties,
        "splits": splits,
        "settings": [list(s) for s in settings],
        "methods": {
            method: {
                protocol: {
                    **summary(found["accuracy"]),
                    "nmi": float(np.mean(found["nmi"])),
                    **found["how"],
                }
                for protocol, found in by_protocol.items()
            }
            for method, by_protocol in chosen.items()
        },
        "differences": {
            f"{ours} - {other}": {
                protocol: summary(
                    chosen[ours][protocol]["accuracy"] - chosen[other][protocol]["accuracy"]
                )
                for protocol in PROTOCOLS
            }
            for ours in _COMPARED
            for other in chosen
            if other != ours
        },
    }


Measured = dict[str, npt.NDArray[np.float64]]
"""``test``, ``nmi`` and ``left_out`` in percent; in the end split x party x setting x size."""


def _measure(
    name: str, splits: int, settings: Sequence[Setting], sizes: Sequence[int]
) -> dict[str, Measured]:
    """Accuracies of all methods with all settings and sizes on all divisions."""
    one = partial(_one_division, name, tuple(settings), tuple(sizes))
    if splits < _WORTH_PROCESSES:
        divisions = [one(split) for split in range(splits)]
    else:
        with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
            divisions = list(pool.map(one, range(splits)))
    return {
        m: {kind: np.stack([d[m][kind] for d in divisions]) for kind in divisions[0][m]}
        for m in METHODS
    }


def _one_division(
    name: str, settings: Sequence[Setting], sizes: Sequence[int], split: int
) -> dict[str, Measured]:
    """One division of the rows: party x setting x size of every measure and method."""
    task = _task(name)
    sizes = [k for k in sizes if k <= task.X.shape[1]]
    division = task.divide(np.random.default_rng((split, 0)))
    ranker = Ranker(task, division, split)
    batches = [ranker.tuned(setting) for setting in settings]
    scores = {m: [batch[m] for batch in batches] for m in (*TUNED, TUNED_SHARED)}
    scores |= {m: [by_party] for m, by_party in ranker.fixed().items()}
    scores["all"] = [[np.zeros(task.X.shape[1])] * task.n_parties]
    coordinates = ranker.values.astype(np.float32)

    def measures(m: str, party: int, by_party: list[Floats]) -> Measured:
        order = np.argsort(-by_party[party], kind="stable")
        own_sizes = [task.X.shape[1]] if m == "all" else sizes
        rows = (division.train[party], division.test[party])
        return neighbour_accuracy(coordinates, task.y, *rows, order, own_sizes)

    found = {
        m: [
            [measures(m, party, by_party) for by_party in by_setting]
            for party in range(task.n_parties)
        ]
        for m, by_setting in scores.items()
    }
    return {
        m: {
            kind: np.array([[one[kind] for one in settings] for settings in by_party])
            for kind in ("test", "nmi", "left_out")
        }
        for m, by_party in found.items()
    }


def neighbour_accuracy(
    values: npt.NDArray[np.floating[Any]],
    codes: Integers,
    train: Integers,
    test: Integers,
    order: npt.NDArray[np.intp],
    sizes: Sequence[int],
) -> Measured:
    """One nearest neighbour with growing prefixes of an order; distances grow block by block.

    Returns accuracy and normalised mutual information on the test rows, and the leave-one-out
    accuracy on the training rows, in percent.
    """
    known, asked = values[train], values[np.concatenate([test, train])]
    distances = np.zeros((len(asked), len(train)), dtype=values.dtype)
    itself = (np.arange(len(test), len(asked)), np.arange(len(train)))
    out: dict[str, list[float]] = {"test": [], "nmi": [], "left_out": []}
    done = 0
    for size in sizes:
        block = order[done:size]
        left, right = asked[:, block], known[:, block]
        distances -= (2 * left) @ right.T
        distances += (right**2).sum(axis=1)
        done = size
        distances[itself] = np.inf
        guess = codes[train][distances.argmin(axis=1)]
        out["test"].append(100.0 * float(np.mean(guess[: len(test)] == codes[test])))
        out["nmi"].append(100.0 * mutual_information(guess[: len(test)], codes[test]))
        out["left_out"].append(100.0 * float(np.mean(guess[len(test) :] == codes[train])))
    return {kind: np.array(numbers) for kind, numbers in out.items()}


def mutual_information(left: Integers, right: Integers) -> float:
    """Normalised by the geometric mean of the entropies, as the paper's reference does it."""
    width = int(max(left.max(), right.max())) + 1
    joint = np.bincount(left * width + right, minlength=width * width).reshape(width, width)
    shares = joint / joint.sum()
    rows, columns = shares.sum(axis=1), shares.sum(axis=0)
    both = _entropy(rows) * _entropy(columns)
    gain = _entropy(rows) + _entropy(columns) - _entropy(shares.ravel())
    return gain / math.sqrt(both) if both > 0 else float(_entropy(shares.ravel()) == 0)


def _entropy(shares: Floats) -> float:
    kept = shares[shares > 0]
    return float(-(kept * np.log(kept)).sum())


def _choose(
    name: str, measured: Measured, settings: Sequence[Setting], sizes: Sequence[int]
) -> dict[str, dict[str, Any]]:
    """Accuracy by division under the three ways of choosing parameters."""
    test, nmi, left_out = measured["test"], measured["nmi"], measured["left_out"]
    means = test.mean(axis=(0, 1))
    setting, size = np.unravel_index(int(means.argmax()), means.shape)
    plain = _untuned(name, settings, sizes, test.shape)
    return {
        "paper": {
            "accuracy": test[:, :, setting, size].mean(axis=1),
            "nmi": nmi[:, :, setting, size].mean(axis=1),
            "how": _how(name, settings, sizes, int(setting), int(size)),
        },
        "honest": {
            "accuracy": _by_left_out(left_out, test),
            "nmi": _by_left_out(left_out, nmi),
            "how": {},
        },
        "untuned": {
            "accuracy": test[:, :, plain[0], plain[1]].mean(axis=(1, 2)),
            "nmi": nmi[:, :, plain[0], plain[1]].mean(axis=(1, 2)),
            "how": {},
        },
    }


def _by_left_out(left_out: Floats, measure: Floats) -> Floats:
    """The measure at every party's own best by leave-one-out; ties go to more features."""
    splits, parties, n_settings, n_sizes = measure.shape
    out = np.zeros((splits, parties))
    for split in range(splits):
        for party in range(parties):
            flat = left_out[split, party].T[::-1].ravel()  # largest size first
            best = int(flat.argmax())
            size = n_sizes - 1 - best // n_settings
            out[split, party] = measure[split, party, best % n_settings, size]
    return np.asarray(out.mean(axis=1))


def _untuned(
    name: str, settings: Sequence[Setting], sizes: Sequence[int], shape: tuple[int, ...]
) -> tuple[list[int], int]:
    """Which settings (all draws of random) and which size are the defaults."""
    if name == "all":
        return [0], 0
    size = list(sizes).index(_DEFAULT_SIZE) if _DEFAULT_SIZE in sizes else len(sizes) - 1
    if name == "random":
        return list(range(shape[2])), size
    return [list(settings).index(_DEFAULT) if shape[2] > 1 else 0], size


def _how(
    name: str, settings: Sequence[Setting], sizes: Sequence[int], setting: int, size: int
) -> dict[str, Any]:
    if name == "all":
        return {}
    chosen: dict[str, Any] = {"features": sizes[size]}
    if name not in ("random", *FIXED):
        chosen |= {"alpha": settings[setting][0], "beta": settings[setting][1]}
    return chosen


def summary(values: Floats) -> dict[str, float]:
    """Mean and its standard error."""
    error = float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return {"mean": float(values.mean()), "se": error}


def _lines(row: dict[str, Any]) -> list[str]:
    lines = []
    for protocol in PROTOCOLS:
        shown = (
            f"{m} {v[protocol]['mean']:.1f}+-{v[protocol]['se']:.1f}"
            for m, v in row["methods"].items()
        )
        lines.append(f"{row['data']:10} {protocol:8} " + "  ".join(shown))
    gap = row["differences"]["DCFS - LFS"]
    shown = (f"{p} {gap[p]['mean']:+.1f}+-{gap[p]['se']:.1f}" for p in PROTOCOLS)
    return [*lines, f"{row['data']:10} DCFS - LFS: " + ", ".join(shown)]
