# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""DCFS: unsupervised selection through anchor data, for parties with different rows."""

from fedsift.methods.dcfs.parameters import PARAMETERS
from fedsift.methods.spec import Attacks, Demo, MethodSpec, Missing, Pooled

METHOD = MethodSpec(
    name="dcfs",
    summary="Unsupervised: keeps the structure of all parties' rows, aligned through anchor data.",
    selects="features",
    selector="fedsift.methods.dcfs.selector:DCFSSelector",
    protocols={"horizontal": "fedsift.methods.dcfs.coordinator:PROTOCOL"},
    parameters=PARAMETERS,
    packages=(),
    neutral={"horizontal": "coordinator"},
    cost_model="fedsift.methods.dcfs.costs:expect_dcfs",
    texts="fedsift.methods.dcfs.report:TEXTS",
    pooled=Pooled("fedsift.lab.pooled:select_dcfs"),
    demo=Demo("horizontal", {"n_features_to_select": 5}),
    attacks=Attacks(
        "fedsift.lab.attacks.dcfs:ATTACKS",
        "fedsift.lab.attacks.dcfs:attack_run",
    ),
    training=Missing("It selects features and trains no model."),
    without_label={},
)
