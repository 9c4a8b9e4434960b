# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Which columns a trained network can do without, given that the others stand in for them.

The first layer of a network takes ``X W`` of its inputs. Without column j, the best the other
columns can do is to rebuild it linearly; then the sums change by

    |w_j|^2 / (C^-1)_jj    with C = X^T X / n, per row on average,

and the other weights become ``W - C^-1[:, j] w_j / (C^-1)_jj`` (the optimal brain surgeon with the
first layer as its target). The column with the smallest change goes first, then the next: of two
near copies the first one costs nothing and the second one a lot. A gate, which only sees whether
its column is of use right now, cannot tell the two apart.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]

NOISE = 1.0
"""Columns stand in for each other as if all of them carried noise of this share of their variance.

Without it a column counts as spare if many others happen to rebuild it on these rows.
"""

_LEAST_VARIANCE = 1e-9
_TOGETHER = 64
"""Inputs that go before the whole matrix is changed for them."""

_GROWTH = 1e-9
"""Costs grow at least by this share from one feature to the next, so that their order is unique."""


def elimination_costs(
    inputs: npt.ArrayLike,
    weights: npt.ArrayLike,
    feature_of_input: npt.ArrayLike | None = None,
    noise: float = NOISE,
) -> Floats:
    """What each feature costs when its turn comes, in a backward elimination of all of them.

    Parameters
    ----------
    inputs : array-like of shape (n_rows, n_inputs)
        Centred; scales do not matter.
    weights : array-like of shape (n_inputs, n_units)
        Of the first layer, with gates multiplied in.
    feature_of_input : array-like of int of shape (n_inputs,), optional
        Inputs of one feature, such as the values of a category, go together. Numbers from 0 on.
    noise : float
        Relative to each input's variance.

    Returns
    -------
    costs : ndarray of shape (n_features,)
        Positive and all different; the features with the largest are those that remain.

    Examples
    --------
    The second column is a copy of the first: one of them is cheap, the other is not.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 3))
    >>> X[:, 1] = X[:, 0] + 0.01 * rng.normal(size=500)
    >>> costs = elimination_costs(X, [[1.0], [1.0], [1.0]])
    >>> cheap, dear = sorted(costs[:2])
    >>> bool(cheap < costs[2] < dear)
    True
    """
    values = np.asarray(inputs, dtype=np.float64)
    owner = np.arange(values.shape[1])
    if feature_of_input is not None:
        owner = np.asarray(feature_of_input, dtype=np.int64)
    n_features = int(owner.max()) + 1 if len(owner) else 0
    left = _Left(_inverse_moments(values, noise), np.array(weights, dtype=np.float64), owner)
    costs = np.zeros(n_features)
    so_far = float(np.finfo(np.float64).tiny)
    for _ in range(n_features):
        feature, change = left.cheapest()
        so_far = max(change, so_far * (1.0 + _GROWTH))
        costs[feature] = so_far
        left.remove(feature)
    return costs


class _Left:
    """The features that are left, with the inverse of their moments and their weights.

    Without some inputs, the inverse of the others' moments is ``M - S B^-1 S^T`` with the columns S
    of those inputs and their block B. A product over the whole matrix for every feature would take
    most of the time, and only its diagonal (blocks, for features with several inputs) is looked at.
    So it waits until some inputs have gone: until then every step keeps the columns ``S B^-1/2``.
    """

    def __init__(self, inverse: Floats, weights: Floats, owner: Numbers) -> None:
        self._inverse = inverse
        self._weights = weights
        self._owner = owner
        self._steps: list[Floats] = []
        sizes = np.bincount(owner) if len(owner) else np.empty(0, dtype=np.int64)
        self._several = [int(feature) for feature in np.flatnonzero(sizes > 1)]
        self._there = np.ones(len(owner), dtype=np.bool_)
        self._single = sizes[owner] == 1 if len(owner) else self._there
        self._diagonal = np.diag(inverse).copy()

    def cheapest(self) -> tuple[int, float]:
        """The next feature to go, and what that changes."""
        found: list[tuple[float, int]] = []
        places = np.flatnonzero(self._there & self._single)
        if len(places):
            changes = (self._weights[places] ** 2).sum(axis=1) / self._diagonal[places]
            best = int(np.argmin(changes))
            found.append((float(changes[best]), int(self._owner[places[best]])))
        for feature in self._several:
            members = self._members(feature)
            own = self._weights[members]
            block = self._columns(members)[members]
            found.append((float((own * np.linalg.solve(block, own)).sum()), feature))
        change, feature = min(found)
        return feature, change

    def remove(self, feature: int) -> None:
        """Let the others stand in for a feature as well as they can."""
        members = self._members(feature)
        columns = self._columns(members)
        root = np.linalg.cholesky(columns[members])
        step = np.linalg.solve(root, columns.T).T
        self._weights -= step @ np.linalg.solve(root, self._weights[members])
        self._diagonal -= (step**2).sum(axis=1)
        self._there[members] = False
        if feature in self._several:
            self._several.remove(feature)
        self._steps.append(step)
        if sum(done.shape[1] for done in self._steps) >= _TOGETHER:
            self._catch_up()

    def _members(self, feature: int) -> Numbers:
        return np.flatnonzero(self._there & (self._owner == feature))

    def _columns(self, members: Numbers) -> Floats:
        """Columns of the inverse as it would be by now."""
        columns: Floats = self._inverse[:, members].copy()
        for step in self._steps:
            columns -= step @ step[members].T
        return columns

    def _catch_up(self) -> None:
        """Change the matrix for all that has gone since the last time, and forget their rows."""
        kept = np.flatnonzero(self._there)
        steps = np.concatenate(self._steps, axis=1)[kept]
        self._inverse = self._inverse[np.ix_(kept, kept)] - steps @ steps.T
        self._weights = self._weights[kept]
        self._owner = self._owner[kept]
        self._single = self._single[kept]
        self._diagonal = np.diag(self._inverse).copy()
        self._there = self._there[kept]
        self._steps = []


def _inverse_moments(values: Floats, noise: float) -> Floats:
    moments: Floats = values.T @ values / max(1, len(values))
    blurred = moments + np.diag(noise * np.diag(moments) + _LEAST_VARIANCE)
    return np.asarray(np.linalg.inv(blurred), dtype=np.float64)
