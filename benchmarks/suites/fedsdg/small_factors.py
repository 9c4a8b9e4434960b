# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""From an exact product of integers back to its small factor, by lattice reduction.

Fixed-point numbers are integers. Whoever sees ``P = S W`` to the last bit, with small S and large
unknown W, sees more than "S up to a linear map": integer vectors that are orthogonal to P and short
are orthogonal to S too, and the short vectors orthogonal to those are the columns of S, or small
combinations of them (Nguyen and Stern, 1999). A product that was rounded or blurred to about as
many bits as S has does not give this away.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

BigArray = npt.NDArray[Any]

_WEIGHT_BITS = 200


def small_factor(product: npt.ArrayLike, rank: int) -> BigArray | None:
    """Short vectors that span the columns of the small factor of an exact product.

    Parameters
    ----------
    product : array-like of int of shape (n_rows, n_outputs)
        Rows should outnumber ``rank`` about two to one.
    rank : int
        Columns of the small factor.

    Returns
    -------
    ndarray of shape (n_rows, rank), or None
        None if the product is not exact: then no short vector is orthogonal to it.

    Examples
    --------
    >>> S = np.array([[3, 1], [-2, 4], [5, 0], [1, -3], [0, 2], [4, 4]])
    >>> W = np.array([[104729], [1299709]])
    >>> found = small_factor(S @ W, rank=2)
    >>> sorted(int(abs(c).sum()) for c in found.T)
    [14, 15]
    """
    numbers = np.asarray(product).astype(object)
    n_rows = len(numbers)
    orthogonal = _short_orthogonal(numbers)[: n_rows - rank]
    if len(orthogonal) < n_rows - rank:
        return None
    found = _short_orthogonal(orthogonal.T)
    return np.asarray(found.T) if len(found) == rank else None


def exact_columns(
    outputs: npt.NDArray[np.int64], n_holders: int, n_rows: int = 10
) -> list[npt.NDArray[np.float64]] | None:
    """Embedding columns behind one output of a layer with one column per feature holder.

    Works on the first rows and extends what it finds to the others by the weights it implies.

    Returns
    -------
    list of ndarray of shape (n_rows,) or None
        Up to sign and order; None if the outputs are not exact products.
    """
    found = small_factor(outputs[:n_rows, None], rank=n_holders)
    return None if found is None else [column.astype(np.float64) for column in found.T]


def _short_orthogonal(vectors: BigArray) -> BigArray:
    """A reduced basis of all integer vectors orthogonal to some columns, shortest first."""
    n_rows = len(vectors)
    basis = [
        np.concatenate([row, [int(v) << _WEIGHT_BITS for v in vectors[i]]])
        for i, row in enumerate(np.eye(n_rows, dtype=np.int64).astype(object))
    ]
    kept = [row[:n_rows] for row in reduced_basis(basis) if not row[n_rows:].any()]
    kept.sort(key=lambda row: int(row @ row))
    return np.array(kept, dtype=object).reshape(len(kept), n_rows)


def reduced_basis(rows: list[BigArray]) -> list[BigArray]:
    """Lenstra, Lenstra and Lovasz in exact integers (factor 3/4); rows must be independent."""
    basis = [np.array(row, dtype=object) for row in rows]
    n = len(basis)
    # Determinants of the leading Gram matrices, and Gram-Schmidt coefficients times those.
    det = [1] + [0] * n
    mu = [[0] * n for _ in range(n)]
    done, k = -1, 0
    while k < n:
        if k > done:
            done = k
            _orthogonalise(basis, det, mu, k)
        if k == 0:
            k = 1
            continue
        _subtract(basis, det, mu, k, k - 1)
        if 4 * (det[k + 1] * det[k - 1] + mu[k][k - 1] ** 2) < 3 * det[k] ** 2:
            _swap(basis, det, mu, k, done)
            k = max(1, k - 1)
        else:
            for j in range(k - 2, -1, -1):
                _subtract(basis, det, mu, k, j)
            k += 1
    return basis


def _orthogonalise(basis: list[BigArray], det: list[int], mu: list[list[int]], k: int) -> None:
    for j in range(k + 1):
        value = int(basis[k] @ basis[j])
        for i in range(j):
            value = (det[i + 1] * value - mu[k][i] * mu[j][i]) // det[i]
        if j < k:
            mu[k][j] = value
        else:
            det[k + 1] = value


def _subtract(basis: list[BigArray], det: list[int], mu: list[list[int]], k: int, j: int) -> None:
    if 2 * abs(mu[k][j]) <= det[j + 1]:
        return
    times = (2 * mu[k][j] + det[j + 1]) // (2 * det[j + 1])
    basis[k] = basis[k] - times * basis[j]
    mu[k][j] -= times * det[j + 1]
    for i in range(j):
        mu[k][i] -= times * mu[j][i]


def _swap(basis: list[BigArray], det: list[int], mu: list[list[int]], k: int, done: int) -> None:
    basis[k], basis[k - 1] = basis[k - 1], basis[k]
    for j in range(k - 1):
        mu[k][j], mu[k - 1][j] = mu[k - 1][j], mu[k][j]
    between = mu[k][k - 1]
    new = (det[k - 1] * det[k + 1] + between**2) // det[k]
    for i in range(k + 1, done + 1):
        old = mu[i][k]
        mu[i][k] = (det[k + 1] * mu[i][k - 1] - between * old) // det[k]
        mu[i][k - 1] = (new * old + between * mu[i][k]) // det[k + 1]
    det[k] = new
