# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Mathematics of DCFS (paper 003): projections aligned by anchor data, sparse feature weights.

Rows are samples here (the paper writes samples as columns). Letters as in the paper: B is a party's
projection (p x m), X^a the anchors (r x m here), Z^a their common target (q x r), M aligns a
party's projection with it (q x p), W holds the feature weights (m x q), L is the Laplacian of the
party's neighbourhood graph.

No m x m matrix is ever formed: with G = (alpha H)^-1, P = I + beta L and K = X G X^T the paper's
update (alpha H + X^T P X)^-1 X^T Z^T equals G X^T (I + P K)^-1 Z^T: n x n matrices only.

Two targets. ``"paper"``: singular vectors of the images as they are, so that directions in which a
party's projection is long count most, and those are directions in which its rows vary least.
``"exact"``: every party first turns its image into an orthonormal basis of the space it spans; the
same singular vectors then are the exact minimum of Eq. 6 with orthonormal targets, whatever the
lengths, and the lengths need not be shown to anybody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fedsift.errors import ParameterError

Floats = npt.NDArray[np.float64]
Target = Literal["exact", "paper"]

_RIDGE = 1e-8
_RCOND = 1e-8
_RANK = 1e-7
"""Singular values of a party's rows below this share of the largest one count as zero."""
_ROW_FLOOR = 1e-8
"""Rows of W below this share of the largest one keep a finite weight in the l2,1 term."""


@dataclass(frozen=True, eq=False)
class Graph:
    """Heat-kernel graph of the nearest neighbours."""

    laplacian: Floats
    degrees: Floats


@dataclass(frozen=True, eq=False)
class Start:
    """What does not depend on alpha and beta: a party's graph and first projection."""

    graph: Graph
    projection: Floats


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
    """B by locality preserving projection, inside the space of the rows (m >> n).

    Returns
    -------
    projection : ndarray of shape (n_dimensions or fewer, n_features)
    """
    from scipy.linalg import eigh

    reduced, back = _row_space(X)
    rank = reduced.shape[1]
    if rank == 0:
        return np.zeros((1, X.shape[1]))
    local = reduced.T @ graph.laplacian @ reduced
    scale = reduced.T @ (graph.degrees[:, None] * reduced)
    ridge = _RIDGE * max(float(np.trace(scale)) / rank, 1e-300) * np.eye(rank)
    count = min(n_dimensions, rank)
    _, vectors = eigh(
        (local + local.T) / 2, (scale + scale.T) / 2 + ridge, subset_by_index=[0, count - 1]
    )
    return np.asarray(vectors.T @ back)


def _row_space(X: Floats) -> tuple[Floats, Floats]:
    """Coordinates of the rows in an orthonormal basis of the space they span, and that basis.

    From the smaller of the two Gram matrices: with many columns a decomposition of X itself is
    the slowest step of the whole method.
    """
    if X.shape[0] <= X.shape[1]:
        values, left = np.linalg.eigh(X @ X.T)
        singular = np.sqrt(np.maximum(values, 0.0))
        kept = singular > _RANK * max(float(singular[-1]), 1e-300)
        return left[:, kept] * singular[kept], (left[:, kept] / singular[kept]).T @ X
    values, right = np.linalg.eigh(X.T @ X)
    kept = values > _RANK**2 * max(float(values[-1]), 1e-300)
    return X @ right[:, kept], right[:, kept].T


def starting_point(X: Floats, n_dimensions: int, n_neighbors: int) -> Start:
    """Graph and first projection of a party's scaled rows."""
    graph = neighbour_graph(X, n_neighbors)
    return Start(graph, locality_projection(X, graph, n_dimensions))


def uniform_anchors(uniform: Floats, low: Floats | float, high: Floats | float) -> Floats:
    """Anchors between the ends of every column, from numbers in [0, 1)."""
    return np.asarray(low + (high - low) * uniform)


def check_width(anchors: Floats, n_features: int) -> None:
    """Refuse anchors that do not have one number for every column."""
    if anchors.ndim != 2 or anchors.shape[1] != n_features or not len(anchors):
        raise ParameterError(
            f"The anchors have shape {anchors.shape}.",
            f"One or more rows with {n_features} numbers each are needed, one for every column.",
            "Draw the anchors from the columns the parties share, in the same order.",
        )


def common_target(images: Sequence[Floats], n_components: int) -> Floats:
    """Z^a: the leading left singular vectors of all images of the anchors, side by side (Eq. 8).

    ``images`` are p_i x r; the result is q x r with orthonormal rows.
    """
    stacked = np.concatenate(list(images), axis=0)
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


