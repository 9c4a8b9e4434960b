# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What DCFS must be compared with: selection by one party alone, by pooled rows, by mean ranks."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fedsift.methods.dcfs.anchor import Graph, neighbour_graph, row_norms, sparsity_weights

Floats = npt.NDArray[np.float64]

_DENSE = 400
"""From this many rows on, a few eigenvectors by inverse iteration are cheaper than by LAPACK."""


def local_selection(
    X: Floats,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    n_components: int = 5,
    n_neighbors: int = 5,
    n_iterations: int = 5,
    graph: Graph | None = None,
) -> Floats:
    """LFS, the paper's local baseline, with the constraint Y Y^T = I that its Eq. 1 forgets.

    Without it W = Y = 0 is optimal. With A = alpha H + X^T X, Y are the eigenvectors of the
    smallest eigenvalues of ``beta L + I - X A^-1 X^T``; then ``W = A^-1 X^T Y^T``. All of it in
    n x n or m x m matrices, whichever are smaller. On pooled rows this is AFS.
    """
    graph = graph or neighbour_graph(X, n_neighbors)
    n_components = min(n_components, len(X) - 1)
    h = np.ones(X.shape[1])
    W = np.zeros((X.shape[1], n_components))
    gram = X.T @ X if len(X) > X.shape[1] else None
    for _ in range(n_iterations):
        fit = _fit_by_rows(X, alpha * h) if gram is None else _fit_by_columns(X, alpha * h, gram)
        residual, back = fit
        Y = _smallest(beta * graph.laplacian + residual, n_components)
        W = back @ Y
        h = sparsity_weights(W)
    return row_norms(W)


def _fit_by_rows(X: Floats, penalty: Floats) -> tuple[Floats, Floats]:
    """I - X A^-1 X^T = (I + K)^-1 and A^-1 X^T = G X^T (I + K)^-1, from n x n matrices."""
    scaled = X / penalty
    inverse = np.linalg.inv(np.eye(len(X)) + scaled @ X.T)
    return np.asarray(inverse), np.asarray(scaled.T @ inverse)


def _fit_by_columns(X: Floats, penalty: Floats, gram: Floats) -> tuple[Floats, Floats]:
    """The same from m x m matrices, for more rows than columns."""
    from scipy.linalg import cho_factor, cho_solve

    back: Floats = cho_solve(
        cho_factor(gram + np.diag(penalty), check_finite=False), X.T, check_finite=False
    )
    return np.asarray(np.eye(len(X)) - X @ back), back


def _smallest(form: Floats, count: int) -> Floats:
    """Eigenvectors of the smallest eigenvalues of a positive definite matrix, as columns."""
    from scipy.linalg import cho_factor, cho_solve, eigh
    from scipy.sparse.linalg import LinearOperator, eigsh

    symmetric = (form + form.T) / 2
    n_rows = len(symmetric)
    if n_rows < _DENSE:
        return np.asarray(eigh(symmetric, subset_by_index=[0, count - 1])[1])
    # Rounding may leave the smallest eigenvalues below zero; a small shift keeps the factor real.
    shift = 1e-8 * float(np.trace(symmetric)) / n_rows
    factor = cho_factor(symmetric + shift * np.eye(n_rows), check_finite=False)
    inverse = LinearOperator(
        (n_rows, n_rows),
        matvec=lambda v: cho_solve(factor, v, check_finite=False),
        dtype=np.float64,
    )
    first = np.linspace(1.0, 2.0, n_rows)  # no random start: equal data give equal scores
    return np.asarray(eigsh(symmetric, k=count, sigma=-shift, OPinv=inverse, v0=first)[1])


def ranks_of(scores: Floats) -> npt.NDArray[np.int64]:
    """1 is the best; ties in column order."""
    order = np.argsort(-scores, kind="stable")
    ranks = np.empty(len(scores), dtype=np.int64)
    ranks[order] = np.arange(1, len(scores) + 1)
    return ranks
