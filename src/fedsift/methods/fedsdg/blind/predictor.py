# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Secure prediction with a model of the blind protocol: outputs of new rows, opened once.

Every party brings its shares and its own selected columns of the new rows; keys are new. The label
holder learns the network's outputs for the new rows, nobody learns anything else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fedsift.crypto.products.between_two import Small
from fedsift.data.state_files import State
from fedsift.data.table import PartyTable
from fedsift.methods.fedsdg.blind import messages
from fedsift.methods.fedsdg.blind.feature_holder import BlindFeatureHolder
from fedsift.methods.fedsdg.blind.layer import SharedLayer
from fedsift.methods.fedsdg.blind.messages import PREDICTION
from fedsift.methods.fedsdg.blind.numbers import Floats, input_integers, ring
from fedsift.methods.fedsdg.blind.open_layer import OpenLayer
from fedsift.methods.fedsdg.blind.params import BlindParams
from fedsift.methods.fedsdg.inputs import InputEncoder
from fedsift.methods.fedsdg.rows_to_predict import check_rows, party_missing
from fedsift.protocol import DrivingRole, Network, Protocol, RemoteRole, Role


class BlindPredictor(DrivingRole, name=messages.LABEL_HOLDER):
    """The label holder of a trained model; drives a prediction and learns it.

    Parameters
    ----------
    party : str
    table : PartyTable or None
        Own columns of the new rows, if the model uses any.
    n_rows : int
    part : mapping
        This party's part of the model.
    params : BlindParams
    """

    def __init__(
        self,
        party: str,
        table: PartyTable | None,
        n_rows: int,
        part: State,
        params: BlindParams,
    ) -> None:
        self._party = party
        self._n_rows = n_rows
        self._part = part
        self._params = params
        self._widths: dict[str, Small] = {}
        self._gates = np.empty(0, dtype=np.int64)
        self._inputs: Small | None = None
        if part["encoder"] is not None:
            self._take_own(table)

    def _take_own(self, table: PartyTable | None) -> None:
        """Own columns: those that were not selected are closed, and need not be there."""
        part = self._part
        widths = np.array(part["own_widths"], dtype=np.int64)
        feature_of_input = np.repeat(np.arange(len(widths)), widths)
        self._inputs = np.zeros((self._n_rows, len(feature_of_input)), dtype=np.int64)
        chosen = np.asarray(part["own_selected"], dtype=np.int64)
        if len(chosen):
            if table is None:
                raise party_missing(self._party)
            encoder = InputEncoder.from_plain(part["encoder"])
            kept = np.isin(feature_of_input, chosen)
            self._inputs[:, kept] = input_integers(encoder.transform(table), float(part["scale"]))
        self._widths[self._party] = widths
        self._gates = np.asarray(part["own_gates"], dtype=np.int64)

    async def drive(self, net: Network) -> Floats:
        """Class probabilities of shape (n_rows, n_classes), or predicted numbers (n_rows, 1)."""
        parties = self._part["parties"]
        opened = await self._shared(parties, net) if parties else self._alone()
        outputs: Floats = opened.T * np.array(self._part["spread"]) + np.array(self._part["mean"])
        if not self._part["classes"]:
            return outputs
        if outputs.shape[1] == 1:
            outputs = np.concatenate([1.0 - outputs, outputs], axis=1)
        positive = np.clip(outputs, 1e-6, None)
        weights = self._part.get("class_weights")
        if weights:
            positive = positive * np.array(weights)[: positive.shape[1]]
        shares: Floats = positive / positive.sum(axis=1, keepdims=True)
        return shares[:, : max(1, len(self._part["classes"]))]

    async def _shared(self, parties: Sequence[str], net: Network) -> Floats:
        part, params = self._part, self._params
        for party in parties:
            self._widths[party] = np.array(part["widths"][party], dtype=np.int64)
        targets = np.zeros((params.n_outputs, self._n_rows), dtype=np.int64)
        layer = SharedLayer(params, self._party, self._widths, targets, self._inputs, self.clock)
        replies = await net.ask(messages.FEATURE_HOLDER, messages.MaskKeyWanted(), messages.MaskKey)
        keys = {party: reply.key for party, reply in zip(parties, replies, strict=True)}
        none = ring().of(np.zeros((params.hidden, 1), dtype=np.int64))
        gated = {p: share if share.shape[2] else none for p, share in part["gated"].items()}
        saved = {**part["layer"], "weights": {**part["layer"]["weights"], **gated}}
        await layer.open(keys, net, saved)
        layer.use_gated(gated)
        size = params.batch_size
        parts = [
            await layer.predict(np.arange(start, min(start + size, self._n_rows)), net)
            for start in range(0, self._n_rows, size)
        ]
        return np.concatenate(parts, axis=1)

    def _alone(self) -> Floats:
        assert self._inputs is not None  # noqa: S101 - somebody has columns
        params, widths = self._params, self._widths[self._party]
        saved = self._part["layer"]
        targets = np.zeros((params.n_outputs, self._n_rows), dtype=np.int64)
        features = np.repeat(np.arange(len(widths)), widths)
        layer = OpenLayer(
            self._inputs, np.asarray(saved["weights"]), targets, features, params.scales
        )
        layer.load(saved)
        outputs = layer.outputs(np.arange(self._n_rows), self._gates)
        return np.asarray(outputs / 2.0**params.scales.outputs)


PROTOCOL = Protocol(name="fedsdg", messages=PREDICTION, roles=(BlindPredictor, BlindFeatureHolder))


def build_nodes(
    tables: Mapping[str, PartyTable],
    label_holder: str,
    parts: Mapping[str, State],
    params: BlindParams,
) -> dict[str, Sequence[Role]]:
    """One node per party that the model needs, each with its own part and its own new rows."""
    needed = [party for party in tables if party != label_holder]
    if label_holder in parts:
        needed = list(parts[label_holder]["parties"])
    n_rows = check_rows(tables, needed)
    nodes: dict[str, Sequence[Role]] = {label_holder: (RemoteRole(BlindPredictor),)}
    if label_holder in parts:
        own = tables.get(label_holder)
        nodes[label_holder] = (
            BlindPredictor(label_holder, own, n_rows, parts[label_holder], params),
        )
    for party in needed:
        if party not in parts:
            nodes[party] = (RemoteRole(BlindFeatureHolder),)
            continue
        nodes[party] = (BlindFeatureHolder(tables[party], params, len(needed), part=parts[party]),)
    return nodes