def row_norms(W: Floats) -> Floats:
    """Importance of each feature."""
    return np.asarray(np.sqrt((W**2).sum(axis=1)))


def sparsity_weights(W: Floats) -> Floats:
    """Diagonal of H: 1 / (2 |w_i|), with a floor so that zero rows stay finite."""
    norms = row_norms(W)
    largest = float(norms.max())
    if largest == 0.0:
        return np.ones(len(norms))
    return np.asarray(0.5 / np.maximum(norms, _ROW_FLOOR * largest))


def projection_of_weights(M: Floats, W: Floats) -> Floats:
    """B = pinv(M) W^T: M is q x p and has no inverse, as the paper assumes."""
    return np.asarray(np.linalg.pinv(M, rcond=_RCOND) @ W.T)


def relative(scores: Floats) -> Floats:
    """Scores with the largest being 1; all zero if no column has any weight."""
    largest = float(scores.max())
    return np.asarray(scores / largest) if largest > 0 else scores


class Collaboration:
    """One party's state through the alternating updates (Algorithm 1 of the paper).

    With the exact target, targets have unit mean square over the anchors and the loss is a mean
    over rows, so that alpha means the same whatever the numbers of anchors and rows. With the
    paper's target both are sums, as printed.
    """

    def __init__(
        self,
        X: Floats,
        anchors: Floats,
        *,
        alpha: float,
        beta: float,
        n_dimensions: int,
        k: int,
        target: Target = "exact",
        start: Start | None = None,
    ) -> None:
        check_width(anchors, X.shape[1])
        self._X = X
        self._anchors = anchors
        self._exact = target == "exact"
        self._alpha = alpha * len(X) if self._exact else alpha
        self._beta = beta
        begun = start or starting_point(X, n_dimensions, k)
        self._graph = begun.graph
        self._h = np.ones(X.shape[1])
        self.projection = begun.projection
        if self._exact:
            # Spaces of more than half the dimensions always meet, whatever the parties' rows say.
            self.projection = begun.projection[: max(1, len(anchors) // 2)]
        self.weights = np.zeros((X.shape[1], 1))
        self._image: Floats | None = None

    def image(self) -> Floats:
        """B X^a, the only thing that leaves the party; an orthonormal basis if exact."""
        if self._image is None:
            image = np.asarray(self.projection @ self._anchors.T)
            self._image = self._orthonormal(image) if self._exact else image
        return self._image

    def _orthonormal(self, image: Floats) -> Floats:
        """Change the projection to coordinates in which its image is orthonormal."""
        left, singular, right = np.linalg.svd(image, full_matrices=False)
        kept = singular > _RCOND * max(float(singular[0]), 1e-300)
        if not kept.any():
            return image
        self.projection = (left[:, kept] / singular[kept]).T @ self.projection
        return np.asarray(right[kept])

    def align(self, M: Floats) -> None:
        """Steps 3 and 4: transform its own rows to the common target, update W, B and H."""
        check_alignment(M, len(self.projection))
        unit = np.sqrt(len(self._anchors)) if self._exact else 1.0
        target = unit * (M @ (self.projection @ self._X.T))
        self.weights = update_weights(
            self._X, target, self._graph.laplacian, self._h, self._alpha, self._beta
        )
        self.projection = projection_of_weights(M, self.weights)
        self._h = sparsity_weights(self.weights)
        self._image = None

    def to_plain(self) -> dict[str, Any]:
        """What has changed since the start, to go on from later."""
        return {
            "projection": self.projection,
            "weights": self.weights,
            "h": self._h,
            "image": self._image,
        }

    @classmethod
    def resumed(
        cls, X: Floats, anchors: Floats, saved: dict[str, Any], *, k: int, **settings: Any
    ) -> Collaboration:
        """Go on from what :meth:`to_plain` gave; only the graph is computed again."""
        start = Start(neighbour_graph(X, k), saved["projection"])
        state = cls(X, anchors, k=k, start=start, **settings)
        state.projection, state.weights = saved["projection"], saved["weights"]
        state._h, state._image = saved["h"], saved["image"]
        return state

    @property
    def scores(self) -> Floats:
        """Importance of each feature to this party, the largest being 1."""
        return relative(row_norms(self.weights))


def check_alignment(M: Floats, n_dimensions: int) -> None:
    """Refuse an alignment that was not made for a projection of this many dimensions."""
    if M.ndim != 2 or M.shape[1] != n_dimensions:
        raise ParameterError(
            f"An alignment of shape {M.shape} arrived.",
            f"It must have {n_dimensions} columns, one per dimension of the party's projection.",
            "Check that all parties run the same job.",
        )
