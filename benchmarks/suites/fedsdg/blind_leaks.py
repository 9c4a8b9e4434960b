# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What parties of a blind training find out, and what unrolling finds in the paper's outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.data import catalog, split_vertical
from fedsift.lab.attacks.fedsdg import blind, columns, unrolled
from fedsift.lab.attacks.fedsdg.blind_views import BlindRecording, record_blind
from fedsift.methods.fedsdg.blind.messages import BlindParams, most_blocks, most_openings

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Values = dict[str, list[float]]
Case = tuple[str, Callable[[int], dict[str, float]], int]
"""What is attacked, one run of it by seed, and at most so many seeds."""

_LABEL_SETS = {"smoke": ("wine",), "regular": ("madelon", "breast_cancer", "wine", "arcene")}
_MADE = {"smoke": (300,), "regular": (300, 1200)}
_MOST_ROWS = 400
_JOBS = (1, 5, 20)


def paper_columns(profile: str) -> Iterator[Case]:
    """A label holder and the outputs of the paper's protocol."""
    sizes = (5,) if profile == "smoke" else (5, 20, 250)
    for n_columns in sizes:
        for n_holders in (1, 2):
            # Many columns take many rows to be different, and many steps.
            rows = 200 if n_columns < 100 else 400
            case = f"unrolled, linear, {n_columns} columns, {n_holders} feature holder(s)"
            yield case, _unrolled(n_columns, n_holders, "linear", rows), 1
    yield "unrolled, network, 5 columns, 1 feature holder(s)", _unrolled(5, 1, "network", 200), 1
    for n_columns in sizes[:2]:
        for n_holders in (1, 2):
            where = f"{n_columns} columns, {n_holders} feature holder(s)"
            yield f"gate axes, linear, {where}", _axes(n_columns, n_holders), 2
            yield f"thinned gates, network, {where}", _thinned(n_columns, n_holders), 2


def _summary(found: Floats) -> dict[str, float]:
    return {"median": float(np.median(found)), "best": float(found.max())}


def _unrolled(n_columns: int, n_holders: int, model: str, n_rows: int) -> Any:
    n_steps = 1000 if n_columns < 100 else 200

    def run(seed: int) -> dict[str, float]:
        found, _ = unrolled.attack_unrolled(
            n_columns,
            seed,
            model=model,
            n_holders=n_holders,
            n_rows=n_rows,
            n_steps=n_steps,
            n_starts=1,
        )
        return _summary(found)

    return run


def _axes(n_columns: int, n_holders: int) -> Any:
    return lambda seed: _summary(columns.attack_gate_axes(n_columns, seed, n_holders=n_holders)[0])


def _thinned(n_columns: int, n_holders: int) -> Any:
    return lambda seed: _summary(
        columns.attack_thinned_gates(n_columns, seed, n_holders=n_holders)[0]
    )


def blind_columns(profile: str) -> Iterator[Case]:
    """A label holder and what is opened of a blind training."""
    for n_rows, n_columns in ((60, 2),) if profile == "smoke" else ((60, 1), (60, 2), (90, 3)):
        for exact in (True, False):
            case = f"a job to be solved, {n_rows} rows, {n_columns} columns, {_shown(exact)}"
            yield case, _openings(n_rows, n_columns, exact=exact), 3
    for n_columns in (5,) if profile == "smoke" else (5, 20):
        for exact in (True, False):
            case = f"an own column per row, 100 rows, {n_columns} columns, {_shown(exact)}"
            yield case, _own_columns(n_columns, exact=exact), 5
    for n_columns in (5,) if profile == "smoke" else (5, 20, 250):
        for exact in (True, False):
            case = f"regression on default settings, 300 rows, {n_columns} columns, {_shown(exact)}"
            yield case, _regression(n_columns, exact=exact), 3
    if profile != "smoke":
        for n_jobs in _JOBS:
            case = f"{n_jobs} job(s) to be solved, 60 rows, 2 columns, as it is"
            yield case, _repeated(n_jobs), 1


def _shown(exact: bool) -> str:
    return "exact sums, half as many as cells" if exact else "as it is"


def _openings(n_rows: int, n_columns: int, *, exact: bool) -> Any:
    def run(seed: int) -> dict[str, float]:
        training, _, _ = blind.attack_openings(n_rows, n_columns, seed, exact=exact, n_starts=1)
        return {"training rows": float(training.mean()), "best column": float(training.max())}

    return run


