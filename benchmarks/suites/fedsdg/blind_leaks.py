# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What parties of a blind training find out, and what unrolling finds in the paper's outputs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.data import Federation, catalog, split_vertical
from fedsift.errors import ParameterError
from fedsift.lab.attacks.fedsdg import blind, columns, unrolled
from fedsift.lab.attacks.fedsdg.blind_unrolled import by_unrolling_openings, default_job
from fedsift.lab.attacks.fedsdg.blind_views import BlindRecording, record_blind
from fedsift.methods.fedsdg.blind.params import BlindParams, most_openings

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Values = dict[str, list[float]]
Case = tuple[str, Callable[[int], dict[str, float]], int]
"""What is attacked, one run of it by seed, and at most so many seeds."""

_LABEL_SETS = {"smoke": ("wine",), "regular": ("madelon", "breast_cancer", "wine", "arcene")}
_MADE = {"smoke": (300,), "regular": (300, 1200)}
_MOST_ROWS = 400
_JOBS = (1, 5, 20)
_SECONDS = 45.0
"""Of processor time for gradient descent, for every case and seed; less where that is many."""


def paper_columns(profile: str) -> Iterator[Case]:
    """A label holder and the outputs of the paper's protocol."""
    sizes = (5,) if profile == "smoke" else (5, 20, 250)
    for model in ("linear", "network"):
        for n_columns in sizes:
            for n_holders in (1, 2):
                case = f"unrolled, {model}, {n_columns} columns, {n_holders} feature holder(s)"
                yield (
                    case,
                    _unrolled(n_columns, n_holders, model),
                    _unrolled_seeds(model, n_columns),
                )
    for n_columns in sizes[:2]:
        for n_holders in (1, 2):
            where = f"{n_columns} columns, {n_holders} feature holder(s)"
            yield f"gate axes, linear, {where}", _axes(n_columns, n_holders), 3
            yield f"thinned gates, network, {where}", _thinned(n_columns, n_holders), 3


def _unrolled_seeds(model: str, n_columns: int) -> int:
    """Whole minutes for every run of the larger ones."""
    return 3 if n_columns == 5 or (model == "linear" and n_columns < 100) else 1


def _summary(found: Floats) -> dict[str, float]:
    return {"median": float(np.median(found)), "best": float(found.max())}


def _unrolled(n_columns: int, n_holders: int, model: str) -> Any:
    """Default settings, but for the gates of a linear model's embedding, and few epochs."""
    many = n_columns > 100
    # Outputs of all epochs have to span the columns' space, and rows more than the columns.
    n_rows, n_epochs = (400, 40) if many else (300, 20 if model == "linear" else 40)
    settings = {} if model == "linear" else {"gates": "dual"}

    def run(seed: int) -> dict[str, float]:
        found, _ = unrolled.attack_unrolled(
            n_columns,
            seed,
            model=model,
            n_holders=n_holders,
            n_rows=n_rows,
            n_epochs=n_epochs,
            settings=settings,
            n_starts=3,
            seconds=_SECONDS
            if n_columns == 5 or (model == "linear" and not many)
            else _SECONDS / 3,
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
    for n_columns, n_own in ((5, 5), (20, 20)):
        case = f"{n_own} own columns within the limits, 100 rows, {n_columns} columns, as it is"
        yield case, _own_columns(n_columns, exact=False, n_own=n_own), 5
    for n_columns in (5,) if profile == "smoke" else (5, 20, 250):
        for exact in (True, False):
            case = f"everything opened, 300 rows, {n_columns} columns, {_shown(exact)}"
            yield case, _everything(n_columns, exact=exact), 3
    if profile != "smoke":
        for n_jobs in _JOBS:
            case = f"{n_jobs} job(s) to be solved, 60 rows, 2 columns, as it is"
            yield case, _repeated(n_jobs), 1 if n_jobs > 5 else 3


def _shown(exact: bool) -> str:
    return "exact sums, half as many as cells" if exact else "as it is"


def _openings(n_rows: int, n_columns: int, *, exact: bool) -> Any:
    def run(seed: int) -> dict[str, float]:
        training, _, _ = blind.attack_openings(n_rows, n_columns, seed, exact=exact, n_starts=1)
        return {"training rows": float(training.mean()), "best column": float(training.max())}

    return run


def _own_columns(n_columns: int, *, exact: bool, n_own: int | None = None) -> Any:
    def run(seed: int) -> dict[str, float]:
        found, _ = blind.attack_own_columns(100, n_columns, seed, exact=exact, n_own=n_own)
        if n_own is not None:
            return {"cells of marked rows": float(found.mean())}
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


def _everything(n_columns: int, *, exact: bool) -> Any:
    """Default settings: regression on sums, and unrolling of sums and losses."""

    def run(seed: int) -> dict[str, float]:
        made, X = default_job(300, n_columns, seed, exact=exact)
        guesses = {
            "by regression": blind.by_regression(made),
            "by unrolling": by_unrolling_openings(
                made, n_columns, seed, noisy=not exact, seconds=_SECONDS / 9
            ),
            "a score alone": np.repeat(made.targets[:, :1], n_columns, axis=1),
        }
        rows = made.training
        return {
            name: float(blind.squared_by_column(guess[rows], X[rows]).mean())
            for name, guess in guesses.items()
        }

    return run


def blind_labels(profile: str) -> Iterator[Case]:
    """A feature holder, which is the helper too, and all that it receives."""
    for name in _LABEL_SETS[profile]:
        if not catalog.is_available(name):
            continue
        yield f"{name}, ordinary columns", _labels(name, 0), 3
        for n_made in _MADE[profile]:
            yield f"{name}, {n_made} columns made for it", _labels(name, n_made), 3
        for follows in (True, False):
            draws = "follow the seed" if follows else "as between organisations"
            case = f"{name}, known seed and job text, private draws {draws}"
            yield case, _known_seed(name, follows=follows), 3


def _labels(name: str, n_made: int) -> Any:
    def run(seed: int) -> dict[str, float]:
        X, codes = _data(name, seed)
        if n_made:
            X = made_columns(len(X), n_made, seed)
        made = _trained(*_job(X, codes, seed))
        return blind.areas_of_labels(made, "party-1", X, codes, seed)

    return run


def _known_seed(name: str, *, follows: bool) -> Any:
    """Draws the rows for validation again; between organisations nobody can."""

    def run(seed: int) -> dict[str, float]:
        X, codes = _data(name, seed)
        federation, params = _job(X[:, :20], codes, seed)
        drawn = params if follows else replace(params, seed=None)
        made = _trained(federation, drawn)
        found = blind.area_from_seed(made, "label-holder", params, codes)
        return {"validation rows": found}

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


def _job(X: Floats, codes: Integers, seed: int) -> tuple[Federation, BlindParams]:
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
    return split_vertical(X, codes, 1, label_holder=None, random_state=0), params


def _trained(federation: Federation, params: BlindParams) -> BlindRecording:
    """A run with the largest steps that do not diverge."""
    for rate_bits in (params.rate_bits, 8, 9, 10):
        with contextlib.suppress(ParameterError):
            return record_blind(federation, replace(params, rate_bits=rate_bits))
    return record_blind(federation, replace(params, rate_bits=12))


PARTS = {
    "paper_columns": paper_columns,
    "blind_columns": blind_columns,
    "blind_labels": blind_labels,
}
