# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Filters: rank features by one score, for parties with different columns or different rows."""

from fedsift.methods.filter.parameters import PARAMETERS
from fedsift.methods.spec import Attacks, Demo, MethodSpec, Missing, Pooled

METHOD = MethodSpec(
    name="filter",
    summary="Ranks features by one score: gini, f, mi, chi2, iv or variance.",
    selects="features",
    selector="fedsift.methods.filter.selector:FilterSelector",
    protocols={
        "vertical": "fedsift.methods.filter.label_holder:PROTOCOL",
        "horizontal": "fedsift.methods.filter.coordinator:PROTOCOL",
    },
    parameters=PARAMETERS,
    packages=(),
    neutral={"horizontal": "coordinator"},
    cost_model="fedsift.methods.filter.costs:expect_filter",
    texts="fedsift.methods.filter.report:TEXTS",
    pooled=Pooled("fedsift.lab.pooled:select_filter"),
    demo=Demo("vertical", {"score": "gini", "n_features_to_select": 5}),
    attacks=Attacks(
        "fedsift.lab.attacks.repeats:ATTACKS",
        "fedsift.lab.attacks.filter:attack_run",
    ),
    training=Missing("It selects features and trains no model."),
    without_label={"score": "variance"},
)
