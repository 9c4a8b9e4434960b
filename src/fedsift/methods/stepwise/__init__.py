# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Stepwise selection: columns that add to those selected before, how many, and how sure."""

from fedsift.methods.spec import Attacks, Demo, MethodSpec, Missing, Pooled
from fedsift.methods.stepwise.parameters import PARAMETERS

METHOD = MethodSpec(
    name="stepwise",
    summary="Selects features one by one by what each adds to those it has, and stops at chance.",
    selects="features",
    selector="fedsift.methods.stepwise.selector:StepwiseSelector",
    protocols={
        "vertical": "fedsift.methods.stepwise.label_holder:PROTOCOL",
        "horizontal": "fedsift.methods.stepwise.coordinator:PROTOCOL",
    },
    parameters=PARAMETERS,
    packages=(),
    neutral={"horizontal": "coordinator"},
    cost_model="fedsift.methods.stepwise.costs:expect_stepwise",
    texts="fedsift.methods.stepwise.report:TEXTS",
    pooled=Pooled("fedsift.methods.stepwise.pooled:select_pooled"),
    demo=Demo("vertical", {"n_features_to_select": 3}),
    attacks=Attacks(
        "fedsift.lab.attacks.stepwise:ATTACKS",
        "fedsift.lab.attacks.stepwise:attack_run",
    ),
    training=Missing("It selects features and trains no model."),
    without_label=Missing("What a column adds, it adds to what is known of the label."),
)
