# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The label owner's own part of the interaction search: its classes, and the final places."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedsift.data.target import Target
from fedsift.errors import ParameterError, PartyFailed
from fedsift.maths import binning
from fedsift.maths.multiple_testing import q_values
from fedsift.methods.interaction.measures import Codes, Floats
from fedsift.methods.interaction.messages import Offer
from fedsift.methods.interaction.search import Trace, as_matrix


@dataclass(frozen=True)
class Ranking:
    """What the label owner knows at the end, features by party and secret number.

    Parameters
    ----------
    scores, ranks : dict of party to ndarray
        R when selected or at the end, and places from 1.
    selected : dict of party to tuple of int
    features : tuple of (party, number)
        Features in the order of ``relevance`` and ``interaction``, without constant ones.
    order : tuple of int
        Selected features by position in ``features``, first selected first.
    relevance : ndarray of shape (n_usable,)
    weights : dict of int to ndarray of shape (n_usable,)
        Weights of all features with one of them, NaN where not computed.
    threshold : float or None
        What shuffled labels reach, if the run stopped by itself.
    p_values, q_values : dict of party to ndarray of shape (n_features,)
        Of relevances; NaN for constant features.
    """

    scores: dict[str, Floats]
    ranks: dict[str, npt.NDArray[np.int64]]
    selected: dict[str, tuple[int, ...]]
    features: tuple[tuple[str, int], ...]
    order: tuple[int, ...]
    relevance: Floats
    weights: dict[int, Floats]
    threshold: float | None
    p_values: dict[str, Floats]
    q_values: dict[str, Floats]

    @property
    def interaction(self) -> Floats:
        """Weight of a feature (row) with another one (column), NaN where not computed."""
        return as_matrix(self.weights, len(self.relevance))


def rank(
    trace: Trace,
    features: Sequence[tuple[str, int]],
    offers: Mapping[str, Offer],
    n_select: int | None,
    threshold: float | None,
    p_values: Floats,
) -> Ranking:
    """Places of all features: selected ones, the rest by R, constant ones last.

    ``n_select`` is None if the search stopped by itself; at least one feature is selected.
    """
    rest = sorted(set(range(len(trace.scores))) - set(trace.order))
    places = [*trace.order, *sorted(rest, key=lambda f: (-trace.scores[f], f))]
    constants = [
        (party, offer.n_features - offer.n_constant + i)
        for party, offer in offers.items()
        for i in range(offer.n_constant)
    ]
    everything = [*(features[f] for f in places), *constants]
    n_selected = max(1, len(trace.order) if n_select is None else n_select)
    chosen = set(everything[:n_selected])

    def by_party(values: Floats, constant: float) -> dict[str, Floats]:
        told = {party: np.full(o.n_features, constant) for party, o in offers.items()}
        for (party, number), value in zip(features, values.tolist(), strict=True):
            told[party][number] = value
        return told

    ranks = {party: np.zeros(o.n_features, dtype=np.int64) for party, o in offers.items()}
    for place, (party, number) in enumerate(everything):
        ranks[party][number] = place + 1
    return Ranking(
        scores=by_party(trace.scores, 0.0),
        ranks=ranks,
        selected={
            p: tuple(i for i in range(o.n_features) if (p, i) in chosen) for p, o in offers.items()
        },
        features=tuple(features),
        order=trace.order,
        relevance=trace.relevance,
        weights=trace.weights,
        threshold=threshold,
        p_values=by_party(p_values, math.nan),
        q_values=by_party(q_values(p_values), math.nan),
    )


def parts_of(offers: Mapping[str, Offer]) -> dict[str, tuple[int, ...]]:
    """Parts of the usable columns of all parties that have some."""
    for party, offer in offers.items():
        if not offer.is_sound():
            raise PartyFailed(party, "Introduction", 1, "its numbers of features do not fit")
    return {party: offer.parts for party, offer in offers.items() if offer.parts}


def refuse_columns(
    fits: npt.NDArray[np.bool_],
    features: Sequence[tuple[str, int]],
    reason: str = "its columns give numbers outside their possible range",
) -> None:
    """Refuse what honest columns cannot give; names the owner, not the value."""
    for fine, (party, _) in zip(fits.tolist(), features, strict=True):
        if not fine:
            raise PartyFailed(party, "EncryptedColumns", 2, reason)


def no_trace() -> Trace:
    """A search over nothing: all features are constant."""
    return Trace((), np.empty(0), np.empty(0), {})


def classes_of(target: Target, target_bins: int) -> Codes:
    """Class codes without gaps: empty classes are dropped, numbers are cut into quantiles."""
    codes = target.codes
    if target.kind != "classes":
        edges = binning.quantile_edges(target.values, target_bins)
        codes = binning.merge_small(binning.cut(target.values, edges), 1, ordered=True).codes
    present, dense = np.unique(codes, return_inverse=True)
    if len(present) < 2:
        raise ParameterError(
            "The label has a single class.",
            "Interactions are measured against at least two.",
            "Check the label column.",
        )
    return dense.astype(np.int64)
