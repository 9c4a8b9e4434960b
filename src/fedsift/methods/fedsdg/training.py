# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The training loop of FedSDG-FS at the label holder: batches, epochs, validation, going back.

A run has one such stage with gates, and a second one without if the model is refitted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedsift.data.state_files import State
from fedsift.methods.fedsdg import messages
from fedsift.methods.fedsdg.checkpoints import Checkpoints, Epoch
from fedsift.methods.fedsdg.interactive_layer import InteractiveLayer
from fedsift.methods.fedsdg.local_part import LocalPart
from fedsift.methods.fedsdg.messages import Params
from fedsift.methods.fedsdg.row_splits import Rows, shuffled_batches
from fedsift.methods.fedsdg.top import TopSide, Verdict, protected
from fedsift.protocol import Network
from fedsift.protocol.role import Clock

EpochReport = Callable[[dict[str, Any]], None]
"""Told about an epoch; may add what it knows itself, such as the bytes so far."""


@dataclass(frozen=True)
class TrainingContext:
    """What all stages of a run share.

    Parameters
    ----------
    party : str
        The label holder.
    training, validation : ndarray of int
        Row numbers.
    n_features : int
        Of all parties.
    rng, noise : Generator
        Order of rows, and noise on gradients.
    stopped : callable
        Whether somebody asked for an early end.
    report : callable, optional
        Told about every epoch.
    """

    params: Params
    party: str
    training: Rows
    validation: Rows
    n_features: int
    rng: np.random.Generator
    noise: np.random.Generator
    clock: Clock
    stopped: Callable[[], bool]
    report: EpochReport | None