def _own_columns(n_columns: int, *, exact: bool) -> Any:
    def run(seed: int) -> dict[str, float]:
        found, _ = blind.attack_own_columns(100, n_columns, seed, exact=exact)
        return {"training rows": float(found.mean()), "best column": float(found.max())}

    return run


def _repeated(n_jobs: int) -> Any:
    """The same table in several jobs: weights, rows and gates are drawn again, cells stay."""

    def run(seed: int) -> dict[str, float]:
        guesses = []
        for job in range(n_jobs):
            made, X = blind.frozen_job(60, 2, 0, seed, exact=False, job=job)
            guesses.append(blind.by_openings(made, 2, job, noisy=True, n_starts=1))
        found = [
            np.linalg.svd(np.array([g[:, j] for g in guesses]), full_matrices=False)[2][0]
            for j in range(2)
        ]
        return {"all rows": float(blind.squared_by_column(np.array(found).T, X).mean())}

    return run


def _regression(n_columns: int, *, exact: bool) -> Any:
    def run(seed: int) -> dict[str, float]:
        rng = np.random.default_rng(seed)
        n_rows, n_validation = 300, 60
        X, y = rng.normal(size=(n_rows, n_columns)), rng.permutation(np.arange(n_rows) % 2)
        n_openings = 120 if exact else most_openings(238, n_columns, n_columns)
        params = BlindParams(
            scheme="plain",
            seed=seed,
            init="constant",
            n_openings=min(n_openings, 80),
            n_blocks=most_blocks(n_validation - 2, n_columns, min(n_openings, 80)),
            batch_size=40,
            rate_bits=8,
            n_settling=0,
        )
        federation = split_vertical(X, y, 1, label_holder=None, random_state=0)
        made = record_blind(federation, params, exact=exact)
        X = X[:, made.role("party-1")._order]
        found = blind.squared_by_column(blind.by_regression(made)[made.training], X[made.training])
        target = made.targets[made.training]
        scores = blind.squared_by_column(np.repeat(target, n_columns, axis=1), X[made.training])
        return {"training rows": float(found.mean()), "a score alone": float(scores.mean())}

    return run


def blind_labels(profile: str) -> Iterator[Case]:
    """A feature holder, which is the helper too, and all that it receives."""
    for name in _LABEL_SETS[profile]:
        if not catalog.is_available(name):
            continue
        yield f"{name}, ordinary columns", _labels(name, 0), 2
        for n_made in _MADE[profile]:
            yield f"{name}, {n_made} columns made for it", _labels(name, n_made), 2


def _labels(name: str, n_made: int) -> Any:
    def run(seed: int) -> dict[str, float]:
        X, codes = _data(name, seed)
        if n_made:
            X = made_columns(len(X), n_made, seed)
        made = _trained(X, codes, seed)
        return blind.areas_of_labels(made, "party-1", X, codes, seed)

    return run


def _data(name: str, seed: int) -> tuple[Floats, Integers]:
    data = catalog.load(name)
    X = np.asarray(data.X, dtype=np.float64)
    codes = np.unique(np.asarray(data.y), return_inverse=True)[1]
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(X))[:_MOST_ROWS]
    half = rng.permutation(X.shape[1])[: max(1, min(X.shape[1] // 2, 1000))]
    return X[np.ix_(rows, half)], codes[rows]


def made_columns(n_rows: int, n_columns: int, seed: int) -> Floats:
    """Half of them random bits, half of them one for a group of five rows."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2, (n_rows, n_columns // 2)).astype(np.float64)
    groups = np.zeros((n_rows, n_columns - n_columns // 2))
    for column in range(groups.shape[1]):
        groups[rng.permutation(n_rows)[:5], column] = 1.0
    return np.concatenate([bits, groups], axis=1)


def _trained(X: Floats, codes: Integers, seed: int) -> BlindRecording:
    n_rows, n_classes = len(X), int(codes.max()) + 1
    sure = n_rows - n_rows // 5 - n_classes
    params = BlindParams(
        scheme="plain",
        seed=seed,
        hidden=8,
        n_outputs=n_classes if n_classes > 2 else 1,
        n_openings=min(10, most_openings(sure, 1, 1)),
        passes=2,
        gate_learning_rate=0.3,
        n_blocks=1,
        n_settling=1,
        batch_size=64,
        rate_bits=7,
    )
    federation = split_vertical(X, codes, 1, label_holder=None, random_state=0)
    return record_blind(federation, params)


PARTS = {
    "paper_columns": paper_columns,
    "blind_columns": blind_columns,
    "blind_labels": blind_labels,
}
