# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Who gets which row when one table is split by rows: evenly, by cluster, or by class mixture."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fedsift.data.target import Target
from fedsift.errors import ParameterError

SKEWS: tuple[str | None, ...] = (None, "kmeans", "dirichlet")

Owners = NDArray[np.int64]

_CONCENTRATION = 0.5
_QUANTILE_GROUPS = 4


def owners_by_skew(
    matrix: Callable[[], NDArray[np.float64]],
    target: Target | None,
    n_parties: int,
    skew: str | None,
    rng: np.random.Generator,
    n_rows: int,
) -> Owners:
    """Return the party number of every row.

    Parameters
    ----------
    matrix : callable
        Gives the features as numbers; called only if the rule looks at them.
    target : Target or None
        Labels, needed for ``"dirichlet"``.
    n_parties : int
        Number of parties, at most the number of rows.
    skew : {None, "kmeans", "dirichlet"}
        The rule.
    rng : Generator
        Source of randomness.
    n_rows : int
        Number of rows.

    Returns
    -------
    owners : ndarray of int64 of shape (n_rows,)
        Every party from 0 to ``n_parties - 1`` occurs.
    """
    if skew == "kmeans":
        return by_cluster(matrix(), n_parties, rng)
    if skew == "dirichlet":
        return by_class_mixture(target, n_parties, rng)
    return evenly(n_rows, n_parties, rng)


def evenly(n_rows: int, n_parties: int, rng: np.random.Generator) -> Owners:
    """Deal the rows out at random; sizes differ by one at most."""
    owners = np.empty(n_rows, dtype=np.int64)
    for party, rows in enumerate(np.array_split(rng.permutation(n_rows), n_parties)):
        owners[rows] = party
    return owners


def by_cluster(matrix: NDArray[np.float64], n_parties: int, rng: np.random.Generator) -> Owners:
    """Give every party one k-means cluster of the standardised rows."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    clusters = KMeans(n_parties, n_init=3, random_state=int(rng.integers(2**31 - 1)))
    with warnings.catch_warnings():
        # Fewer distinct rows than parties is fine here: empty shares are filled up below.
        warnings.simplefilter("ignore", ConvergenceWarning)
        owners = clusters.fit_predict(_standardised(matrix)).astype(np.int64)
    return _fill_up(owners, n_parties, 1, rng)


def by_class_mixture(target: Target | None, n_parties: int, rng: np.random.Generator) -> Owners:
    """Split every class by proportions of its own, drawn from a Dirichlet distribution."""
    if target is None:
        raise ParameterError(
            "skew='dirichlet' was asked for without labels.",
            "This rule splits the rows class by class.",
            "Pass y, or use skew=None or 'kmeans'.",
        )
    least = max(2, target.n_rows // (10 * n_parties))
    if least * n_parties > target.n_rows:
        raise ParameterError(
            f"parties={n_parties} with {target.n_rows} rows.",
            f"skew='dirichlet' gives every party at least {least} rows.",
            "Choose fewer parties.",
        )
    owners = np.empty(target.n_rows, dtype=np.int64)
    groups = _groups(target)
    for group in range(int(groups.max()) + 1):
        rows = rng.permutation(np.flatnonzero(groups == group))
        shares = rng.dirichlet(np.full(n_parties, _CONCENTRATION))
        cuts = np.round(np.cumsum(shares)[:-1] * len(rows)).astype(np.int64)
        for party, part in enumerate(np.split(rows, cuts)):
            owners[part] = party
    return _fill_up(owners, n_parties, least, rng)


def _groups(target: Target) -> NDArray[np.int64]:
    """Return class codes, or the quartile of a numeric target."""
    if target.kind == "classes":
        return target.codes
    inner = np.linspace(0, 1, _QUANTILE_GROUPS + 1)[1:-1]
    return np.searchsorted(np.quantile(target.values, inner), target.values).astype(np.int64)


def _standardised(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return columns of mean 0 and spread 1, with the mean in place of missing values."""
    centred = np.nan_to_num(matrix - np.nanmean(matrix, axis=0))
    spread = centred.std(axis=0)
    scaled: NDArray[np.float64] = centred / np.where(spread > 0, spread, 1.0)
    return scaled


def _fill_up(owners: Owners, n_parties: int, least: int, rng: np.random.Generator) -> Owners:
    """Move rows from the largest shares to those that have fewer than ``least``."""
    owners = owners.copy()
    sizes = np.bincount(owners, minlength=n_parties)
    while sizes.min() < least:
        poor, rich = int(sizes.argmin()), int(sizes.argmax())
        n_moved = min(least - sizes[poor], sizes[rich] - least)
        moved = rng.choice(np.flatnonzero(owners == rich), size=n_moved, replace=False)
        owners[moved] = poor
        sizes = np.bincount(owners, minlength=n_parties)
    return owners
