# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""ReliefF: a filter that asks whether a feature differs between neighbours of other classes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import cdist

from fedsift.methods.fpso.subset_fitness import scaled

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Masks = npt.NDArray[np.bool_]


def relief(X: Floats, y: Integers, n_neighbors: int = 5) -> Floats:
    """Weight of every feature; higher is better.

    For every row, features that differ from the nearest rows of its own class lose, features that
    differ from the nearest rows of other classes win, each class by its share of all other rows.
    All rows take part, so nothing is random. Columns are scaled to [0, 1]; distances are city
    block, as in the original.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    y : ndarray of int of shape (n_samples,)
    n_neighbors : int
        Neighbours per class; fewer where a class has fewer rows.

    Returns
    -------
    ndarray of shape (n_features,)

    Examples
    --------
    >>> X = np.array([[0.0, 0.3], [0.1, 0.9], [0.9, 0.2], [1.0, 0.8]])
    >>> relief(X, np.array([0, 0, 1, 1]), n_neighbors=1).argmax().item()
    0
    """
    values = scaled(X)
    shares = np.bincount(y) / len(y)
    distances = cdist(values, values, "cityblock")
    np.fill_diagonal(distances, np.inf)
    weights = np.zeros(values.shape[1])
    for label in np.flatnonzero(shares):
        members = np.flatnonzero(y == label)
        hits = y == label
        if len(members) > 1:
            weights -= _difference(values, distances, hits, members, n_neighbors).sum(axis=0)
        if not hits.all():
            misses = _difference(values, distances, ~hits, members, n_neighbors)
            weights += (shares[label] / (1 - shares[y[~hits]])) @ misses
    return np.asarray(weights / len(y))


def _difference(
    values: Floats, distances: Floats, rows: Masks, members: Integers, n_neighbors: int
) -> Floats:
    """How much some rows differ, feature by feature, from their nearest members of a class."""
    # A row is infinitely far from itself: inside its own class it is its last neighbour.
    others = len(members) - int(rows[members].any())
    nearest = np.argsort(distances[rows][:, members], axis=1, kind="stable")
    chosen = members[nearest[:, : min(n_neighbors, others)]]
    own = values[rows]
    total = np.zeros_like(own)
    for column in chosen.T:
        total += np.abs(values[column] - own)
    return np.asarray(total / chosen.shape[1])
