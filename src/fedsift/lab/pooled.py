# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What each method would select if everybody showed everything: its counterpart on open data.

These are oracles for a simulation, not protocols. A vertical filter must agree with its own to the
last feature; elsewhere the difference is the price of privacy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from fedsift.data import Federation, PartyTable, Target
from fedsift.lab.compare.cases import Floats, Integers, Mask, joint_target
from fedsift.methods.base import number_to_select
from fedsift.methods.dcfs import settings as dcfs_settings
from fedsift.methods.dcfs.unsupervised import local_selection
from fedsift.methods.filter import features as filter_features
from fedsift.methods.filter import pooled as filter_pooled
from fedsift.methods.filter.messages import way_of
from fedsift.methods.filter.ranking import Params as FilterParams
from fedsift.methods.filter.ranking import plain_scores, rank
from fedsift.methods.filter.significance import own_evidence, p_values, with_tests
from fedsift.methods.fpso import local_search as fpso_local
from fedsift.methods.interaction.measures import oracle
from fedsift.methods.interaction.ranking import classes_of
from fedsift.methods.registry import method_named
from fedsift.methods.spec import Missing, Pooled
from fedsift.methods.vfps.distances import standardised
from fedsift.methods.vfps.knn_mi import Alike, estimate, exact_terms
from fedsift.methods.vfps.search import MOST_SUBSETS
from fedsift.protocol.policy import SMALLEST_CLASS

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
    if not has_counterpart(method, parameters):
        return None
    found = method_named(method)
    assert isinstance(found.pooled, Pooled)  # noqa: S101 - it has a counterpart
    select = found.load(found.pooled.select)
    mask: Mask | None = select(federation, {**found.defaults, **parameters}, seed)
    return mask


def has_counterpart(method: str, parameters: Mapping[str, Any]) -> bool:
    """Whether :func:`pooled_selection` has an answer."""
    pooled = method_named(method).pooled
    if isinstance(pooled, Missing):
        return False
    return not any(parameters.get(name) == value for name, value in pooled.unless.items())


def stacked(federation: Federation) -> PartyTable:
    """The rows of all parties of a horizontal federation in one table."""
    tables = list(federation.tables.values())
    columns = [
        replace(column, values=np.concatenate([table.columns[i].values for table in tables]))
        for i, column in enumerate(tables[0].columns)
    ]
    return PartyTable("all parties", tuple(columns))


def select_filter(federation: Federation, given: dict[str, Any], seed: int) -> Mask:
    """The features with the best scores on open data."""
    by_fdr = given["n_features_to_select"] == "fdr"
    wanted = federation.n_features
    if not by_fdr:
        wanted = number_to_select(given["n_features_to_select"], wanted)
    score, horizontal = str(given["score"]), federation.setting == "horizontal"
    opened = horizontal or score in ("mi", "iv") or given["disclose"] == "counts"
    params = FilterParams(
        score=score,
        bins=given["bins"],
        min_bin_size=int(given["min_bin_size"]),
        min_class_size=SMALLEST_CLASS,
        disclose="counts" if opened else "scores",
        small_cells=given["disclose"] != "scores",
        fdr=given["fdr"] if by_fdr else None,
        n_permutations=int(given["n_permutations"]),
        seed=seed,
    )
    tables = federation.tables
    target = joint_target(federation)
    if horizontal:
        tables = {next(iter(tables)): stacked(federation)}
        ((party, table),) = tables.items()
        found = filter_pooled.pooled_scores(table, target, params)
        scores = {party: found.values}
        tested = {} if found.p_values is None else {party: found.p_values}
    else:
        as_frequencies = all(filter_features.are_frequencies(table) for table in tables.values())
        scores = {
            party: plain_scores(table, target, params, frequencies=as_frequencies)
            for party, table in tables.items()
        }
        tested = _tested(tables, target, scores, params, as_frequencies) if by_fdr else {}
    ranking = with_tests(rank(scores, params.score, wanted), tested, params)
    names = {
        party: [tables[party].feature_names[i] for i in chosen]
        for party, chosen in ranking.selected.items()
    }
    return federation.original_support(names)


