# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Cost of FedSDG-FS: a known price per epoch, and a number of epochs that the data decides."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from fedsift.costs.counts import MASKING_KEY, Counts, Expected, Frame, frame
from fedsift.crypto.wire import Ciphertexts
from fedsift.data import Federation, Target
from fedsift.data.federation import is_remote
from fedsift.methods.fedsdg import messages
from fedsift.methods.fedsdg.blind.costs import expect_blind
from fedsift.methods.fedsdg.blind.params import BlindParams
from fedsift.methods.fedsdg.layer_costs import layer_of
from fedsift.methods.fedsdg.row_splits import validation_split
from fedsift.methods.filter.costs import count_scores
from fedsift.protocol import MaskedArray, Message, PublicArray

if TYPE_CHECKING:
    from fedsift.methods.fedsdg.messages import Params

_FORWARD_SHARE = 0.3
"""A pass without gradients, against a whole step of a network."""


def expect_fedsdg(_selector: Any, federation: Federation, params: Params | BlindParams) -> Expected:
    """Walk through a training of the most epochs, and of the fewest."""
    if isinstance(params, BlindParams):
        return expect_blind(federation, params)
    fewest, most = epochs(params)
    expected = tally_fedsdg(federation, params, most)
    if fewest == most:
        return Expected(expected)
    remark = f"Training stops after {fewest} to {most} epochs, as the data decides."
    return Expected(expected, tally_fedsdg(federation, params, fewest), expected, (remark,))


def epochs(params: Params) -> tuple[int, int]:
    """Fewest and most epochs of one stage; open gates change until late, so most are expected."""
    first = min(params.min_epochs, params.max_epochs - 1)
    return min(params.max_epochs, first + params.patience + 1), params.max_epochs


def tally_fedsdg(federation: Federation, params: Params, n_epochs: int) -> Counts:
    """Walk through a training of so many epochs (and as many of a refit)."""
    return _Walk(federation, params).run(n_epochs)


def _n_validation(target: Target, n_rows: int, share: float) -> int:
    """Validation rows: a share of every class, where the classes are known here."""
    if target.kind != "classes" or is_remote(target):
        return round(share * n_rows)
    return len(validation_split(target.codes, share, np.random.default_rng(0))[1])