class TrainingPhase:
    """Epochs with one set of networks.

    Parameters
    ----------
    around : Surroundings
    layer : InteractiveLayer
    top : TopSide
    own : LocalPart or None
        The label holder's own part.
    points : Checkpoints
        The rule by which an epoch is chosen.
    """

    def __init__(
        self,
        around: TrainingContext,
        layer: InteractiveLayer,
        top: TopSide,
        own: LocalPart | None,
        points: Checkpoints,
    ) -> None:
        self._around = around
        self.layer = layer
        self.top = top
        self.own = own
        self.points = points
        self.history: list[dict[str, Any]] = []
        self._snapshots: dict[int, State] = {}
        self._next_epoch = 0

    async def train(
        self, patience: int, net: Network, after_epoch: Callable[[Network], Awaitable[None]]
    ) -> None:
        """Epochs until nothing better comes, or until somebody interrupts.

        ``after_epoch`` is called after every complete epoch. Half an epoch is no place to continue
        from: the rest of its rows would be lost.
        """
        while self._next_epoch < self._around.params.max_epochs and not self._is_over(patience):
            loss, complete = await self._train_epoch(net)
            await self._end_epoch(self._next_epoch, loss, net)
            if complete:
                await after_epoch(net)
            if self._around.stopped():
                return

    def _is_over(self, patience: int) -> bool:
        """Whether nothing better has come for long enough."""
        params = self._around.params
        first = min(params.min_epochs, params.max_epochs - 1)
        waited = self._next_epoch - 1 - max(self.points.last_change, first)
        return bool(self.points.kept) and waited >= patience

    async def _train_epoch(self, net: Network) -> tuple[float, bool]:
        """One pass over the training rows: the mean loss, and whether all rows took part."""
        around, params = self._around, self._around.params
        batches = shuffled_batches(
            around.training, params.batch_size, messages.SMALLEST_BATCH, around.rng
        )
        total, n_seen = 0.0, 0
        for position, rows in enumerate(batches):
            outputs = await self.layer.forward(rows, net, training=True)
            with around.clock("train"):
                loss, delta = self.top.learn(rows, outputs)
            total, n_seen = total + loss * len(rows), n_seen + len(rows)
            last = position + 1 == len(batches) or around.stopped()
            following = np.empty(0, dtype=np.int64) if last else batches[position + 1]
            integers = params.numbers.gradient(delta)
            shown = params.numbers.shown_gradient(protected(delta, params, around.noise))
            await self.layer.backward(
                integers, shown, following, around.n_features, around.noise, net
            )
            if last:
                break
        return total / n_seen, n_seen == sum(map(len, batches))

    async def _end_epoch(self, epoch: int, training_loss: float, net: Network) -> None:
        """Count gates, validate, and remember the epoch if it may be chosen later."""
        by_party, n_embeddings = await self._open_gates(epoch, net)
        n_open = sum(by_party.values())
        verdict = await self._validate(net)
        reached = Epoch(epoch, n_open, verdict.comparable, verdict.standard_error)
        if self.points.add(reached):
            self._snapshots[epoch] = self._snapshot(by_party)
        kept = self.points.kept_numbers
        self._snapshots = {e: s for e, s in self._snapshots.items() if e in kept}
        entry = {
            "epoch": epoch,
            "max_epochs": self._around.params.max_epochs,
            "open_features": n_open,
            "open_embeddings": n_embeddings,
            "training_loss": training_loss,
            "validation_loss": verdict.loss,
            "validation_score": verdict.score,
        }
        self.history.append(entry)
        self._next_epoch = epoch + 1
        if self.layer.parties:
            told = dict.fromkeys(self.layer.parties, messages.KeepEpochs(kept))
            await net.tell(messages.FEATURE_HOLDER, told)
        if self._around.report is not None:
            self._around.report(entry)

    async def _open_gates(self, epoch: int, net: Network) -> tuple[dict[str, int], int]:
        """Open feature gates by party, and open embedding gates of all."""
        by_party, n_embeddings = {}, 0
        parties = self.layer.parties
        if parties:
            ask = dict.fromkeys(parties, messages.EpochEnd(epoch))
            replies = await net.ask(messages.FEATURE_HOLDER, ask, messages.OpenGates)
            by_party = {p: reply.n_features for p, reply in zip(parties, replies, strict=True)}
            n_embeddings = sum(reply.n_embeddings for reply in replies)
        if self.own is not None:
            by_party[self._around.party] = int(self.own.open_features().sum())
            n_embeddings += int(self.own.open_embeddings().sum())
        return by_party, n_embeddings

    async def _validate(self, net: Network) -> Verdict:
        """Judge the model on the validation rows; on the training rows if there are none."""
        around = self._around
        rows = around.validation if len(around.validation) else around.training
        size = around.params.batch_size
        outputs = [
            await self.layer.forward(rows[start : start + size], net, training=False)
            for start in range(0, len(rows), size)
        ]
        return self.top.judge(rows, np.concatenate(outputs))

    async def return_to(self, epoch: int, net: Network) -> None:
        """Go back to an epoch, at every party."""
        if self.layer.parties:
            await net.tell(
                messages.FEATURE_HOLDER, dict.fromkeys(self.layer.parties, messages.ReturnTo(epoch))
            )
        snapshot = self._snapshots[epoch]
        self.layer.load_weights(snapshot["weights"])
        self.top.load(snapshot["top"])
        if self.own is not None:
            self.own.load_model(snapshot["own"])

    def parties_with_open_gates(self, epoch: int) -> tuple[str, ...]:
        """Feature holders that had an open gate in an epoch."""
        n_open = self._snapshots[epoch]["open"]
        return tuple(party for party in self.layer.parties if n_open[party])

    def _snapshot(self, open_by_party: dict[str, int]) -> State:
        return {
            "weights": self.layer.weights(),
            "top": self.top.model_state(),
            "own": None if self.own is None else self.own.model_state(),
            "open": open_by_party,
        }

    def state(self) -> State:
        """What a checkpoint has to bring back."""
        return {
            "epoch": self._next_epoch - 1,
            "rng": self._around.rng.bit_generator.state,
            "noise": self._around.noise.bit_generator.state,
            "top": self.top.model_state(),
            "optimiser": self.top.optimiser_state(),
            "own": None if self.own is None else self.own.training_state(),
            "weights": self.layer.weights(),
            "points": self.points.to_plain(),
            "history": self.history,
            "snapshots": self._snapshots,
        }

    def load(self, saved: State) -> None:
        """Take over what :meth:`state` gave; the feature holders do the same."""
        self._around.rng.bit_generator.state = saved["rng"]
        self._around.noise.bit_generator.state = saved["noise"]
        self.top.load(saved["top"], saved["optimiser"])
        self.layer.load_weights(saved["weights"])
        if self.own is not None:
            self.own.load_training(saved["own"])
        self.points = Checkpoints.from_plain(saved["points"])
        self.history = list(saved["history"])
        self._snapshots = {int(number): state for number, state in saved["snapshots"].items()}
        self._next_epoch = int(saved["epoch"]) + 1
