# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Suite ``dp``: what differential privacy costs a filter in accuracy.

Every run is repeated with several seeds for data, split and noise. Runs are without encryption,
which changes no number: counts are exact under all schemes, and noise follows the seed of the run.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.data import catalog, split_horizontal, split_vertical
from fedsift.selectors import FilterSelector

Floats = npt.NDArray[np.float64]

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
DELTAS = (0.0, 1e-6)
N_SELECTED = 10
_SEEDS = {"smoke": 2, "regular": 10, "paper": 30}
_QUANTILES = np.linspace(0.1, 0.9, 9)


@dataclass(frozen=True)
class _Data:
    """Rows to select on, rows to judge on, and edges that were known before."""

    X: Floats
    y: npt.NDArray[np.int64]
    X_test: Floats
    y_test: npt.NDArray[np.int64]
    edges: Any


def run(profile: str, echo: Callable[[str], None]) -> dict[str, Any]:
    """All data sets, settings and budgets."""
    seeds = range(_SEEDS[profile])
    rows = []
    for name, make in (("generated, 10,000 rows", generated), ("breast_cancer", breast_cancer)):
        samples = [make(seed) for seed in seeds]
        for setting in ("vertical", "horizontal"):
            exact = [_selected(data, setting, None, 0.0, seed) for seed, data in enumerate(samples)]
            rows.append(_row(name, setting, None, 0.0, samples, exact, exact))
            for delta in DELTAS:
                for epsilon in EPSILONS:
                    start = time.perf_counter()
                    chosen = [
                        _selected(data, setting, epsilon, delta, seed)
                        for seed, data in enumerate(samples)
                    ]
                    row = _row(name, setting, epsilon, delta, samples, exact, chosen)
                    row["seconds"] = time.perf_counter() - start
                    rows.append(row)
                    echo(f"{row['case']}: overlap {row['overlap']['mean']:.2f}")
    return {"rows": rows, "n_seeds": len(seeds), "n_selected": N_SELECTED}


def generated(seed: int) -> _Data:
    """Standard normal columns; ten of forty are shifted by class, by less and less."""
    rng = np.random.default_rng([7, seed])
    n_rows, n_columns = 14_000, 40
    y = rng.integers(0, 2, n_rows)
    X = rng.normal(size=(n_rows, n_columns))
    X[:, :N_SELECTED] += np.linspace(0.8, 0.2, N_SELECTED) * (2 * y[:, None] - 1) / 2
    X = X[:, rng.permutation(n_columns)]
    from scipy.stats import norm

    edges = norm.ppf(_QUANTILES).tolist()  # of a standard normal column: known without the data
    return _Data(X[:10_000], y[:10_000], X[10_000:], y[10_000:], edges)


def breast_cancer(seed: int) -> _Data:
    """A small published set; a fifth of it is public and gives the edges."""
    loaded = catalog.load("breast_cancer", as_frame=True)
    rng = np.random.default_rng([8, seed])
    order = rng.permutation(len(loaded.X))
    X = loaded.X.to_numpy(dtype=np.float64)[order]
    y = np.unique(np.asarray(loaded.y), return_inverse=True)[1].astype(np.int64)[order]
    public, train = len(X) // 5, len(X) * 7 // 10
    edges = {
        f"x{j}": np.unique(np.quantile(X[:public, j], _QUANTILES)).tolist()
        for j in range(X.shape[1])
    }
    return _Data(X[public:train], y[public:train], X[train:], y[train:], edges)


def _selected(
    data: _Data, setting: str, epsilon: float | None, delta: float, seed: int
) -> npt.NDArray[np.bool_]:
    split = split_vertical if setting == "vertical" else split_horizontal
    federation = split(data.X, data.y, 3, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        selector = FilterSelector(
            "mi",
            n_features_to_select=N_SELECTED,
            bins=data.edges,
            min_bin_size=1,
            epsilon=epsilon,
            delta=delta,
            security="plain",
            random_state=seed,
        ).fit(federation)
    support: npt.NDArray[np.bool_] = selector.get_support()
    return support


def _row(
    name: str,
    setting: str,
    epsilon: float | None,
    delta: float,
    samples: list[_Data],
    exact: list[npt.NDArray[np.bool_]],
    chosen: list[npt.NDArray[np.bool_]],
) -> dict[str, Any]:
    """Means and standard errors over the seeds."""
    overlap = [float((a & b).sum() / N_SELECTED) for a, b in zip(exact, chosen, strict=True)]
    accuracy = [_accuracy(data, mask) for data, mask in zip(samples, chosen, strict=True)]
    budget = "no noise" if epsilon is None else f"epsilon {epsilon:g}, delta {delta:g}"
    return {
        "case": f"{name}, {setting}, {budget}",
        "job": {"data": name, "setting": setting, "epsilon": epsilon, "delta": delta},
        "overlap": _mean(overlap),
        "accuracy": _mean(accuracy),
        "seconds": 0.0,
    }


def _accuracy(data: _Data, mask: npt.NDArray[np.bool_]) -> float:
    """Of a logistic regression on the selected columns, on rows that selected nothing."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
    model.fit(data.X[:, mask], data.y)
    return float(model.score(data.X_test[:, mask], data.y_test))


def _mean(values: list[float]) -> dict[str, float]:
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return {"mean": float(np.mean(values)), "standard_error": spread / math.sqrt(len(values))}
