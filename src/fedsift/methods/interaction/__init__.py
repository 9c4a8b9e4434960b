# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Interaction-based selection: relevance and pairwise interaction of features."""

from fedsift.methods.interaction.parameters import PARAMETERS
from fedsift.methods.spec import Attacks, Demo, MethodSpec, Missing, Pooled

METHOD = MethodSpec(
    name="interaction",
    summary="Ranks features by relevance and by how they interact with those already selected.",
    selects="features",
    selector="fedsift.methods.interaction.selector:InteractionSelector",
    protocols={"vertical": "fedsift.methods.interaction.label_owner:PROTOCOL"},
    parameters=PARAMETERS,
    packages=(),
    neutral={"vertical": "cloud"},
    cost_model="fedsift.methods.interaction.costs:expect_interaction",
    texts="fedsift.methods.interaction.report:TEXTS",
    pooled=Pooled("fedsift.lab.pooled:select_interaction", {"n_features_to_select": "auto"}),
    demo=Demo("vertical", {"n_features_to_select": 3}),
    attacks=Attacks(
        "fedsift.lab.attacks.interaction:ATTACKS",
        "fedsift.lab.attacks.interaction:attack_run",
    ),
    training=Missing("It selects features and trains no model."),
    without_label=Missing("Relevance is relevance for the label."),
)
