# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Data of suite ``dp``, and how a selection is judged: by the one without noise, and on rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.data import catalog

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
DELTAS = (0.0, 1e-6)
N_SELECTED = 10
_QUANTILES = np.linspace(0.1, 0.9, 9)


@dataclass(frozen=True)
class Sample:
    """Rows to select on, rows to judge on, edges and middles that were known before."""

    X: Floats
    y: npt.NDArray[np.int64]
    X_test: Floats
    y_test: npt.NDArray[np.int64]
    edges: Any
    middles: Any = 0.0


def generated(seed: int) -> Sample:
    """Standard normal columns; ten of forty are shifted by class, by less and less."""
    rng = np.random.default_rng([7, seed])
    n_rows, n_columns = 14_000, 40
    y = rng.integers(0, 2, n_rows)
    X = rng.normal(size=(n_rows, n_columns))
    X[:, :N_SELECTED] += np.linspace(0.8, 0.2, N_SELECTED) * (2 * y[:, None] - 1) / 2
    X = X[:, rng.permutation(n_columns)]
    from scipy.stats import norm

    edges = norm.ppf(_QUANTILES).tolist()  # of a standard normal column: known without the data
    return Sample(X[:10_000], y[:10_000], X[10_000:], y[10_000:], edges)


def breast_cancer(seed: int) -> Sample:
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
    middles = np.median(X[:public], axis=0)
    return Sample(X[public:train], y[public:train], X[train:], y[train:], edges, middles)


def fewer(seed: int) -> Sample:
    """The generated columns with fewer rows to select on."""
    data = generated(seed)
    return Sample(data.X[:3_000], data.y[:3_000], data.X_test, data.y_test, data.edges)


LARGE = {"generated, 3,000 rows": fewer, "generated, 10,000 rows": generated}
DATA = {"generated, 10,000 rows": generated, "breast_cancer": breast_cancer}


def row(
    job: dict[str, Any], samples: list[Sample], exact: list[Mask], chosen: list[Mask]
) -> dict[str, Any]:
    """Means and standard errors over the seeds."""
    overlap = [float((a & b).sum() / N_SELECTED) for a, b in zip(exact, chosen, strict=True)]
    accuracy = [_accuracy(data, mask) for data, mask in zip(samples, chosen, strict=True)]
    epsilon = job["epsilon"]
    budget = "no noise" if epsilon is None else f"epsilon {epsilon:g}, delta {job['delta']:g}"
    return {
        "case": f"{job['promise']}, {job['data']}, {job['setting']}, {job['score']}, {budget}",
        "job": job,
        "overlap": mean(overlap),
        "accuracy": mean(accuracy),
        "n_seeds": len(chosen),
        "seconds": 0.0,
    }


def _accuracy(data: Sample, mask: npt.NDArray[np.bool_]) -> float:
    """Of a logistic regression on the selected columns, on rows that selected nothing."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
    model.fit(data.X[:, mask], data.y)
    return float(model.score(data.X_test[:, mask], data.y_test))


def mean(values: list[float]) -> dict[str, float]:
    """With its standard error."""
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return {"mean": float(np.mean(values)), "standard_error": spread / math.sqrt(len(values))}
