# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The course of a blind training at the label holder, whatever layer is behind it.

First all features train a network together, to be judged; then new weights train with gates;
then the selection trains on with fixed gates. Every *opening* ends so many passes over the training
rows: one number per column moves the gates, and block means of the loss on validation rows judge
them. Openings and new weights come when the job says, so that nobody learns anything from when.

*Trials.* Where gates leave few features open, the best of the filter join them, and all of them
train on together. Then each is left out once, and those without which validation rows are predicted
as well or better go, in up to three rounds. Their number is fixed, whatever is selected.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from fedsift.crypto.products.between_two import Small
from fedsift.data.state_files import State
from fedsift.errors import ParameterError
from fedsift.methods.fedsdg.blind.gates import (
    Gates,
    Judged,
    choose,
    frontier,
    gate_integers,
    selected_features,
)
from fedsift.methods.fedsdg.blind.numbers import GATE_BITS, Floats
from fedsift.methods.fedsdg.blind.params import BlindParams
from fedsift.methods.fedsdg.row_splits import equal_batches
from fedsift.protocol import Network

EpochReport = Callable[[dict[str, Any]], None]
_HALF = 1 << (GATE_BITS - 1)
"""Gates that do not learn are half open, as all are on average at the start: steps fit them."""

_FULL = 1 << GATE_BITS

_DIVERGED = 100.0
"""A loss so many times that of predicting the mean is no use to anybody."""


class Diverged(ParameterError):
    """The loss grew beyond all bounds; what was selected before may be kept."""


class Layer(Protocol):
    """What a training needs of the network, on shares or in the open."""

    def use_batches(self, batches: Sequence[Small], n_uses: int, *, training: bool) -> None:
        """Announce rows that will be used together so many times."""
        ...

    async def train(
        self, rows: Small, gates: Small, counted: npt.NDArray[np.bool_] | None, net: Network
    ) -> None:
        """One step on some rows, with these gates; counts the slopes of some of them."""
        ...

    async def gate_sums(self, net: Network) -> Floats:
        """Open the sums of the slopes since the last time, one number per feature."""
        ...

    async def restart(self, net: Network) -> None:
        """Start from small weights again."""
        ...

    async def losses(self, rows: Small, gates: Small, n_blocks: int, net: Network) -> Floats:
        """Open the sums of squared errors over blocks of rows."""
        ...


