# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Computations with all rows in one place, which protocols are compared with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fedsift.methods.dcfs.anchor import (
    Collaboration,
    Start,
    Target,
    alignment_matrix,
    common_target,
)
from fedsift.methods.dcfs.unsupervised import ranks_of

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


def collaborate(
    parts: Sequence[Floats],
    anchors: Floats,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    n_components: int = 5,
    n_dimensions: int = 10,
    n_neighbors: int = 5,
    n_iterations: int = 5,
    target: Target = "exact",
    starts: Sequence[Start] | None = None,
) -> list[Floats]:
    """Algorithm 1 with all scaled rows in one place: the scores of every party.

    This is what the protocol computes; ``starts`` saves work when several alphas are tried.
    """
    states = [
        Collaboration(
            part,
            anchors,
            alpha=alpha,
            beta=beta,
            n_dimensions=n_dimensions,
            k=n_neighbors,
            target=target,
            start=None if starts is None else starts[number],
        )
        for number, part in enumerate(parts)
    ]
    for _ in range(n_iterations):
        images = [state.image() for state in states]
        common = common_target(images, n_components)
        for state, image in zip(states, images, strict=True):
            state.align(alignment_matrix(common, image))
    return [state.scores for state in states]


def update_weights_literal(
    X: Floats, target: Floats, laplacian: Floats, h: Floats, alpha: float, beta: float
) -> Floats:
    """The paper's Eq. 14 with an m x m inverse: the oracle of ``anchor.update_weights``."""
    smooth = np.eye(len(X)) + beta * laplacian
    return np.asarray(np.linalg.solve(np.diag(alpha * h) + X.T @ smooth @ X, X.T @ target.T))


def borda(scores: Sequence[Floats]) -> Floats:
    """Joint score of several parties from their ranks alone: 1 if all have a column first."""
    n_features = len(scores[0])
    points = np.mean([n_features - ranks_of(own) for own in scores], axis=0)
    return np.asarray(points / max(1, n_features - 1))


def knn_predict(
    X: Floats, y: Integers, X_new: Floats, masks: Sequence[npt.NDArray[np.bool_]], k: int
) -> list[Integers]:
    """Classes of new rows by the k nearest known ones, for each subset.

    Columns are scaled by the known rows, so that new rows do not influence anything.
    """
    low, span = X.min(axis=0), np.ptp(X, axis=0)
    span = np.where(span > 0, span, 1.0)
    known, new = (X - low) / span, (X_new - low) / span
    k = min(k, len(y))
    found = []
    for mask in masks:
        a, b = new[:, mask], known[:, mask]
        distances = (b**2).sum(axis=1) - 2 * a @ b.T
        nearest = np.argsort(distances, axis=1, kind="stable")[:, :k]
        votes = np.zeros((len(a), int(y.max()) + 1), dtype=np.int64)
        for column in nearest.T:
            votes[np.arange(len(a)), y[column]] += 1
        found.append(votes.argmax(axis=1))
    return found
