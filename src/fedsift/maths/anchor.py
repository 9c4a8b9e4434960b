# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Mathematics of DCFS (paper 003): projections aligned by anchor data, sparse feature weights.

Rows are samples here (the paper writes samples as columns). Letters as in the paper: B is a party's
projection (p x m), X^a the anchors (r x m here), Z^a their common target (q x r), M aligns a
party's projection with it (q x p), W holds the feature weights (m x q), L is the Laplacian of the
party's neighbourhood graph.

No m x m matrix is ever formed: with G = (alpha H)^-1, P = I + beta L and K = X G X^T the paper's
update (alpha H + X^T P X)^-1 X^T Z^T equals G X^T (I + P K)^-1 Z^T: n x n matrices only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_RIDGE = 1e-8
_RCOND = 1e-8
_ROW_FLOOR = 1e-8
"""Rows of W below this share of the largest one keep a finite weight in the l2,1 term."""


@dataclass(frozen=True, eq=False)
class Graph:
    """Heat-kernel graph of the nearest neighbours."""

    laplacian: Floats
    degrees: Floats


def neighbour_graph(X: Floats, n_neighbors: int) -> Graph:
    """Symmetric nearest-neighbour graph, weights exp(-d^2 / sigma^2).

    The paper leaves sigma open; its square is the mean squared distance to the neighbours.
    """
    n_samples = len(X)
    squares = (X**2).sum(axis=1)
    distances = np.maximum(squares[:, None] + squares[None, :] - 2 * X @ X.T, 0.0)
    np.fill_diagonal(distances, np.inf)
    k = min(n_neighbors, n_samples - 1)
    nearest = np.argsort(distances, axis=1, kind="stable")[:, :k]
    rows = np.repeat(np.arange(n_samples), k)
    close = distances[rows, nearest.ravel()]
    weights = np.zeros((n_samples, n_samples))
    weights[rows, nearest.ravel()] = np.exp(-close / max(float(close.mean()), 1e-300))
    weights = np.maximum(weights, weights.T)
    degrees = weights.sum(axis=1)
    return Graph(np.diag(degrees) - weights, degrees)


def locality_projection(X: Floats, graph: Graph, n_dimensions: int) -> Floats:
    """B by locality preserving projection, after a singular value decomposition (m >> n).

    Returns
    -------
    projection : ndarray of shape (n_dimensions or fewer, n_features)
    """
    from scipy.linalg import eigh

    left, singular, right = np.linalg.svd(X, full_matrices=False)
    rank = int((singular > singular[0] * 1e-10).sum()) if singular.size and singular[0] > 0 else 0
    if rank == 0:
        return np.zeros((1, X.shape[1]))
    reduced = left[:, :rank] * singular[:rank]
    local = reduced.T @ graph.laplacian @ reduced
    scale = reduced.T @ (graph.degrees[:, None] * reduced)
    ridge = _RIDGE * max(float(np.trace(scale)) / rank, 1e-300) * np.eye(rank)
    count = min(n_dimensions, rank)
    _, vectors = eigh((local + local.T) / 2, (scale + scale.T) / 2 + ridge)
    return np.asarray(vectors[:, :count].T @ right[:rank])


def common_target(images: list[Floats], n_components: int) -> Floats:
    """Z^a: the leading left singular vectors of all images of the anchors, side by side (Eq. 8).

    ``images`` are p_i x r; the result is q x r with orthonormal rows.
    """
    stacked = np.concatenate(images, axis=0)
    left, _, _ = np.linalg.svd(stacked.T, full_matrices=False)
    return left[:, :n_components].T


def alignment_matrix(target: Floats, image: Floats) -> Floats:
    """M_i = Z^a pinv(B_i X^a) (Eq. 9)."""
    return np.asarray(target @ np.linalg.pinv(image, rcond=_RCOND))


