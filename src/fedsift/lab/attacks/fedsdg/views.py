# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""FedSDG-FS with parties that keep all they see, and with its protections taken away one by one.

The method itself has no switch that makes it unsafe. What attacks need for comparison is built
here, around the roles: :class:`Weakness` names the variants.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.data import Federation
from fedsift.engine import run_local
from fedsift.lab.attacks.recording import Stage, make_curious
from fedsift.methods.fedsdg import label_holder as fedsdg
from fedsift.methods.fedsdg.feature_holder import FeatureHolder
from fedsift.methods.fedsdg.layer import packed
from fedsift.methods.fedsdg.messages import Params
from fedsift.protocol import Policy

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

ALLOWING = Policy(
    may_reveal=tuple({m.declaration.kind for m in fedsdg.PROTOCOL.messages}), min_security_bits=0
)
"""Lets the paper's protocol run, whose kinds have to be named."""


class Weakness(Enum):
    """A protection that is missing."""

    NONE = "as the method is"
    NO_WEIGHT_NOISE = "the feature holder's share E of the weights starts at zero"
    NO_MASKS = "the label holder's masks r and r' are zero"
    OWN_START = "the feature holder draws all of the starting weights"
    EXACT_OUTPUTS = "feature holders send outputs to the last bit"


@dataclass
class LabelHolderView:
    """What a label holder has after one batch; integers at the layer's scales."""

    rows: Integers
    training: bool
    outputs: Integers
    shares: dict[str, npt.NDArray[Any]]
    masks: dict[str, npt.NDArray[Any]]
    delta: Integers | None = None


@dataclass
class FeatureHolderView:
    """What a feature holder has after one batch; gradients only in training."""

    embedding: Integers
    share: npt.NDArray[Any]
    masked_outputs: npt.NDArray[Any] | None = None
    masked_step: npt.NDArray[Any] | None = None
    gradient: Integers | None = None


@dataclass
class Recording:
    """One run, as each party saw it.

    Parameters
    ----------
    own_half : dict of party to ndarray
        The label holder's half of the starting weights of each party's part.
    """

    params: Params
    modulus: int
    labels: list[LabelHolderView]
    features: dict[str, list[FeatureHolderView]]
    own_half: dict[str, Integers]
    their_half: dict[str, Integers]
    stage: Stage

    def weights(self, party: str, batch: int) -> Integers:
        """W = V - E before a batch, which no party has."""
        theirs = self.features[party][batch].share
        difference = self.labels[batch].shares[party].astype(object) - theirs.astype(object)
        if not self.modulus:
            return np.asarray(difference, dtype=np.int64)
        half = self.modulus // 2
        return np.asarray((difference + half) % self.modulus - half, dtype=np.int64)

    def training_batches(self) -> list[int]:
        """Numbers of the batches that gradients came back for."""
        return [i for i, view in enumerate(self.labels) if view.delta is not None]


@dataclass
class _Notes:
    labels: list[LabelHolderView] = field(default_factory=list)
    own_half: dict[str, Integers] = field(default_factory=dict)


class CuriousLabelHolder(fedsdg.LabelHolder):
    """Follows the protocol and keeps everything it sees."""

    weakness: Weakness
    notes: _Notes

    def watch(self, weakness: Weakness = Weakness.NONE) -> None:
        """Start keeping notes."""
        self.weakness, self.notes = weakness, _Notes()

    @property
    def _stage(self) -> Any:
        return self._watched

    @_stage.setter
    def _stage(self, stage: Any) -> None:
        self._watched = stage
        self._watch_layer(stage.layer)

    def _watch_layer(self, layer: Any) -> None:
        forward, backward, opened = layer.forward, layer.backward, layer.open

        async def open_layer(net: Any, **options: Any) -> None:
            await opened(net, **options)
            for party, evaluator in layer._evaluators.items():
                self._watch_evaluator(party, evaluator)

        async def seen_forward(rows: Integers, net: Any, *, training: bool) -> Floats:
            shares = {p: s.copy() for p, s in layer.weights().items()}
            outputs: Floats = await forward(rows, net, training=training)
            exact = np.ldexp(outputs, self._params.numbers.output_bits).astype(np.int64)
            masks = {p: g.output_mask(len(rows)).copy() for p, g in layer._evaluators.items()}
            self.notes.labels.append(LabelHolderView(rows.copy(), training, exact, shares, masks))
            return outputs

        async def seen_backward(delta: Integers, *rest: Any) -> None:
            self.notes.labels[-1].delta = delta.copy()
            await backward(delta, *rest)

        layer.open, layer.forward, layer.backward = open_layer, seen_forward, seen_backward

    def _watch_evaluator(self, party: str, evaluator: Any) -> None:
        take_share = evaluator.take_share

        def seen_share(sent: Any, own_weights: Integers) -> None:
            own = own_weights * (self.weakness is not Weakness.OWN_START)
            # A refit draws new weights; attacks begin with the first ones.
            self.notes.own_half.setdefault(party, own)
            take_share(sent, own)

        evaluator.take_share = seen_share
        if self.weakness is Weakness.NO_MASKS:
            masks = evaluator._evaluator.masks
            evaluator._evaluator.masks = lambda kind: masks(kind) * 0


