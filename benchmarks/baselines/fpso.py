# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What FPSO-FS must beat: the same search without federation, or no search.

These are not protocols: they use each party's own rows, or none. One search on all rows in one
place is :func:`fedsift.lab.pooled.pooled_subset`.

Examples
--------
>>> from fedsift.data import catalog, split_horizontal
>>> wine = catalog.load("wine")
>>> federation = split_horizontal(wine.X, wine.y, 2, random_state=0)
>>> quick = Params(n_iterations=2, n_rounds=1, n_particles=4, seed=0)
>>> sorted(local_subsets(federation, quick))
['party-1', 'party-2']
>>> int(random_subset(13, 4, seed=0).sum())
4
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from benchmarks.baselines.relief import relief
from fedsift.data import Federation
from fedsift.errors import ParameterError
from fedsift.lab.pooled import best_of
from fedsift.methods.fpso.local_search import LocalSearch, Params, classes_of, numbers_of

Masks = npt.NDArray[np.bool_]


def local_subsets(federation: Federation, params: Params) -> dict[str, Masks]:
    """FPSO-FS/FL of the paper: every party searches alone, with the steps of all rounds."""
    found = {}
    for party, table in federation.tables.items():
        search = LocalSearch.over(table, classes_of(party, federation.targets), params)
        found[party] = search.run_alone(params).mask
    return found


def relief_subsets(
    federation: Federation, n_features_to_select: int, n_neighbors: int = 5
) -> dict[str, Masks]:
    """Every party's best features by ReliefF on its own rows."""
    found = {}
    for party, table in federation.tables.items():
        weights = relief(
            numbers_of(table), classes_of(party, federation.targets).codes, n_neighbors
        )
        found[party] = best_of(weights, n_features_to_select)
    return found


def random_subset(n_features: int, n_features_to_select: int, seed: int | None = None) -> Masks:
    """A subset of a given size, drawn at random: what any selection of that size must beat."""
    if not 1 <= n_features_to_select <= n_features:
        raise ParameterError(
            f"n_features_to_select={n_features_to_select} of {n_features} features.",
            f"A number from 1 to {n_features} is needed.",
            "Pass a number in this range.",
        )
    mask = np.zeros(n_features, dtype=bool)
    chosen = np.random.default_rng(seed).choice(n_features, n_features_to_select, replace=False)
    mask[chosen] = True
    return mask