def update_weights(
    X: Floats, target: Floats, laplacian: Floats, h: Floats, alpha: float, beta: float
) -> Floats:
    """W in the n x n form; ``target`` is Z_i (q x n), ``h`` the diagonal of H."""
    g = 1.0 / (alpha * h)
    scaled = X * g
    kernel = scaled @ X.T
    smooth = np.eye(len(X)) + beta * laplacian
    solved = np.linalg.solve(np.eye(len(X)) + smooth @ kernel, target.T)
    return np.asarray(scaled.T @ solved)


def update_weights_literal(
    X: Floats, target: Floats, laplacian: Floats, h: Floats, alpha: float, beta: float
) -> Floats:
    """The paper's Eq. 14 with an m x m inverse: the oracle of :func:`update_weights`."""
    smooth = np.eye(len(X)) + beta * laplacian
    return np.asarray(np.linalg.solve(np.diag(alpha * h) + X.T @ smooth @ X, X.T @ target.T))


def row_norms(W: Floats) -> Floats:
    """Importance of each feature."""
    return np.asarray(np.sqrt((W**2).sum(axis=1)))


def sparsity_weights(W: Floats) -> Floats:
    """Diagonal of H: 1 / (2 |w_i|), with a floor so that zero rows stay finite."""
    norms = row_norms(W)
    return np.asarray(0.5 / np.maximum(norms, _ROW_FLOOR * max(float(norms.max()), 1e-300)))


def projection_of_weights(M: Floats, W: Floats) -> Floats:
    """B = pinv(M) W^T: M is q x p and has no inverse, as the paper assumes."""
    return np.asarray(np.linalg.pinv(M, rcond=_RCOND) @ W.T)


def local_selection(
    X: Floats,
    *,
    alpha: float,
    beta: float,
    n_components: int,
    n_neighbors: int = 5,
    n_iterations: int = 5,
) -> Floats:
    """LFS, the local baseline, with the constraint Y Y^T = I that Eq. 1 forgets.

    Without it W = Y = 0 is optimal. Y are the eigenvectors of the smallest eigenvalues of
    ``beta L + (I + K)^-1``; then ``W = G X^T (I + K)^-1 Y^T``.
    """
    graph = neighbour_graph(X, n_neighbors)
    identity = np.eye(len(X))
    h = np.ones(X.shape[1])
    W = np.zeros((X.shape[1], n_components))
    for _ in range(n_iterations):
        scaled = X / (alpha * h)
        inverse = np.linalg.inv(identity + scaled @ X.T)
        form = beta * graph.laplacian + inverse
        _, vectors = np.linalg.eigh((form + form.T) / 2)
        W = scaled.T @ (inverse @ vectors[:, :n_components])
        h = sparsity_weights(W)
    return row_norms(W)


class Collaboration:
    """One party's state through the alternating updates (Algorithm 1 of the paper)."""

    def __init__(
        self, X: Floats, anchors: Floats, *, alpha: float, beta: float, n_dimensions: int, k: int
    ) -> None:
        self._X = X
        self._anchors = anchors
        self._alpha, self._beta = alpha, beta
        self._graph = neighbour_graph(X, k)
        self._h = np.ones(X.shape[1])
        self.projection = locality_projection(X, self._graph, n_dimensions)
        self.weights = np.zeros((X.shape[1], 1))

    def image(self) -> Floats:
        """B X^a, the only thing that leaves the party."""
        return np.asarray(self.projection @ self._anchors.T)

    def align(self, M: Floats) -> None:
        """Steps 3 and 4: transform the own rows to the common target, update W, B and H."""
        target = M @ (self.projection @ self._X.T)
        self.weights = update_weights(
            self._X, target, self._graph.laplacian, self._h, self._alpha, self._beta
        )
        self.projection = projection_of_weights(M, self.weights)
        self._h = sparsity_weights(self.weights)

    @property
    def scores(self) -> Floats:
        """Importance of each feature to this party, the largest being 1."""
        norms = row_norms(self.weights)
        return norms / norms.max() if norms.max() > 0 else norms