class _Walk:
    def __init__(self, federation: Federation, params: Params) -> None:
        self._params = params
        self._federation = federation
        holder = federation.label_holder
        self._others = {p: t for p, t in federation.tables.items() if p != holder}
        self._own = federation.tables.get(holder or "")
        target = federation.target
        assert target is not None  # noqa: S101 - the selector has refused anything else
        self._target: Target = target
        n_rows = federation.n_rows
        self._n_validation = _n_validation(target, n_rows, params.validation)
        self._n_training = n_rows - self._n_validation
        self.tally = Counts()
        self._layer = layer_of(self.tally, params)
        self._empty = Ciphertexts(params.scheme, ())
        self._n = len(self._others)
        self._pairwise = messages.sums_are_masked(self._n)

    def run(self, n_epochs: int) -> Counts:
        """Gates' start, the stage with gates, and a refit where there is one."""
        params, tally, n = self._params, self.tally, self._n
        if n:
            start = messages.TrainingStart(
                self._federation.n_rows,
                PublicArray.of(np.zeros(self._n_training, dtype=np.int64)),
                PublicArray.of(np.zeros(self._n_validation, dtype=np.int64)),
                -1,
            )
            tally.ask(start, messages.Ready(10), others=n)
            tally.ask(messages.TotalFeatures(self._federation.n_features), others=n)
        if params.init == "gini" and params.gates != "none":
            self._start_gates()
        self._stage(n_epochs)
        if params.n_features_to_select is not None and n:
            columns = round(sum(t.n_columns for t in self._others.values()) / n)
            means = messages.GateMeans(PublicArray.of(np.zeros(columns)))
            tally.ask(messages.GateMeansWanted(), means, others=n)
            chosen = round(params.n_features_to_select / (n + 1))
            tally.ask(messages.Chosen(tuple(range(chosen))), others=n)
        if params.refit:
            tally.ask(messages.Refit(), others=n)
            self._stage(n_epochs)
        return tally

    def _start_gates(self) -> None:
        settings = self._params.filter_params
        self.tally.add(count_scores(self._federation, self._n_training, settings))
        for number, table in enumerate(self._others.values()):
            told = messages.GateStart(PublicArray.of(np.zeros(table.n_columns)))
            self.tally.ask(told, others=1)
            self.tally.rounds -= number > 0

    def _stage(self, n_epochs: int) -> None:
        self._open()
        batches = self._n_training // self._params.batch_size
        rest = self._n_training % self._params.batch_size
        batches += rest >= messages.SMALLEST_BATCH or not batches
        size = min(self._params.batch_size, self._n_training)
        judging = math.ceil((self._n_validation or self._n_training) / self._params.batch_size)
        self._train(n_epochs, batches, size)
        self._judge(n_epochs * judging, min(size, self._n_validation))
        if self._n:
            n, gates = self._n, messages.OpenGates(10, 10)
            self.tally.ask(messages.EpochEnd(10), gates, others=n, times=n_epochs)
            self.tally.ask(messages.KeepEpochs((1, 2, 3)), others=n, times=n_epochs)
            self.tally.ask(messages.ReturnTo(10), others=n)

    def _open(self) -> None:
        """Keys and shares of the layer."""
        params, layer, n = self._params, self._layer, self._n
        if not n:
            return
        used = PublicArray.of(np.ones(params.embedding, dtype=bool))
        answer = frame(messages.LayerKeys(layer.keys, MASKING_KEY, used), keys=layer.key_bytes)
        self.tally.ask(messages.LayerWanted(params.batch_size, params.outputs), answer, others=n)
        layer.set_up(n)
        if self._pairwise:
            keys_of_all = dict.fromkeys(self._others, MASKING_KEY)
            self.tally.ask(messages.MaskKeys(keys_of_all), others=n)
        share = self._masked((params.embedding, params.outputs), np.int64)
        self.tally.ask(messages.ShareWanted(), messages.WeightShare(share), others=n)

    def _masked(self, shape: tuple[int, ...], dtype: type) -> MaskedArray:
        """Numbers as they travel: one word each in a ring, several under Paillier."""
        if self._layer.words:
            return MaskedArray.of(np.zeros((*shape, self._layer.words), dtype=np.uint64))
        return MaskedArray.of(np.zeros(shape, dtype=dtype))

    def _train(self, n_epochs: int, n_batches: int, size: int) -> None:
        layer, n, empty = self._layer, self._n, self._empty
        times = n_epochs * n_batches
        columns = sum(t.n_columns for t in self._federation.tables.values())
        parts = n + (self._own is not None)
        self.tally.do("train", "network step", times * parts)
        self.tally.do("train", "network cell", times * columns * size)
        self.tally.do("train", "top step", times)
        if not n:
            return
        rows = PublicArray.of(np.zeros(size, dtype=np.int64))
        none = PublicArray.of(np.zeros(0, dtype=np.int64))
        batch = frame(messages.EncryptedBatch(empty, empty), *layer.inputs, *layer.share)
        self.tally.ask(messages.BatchWanted(rows, True), batch, others=n, times=n_epochs)
        self._outputs(times, size)
        following = frame(messages.Gradients(empty, empty, rows), *layer.gradients)
        last = frame(messages.Gradients(empty, empty, none), *layer.gradients)
        self.tally.ask(following, batch, others=n, times=times - n_epochs)
        self.tally.ask(last, others=n, times=n_epochs)
        layer.encrypt(n * times, share=True)
        layer.backward(n * times, size)

    def _judge(self, times: int, size: int) -> None:
        parts = self._n + (self._own is not None)
        self.tally.do("train", "network step", _FORWARD_SHARE * times * parts)
        if not self._n:
            return
        rows = PublicArray.of(np.zeros(size, dtype=np.int64))
        batch = frame(messages.EncryptedBatch(self._empty, None), *self._layer.inputs)
        self.tally.ask(messages.BatchWanted(rows, False), batch, others=self._n, times=times)
        self._layer.encrypt(self._n * times, share=False)
        self._outputs(times, size)

    def _outputs(self, times: int, size: int) -> None:
        """The way forward through the layer."""
        layer, n = self._layer, self._n
        shape = (size, self._params.outputs)
        numbers = self._masked(shape, np.uint64 if self._pairwise else np.int64)
        answer: Message = messages.SingleOutputs(numbers)
        if self._pairwise:
            answer = messages.OutputShare(numbers)
            count = times * size * shape[1] * max(1, layer.words)
            self.tally.do("mask", "mask number peer", count * n * (n - 1))
        sealed = frame(messages.MaskedOutputs(self._empty), *layer.outputs)
        self.tally.ask(sealed, Frame(answer), others=n, times=times)
        layer.forward(n * times)