def _tested(
    tables: Mapping[str, PartyTable],
    target: Target | None,
    scores: Mapping[str, Floats],
    params: FilterParams,
    frequencies: bool,
) -> dict[str, Floats]:
    """P-values of all columns on open data."""
    assert target is not None  # noqa: S101 - scores that are tested have a target
    way = way_of(params.score, params.disclose, frequencies=frequencies)
    rng = np.random.default_rng(params.seed)
    evidence = {
        party: own_evidence(
            table, target, scores[party], params, frequencies=frequencies, way=way, rng=rng
        )
        for party, table in tables.items()
    }
    return p_values(evidence)


def select_interaction(federation: Federation, given: dict[str, Any], seed: int) -> Mask | None:  # noqa: ARG001
    """The first features of the ranking on open data."""
    if federation.target is None:
        return None
    wanted = number_to_select(given["n_features_to_select"], federation.n_features)
    tables = federation.tables.values()
    columns = [column for table in tables for column in table.columns]
    place = np.concatenate([federation.column_order[party] for party in federation.tables])
    codes = classes_of(federation.target, _TARGET_BINS)
    order = oracle(columns, codes, given["measure"], wanted, given["pair_start"]).order
    mask = np.zeros(federation.n_features, dtype=bool)
    mask[place[list(order)]] = True
    return mask


def select_vfps(federation: Federation, given: dict[str, Any], seed: int) -> Mask | None:
    """The group of participants with the largest information, all groups compared."""
    target, parties = federation.target, list(federation.tables)
    own = [p for p in parties if given["keep_own"] and p == federation.label_holder]
    others = [p for p in parties if p not in own]
    wanted = given["n_participants"]
    if not isinstance(wanted, int):
        wanted = min(len(parties) - 1, max(1, round(wanted * len(others))))
    groups = [(*own, *some) for some in combinations(others, wanted)]
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


def select_dcfs(federation: Federation, given: dict[str, Any], seed: int) -> Mask:  # noqa: ARG001
    """The features with the best weights on pooled rows."""
    wanted = number_to_select(given["n_features_to_select"], federation.n_features)
    shared = {name: given[name] for name in ("alpha", "beta", "n_components")}
    return _in_place(federation, best_of(pooled_scores(federation, **shared), wanted))


def pooled_scores(federation: Federation, **settings: Any) -> Floats:
    """AFS of the paper of DCFS: scores from all rows in one place, every column of equal spread."""
    tables = federation.tables.values()
    rows = np.concatenate([dcfs_settings.numbers_of(table) for table in tables])
    spread = rows.std(axis=0)
    scaled = (rows - rows.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return local_selection(scaled, **settings)


def best_of(weights: Floats, n_features_to_select: int) -> Mask:
    """The features with the highest weights; earlier ones where weights are equal."""
    mask = np.zeros(len(weights), dtype=bool)
    mask[np.argsort(-weights, kind="stable")[:n_features_to_select]] = True
    return mask


def select_fpso(federation: Federation, given: dict[str, Any], seed: int) -> Mask:
    """The subset that one swarm finds on pooled rows."""
    wanted = given["n_features_to_select"]
    limit = None if wanted == "auto" else number_to_select(wanted, federation.n_features)
    names = ("n_particles", "n_iterations", "n_rounds", "k", "classifier", "decoding")
    params = fpso_local.Params(
        max_features=limit, seed=seed, **{name: given[name] for name in names}
    )
    return _in_place(federation, pooled_subset(federation, params))


def pooled_subset(federation: Federation, params: fpso_local.Params) -> Mask:
    """One search on the rows of all parties together, as if there were no privacy to keep."""
    X = np.concatenate([fpso_local.numbers_of(table) for table in federation.tables.values()])
    targets = [fpso_local.classes_of(party, federation.targets) for party in federation.tables]
    y = np.concatenate([target.codes for target in targets])
    search = fpso_local.LocalSearch.over_arrays(X, y, params, "all parties")
    return search.run_alone(params).mask


def _in_place(federation: Federation, mask: Mask) -> Mask:
    """From the order of a party's table to that of the original columns."""
    party = next(iter(federation.tables))
    moved = np.zeros(federation.n_features, dtype=bool)
    moved[list(federation.column_order[party])] = mask
    return moved
