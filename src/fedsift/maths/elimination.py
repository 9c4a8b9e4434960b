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
    left = np.array(weights, dtype=np.float64)
    if feature_of_input is None:
        owner = np.arange(values.shape[1])
    else:
        owner = np.asarray(feature_of_input, dtype=np.int64)
    n_features = int(owner.max()) + 1 if len(owner) else 0
    inverse = _inverse_moments(values, noise)
    costs = np.zeros(n_features)
    features = np.arange(n_features)
    so_far = float(np.finfo(np.float64).tiny)
    while len(features):
        position, members, change = _cheapest(inverse, left, owner, features)
        so_far = max(change, so_far * (1.0 + _GROWTH))
        costs[features[position]] = so_far
        features = np.delete(features, position)
        inverse, left, owner = _without(inverse, left, owner, members)
    return costs


def _inverse_moments(values: Floats, noise: float) -> Floats:
    moments: Floats = values.T @ values / max(1, len(values))
    blurred = moments + np.diag(noise * np.diag(moments) + _LEAST_VARIANCE)
    return np.asarray(np.linalg.inv(blurred), dtype=np.float64)


def _cheapest(
    inverse: Floats, weights: Floats, owner: Numbers, features: Numbers
) -> tuple[int, Numbers, float]:
    """Place of the next feature in the list, its inputs, and what leaving it out changes."""
    if len(owner) == len(features):  # one input each: all at once
        changes = (weights**2).sum(axis=1) / np.diag(inverse)
        place = int(np.argmin(changes))
        return place, np.array([place]), float(changes[place])
    found = []
    for feature in features:
        members = np.flatnonzero(owner == feature)
        own = weights[members]
        found.append(float((own * np.linalg.solve(_block(inverse, members), own)).sum()))
    place = int(np.argmin(found))
    return place, np.flatnonzero(owner == features[place]), found[place]


def _without(
    inverse: Floats, weights: Floats, owner: Numbers, members: Numbers
) -> tuple[Floats, Floats, Numbers]:
    """The rest after some inputs have gone; it stands in for them as well as it can."""
    kept = np.delete(np.arange(len(owner)), members)
    across = inverse[np.ix_(kept, members)]
    stand_in = across @ np.linalg.inv(_block(inverse, members))
    rest = inverse[np.ix_(kept, kept)] - stand_in @ across.T
    return rest, weights[kept] - stand_in @ weights[members], owner[kept]


def _block(inverse: Floats, members: Numbers) -> Floats:
    block: Floats = inverse[np.ix_(members, members)]
    return block
