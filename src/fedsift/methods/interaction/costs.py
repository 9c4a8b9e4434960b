# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Cost of interaction-based selection: a run on few rows, counted with the plan for all rows."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone

from fedsift.costs.counting import Nodes, count_run, extrapolate, sample_federation
from fedsift.costs.counts import Counts, Expected
from fedsift.crypto.products.plan import ProductPlan, plan_products
from fedsift.data import Federation
from fedsift.methods.interaction import measures
from fedsift.methods.interaction.fixed_point import scales_of
from fedsift.methods.interaction.messages import Params

_FEW_ROWS = 40
_MOST_ROUNDS = 24
"""Rounds that are run where the data decides how many there are."""


def expect_interaction(selector: Any, federation: Federation, params: Params) -> Expected:
    """Count a run that selects the wanted number of features, or several numbers."""
    binary = measures.is_binary(params.measure)
    few = sample_federation(federation, _FEW_ROWS, lambda _: (0.0, 1.0) if binary else None)
    bits = scales_of(params.measure, federation.n_rows).result_bits

    def full_plan(plan: ProductPlan) -> ProductPlan:
        return plan_products(federation.n_rows, plan.n_classes, plan.party_features, bits)

    def nodes(n_selected: int) -> Nodes:
        run = clone(selector).set_params(n_features_to_select=n_selected)
        roles: Nodes = run._prepare(few, simulated=True).nodes
        return roles

    def count(n_selected: int) -> Counts:
        return count_run(nodes(n_selected), full_plan=full_plan)

    if params.n_features_to_select is not None:
        return Expected(count(params.n_features_to_select))
    alone = nodes(1)
    lowest = count_run(alone, full_plan=full_plan)
    shuffled = count_run(alone, "_threshold", full_plan)
    n_features = federation.n_features
    expected, most = max(1, min(10, n_features // 2)), min(_MOST_ROUNDS, n_features)
    highest = count(most)
    if most < n_features:  # later rounds are no dearer
        highest = extrapolate(count(most - 1), highest, n_features - most + 2)
    courses = count(expected), lowest, highest
    for counts in courses:
        counts.add(shuffled)
    remark = f"The data decides how many features are selected; {expected} are assumed."
    return Expected(*courses, (remark,))
