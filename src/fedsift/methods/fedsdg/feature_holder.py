# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The feature holder of FedSDG-FS: what a party with columns and without labels does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from fedsift.data.state_files import State
from fedsift.data.table import PartyTable
from fedsift.errors import ParameterError
from fedsift.methods.fedsdg import messages
from fedsift.methods.fedsdg.holding import GatedHolder, checked_batch
from fedsift.methods.fedsdg.inputs import InputEncoder
from fedsift.methods.fedsdg.layer import Numbers, OwnedLayer, starting_weights
from fedsift.methods.fedsdg.layer_numbers import Integers
from fedsift.methods.fedsdg.local_part import (
    LocalPart,
    PartData,
    keyed_generator,
    private_seeds,
    refitted_part,
)
from fedsift.methods.fedsdg.messages import Params, sums_are_masked
from fedsift.methods.fedsdg.split_network import MakeEmbedding
from fedsift.methods.filter import label_holder as filters
from fedsift.methods.filter import messages as filter_messages
from fedsift.protocol import Network, PublicArray, handles

MAY_CHANGE = ("max_epochs",)
"""Settings that a resumed training may have others of: it may go on for longer."""

_CONSTANT_START = 0.5


class FeatureHolder(GatedHolder, name=messages.FEATURE_HOLDER, signals=filter_messages.SIGNALS):
    """Owns columns, gates, an embedding network and the key of its part of the interactive layer.

    Parameters
    ----------
    table : PartyTable
    params : Params
    n_feature_holders : int
    make : callable, optional
        Embedding network of this party.
    checkpoints : Path, optional
        Directory for this party's own checkpoints.
    part : mapping, optional
        A saved part, to predict with instead of training.
    """

    def __init__(
        self,
        table: PartyTable,
        params: Params,
        n_feature_holders: int,
        *,
        make: MakeEmbedding | None = None,
        checkpoints: Path | None = None,
        part: State | None = None,
    ) -> None:
        self.keep_checkpoints(checkpoints, table.name, params, table, may_change=MAY_CHANGE)
        self._table = table
        self._params = params
        self._make = make
        self._n_feature_holders = n_feature_holders
        seeds = private_seeds(params.seed, table.name, 5)
        self._seed, self._refit_seed = seeds[:2]
        self._rng = np.random.default_rng(seeds[2])
        self._order = np.random.default_rng(seeds[3]).permutation(table.n_columns)
        self._blur_key = seeds[4]
        self._snapshots: dict[int, State] = {}
        self._rows: npt.NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._embedding: Integers = np.empty((0, 0), dtype=np.int64)
        self._features = np.arange(table.n_columns)
        self._n_features_of_all = table.n_columns
        self._n_batches = 0
        self._training = part is None
        self._used = np.ones(params.embedding, dtype=np.bool_)
        self._saved: State = {}
        self._saved_share: Numbers | None = None
        self._has_layer = False
        self._pairwise = False
        self._refitting = False
        if part is not None:
            self._take_part(part)

    # Algorithm 1: where the gates start

    @handles(messages.TrainingStart)
    async def start(self, ask: messages.TrainingStart, net: Network) -> messages.Ready:
        """Check the job against the own table and standardise on the training rows."""
        torch.set_num_threads(1)
        training = self._rows = self._agreed_rows(ask)[0]
        with self.clock("prepare"):
            self._encoder = InputEncoder.fit(self._table, training)
            self._data = PartData(self._encoder, self._table)
            self._gini = filters.FeatureHolder(
                self._table.take(training), self._params.filter_params
            )
            self._new_part(np.full(self._table.n_columns, _CONSTANT_START))
        if self._saved:
            self._continue()
        return messages.Ready(self._table.n_columns)

    @handles(messages.TotalFeatures)
    async def take_total(self, told: messages.TotalFeatures, net: Network) -> None:
        """Remember over how many gates the penalty is averaged."""
        self._n_features_of_all = max(told.n_features, self._table.n_columns)

    @handles(messages.GateStart)
    async def start_gates(self, told: messages.GateStart, net: Network) -> None:
        """Line 11: gates of better features start further open."""
        means = told.means.array(shape=(self._table.n_columns,)).astype(np.float64)
        in_table_order = np.empty(self._table.n_columns)
        in_table_order[self._filter().order] = means
        self._new_part(np.clip(in_table_order, 0.0, 1.0))

    # The interactive layer

    @handles(messages.LayerWanted)
    async def open_layer(self, ask: messages.LayerWanted, net: Network) -> messages.LayerKeys:
        """Make the keys of this party's part of the interactive layer."""
        if ask.batch_size != self._params.batch_size or ask.n_outputs != self._params.outputs:
            raise ParameterError(
                f"A layer for batches of {ask.batch_size} rows with {ask.n_outputs} outputs was "
                "asked for.",
                f"This party agreed to {self._params.batch_size} and {self._params.outputs}.",
                "Run the same job at every party.",
            )
        with self.clock("keys"):
            layer = OwnedLayer(
                self._params.scheme,
                ask.batch_size,
                int(self._used.sum()),
                ask.n_outputs,
                security_bits=self._params.security_bits,
            )
        if self._saved_share is not None:
            layer.share = self._saved_share[self._used]
        self._layer, self._pairwise, self._has_layer = layer, False, True
        mask_key = layer.announce(net, net.members(messages.FEATURE_HOLDER))
        return messages.LayerKeys(layer.keys, mask_key, PublicArray.of(self._used))

    @handles(messages.MaskKeys)
    async def agree_masks(self, told: messages.MaskKeys, net: Network) -> None:
        """Agree on pairwise masks, which hide this party's outputs from the label holder."""
        fewest = 2 if self._refitting else self._n_feature_holders
        if not fewest <= len(told.keys) <= self._n_feature_holders:
            raise ParameterError(
                f"Keys of {len(told.keys)} feature holders arrived.",
                f"This party knows of {self._n_feature_holders}.",
                "Run the same job at every party.",
            )
        self._layer.agree_masks(net, told.keys)
        self._pairwise = True

    @handles(messages.ShareWanted)
    async def share_weights(self, ask: messages.ShareWanted, net: Network) -> messages.WeightShare:
        """Draw this side's half of the starting weights, and hide it."""
        params = self._params
        weights = starting_weights(
            self._rng, (params.embedding, params.outputs), self._n_feature_holders + 1
        )
        return messages.WeightShare(self._layer.new_share(params.numbers.weights(weights)))

    # Algorithm 2: forward

    @handles(messages.BatchWanted)
    async def embed(self, ask: messages.BatchWanted, net: Network) -> messages.EncryptedBatch:
        """Lines 1-4: embed some rows and encrypt."""
        return self._embed(ask.rows, training=ask.training)

    def _embed(self, wanted: PublicArray, *, training: bool) -> messages.EncryptedBatch:
        rows = checked_batch(wanted.array(), np.arange(self._table.n_rows), self._params.batch_size)
        with self.clock("train" if training else "predict"):
            reals = self._part.embed(self._data.batch(rows), training=training)
            self._embedding = self._params.numbers.embedding(reals)[:, self._used]
        with self.clock("encrypt"):
            share = self._layer.encrypt_share() if training else None
            return messages.EncryptedBatch(self._layer.encrypt(self._embedding), share)

    @handles(messages.MaskedOutputs)
    async def answer_outputs(
        self, told: messages.MaskedOutputs, net: Network
    ) -> messages.OutputShare | messages.SingleOutputs:
        """Lines 8-9: decrypt, take away the own share's part, add pairwise masks."""
        if sums_are_masked(self._n_feature_holders) and not self._pairwise and not self._refitting:
            raise ParameterError(
                "Outputs were asked for before the feature holders agreed on masks.",
                "The job says that the label holder sees sums over feature holders only.",
                "Run the same job at every party.",
            )
        self._n_batches += 1
        with self.clock("decrypt"):
            shape = (len(self._embedding), self._params.outputs)
            blur = self._blur(shape)
            answer = self._layer.outputs(
                told.outputs, self._embedding, blur, f"outputs {self._n_batches}"
            )
        return messages.OutputShare(answer) if self._pairwise else messages.SingleOutputs(answer)

    def _blur(self, shape: tuple[int, int]) -> Integers:
        """Noise on outputs; new in every training batch, the same whenever a row is predicted.

        Asking for the same prediction again and again must not average the noise away.
        """
        numbers = self._params.numbers
        if self._training:
            return numbers.blur(None if self._params.seed is None else self._rng, shape)
        # Closed columns are zeros; whether they travel must not change a prediction.
        known = self._embedding[:, self._part.open_embeddings()[self._used]]
        rows = [
            numbers.blur(keyed_generator(self._blur_key, row.tobytes()), shape[1:]) for row in known
        ]
        return np.stack(rows)

    # Algorithm 3: backward

    @handles(messages.Gradients)
    async def learn(self, told: messages.Gradients, net: Network) -> messages.EncryptedBatch | None:
        """Lines 5-17: update the own share, then networks and gates; embed the next batch."""
        n_rows = len(self._embedding)
        with self.clock("decrypt"):
            gradient = self._layer.input_gradient(told.embedding, n_rows)
            self._layer.update(told.weights)
        with self.clock("train"):
            reals = self._params.numbers.input_gradients_as_reals(gradient) / n_rows
            self._part.learn(reals, self._n_features_of_all)
        if told.next_rows.shape[0]:
            return self._embed(told.next_rows, training=True)
        return None

    # Epochs and selection

    @handles(messages.EpochEnd)
    async def end_epoch(self, ask: messages.EpochEnd, net: Network) -> messages.OpenGates:
        """Remember this epoch, in case it turns out to be the best."""
        self._snapshots[ask.epoch] = {
            "part": self._part.model_state(),
            "share": self._layer.share.copy(),
        }
        return messages.OpenGates(
            int(self._part.open_features().sum()), int(self._part.open_embeddings().sum())
        )

    @handles(messages.KeepEpochs)
    async def keep_epochs(self, told: messages.KeepEpochs, net: Network) -> None:
        """Forget epochs that will never be chosen."""
        self._snapshots = {e: s for e, s in self._snapshots.items() if e in told.epochs}

    @handles(messages.ReturnTo)
    async def return_to(self, told: messages.ReturnTo, net: Network) -> None:
        """Go back to the chosen epoch."""
        snapshot = self._snapshots.get(told.epoch)
        if snapshot is None:
            raise ParameterError(
                f"The label holder wants to go back to epoch {told.epoch}.",
                f"This party kept {', '.join(map(str, sorted(self._snapshots))) or 'none'}.",
                "Check that all parties run the same job.",
            )
        self._part.load_model(snapshot["part"])
        self._layer.share = snapshot["share"]
        if self._gate_means is None:  # not after a refit, which has no gates any more
            self._gate_means = self._part.gate_means()
            self._features = np.flatnonzero(self._part.open_features())

    @handles(messages.GateMeansWanted)
    async def tell_gates(self, ask: messages.GateMeansWanted, net: Network) -> messages.GateMeans:
        """A score of every feature, in secret order: an exact number is chosen over all."""
        with self.clock("train"):
            self._gate_means = self._part.exact_scores(self._data.batch(self._rows))
        return messages.GateMeans(PublicArray.of(self._gate_means[self._order]))

    @handles(messages.Chosen)
    async def take_choice(self, told: messages.Chosen, net: Network) -> None:
        """Remember which of the own features were chosen."""
        self._features = np.sort(self._order[self._chosen_numbers(told)])

    @handles(messages.Refit)
    async def refit(self, told: messages.Refit, net: Network) -> None:
        """New networks on the selected features, with gates that cost nothing."""
        if not len(self._features):
            raise ParameterError(
                "New networks were asked for, but no feature of this party was selected.",
                "At least one selected feature is needed.",
                "Leave this party out of the refit.",
            )
        self._snapshots = {}
        self._refitting = True  # parties without selected features have left
        self._encoder = self._encoder.only(self._features)
        self._data = PartData(self._encoder, self._table)
        self._part = refitted_part(self._encoder, self._params, self._make, self._refit_seed)
        if self._saved.get("refitting"):
            self._continue_networks()

    def part_state(self) -> State:
        """This party's part of the finished model, for its own file."""
        return {
            "role": messages.FEATURE_HOLDER,
            "columns": list(self._table.feature_names),
            "encoder": self._encoder.to_plain(),
            "part": self._part.model_state(),
            "gated": self._part.feature_gates is not None,
            "share": self._layer.share,
            "blur_key": hex(self._blur_key),
            "selected": self.facts()["selected"],
        }

    def _take_part(self, saved: State) -> None:
        """Take over a saved part, to predict."""
        torch.set_num_threads(1)
        self._encoder = InputEncoder.from_plain(saved["encoder"])
        start = np.zeros(len(self._encoder.names)) if saved["gated"] else None
        self._part = LocalPart(self._encoder, start, self._params, self._make, self._seed)
        self._part.load_model(saved["part"])
        self._data = PartData(self._encoder, self._table)
        self._saved_share = saved["share"]
        self._blur_key = int(saved["blur_key"], 16)
        self._used = self._part.open_embeddings()
        # A layer has at least one column, even if it carries zeros.
        self._used[0] |= not self._used.any()

    def checkpoint(self) -> State:
        """Networks, gates, optimiser, noise, and this party's share of the layer's weights."""
        if not self._has_layer:
            return {}
        return {
            "training": self._part.training_state(),
            "rng": self._rng.bit_generator.state,
            "order": self._order,
            "share": self._layer.share,
            "snapshots": self._snapshots,
            "features": self._features,
            "gate_means": self._gate_means,
            "refitting": self._refitting,
        }

    def restore(self, saved: State) -> None:
        """Wait for the training to be announced; the networks are built then."""
        self._saved = saved

    def _continue(self) -> None:
        """Take over this party's own checkpoint."""
        self._features, self._gate_means = self._saved["features"], self._saved["gate_means"]
        self._order = self._saved["order"]
        if not self._saved["refitting"]:
            self._continue_networks()

    def _continue_networks(self) -> None:
        """Go on training where the checkpoint was written: with gates, or refitting."""
        saved, self._saved = self._saved, {}
        self._part.load_training(saved["training"])
        self._rng.bit_generator.state = saved["rng"]
        self._saved_share = saved["share"]
        self._snapshots = {int(number): state for number, state in saved["snapshots"].items()}

    def _new_part(self, gate_start: npt.NDArray[np.float64]) -> None:
        start = None if self._params.gates == "none" else gate_start
        self._part = LocalPart(self._encoder, start, self._params, self._make, self._seed)
