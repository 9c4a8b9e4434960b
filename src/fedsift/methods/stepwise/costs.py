# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Cost of stepwise selection: its own driver, counted on few rows that stand for all."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone

from fedsift.costs.counting import Nodes, count_run, extrapolate, sample_federation
from fedsift.costs.counts import Counts, Expected
from fedsift.data import Federation
from fedsift.data.federation import local_only
from fedsift.methods.stepwise.messages import AUTO, FDR, Params

_FEW_ROWS = 100
_MOST_ROUNDS = 24
"""Rounds that are run where there are more of them, or where the data decides how many."""


def expect_stepwise(selector: Any, federation: Federation, params: Params) -> Expected:
    """Count a run that adds the wanted number of features, or several numbers."""
    columns = [c for table in local_only(federation.tables).values() for c in table.columns]
    most_categories = max([1, *(len(column.categories) for column in columns)])
    n_few = max(_FEW_ROWS, 2 * params.min_class_size * (most_categories + 1))
    vertical = federation.setting == "vertical"
    if params.knockoffs and not vertical:  # knockoffs need two rows for every column
        of_one = next(iter(federation.tables.values())).columns
        n_few += 2 * sum(len(column.categories) + 2 for column in of_one)
    few = sample_federation(federation, n_few, stands_for=federation.n_rows if vertical else None)
    own = federation.tables.get(federation.label_holder or "")
    n_kept = len(params.adjust)
    if vertical and params.keep_own and own is not None:
        n_kept = own.n_columns
    n_candidates = federation.n_features - n_kept

    def nodes(n_selected: int | str) -> Nodes:
        run = clone(selector).set_params(n_features_to_select=n_selected or AUTO, checkpoint=None)
        roles: Nodes = run._prepare(few, simulated=True).nodes
        return roles

    def count(n_selected: int) -> Counts:
        found = count_run(nodes(min(n_selected, _MOST_ROUNDS)))
        if n_selected > _MOST_ROUNDS:  # every round is like the one before
            one = count_run(nodes(_MOST_ROUNDS - 1))
            found = extrapolate(one, found, n_selected - _MOST_ROUNDS + 2)
        found.do("prepare", "moment cell", federation.n_rows * federation.n_features)
        return found

    if params.knockoffs:
        remark = "The data decides how many columns enter; as many are assumed as in pure chance."
        return Expected(count_run(nodes(FDR)), remarks=(remark,))
    if params.n_features_to_select != AUTO:
        return Expected(count(int(params.n_features_to_select)))
    shuffled = count_run(nodes(AUTO), "products_with_shuffles")
    expected = max(1, min(10, n_candidates // 2))
    courses = count(expected), count(1), count(n_candidates)
    for counts in courses:
        counts.add(shuffled)
    remark = f"The data decides how many features are added; {expected} are assumed."
    return Expected(*courses, (remark,))
