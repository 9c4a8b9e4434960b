# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Cost of the filters, vertical and horizontal: a counted run, and work on all rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from fedsift.costs.counting import count_run, sample_federation
from fedsift.costs.counts import Counts, Expected
from fedsift.data import Federation
from fedsift.data.federation import is_remote, local_only
from fedsift.data.table import Column
from fedsift.errors import PolicyViolation
from fedsift.maths.edges import EDGE_BITS
from fedsift.methods.execution import policies_for
from fedsift.methods.filter import features as local
from fedsift.methods.filter.label_holder import build_nodes
from fedsift.methods.filter.ranking import Params
from fedsift.protocol.policy import OPEN


def expect_filter(selector: Any, federation: Federation, params: Params) -> Expected:
    """Messages and encryption of a run on a few rows, and what all rows add."""
    few = _few_rows(federation, federation.n_rows, params)
    if federation.setting == "horizontal":
        counts = _count_pooled(selector, federation, few)
    else:
        counts = _count_any_class(selector, few)
    if params.releases:  # a choice looks at every feature about once, and at each quickly
        looks = params.n_features_to_select * federation.n_features
        counts.do("decrypt", "noise number", looks / 5)
    _count_local_work(counts, federation, federation.n_rows, params)
    return Expected(counts)


def _count_pooled(selector: Any, federation: Federation, few: Federation) -> Counts:
    """Rounds depend on where the rows lie: those that are here, or else a sample's."""
    here = not any(is_remote(table) for table in federation.tables.values())
    try:
        chosen = clone(selector).set_params(checkpoint=None)
        return count_run(chosen._prepare(federation if here else few, simulated=True).nodes)
    except PolicyViolation:  # of labels, which the run itself looks at
        return _count_any_class(selector, few)


def _count_any_class(selector: Any, few: Federation) -> Counts:
    """On rows whose classes may be small."""
    given = policies_for(selector.policy, few.parties)
    any_size = {p: replace(given.get(p, OPEN), min_class_size=1) for p in few.parties}
    chosen = clone(selector).set_params(policy=any_size)
    return count_run(chosen._prepare(few, simulated=True).nodes)


def count_scores(federation: Federation, n_rows: int, params: Params) -> Counts:
    """The scores of a vertical federation alone, on so many of its rows."""
    few = _few_rows(federation, n_rows, params)
    params = replace(params, min_class_size=1)  # classes of made-up rows may be small
    holder = federation.label_holder or federation.parties[0]
    nodes = build_nodes(few.tables, holder, few.target, n_rows, params)
    counts = count_run(nodes, "feature_scores")
    _count_local_work(counts, federation, n_rows, params)
    return counts


def _few_rows(federation: Federation, n_rows: int, params: Params) -> Federation:
    """A sample in which no bin is so small that it is merged."""
    columns = [c for table in local_only(federation.tables).values() for c in table.columns]
    choices = {column.name: local.bin_choice(params.bins, column.name) for column in columns}
    n_bins = max([10, *(len(column.categories) for column in columns)])
    for choice in choices.values():
        n_bins = max(n_bins, choice if isinstance(choice, int) else len(choice) + 1)

    def points(column: Column) -> Sequence[float] | None:
        """A number in every bin between given edges."""
        edges = choices.get(column.name, 10)
        if isinstance(edges, int):
            return None
        return [edges[0] - 1, *(edges[:-1] + np.diff(edges) / 2), edges[-1] + 1]

    targets = [t for t in (federation.target, *federation.targets.values()) if t is not None]
    n_classes = max((len(t.classes) for t in targets if not is_remote(t)), default=1)
    few = 2 * max(params.min_bin_size, n_classes, params.target_bins) * (n_bins + 1)
    vertical = federation.setting == "vertical"
    return sample_federation(federation, few, points, n_rows if vertical else None)


def _count_local_work(counts: Counts, federation: Federation, n_rows: int, params: Params) -> None:
    """Work on all rows that needs no other party."""
    binned = params.score in local.BINNED_SCORES
    tables = federation.tables
    if federation.setting == "vertical":
        for party, table in tables.items():
            holder = party == (federation.label_holder or federation.parties[0])
            if holder or binned:
                unit = "score cell" if holder else "bin cell"
                counts.do("prepare", unit, n_rows * table.n_columns)
        return
    cells = sum(table.n_rows * table.n_columns for table in tables.values())
    frequencies = all(local.are_frequencies(table) for table in tables.values())
    if not binned or (params.score == "chi2" and frequencies and not params.noisy):
        counts.do("prepare", "moment cell", cells)
        return
    counts.do("prepare", "sort cell", cells)
    counts.do("prepare", "score cell", cells)
    if not params.fixed_edges:
        target = next(iter(federation.targets.values()))
        numbers = sum(c.kind == "numeric" for c in next(iter(tables.values())).columns)
        numbers += target is not None and target.kind == "numbers"
        counts.do("prepare", "search column", EDGE_BITS * len(tables) * numbers)
