# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The interactive layer as the label holder drives it: all parties' parts together.

Training and prediction take the same way forward; only training goes back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from fedsift.crypto.identity import addressed
from fedsift.errors import BadFrame, ParameterError
from fedsift.methods.fedsdg import messages
from fedsift.methods.fedsdg.layer import (
    EvaluatorLayer,
    Numbers,
    OpenLayer,
    starting_weights,
    sum_of_outputs,
)
from fedsift.methods.fedsdg.layer_numbers import Floats, Integers
from fedsift.methods.fedsdg.local_part import LocalPart, PartData
from fedsift.methods.fedsdg.messages import Params, sums_are_masked
from fedsift.methods.fedsdg.row_splits import Rows
from fedsift.protocol import Network, PublicArray
from fedsift.protocol.role import Clock, errors_belong_to


class InteractiveLayer:
    """Every party's part of the interactive layer.

    Parameters
    ----------
    params : Params
    parties : sequence of str
        Feature holders that take part.
    clock : Clock
        The label holder's stopwatch.
    """

    def __init__(self, params: Params, parties: Sequence[str], clock: Clock) -> None:
        self._params = params
        self.parties = tuple(parties)
        self._clock = clock
        self._pairwise = sums_are_masked(len(parties))
        self._evaluators: dict[str, EvaluatorLayer] = {}
        self._used: dict[str, npt.NDArray[np.bool_]] = {}
        self._own: OpenLayer | None = None
        self._own_part: LocalPart | None = None
        self._own_data: PartData | None = None
        self._own_embedding: Integers = np.empty((0, 0), dtype=np.int64)
        self._sealed: dict[str, messages.EncryptedBatch] = {}
        self._n_asks = 0

    def add_own(self, part: LocalPart, data: PartData) -> None:
        """The label holder's own columns."""
        self._own_part, self._own_data = part, data

    async def open(self, net: Network) -> None:
        """Exchange keys: of every part of the layer, and for pairwise masks."""
        if not self.parties:
            return
        params = self._params
        ask = messages.LayerWanted(params.batch_size, params.outputs)
        replies = await net.ask(
            messages.FEATURE_HOLDER, dict.fromkeys(self.parties, ask), messages.LayerKeys
        )
        for party, reply in zip(self.parties, replies, strict=True):
            with errors_belong_to(party, "LayerWanted", self._n_asks):
                used = reply.used.array(shape=(params.embedding,)).astype(np.bool_)
                self._used[party] = used
                self._evaluators[party] = EvaluatorLayer(
                    reply.keys, params.batch_size, int(used.sum()), params.outputs
                )
        if len({evaluator.modulus for evaluator in self._evaluators.values()}) > 1:
            raise ParameterError(
                "Feature holders chose different rings for the interactive layer.",
                "Outputs are added up in one ring.",
                "Check that all parties run the same version of fedsift and the same job.",
            )
        if self._pairwise:
            keys = {p: reply.mask_key for p, reply in zip(self.parties, replies, strict=True)}
            told = {p: messages.MaskKeys(addressed(keys, p)) for p in self.parties}
            await net.tell(messages.FEATURE_HOLDER, told)

    async def share_weights(self, rng: np.random.Generator, net: Network) -> None:
        """Starting weights: both sides draw a half, neither learns the sum."""
        params = self._params
        shape = (params.embedding, params.outputs)
        n_parts = len(self.parties) + 1

        def half() -> Integers:
            drawn = starting_weights(rng, shape, n_parts)
            return params.numbers.weights(drawn)

        if self._own_part is not None:
            self._own = OpenLayer(half() + half())
        if not self.parties:
            return
        ask = dict.fromkeys(self.parties, messages.ShareWanted())
        replies = await net.ask(messages.FEATURE_HOLDER, ask, messages.WeightShare)
        for party, reply in zip(self.parties, replies, strict=True):
            with errors_belong_to(party, "ShareWanted", self._n_asks):
                self._evaluators[party].take_share(reply.share, half())

    async def forward(self, rows: Rows, net: Network, *, training: bool) -> Floats:
        """Algorithm 2: outputs of the layer for some rows, summed over all parties."""
        if self._own_part is not None:
            with self._clock("train" if training else "predict"):
                self._embed_own(rows, training=training)
        if self.parties and not self._sealed:
            ask = dict.fromkeys(self.parties, messages.BatchWanted(PublicArray.of(rows), training))
            replies = await net.ask(messages.FEATURE_HOLDER, ask, messages.EncryptedBatch)
            self._sealed = dict(zip(self.parties, replies, strict=True))
        outputs = np.zeros((len(rows), self._params.outputs), dtype=np.int64)
        if self.parties:
            outputs += await self._remote_outputs(len(rows), net)
        if self._own is not None:
            outputs += self._own.forward(self._own_embedding)
        if not training:
            self._sealed = {}
        return self._params.numbers.outputs_as_reals(outputs)

    async def _remote_outputs(self, n_rows: int, net: Network) -> Integers:
        asks = {}
        self._n_asks += 1
        for party in self.parties:
            with self._clock("evaluate"), errors_belong_to(party, "BatchWanted", self._n_asks):
                asks[party] = messages.MaskedOutputs(
                    self._evaluators[party].forward(self._sealed[party].embedding)
                )
        replies: Sequence[messages.OutputShare | messages.SingleOutputs]
        if self._pairwise:
            replies = await net.ask(messages.FEATURE_HOLDER, asks, messages.OutputShare)
        else:
            replies = await net.ask(messages.FEATURE_HOLDER, asks, messages.SingleOutputs)
        shape = (n_rows, self._params.outputs)
        masks = [self._evaluators[party].output_mask(n_rows) for party in self.parties]
        modulus = self._evaluators[self.parties[0]].modulus
        with errors_belong_to(", ".join(self.parties), "MaskedOutputs", self._n_asks):
            return sum_of_outputs(
                [reply.outputs for reply in replies], masks, shape, modulus, pairwise=self._pairwise
            )

    def _blur(self, noise: np.random.Generator, shape: tuple[int, int]) -> Integers:
        return self._params.numbers.blur(None if self._params.seed is None else noise, shape)

    async def backward(
        self,
        delta: Integers,
        shown: Integers,
        next_rows: Rows,
        n_features_of_all: int,
        noise: np.random.Generator,
        net: Network,
    ) -> None:
        """Algorithm 3: gradients to every party, one step of the layer, and the next batch."""
        asks = {}
        following = PublicArray.of(next_rows)
        for party in self.parties:
            sealed = self._sealed[party]
            with self._clock("evaluate"), errors_belong_to(party, "Gradients", self._n_asks):
                if sealed.share is None:
                    raise _no_share(party)
                weights, inputs = self._evaluators[party].backward(
                    sealed.embedding,
                    sealed.share,
                    delta,
                    shown,
                    self._blur(noise, (len(delta), int(self._used[party].sum()))),
                )
            asks[party] = messages.Gradients(weights, inputs, following)
        self._sealed = {}
        if self.parties and len(next_rows):
            replies = await net.ask(messages.FEATURE_HOLDER, asks, messages.EncryptedBatch)
            self._sealed = dict(zip(self.parties, replies, strict=True))
        elif self.parties:
            await net.tell(messages.FEATURE_HOLDER, asks)
        if self._own is not None and self._own_part is not None:
            with self._clock("train"):
                # Nobody else sees this party's own gradient: it needs no noise.
                gradient = self._own.backward(self._own_embedding, delta)
                exact = replace(self._params.numbers, noise_bits=0)
                reals = exact.input_gradients_as_reals(gradient) / len(delta)
                self._own_part.learn(reals, n_features_of_all)

    def _embed_own(self, rows: Rows, *, training: bool) -> None:
        assert self._own_part is not None  # noqa: S101 - asked only if there is one
        assert self._own_data is not None  # noqa: S101
        reals = self._own_part.embed(self._own_data.batch(rows), training=training)
        self._own_embedding = self._params.numbers.embedding(reals)

    def weights(self) -> dict[str, Numbers]:
        """The label holder's shares by party; its own part's weights under an empty name."""
        shares = {party: evaluator.share.copy() for party, evaluator in self._evaluators.items()}
        if self._own is not None:
            shares[""] = self._own.weights.copy()
        return shares

    def load_weights(self, shares: dict[str, Numbers]) -> None:
        """Take over what :meth:`weights` gave; closed embedding columns are left out."""
        for party, evaluator in self._evaluators.items():
            evaluator.share = shares[party][self._used[party]]
        if "" in shares:
            self._own = OpenLayer(shares[""])


def _no_share(party: str) -> BadFrame:
    return BadFrame(
        f"Party {party!r} sent a batch without its share of the weights.",
        "Training needs both.",
        "Check that all parties run the same version of fedsift.",
    )
