# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What each method would select if everybody showed everything: its counterpart on open data.

These are oracles for a simulation, not protocols. A vertical filter must agree with its own to the
last feature; elsewhere the difference is the price of privacy. FedSDG-FS has none: training the
same network on pooled columns is another method, for which the package ``stg`` stands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from fedsift.data import Federation, PartyTable
from fedsift.lab.baselines.dcfs import baseline_scores
from fedsift.lab.baselines.fpso import best_of, pooled_subset
from fedsift.lab.compare.cases import Integers, Mask, joint_target
from fedsift.methods.base import number_to_select
from fedsift.methods.filter import features as filter_features
from fedsift.methods.filter.ranking import Params as FilterParams
from fedsift.methods.filter.ranking import plain_scores, rank
from fedsift.methods.fpso import local_search as fpso_local
from fedsift.methods.interaction.measures import oracle
from fedsift.methods.interaction.ranking import classes_of
from fedsift.methods.registry import method_named
from fedsift.methods.vfps.distances import standardised
from fedsift.methods.vfps.knn_mi import Alike, estimate, exact_terms
from fedsift.methods.vfps.search import MOST_SUBSETS

_MOST_QUERIES = 400
_TARGET_BINS = 4


def pooled_selection(
    method: str, parameters: Mapping[str, Any], federation: Federation, seed: int
) -> Mask | None:
    """Features that a method's counterpart on open data selects.

    Parameters
    ----------
    method : str
        As in job files.
    parameters : mapping
        Of the estimator; what is missing has its default.
    federation : Federation
        Training rows.
    seed : int

    Returns
    -------
    mask : ndarray of bool of shape (n_features,) or None
        In the order of the original columns; None where there is no counterpart.
    """
    counterpart = COUNTERPARTS.get(method)
    if counterpart is None:
        return None
    return counterpart(federation, {**method_named(method).parameters, **parameters}, seed)


def has_counterpart(method: str, parameters: Mapping[str, Any]) -> bool:
    """Whether :func:`pooled_selection` has an answer."""
    if method == "interaction" and parameters.get("n_features_to_select") == "auto":
        return False
    return method in COUNTERPARTS


def stacked(federation: Federation) -> PartyTable:
    """The rows of all parties of a horizontal federation in one table."""
    tables = list(federation.tables.values())
    columns = [
        replace(column, values=np.concatenate([table.columns[i].values for table in tables]))
        for i, column in enumerate(tables[0].columns)
    ]
    return PartyTable("all parties", tuple(columns))


def _filter(federation: Federation, given: dict[str, Any], seed: int) -> Mask:  # noqa: ARG001
    wanted = number_to_select(given["n_features_to_select"], federation.n_features)
    params = FilterParams(
        score=str(given["score"]), bins=given["bins"], min_bin_size=int(given["min_bin_size"])
    )
    tables = federation.tables
    if federation.setting == "horizontal":
        tables = {next(iter(tables)): stacked(federation)}
    as_frequencies = all(filter_features.are_frequencies(table) for table in tables.values())
    target = joint_target(federation)
    scores = {
        party: plain_scores(table, target, params, frequencies=as_frequencies)
        for party, table in tables.items()
    }
    ranking = rank(scores, params.score, wanted)
    names = {
        party: [tables[party].feature_names[i] for i in chosen]
        for party, chosen in ranking.selected.items()
    }
    return federation.original_support(names)


def _interaction(federation: Federation, given: dict[str, Any], seed: int) -> Mask | None:  # noqa: ARG001
    if given["n_features_to_select"] == "auto" or federation.target is None:
        return None
    wanted = number_to_select(given["n_features_to_select"], federation.n_features)
    tables = federation.tables.values()
    values = np.concatenate([table.numeric_matrix() for table in tables], axis=1)
    place = np.concatenate([federation.column_order[party] for party in federation.tables])
    codes = classes_of(federation.target, _TARGET_BINS)
    mask = np.zeros(federation.n_features, dtype=bool)
    mask[place[list(oracle(values, codes, given["measure"], wanted).order)]] = True
    return mask


def _vfps(federation: Federation, given: dict[str, Any], seed: int) -> Mask | None:
    """The group of participants with the largest information, all groups compared."""
    target, parties = federation.target, list(federation.tables)
    wanted = given["n_participants"]
    if not isinstance(wanted, int):
        wanted = min(len(parties) - 1, max(1, round(wanted * len(parties))))
    groups = list(combinations(parties, wanted))
    if target is None or len(groups) > MOST_SUBSETS:
        return None
    labels = Alike(codes=target.codes) if target.n_classes else Alike(values=target.values)
    parts = {party: standardised(federation.tables[party])[0] for party in parties}
    queries = _queries(labels, seed)

    def worth(group: tuple[str, ...]) -> float:
        terms = exact_terms([parts[p] for p in group], labels, queries, int(given["k"]))
        return estimate(terms).value

    best = max(groups, key=worth)
    chosen = {party: federation.tables[party].feature_names for party in best}
    return federation.original_support({party: list(names) for party, names in chosen.items()})


def _queries(labels: Alike, seed: int) -> list[int]:
    usable: Integers = np.flatnonzero(labels.usable)
    drawn = np.random.default_rng(seed).permutation(usable)[:_MOST_QUERIES]
    return [int(row) for row in drawn]


def _dcfs(federation: Federation, given: dict[str, Any], seed: int) -> Mask:  # noqa: ARG001
    wanted = number_to_select(given["n_features_to_select"], federation.n_features)
    shared = {name: given[name] for name in ("alpha", "beta", "n_components")}
    scores = baseline_scores(federation, "afs", **shared)
    return _in_place(federation, best_of(next(iter(scores.values())), wanted))


def _fpso(federation: Federation, given: dict[str, Any], seed: int) -> Mask:
    wanted = given["n_features_to_select"]
    limit = None if wanted == "auto" else number_to_select(wanted, federation.n_features)
    names = ("n_particles", "n_iterations", "n_rounds", "k", "classifier", "decoding")
    params = fpso_local.Params(
        max_features=limit, seed=seed, **{name: given[name] for name in names}
    )
    return _in_place(federation, pooled_subset(federation, params))


def _in_place(federation: Federation, mask: Mask) -> Mask:
    """From the order of a party's table to that of the original columns."""
    party = next(iter(federation.tables))
    moved = np.zeros(federation.n_features, dtype=bool)
    moved[list(federation.column_order[party])] = mask
    return moved


COUNTERPARTS: dict[str, Callable[[Federation, dict[str, Any], int], Mask | None]] = {
    "dcfs": _dcfs,
    "filter": _filter,
    "fpso": _fpso,
    "interaction": _interaction,
    "vfps": _vfps,
}
