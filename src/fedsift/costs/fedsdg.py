# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Cost of FedSDG-FS: a known price per epoch, and a number of epochs that the data decides."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from fedsift.costs.filters import MASKING_KEY, tally_scores
from fedsift.costs.tally import Frame, Ring, Tally, frame
from fedsift.crypto.layer_plan import LayerPlan, baby_steps, plan_layer
from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.data import Federation, Target
from fedsift.maths.layer_numbers import RING_BITS
from fedsift.methods import fedsdg_messages as said
from fedsift.protocol import MaskedArray, Message, PublicArray

if TYPE_CHECKING:
    from fedsift.methods.fedsdg_messages import Params

_EMPTY = Ciphertexts("bgv", ())
_FORWARD_SHARE = 0.3
"""A pass without gradients, against a whole step of a network."""


def epochs(params: Params) -> tuple[int, int]:
    """Fewest and most epochs of one stage; open gates change until late, so most are expected."""
    first = min(params.min_epochs, params.max_epochs - 1)
    return min(params.max_epochs, first + params.patience + 1), params.max_epochs


def tally_fedsdg(federation: Federation, params: Params, n_epochs: int) -> Tally:
    """Walk through a training of so many epochs (and as many of a refit)."""
    return _Walk(federation, params).run(n_epochs)


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
        self._n_validation = round(params.validation * n_rows)
        self._n_training = n_rows - self._n_validation
        self._plan: LayerPlan = plan_layer(
            params.batch_size, params.embedding, params.outputs, RING_BITS
        )
        self.tally = Tally()
        self._ring = Ring(self.tally, self._plan.parameters)
        self._n = len(self._others)
        self._pairwise = said.sums_are_masked(params, self._n)

    def run(self, n_epochs: int) -> Tally:
        """Gates' start, the stage with gates, and a refit where there is one."""
        params, tally, n = self._params, self.tally, self._n
        if n:
            start = said.TrainingStart(
                self._federation.n_rows,
                PublicArray.of(np.zeros(self._n_training, dtype=np.int64)),
                PublicArray.of(np.zeros(self._n_validation, dtype=np.int64)),
                -1,
            )
            tally.ask(start, said.Ready(10), others=n)
            tally.ask(said.TotalFeatures(self._federation.n_features), others=n)
        if params.init == "gini" and params.gates != "none":
            self._start_gates()
        self._stage(n_epochs)
        if params.n_features_to_select is not None and n:
            columns = round(sum(t.n_columns for t in self._others.values()) / n)
            means = said.GateMeans(PublicArray.of(np.zeros(columns)))
            tally.ask(said.GateMeansWanted(), means, others=n)
            chosen = round(params.n_features_to_select / (n + 1))
            tally.ask(said.Chosen(tuple(range(chosen))), others=n)
        if params.refit:
            tally.ask(said.Refit(), others=n)
            self._stage(n_epochs)
        return tally

    def _start_gates(self) -> None:
        settings = self._params.filter_params
        if self._others:
            tally_scores(self.tally, self._n_training, self._target, self._others, settings)
            for number, table in enumerate(self._others.values()):
                told = said.GateStart(PublicArray.of(np.zeros(table.n_columns)))
                self.tally.ask(told, others=1)
                self.tally.rounds -= number > 0
        if self._own is not None:
            self.tally.do("prepare", "score cell", self._n_training * self._own.n_columns)

    def _stage(self, n_epochs: int) -> None:
        self._open()
        batches = self._n_training // self._params.batch_size
        rest = self._n_training % self._params.batch_size
        batches += rest >= said.SMALLEST_BATCH or not batches
        size = min(self._params.batch_size, self._n_training)
        judging = math.ceil((self._n_validation or self._n_training) / self._params.batch_size)
        self._train(n_epochs, batches, size)
        self._judge(n_epochs * judging, min(size, self._n_validation))
        if self._n:
            n, gates = self._n, said.OpenGates(10, 10)
            self.tally.ask(said.EpochEnd(10), gates, others=n, times=n_epochs)
            self.tally.ask(said.KeepEpochs((1, 2, 3)), others=n, times=n_epochs)
            self.tally.ask(said.ReturnTo(10), others=n)

    def _open(self) -> None:
        """Keys and shares of the layer."""
        params, ring, n = self._params, self._ring, self._n
        if not n:
            return
        steps = len(self._plan.steps)
        keys = PublicKeys("bgv", self._plan.numbers, ())
        used = PublicArray.of(np.ones(params.embedding, dtype=bool))
        answer = frame(
            said.LayerKeys(keys, MASKING_KEY, used),
            keys=(ring.public_key_bytes, ring.rotation_keys_bytes(steps)),
        )
        self.tally.ask(said.LayerWanted(params.batch_size, params.outputs), answer, others=n)
        for _ in range(n):
            ring.make_keys("keys", steps)
            ring.read_keys("keys", steps)
        if self._pairwise:
            keys_of_all = dict.fromkeys(self._others, MASKING_KEY)
            self.tally.ask(said.MaskKeys(keys_of_all), others=n)
        share = MaskedArray.of(np.zeros((params.embedding, params.outputs), dtype=np.int64))
        self.tally.ask(said.ShareWanted(), said.WeightShare(share), others=n)

    def _train(self, n_epochs: int, n_batches: int, size: int) -> None:
        ring, plan, n = self._ring, self._plan, self._n
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
        both = plan.n_chunks + plan.n_blocks
        batch = frame(said.EncryptedBatch(_EMPTY, _EMPTY), (both, ring.fresh_bytes))
        self.tally.ask(said.BatchWanted(rows, True), batch, others=n, times=n_epochs)
        self._outputs(times, size)
        sealed = (both, ring.result_bytes)
        following = frame(said.Gradients(_EMPTY, _EMPTY, rows), sealed)
        last = frame(said.Gradients(_EMPTY, _EMPTY, none), sealed)
        self.tally.ask(following, batch, others=n, times=times - n_epochs)
        self.tally.ask(last, others=n, times=n_epochs)
        ring.do("encrypt", "encrypt", n * times * both)
        ring.do("decrypt", "decrypt", n * times * both)
        # Both gradients: every chunk of the batch meets every block of columns.
        terms, pairs = plan.column_period, plan.n_chunks * plan.n_blocks
        self._products(n * times, plan.n_blocks, pairs, terms)
        self._products(n * times, plan.n_chunks, pairs, terms)
        ring.do("evaluate", "hide", n * times * both)

    def _judge(self, times: int, size: int) -> None:
        parts = self._n + (self._own is not None)
        self.tally.do("train", "network step", _FORWARD_SHARE * times * parts)
        if not self._n:
            return
        ring, plan = self._ring, self._plan
        rows = PublicArray.of(np.zeros(size, dtype=np.int64))
        batch = frame(said.EncryptedBatch(_EMPTY, None), (plan.n_chunks, ring.fresh_bytes))
        self.tally.ask(said.BatchWanted(rows, False), batch, others=self._n, times=times)
        ring.do("encrypt", "encrypt", self._n * times * plan.n_chunks)
        self._outputs(times, size)

    def _outputs(self, times: int, size: int) -> None:
        """The way forward through the layer."""
        ring, plan, n = self._ring, self._plan, self._n
        shape = (size, self._params.outputs)
        numbers = MaskedArray.of(np.zeros(shape, dtype=np.uint64 if self._pairwise else np.int64))
        answer: Message = said.SingleOutputs(numbers)
        if self._pairwise:
            answer = said.OutputShare(numbers)
            count = times * size * shape[1]
            self.tally.do("mask", "mask number peer", count * n * (n - 1))
        sealed = frame(said.MaskedOutputs(_EMPTY), (plan.n_chunks, ring.result_bytes))
        self.tally.ask(sealed, Frame(answer), others=n, times=times)
        self._products(n * times, plan.n_chunks, plan.n_chunks, plan.forward_terms, shared=True)
        ring.do("evaluate", "hide", n * times * plan.n_chunks)
        ring.do("decrypt", "decrypt", n * times * plan.n_chunks)

    def _products(
        self, times: int, n_ciphertexts: int, n_pairs: int, n_terms: int, *, shared: bool = False
    ) -> None:
        """Rotations, factors and products of ciphertexts with plaintext diagonals."""
        ring, babies = self._ring, min(n_terms, baby_steps(n_terms))
        giants = math.ceil(n_terms / babies)
        ring.do("evaluate", "load", times * n_ciphertexts)
        ring.do("evaluate", "rotate", times * n_ciphertexts * (babies - 1))
        ring.do("evaluate", "rotate", times * n_pairs * (giants - 1))
        ring.do("evaluate", "factor", times * n_terms * (1 if shared else n_pairs))
        ring.do("evaluate", "multiply", times * n_terms * n_pairs)
