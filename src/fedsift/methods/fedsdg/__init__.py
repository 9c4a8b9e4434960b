# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""FedSDG-FS: a gate per feature, opened and closed while the parties train a network."""

from fedsift.methods.fedsdg.parameters import PARAMETERS
from fedsift.methods.spec import Attacks, Demo, MethodSpec, Missing, Training

METHOD = MethodSpec(
    name="fedsdg",
    summary="Opens and closes a gate per feature while the parties train a network together.",
    selects="features",
    selector="fedsift.methods.fedsdg.selector:FedSDGSelector",
    protocols={"vertical": "fedsift.methods.fedsdg.blind.messages:LISTED"},
    parameters=PARAMETERS,
    packages=(),
    neutral={},
    cost_model="fedsift.methods.fedsdg.costs:expect_fedsdg",
    texts="fedsift.methods.fedsdg.report:TEXTS",
    pooled=Missing(
        "Training the same network on pooled columns is another method; the peer 'stg' is that."
    ),
    demo=Demo("vertical", {"outputs": 4, "max_epochs": 4}),
    attacks=Attacks(
        "fedsift.lab.attacks.fedsdg:ATTACKS",
        "fedsift.lab.attacks.fedsdg:attack_run",
        "fedsift.lab.attacks.fedsdg:CURIOUS",
        needs_frames=False,
    ),
    training=Training(
        {"gates": "none", "init": "constant"},
        (
            "n_features_to_select",
            "choose",
            "lam",
            "lam_embedding",
            "sigma",
            "init",
            "gates",
            "gate_learning_rate",
            "refit",
        ),
    ),
    without_label=Missing("The network learns to predict the label."),
)
