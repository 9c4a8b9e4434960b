# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Other numbers of features from a training that is over: which ones, and what they cost."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from fedsift.data import Federation
from fedsift.errors import ParameterError
from fedsift.methods.base import number_to_select
from fedsift.protocol import RemoteRole, Role


@dataclass(frozen=True, eq=False)
class State:
    """Gates at one moment, in the order of the original columns.

    Parameters
    ----------
    n_open : int
    means : ndarray of shape (n_features,)
    loss : float, optional
        On validation rows, if it was judged with these features alone.
    """

    n_open: int
    means: npt.NDArray[np.float64]
    loss: float | None = None


def states_here(nodes: Mapping[str, Sequence[Role]], federation: Federation) -> list[State] | None:
    """States on the frontier of a blind training, if all parties are in this process, else None.

    Only together do the label holder, who knows gates of unnamed columns, and the owners, who know
    which column is which, know the names.
    """
    roles: dict[str, Any] = {party: node[0] for party, node in nodes.items()}
    if any(isinstance(role, RemoteRole) for role in roles.values()):
        return None
    found = []
    for judged, by_party in roles[federation.label_holder or ""].frontier():
        means = np.empty(federation.n_features)
        for party, order in federation.column_order.items():
            own = np.empty(len(order))
            own[roles[party].column_order] = by_party[party]
            means[list(order)] = own
        found.append(State(judged.n_open, means, judged.loss))
    return found


def selection_of(states: Sequence[State], n_features: int) -> tuple[State, npt.NDArray[np.bool_]]:
    """The state that selects best so many features, and their mask.

    A state with exactly as many open gates comes first; then the next larger one, of which the
    widest gates are taken; then the largest, which the next widest join.
    """
    enough = [state for state in states if state.n_open >= n_features]
    largest = max(states, key=lambda state: state.n_open)
    state = min(enough, key=lambda one: one.n_open, default=largest)
    mask = np.zeros(len(state.means), dtype=bool)
    mask[np.argsort(-state.means, kind="stable")[:n_features]] = True
    return state, mask


def reselected(selector: Any, n_features: float) -> Any:
    """A copy of a fitted selector with another number of features, and without a model."""
    if selector._states is None:
        raise ParameterError(
            "The gates of this training are not here.",
            "Owners know only which of their own columns were selected, and the label holder only "
            "gates of columns without names: their numbers come together only where all parties "
            "trained in one process, and a saved model has none of them.",
            f"Train again with n_features_to_select={n_features}.",
        )
    wanted = number_to_select(n_features, selector.n_features_in_)
    state, mask = selection_of(selector._states, wanted)
    chosen = copy.copy(selector)
    names = selector._layout.column_order
    columns = {party: selector._parts[party]["columns"] for party in names}
    chosen.support_, chosen.n_features_to_select_ = mask, wanted
    chosen._parts = None
    known = {"n_features_to_select": wanted, "validation_loss": state.loss}
    if state.n_open != wanted:
        known["validation_loss"] = None  # not judged with these features alone
    chosen.result_ = msgspec.structs.replace(
        selector.result_,
        selected={
            party: tuple(n for n, at in zip(columns[party], order, strict=True) if mask[at])
            for party, order in names.items()
        },
        parameters=selector.result_.parameters | known,
        warnings=(
            *selector.result_.warnings,
            f"The {wanted} features follow from the recorded gates; no network was trained again.",
        ),
    )
    return chosen
