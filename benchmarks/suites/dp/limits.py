# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Suite ``dp``: what private interactions and participants would need, which are not offered."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.suites.dp.bounds import (
    a_hub,
    interaction_reaches,
    odds,
    participant_reach,
    without_hub,
)
from benchmarks.suites.dp.rows import N_SELECTED, Mask, Sample
from fedsift.methods.interaction import measures as interaction
from fedsift.methods.vfps import knn_mi
from fedsift.privacy.mechanisms import source_of
from fedsift.privacy.release import Release, choose

_K, _PARTICIPANTS, _CHOSEN = 3, 4, 2
_RELEVANCE = 0.2
_ROWS, _HUB_ROWS = (2_000, 10_000, 100_000), 2_000


def limits() -> list[dict[str, Any]]:
    """Noise by number of rows and epsilon, and how far one row moves importances of one example."""
    found: list[dict[str, Any]] = []
    for n_rows in _ROWS:
        for epsilon in (1.0, 10.0):
            budget = Release(epsilon)
            reach = participant_reach(n_rows, _K)
            noise = budget.noise(_PARTICIPANTS * reach, math.sqrt(_PARTICIPANTS) * reach)
            steps = interaction_reaches(n_rows, N_SELECTED)
            found.append(
                {
                    "n_rows": n_rows,
                    "epsilon": epsilon,
                    "odds_of_a_feature": odds(math.log1p(_RELEVANCE), steps, budget),
                    "noise_of_importances": noise.spread(_PARTICIPANTS),
                    "odds_of_a_participant": odds(math.log(2), [reach] * _CHOSEN, budget),
                }
            )
    columns, codes = a_hub(_HUB_ROWS, _K)
    queries = np.flatnonzero(codes == 0)[_K:]
    labels = knn_mi.Alike(codes=codes)
    near, far = (
        knn_mi.estimate(knn_mi.exact_terms([one], labels, queries, _K)).value
        for one in (columns, without_hub(columns))
    )
    bound = participant_reach(_HUB_ROWS, _K)
    hub = {"n_rows": _HUB_ROWS, "change_by_one_row": abs(near - far), "bound": bound}
    return [*found, {"hub": hub}]


def selected_by_interactions(data: Sample) -> Mask:
    """As ``InteractionSelector`` does it, on open data."""
    order = interaction.oracle(data.X, data.y, "miw", N_SELECTED).order
    return _mask(data, list(order))


def drawn_by_interactions(data: Sample, epsilon: float, seed: int) -> Mask:
    """Draw features by ``ln R`` of columns that are cut in two where half of public rows lie."""
    columns = np.where(data.middles <= data.X, 1.0, -1.0)
    measure = interaction.Moments(columns, data.y)
    reaches = interaction_reaches(len(columns), N_SELECTED)
    prices = Release(epsilon).prices(reaches)
    below = source_of([seed])
    utilities = np.log1p(measure.relevance())
    left, chosen = list(range(columns.shape[1])), list[int]()
    for reach, price in zip(reaches, prices, strict=True):
        place = choose([float(utilities[f]) for f in left], reach, price, below)
        chosen.append(left.pop(place))
        utilities[left] += np.log(measure.weights_with(chosen[-1], left))
    return _mask(data, chosen)


def _mask(data: Sample, chosen: list[int]) -> Mask:
    mask: npt.NDArray[np.bool_] = np.zeros(data.X.shape[1], dtype=bool)
    mask[chosen] = True
    return mask
