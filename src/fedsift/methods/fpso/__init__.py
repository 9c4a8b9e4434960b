# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""FPSO-FS: particle swarms search a common subset, for parties with different rows."""

from fedsift.methods.fpso.parameters import PARAMETERS
from fedsift.methods.spec import Attacks, Demo, MethodSpec, Missing, Pooled

METHOD = MethodSpec(
    name="fpso",
    summary="Searches a common subset with particle swarms, judged by accuracy at every party.",
    selects="features",
    selector="fedsift.methods.fpso.selector:FPSOSelector",
    protocols={"horizontal": "fedsift.methods.fpso.third_party:PROTOCOL"},
    parameters=PARAMETERS,
    packages=(),
    neutral={"horizontal": "third-party"},
    cost_model="fedsift.methods.fpso.costs:expect_fpso",
    texts="fedsift.methods.fpso.report:TEXTS",
    pooled=Pooled("fedsift.lab.pooled:select_fpso"),
    demo=Demo("horizontal", {"n_particles": 6, "n_iterations": 4, "n_rounds": 2}),
    attacks=Attacks(
        "fedsift.lab.attacks.fpso:ATTACKS",
        "fedsift.lab.attacks.fpso:attack_run",
        "fedsift.lab.attacks.fpso:CURIOUS",
    ),
    training=Missing("Its classifiers stay at the parties and are not kept."),
    without_label=Missing("Subsets are judged by how well they predict the label."),
)
