# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A filter's selection with differential privacy: drawn by its scores, which nobody is told.

The party that knows the scores draws the features one by one; how, and why one row over all
parties changes little, is in :mod:`fedsift.privacy.release`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from fedsift.methods.filter.ranking import Params, Ranking
from fedsift.methods.filter.scores import LOWER_IS_BETTER, gini_error_bound
from fedsift.privacy import release
from fedsift.privacy.mechanisms import Accountant

Floats = npt.NDArray[np.float64]

SCORES = ("gini", "mi")
"""Scores that one row cannot change by more than a small known amount."""


def budget_of(params: Params) -> release.Release:
    """What the selection may spend."""
    assert params.release_epsilon is not None  # noqa: S101 - asked only if there is a budget
    return release.Release(params.release_epsilon, params.release_delta)


def account_of(params: Params) -> Accountant:
    """An accountant for the party that draws; without a budget it has nothing to do."""
    return budget_of(params).account() if params.releases else Accountant(0.0)


def sensitivity(params: Params, n_rows: int, n_classes: int) -> float:
    """How far one row can move any score of this run."""
    if params.score == "mi":
        return release.mutual_information_sensitivity(n_rows, n_classes)
    if params.noisy:
        return release.gini_gain_sensitivity(n_rows)
    # Weights in fixed point round every impurity, and neighbours differently.
    return release.gini_sensitivity(n_rows) + 2 * gini_error_bound(n_rows, fine=True)


def chosen(
    results: Mapping[str, Floats], params: Params, reach: float, account: Accountant
) -> Ranking:
    """Draw the features to select; ranks are the order of the draws, all others share a place.

    Parameters
    ----------
    results : mapping of party to ndarray
        Scores in the order of each party's features.
    reach : float
        Sensitivity of every score.
    account : Accountant
        Refuses a second selection.
    """
    values = np.concatenate(list(results.values()))
    utilities = -values if params.score in LOWER_IS_BETTER else values
    budget, n_select = budget_of(params), params.n_features_to_select
    budget.spend(account, "the selection", budget.prices([reach] * n_select))
    order = budget.top(utilities, reach, n_select, params.noise_source("selection"))
    ranks = np.full(len(values), n_select + 1, dtype=np.int64)
    ranks[order] = np.arange(1, n_select + 1)
    ends = np.cumsum([len(own) for own in results.values()])[:-1]
    by_party = dict(zip(results, np.split(ranks, ends), strict=True))
    return Ranking(
        scores={},
        selected={
            p: tuple(np.flatnonzero(own <= n_select).tolist()) for p, own in by_party.items()
        },
        ranks=by_party,
    )
