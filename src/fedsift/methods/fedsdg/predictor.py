# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Secure prediction with a trained FedSDG-FS model: Algorithm 2 alone.

Every party brings its own part of the model and its own columns of the new rows; keys are new. The
label holder learns the predictions, and of the feature holders what it learned in training: outputs
of the interactive layer for weights it does not know, summed over feature holders. Embedding
columns whose gates are closed do not travel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from fedsift.data.state_files import State
from fedsift.data.table import PartyTable
from fedsift.methods.fedsdg.feature_holder import FeatureHolder
from fedsift.methods.fedsdg.inputs import InputEncoder
from fedsift.methods.fedsdg.interactive_layer import InteractiveLayer
from fedsift.methods.fedsdg.layer_numbers import Floats
from fedsift.methods.fedsdg.local_part import LocalPart, MakeEmbeddings, PartData
from fedsift.methods.fedsdg.messages import LABEL_HOLDER, PREDICTION, Params
from fedsift.methods.fedsdg.rows_to_predict import check_rows, party_missing
from fedsift.methods.fedsdg.split_network import MakeTop
from fedsift.methods.fedsdg.top import new_top
from fedsift.protocol import DrivingRole, Network, Protocol, RemoteRole, Role


class Predictor(DrivingRole, name=LABEL_HOLDER):
    """The label holder of a trained model; drives a prediction and learns it.

    Parameters
    ----------
    party : str
    table : PartyTable or None
        Own columns of the new rows, if the model uses any.
    n_rows : int
    part : mapping
        This party's part of the model.
    params : Params
    """

    def __init__(
        self,
        party: str,
        table: PartyTable | None,
        n_rows: int,
        part: State,
        params: Params,
        *,
        make: MakeEmbeddings | None = None,
        make_top: MakeTop | None = None,
    ) -> None:
        self._n_rows = n_rows
        self._part = part
        self._params = params
        self._layer = InteractiveLayer(params, part["parties"], self.clock)
        if part["encoder"] is not None:
            if table is None:
                raise party_missing(party)
            encoder = InputEncoder.from_plain(part["encoder"])
            start = np.zeros(len(encoder.names)) if part["gated"] else None
            own = LocalPart(encoder, start, params, None if make is None else make(party), 0)
            own.load_model(part["own"])
            self._layer.add_own(own, PartData(encoder, table))
        self._top = new_top(params, len(part["classes"]), 0, make_top)
        self._top.eval()
        self._top.load_state_dict(part["top"])

    async def drive(self, net: Network) -> Floats:
        """Class probabilities of shape (n_rows, n_classes), or predicted numbers (n_rows, 1)."""
        torch.set_num_threads(1)
        await self._layer.open(net)
        self._layer.load_weights(self._part["weights"])
        size = self._params.batch_size
        parts = []
        for start in range(0, self._n_rows, size):
            rows = np.arange(start, min(start + size, self._n_rows))
            outputs = await self._layer.forward(rows, net, training=False)
            with torch.no_grad():
                parts.append(self._top(torch.tensor(outputs, dtype=torch.float32)))
        results = torch.cat(parts).to(torch.float64)
        if self._part["classes"]:
            probabilities: Floats = torch.softmax(results, dim=1).numpy()
            return probabilities
        numbers: Floats = results.numpy() * self._part["scale"] + self._part["mean"]
        return numbers


PROTOCOL = Protocol(name="fedsdg", messages=PREDICTION, roles=(Predictor, FeatureHolder))


def build_nodes(
    tables: Mapping[str, PartyTable],
    label_holder: str,
    parts: Mapping[str, State],
    params: Params,
    *,
    make: MakeEmbeddings | None = None,
    make_top: MakeTop | None = None,
) -> dict[str, Sequence[Role]]:
    """One node per party that the model needs, each with its own part and its own new rows.

    Parties whose part is not here are at other sites; without the label holder's it is not known
    here who is in the model, and all parties with a table are meant to be.
    """
    needed = [party for party in tables if party != label_holder]
    if label_holder in parts:
        needed = list(parts[label_holder]["parties"])
    n_rows = check_rows(tables, needed)
    nodes: dict[str, Sequence[Role]] = {label_holder: (RemoteRole(Predictor),)}
    if label_holder in parts:
        own = tables.get(label_holder)
        driver = Predictor(
            label_holder, own, n_rows, parts[label_holder], params, make=make, make_top=make_top
        )
        nodes[label_holder] = (driver,)
    for party in needed:
        if party not in parts:
            nodes[party] = (RemoteRole(FeatureHolder),)
            continue
        nodes[party] = (
            FeatureHolder(
                tables[party],
                params,
                len(needed),
                make=None if make is None else make(party),
                part=parts[party],
            ),
        )
    return nodes
