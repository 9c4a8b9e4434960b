# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""VF-PS: selects participants by the mutual information of their columns with the label."""

from fedsift.methods.spec import Attacks, Demo, MethodSpec, Missing, Pooled
from fedsift.methods.vfps.parameters import PARAMETERS

METHOD = MethodSpec(
    name="vfps",
    summary="Selects participants by what their columns tell about the label beyond one's own.",
    selects="participants",
    selector="fedsift.methods.vfps.selector:VFPSSelector",
    protocols={"vertical": "fedsift.methods.vfps.leader:PROTOCOL"},
    parameters=PARAMETERS,
    packages=(),
    neutral={"vertical": "aggregator"},
    cost_model="fedsift.methods.vfps.costs:expect_vfps",
    texts="fedsift.methods.vfps.report:TEXTS",
    pooled=Pooled("fedsift.lab.pooled:select_vfps", unless={"n_participants": "auto"}),
    demo=Demo("vertical", {"n_participants": 1, "n_queries": 20}, n_parties=4),
    attacks=Attacks(
        "fedsift.lab.attacks.vfps:ATTACKS",
        "fedsift.lab.attacks.vfps:attack_run",
        "fedsift.lab.attacks.vfps:CURIOUS",
    ),
    training=Missing("It selects participants and trains no model."),
    without_label=Missing("Participants are judged by what they tell about the label."),
)