class BlindTraining:
    """All features, then openings one after the other, then the selection with fixed gates.

    Parameters
    ----------
    layer : Layer
    params : BlindParams
    gates : Gates
    training, validation : ndarray of int
        Row numbers.
    variance : float
        Mean squared target of the training rows: the loss of predicting the mean.
    """

    def __init__(
        self,
        layer: Layer,
        params: BlindParams,
        gates: Gates,
        training: Small,
        validation: Small,
        variance: float,
        rng: np.random.Generator,
    ) -> None:
        self.layer = layer
        self.gates = gates
        self.history: list[dict[str, Any]] = []
        self.selected: Small | None = None
        self.chosen: Judged | None = None
        self._params = params
        self._training, self._validation = training, validation
        self.variance = max(variance, 1e-12)
        self._rng = rng
        self._judged: list[Judged] = []
        self.whole: Judged | None = None
        self.settled: Judged | None = None
        self._merit = gates.means.copy()
        self._by_gates: Small | None = None
        self.diverged: Diverged | None = None
        self._n_whole = self._n_settled = 0
        self._n_passes = 0
        self._batches = equal_batches(rng.permutation(training), params.batch_size)

    async def run(
        self,
        net: Network,
        stopped: Callable[[], bool],
        report: EpochReport | None,
        after: Callable[[Network], Awaitable[None]],
    ) -> None:
        """All openings that are left, the selection, and the passes that settle the weights."""
        params = self._params
        self.layer.use_batches(self._batches, params.n_passes - self._n_passes, training=True)
        judging = equal_batches(self._validation, params.batch_size)
        n_judged = len(self._judged) + sum(one is not None for one in (self.whole, self.settled))
        self.layer.use_batches(judging, params.n_judgements - n_judged, training=False)
        await self._train_whole(net, stopped, after)
        try:
            await self._train_gates(net, stopped, report, after)
            if self.selected is None:
                self._select()
            await self._settle(net, stopped, after)
        except Diverged as error:
            if not self._judged:
                raise
            self.diverged = error
            if self.selected is None:
                self._select()
        if self._by_gates is not None and self._n_settled < self._last_trial:
            # What the filter proposed was not tried to the end.
            self.selected, self._by_gates = self._by_gates, None

    async def _train_gates(
        self,
        net: Network,
        stopped: Callable[[], bool],
        report: EpochReport | None,
        after: Callable[[Network], Awaitable[None]],
    ) -> None:
        """All openings that are left."""
        while len(self._judged) < self._params.n_openings and not stopped():
            if not await self._until_opening(net, stopped):
                break
            entry = await self._open(net)
            if report is not None:
                report(entry)
            await after(net)

    @property
    def _last_trial(self) -> int:
        return max(self._params.trial_passes, default=0)

    async def _settle(
        self,
        net: Network,
        stopped: Callable[[], bool],
        after: Callable[[Network], Awaitable[None]],
    ) -> None:
        """The selection trains on, and its features are tried."""
        params = self._params
        if params.trials and not self._n_settled and not stopped():
            self._add_candidates()
        while self._n_settled < params.n_after and not stopped():
            if not await self._pass(net, stopped, fixed=self.final_gates()):
                break
            self._n_settled += 1
            if self._n_settled in params.trial_passes:
                await self._try_features(net)
            if self._n_settled == params.n_after:
                self.settled = await self._judge(self.final_gates(), net)
            await after(net)

    def _add_candidates(self) -> None:
        """As many features as are selected join them: those that the filter likes best."""
        assert self.selected is not None  # noqa: S101 - selected before
        n_left = self._params.trials - 1 - len(self.selected)
        if n_left < 0:
            return
        self._by_gates = self.selected
        if self._params.init == "gini":
            ties = self._rng.permutation(len(self._merit))
            n_best = min(n_left, len(self.selected))
            best = np.lexsort((ties, -self._merit))[:n_best]
            self.selected = np.union1d(self.selected, best)

    async def _try_features(self, net: Network) -> None:
        """Leave out each feature once; those that do not help go.

        There are as many trials as the job says. Without candidates they say nothing.
        """
        assert self.selected is not None  # noqa: S101 - selected before
        gates, candidates = self.final_gates(), self.selected
        known = self._by_gates is not None
        losses = []
        for number in range(self._params.trials):
            without = gates.copy()
            if known and 0 < number <= len(candidates):
                without[candidates[number - 1]] = 0
            losses.append((await self._judge(without, net)).loss)
        if known:
            worth = np.array(losses[1 : len(candidates) + 1]) - losses[0]
            self.selected = candidates[self._helpful(worth)]

    def _helpful(self, worth: Floats) -> npt.NDArray[np.bool_]:
        """Features to keep, by what leaving them out costs."""
        ranked: Small = np.argsort(np.argsort(-worth, kind="stable"))
        exactly = self._params.n_features_to_select
        if exactly is None:
            return np.asarray((worth > 0.0) | (ranked == 0))
        if self._n_settled == self._last_trial:
            return np.asarray(ranked < exactly)
        return np.asarray((worth > 0.0) | (ranked < exactly))

    async def _train_whole(
        self,
        net: Network,
        stopped: Callable[[], bool],
        after: Callable[[Network], Awaitable[None]],
    ) -> None:
        """All features, to compare with."""
        gates = np.full(len(self.gates.means), _HALF, dtype=np.int64)
        while self._n_whole < self._params.n_whole and not stopped():
            if not await self._pass(net, stopped, fixed=gates):
                break
            self._n_whole += 1
            if self._n_whole == self._params.n_whole:
                self.whole = await self._judge(gates, net)
                await self.layer.restart(net)
            await after(net)

    async def _until_opening(self, net: Network, stopped: Callable[[], bool]) -> bool:
        for _ in range(self._params.passes):
            if not await self._pass(net, stopped, fixed=self._without_gates):
                return False
        return True

    async def _pass(
        self, net: Network, stopped: Callable[[], bool], *, fixed: Small | None
    ) -> bool:
        """One pass over the training rows; says whether it was complete."""
        for number in self._rng.permutation(len(self._batches)):
            rows = self._batches[number]
            if stopped():
                return False
            counted: npt.NDArray[np.bool_] | None
            if fixed is None:
                gates, counted = self.gates.draw(self._rng)
            else:
                gates, counted = fixed, None
            await self.layer.train(rows, gates, counted, net)
        self._n_passes += 1
        return True

    async def _open(self, net: Network) -> dict[str, Any]:
        """Move the gates and judge them; the one place where numbers are opened."""
        params = self._params
        if params.has_gates:
            sums = await self.layer.gate_sums(net)
            n_seen = len(self._training) * params.passes
            slopes = 2.0 * sums / 2.0**params.scales.gate_sums / n_seen
            self.gates.step(slopes / self.variance)
        gates = gate_integers(self.gates.means)
        judged = await self._judge(gates, net)
        self._judged.append(judged)
        entry = {
            "epoch": judged.number,
            "max_epochs": params.n_openings,
            "open_features": judged.n_open,
            "validation_loss": judged.loss,
            "standard_error": judged.standard_error,
            "validation_score": 1.0 - judged.loss / self.variance,
        }
        self.history.append(entry)
        return entry

    async def _judge(self, gates: Small, net: Network) -> Judged:
        """Block means of the loss on validation rows."""
        params = self._params
        n_blocks = params.blocks_of(len(self._validation))
        blocks = await self.layer.losses(self._validation, gates, n_blocks, net)
        sizes = np.array([len(b) for b in np.array_split(self._validation, n_blocks)])
        means = blocks / 4.0**params.scales.outputs / sizes
        loss = float((means * sizes).sum() / sizes.sum())
        if not np.isfinite(loss) or loss > _DIVERGED * self.variance:
            raise Diverged(
                f"The training diverged: after {len(self._judged)} openings the loss is "
                f"{loss / self.variance:.3g} times that of predicting the mean.",
                "Steps small enough for these columns are needed.",
                "Give a smaller layer_learning_rate, such as half of the present one.",
            )
        error = float(means.std(ddof=1) / np.sqrt(len(means))) if len(means) > 1 else 0.0
        n_open = int((self.gates.means > 0.0).sum())
        return Judged(len(self._judged), n_open, loss, error, self.gates.means.copy(), means)

    @property
    def _without_gates(self) -> Small | None:
        """All gates open, where a training selects nothing."""
        return None if self._params.has_gates else gate_integers(self.gates.means)

    def _select(self) -> None:
        """Select by a state of the later half: before, gates had no time to close."""
        params = self._params
        self.chosen = choose(self._judged[len(self._judged) // 2 :], params.choose)
        self.selected = selected_features(
            self.chosen, self.gates.means, params.n_features_to_select
        )
        for one in frontier(self._judged):
            self.history[one.number]["on_frontier"] = True

    @property
    def cost(self) -> tuple[float, float]:
        """What the selection costs against all features, and the error of that; 0 if unknown."""
        if self.whole is None or self.settled is None:
            return 0.0, 0.0
        error = self.settled.error_against(self.whole)
        return self.settled.loss - self.whole.loss, error

    def frontier(self) -> list[Judged]:
        """Best states by number of features; the last one if no gate was ever open."""
        return frontier(self._judged) or [Judged(-1, 0, math.inf, 0.0, self.gates.means)]

    @property
    def all_closed(self) -> bool:
        """Whether no gate was open when the selection was made."""
        return self.chosen is None

    def final_gates(self) -> Small:
        """As the chosen state has them for what was selected, closed for the rest."""
        assert self.selected is not None  # noqa: S101 - selected before
        means = self.gates.means if self.chosen is None else self.chosen.means
        known = gate_integers(means)
        gates = np.zeros_like(known)
        if self._by_gates is not None:
            gates[self.selected] = _FULL
            return gates
        # What an exact number adds to the open gates, or what closed later, starts half open.
        gates[self.selected] = np.where(known > 0, known, _HALF)[self.selected]
        return gates

    def state(self) -> State:
        """What a checkpoint has to bring back."""
        return {
            "rng": self._rng.bit_generator.state,
            "gates": self.gates.state(),
            "history": self.history,
            "judged": [vars(one) for one in self._judged],
            "selected": self.selected,
            "chosen": None if self.chosen is None else vars(self.chosen),
            "whole": None if self.whole is None else vars(self.whole),
            "settled": None if self.settled is None else vars(self.settled),
            "by_gates": self._by_gates,
            "merit": self._merit,
            "n_whole": self._n_whole,
            "n_settled": self._n_settled,
            "n_passes": self._n_passes,
            "batches": self._batches,
        }

    def load(self, saved: State) -> None:
        """Take over what :meth:`state` gave."""
        self._rng.bit_generator.state = saved["rng"]
        self.gates.load(saved["gates"])
        self.history = list(saved["history"])
        self._judged = [Judged(**one) for one in saved["judged"]]
        self.selected = saved["selected"]
        self.chosen = None if saved["chosen"] is None else Judged(**saved["chosen"])
        self.whole = None if saved["whole"] is None else Judged(**saved["whole"])
        self.settled = None if saved["settled"] is None else Judged(**saved["settled"])
        self._by_gates, self._merit = saved["by_gates"], saved["merit"]
        self._n_whole, self._n_settled = int(saved["n_whole"]), int(saved["n_settled"])
        self._n_passes = int(saved["n_passes"])
        self._batches = list(saved["batches"])
