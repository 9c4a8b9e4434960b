# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The nearest-neighbour fitness against scikit-learn, fold by fold: speed, and the same answers."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.suites.fpso.runs import load
from fedsift.methods.fpso.subset_fitness import KnnFitness, scaled, stratified_folds

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Masks = npt.NDArray[np.bool_]

N_SUBSETS, N_FOLDS, K = 20, 5, 3
_TIE = 1e-5
"""Squared distances of rows scaled to [0, 1] that differ by less are a tie in single precision."""


def scikit_learn_predictions(X: Floats, y: Integers, folds: Integers, mask: Masks) -> Integers:
    """What one would write: a classifier fitted to every fold's training rows."""
    from sklearn.neighbors import KNeighborsClassifier

    predicted = np.empty_like(y)
    for fold in range(N_FOLDS):
        test = folds == fold
        model = KNeighborsClassifier(K).fit(X[~test][:, mask], y[~test])
        predicted[test] = model.predict(X[test][:, mask])
    return predicted


def is_tie(X: Floats, folds: Integers, mask: Masks, row: int, k: int = K) -> bool:
    """Whether the k-th and the next neighbour of a row are equally far, so that either is right."""
    others = folds != folds[row]
    distances = ((X[others][:, mask] - X[row, mask]) ** 2).sum(axis=1)
    near = np.partition(distances, [k - 1, k])[[k - 1, k]]
    return bool(near[1] - near[0] <= _TIE * max(1.0, near[1]))


def measure(job: Mapping[str, Any]) -> dict[str, Any]:
    """One party's rows of a data set, one batch of subsets, both ways in turn."""
    X, y = load(job["data"])
    rng = np.random.default_rng(0)
    # The rows of one of three parties in one of five folds.
    rows = np.flatnonzero(stratified_folds(y, 15, rng) < 4)
    X, y = X[rows], np.unique(y[rows], return_inverse=True)[1].astype(np.int64)
    folds = stratified_folds(y, N_FOLDS, rng)
    masks = rng.random((N_SUBSETS, X.shape[1])) < 0.5
    masks[~masks.any(axis=1), 0] = True
    Z = scaled(X)
    slow: list[float] = []
    fast: list[float] = []
    for _ in range(job["repeats"]):
        start = time.perf_counter()
        expected = [scikit_learn_predictions(Z, y, folds, mask) for mask in masks]
        slow.append(time.perf_counter() - start)
        for _ in range(5):
            fitness = KnnFitness(X, y, folds, K)  # a new one has no subset in its memory
            start = time.perf_counter()
            counts = fitness.correct(masks)
            fast.append(time.perf_counter() - start)
    found = fitness.predictions(masks)
    different = [
        (i, int(row)) for i in range(N_SUBSETS) for row in np.flatnonzero(found[i] != expected[i])
    ]
    reference = np.array([(e == y).sum() for e in expected])
    return {
        "data": job["data"],
        "shape": list(X.shape),
        "scikit_learn": statistics.median(slow),
        "seconds": statistics.median(fast),
        "ratio": statistics.median(slow) / statistics.median(fast),
        "different_rows": len(different),
        "different_without_tie": sum(not is_tie(Z, folds, masks[i], row) for i, row in different),
        "largest_difference": float(np.abs(counts - reference).max() / len(y)),
    }