class CuriousFeatureHolder(FeatureHolder):
    """Follows the protocol and keeps everything it decrypts."""

    weakness: Weakness
    views: list[FeatureHolderView]
    half: Integers
    gate_start: Floats

    def watch(self, weakness: Weakness = Weakness.NONE) -> None:
        """Start keeping notes."""
        self.weakness, self.views = weakness, []

    def _new_part(self, gate_start: Floats) -> None:
        self.gate_start = gate_start.copy()
        super()._new_part(gate_start)

    @property
    def _layer(self) -> Any:
        return self._watched

    @_layer.setter
    def _layer(self, layer: Any) -> None:
        self._watched = layer
        encrypt, new_share, owner = layer.encrypt, layer.new_share, layer._owner
        input_gradient, outputs = layer.input_gradient, layer.outputs

        def seen_encrypt(embedding: Integers) -> Any:
            self.views.append(FeatureHolderView(embedding.copy(), layer.share.copy()))
            return encrypt(embedding)

        def seen_share(weights: Integers) -> Any:
            if not hasattr(self, "half"):
                self.half = weights.copy()
            if self.weakness is Weakness.NO_WEIGHT_NOISE:
                return packed(weights, owner.modulus)
            return new_share(weights)

        def seen_gradient(*arguments: Any) -> Integers:
            gradient: Integers = input_gradient(*arguments)
            self.views[-1].gradient = gradient.copy()
            return gradient

        def seen_outputs(sealed: Any, embedding: Integers, *rest: Any) -> Any:
            if self.weakness is Weakness.EXACT_OUTPUTS:
                rest = tuple(a * 0 if isinstance(a, np.ndarray) else a for a in rest)
            return outputs(sealed, embedding, *rest)

        def noting(name: str, open_it: Callable[[Any], Any]) -> Callable[[Any], Any]:
            def seen(sealed: Any) -> Any:
                opened = open_it(sealed)
                setattr(self.views[-1], name, opened.copy())
                return opened

            return seen

        layer.encrypt, layer.new_share = seen_encrypt, seen_share
        layer.input_gradient, layer.outputs = seen_gradient, seen_outputs
        owner.decrypt_output = noting("masked_outputs", owner.decrypt_output)
        owner.decrypt_weight_gradient = noting("masked_step", owner.decrypt_weight_gradient)


CURIOUS = {fedsdg.LabelHolder: CuriousLabelHolder, FeatureHolder: CuriousFeatureHolder}


def record(
    federation: Federation,
    params: Params,
    *,
    weakness: Weakness = Weakness.NONE,
    keep_frames: bool = False,
) -> Recording:
    """Train with curious parties and return what each of them has."""
    holder, target = federation.label_holder, federation.target
    assert holder is not None and target is not None  # noqa: S101, PT018 - attacks need a label
    nodes = fedsdg.build_nodes(federation.tables, holder, target, params)
    make_curious(nodes, CURIOUS, weakness)
    protected = params.scheme != "plain"
    outcome = run_local(
        fedsdg.PROTOCOL,
        nodes,
        policies=dict.fromkeys(nodes, ALLOWING),
        keep_frames=keep_frames,
        protected=protected,
    )
    return read(Stage(fedsdg.PROTOCOL, nodes, outcome))


def read(stage: Stage) -> Recording:
    """What the curious parties of a run noted."""
    (labels,) = stage.roles(CuriousLabelHolder).values()
    others = stage.roles(CuriousFeatureHolder)
    return Recording(
        labels._params,
        next(iter(others.values()))._layer._owner.modulus,
        labels.notes.labels,
        {party: role.views for party, role in others.items()},
        labels.notes.own_half,
        {party: role.half for party, role in others.items()},
        stage,
    )
