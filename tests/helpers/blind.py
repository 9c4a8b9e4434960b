"""Small blind trainings, and the same training on open integers."""

from __future__ import annotations

import asyncio

import numpy as np

from fedsift.engine import run_local
from fedsift.methods.fedsdg.blind import label_holder as blind
from fedsift.methods.fedsdg.blind.columns import starting_weights
from fedsift.methods.fedsdg.blind.gates import Gates
from fedsift.methods.fedsdg.blind.numbers import secret_factors
from fedsift.methods.fedsdg.blind.open_layer import OpenLayer
from fedsift.methods.fedsdg.blind.params import BlindParams
from fedsift.methods.fedsdg.blind.training import BlindTraining
from fedsift.methods.fedsdg.row_splits import validation_split

SMALL = {
    "scheme": "plain", "seed": 0, "init": "constant", "hidden": 4, "n_openings": 2, "n_blocks": 2,
    "n_settling": 1, "batch_size": 32, "rate_bits": 6, "lam": 0.02,
}  # fmt: skip


def params(**settings):
    return BlindParams(**{**SMALL, **settings})


def train(federation, settings=None, nodes=None, **options):
    """One run with all frames kept: outcome and nodes."""
    settings = settings or params()
    made = blind.build_nodes(
        federation.tables, federation.label_holder, federation.target, settings
    )
    made.update(nodes or {})
    options.setdefault("protected", settings.scheme != "plain")
    return run_local(blind.PROTOCOL, made, keep_frames=True, **options), made


def _factors(layer, roles, settings):
    """The secret factors of one opening after the other, as the owners draw them."""
    opening = 0

    def factors(n_features):
        nonlocal opening
        opening += 1
        names = {party: party for party in layer.parties}
        drawn = [
            secret_factors(
                settings.seed, names.get(party, f"{layer.helper} (helper)"), opening, len(widths)
            )
            for party, widths in layer._widths.items()
        ]
        return np.concatenate(drawn)

    return factors


async def _nothing(net):
    """No checkpoints."""


def repeated_openly(nodes, federation, settings):
    """The training of these finished nodes once more, on open integers."""
    roles = {party: node[0] for party, node in nodes.items()}
    holder = federation.label_holder
    layer = roles[holder]._layer
    inputs, weights, features, first = [], [], [], 0
    for party in layer._widths:
        own = party == holder
        role = roles[party]
        table = role._own_inputs if own else role._inputs
        encoder = role._own_encoder if own else role._encoder
        shape = (settings.hidden, table.shape[1])
        names = (f"{holder} (labels) for {party}", f"{layer.helper} (helper)" if own else party)
        halves = [starting_weights(settings, name, shape, layer.n_features) for name in names]
        inputs.append(table)
        weights.append(sum(halves))
        features.append(encoder.feature_of_input + first)
        first += len(encoder.names)
    rng = np.random.default_rng([settings.seed, *(holder + " (labels)").encode()])
    target = federation.target
    strata = target.codes if target.kind == "classes" else np.zeros(target.n_rows, np.int64)
    training, validation = validation_split(strata, settings.validation, rng)
    openly = OpenLayer(
        np.concatenate(inputs, axis=1),
        np.concatenate(weights, axis=1),
        roles[holder]._targets,
        np.concatenate(features),
        settings.scales,
    )
    openly.factors = _factors(layer, roles, settings)
    start = np.full(first, 0.5)
    gates = Gates(start, settings.sigma, settings.lam, settings.gate_learning_rate)
    variance = roles[holder]._training_phase.variance
    phase = BlindTraining(openly, settings, gates, training, validation, variance, rng)
    asyncio.run(phase.run(None, lambda: False, None, _nothing))
    return phase
