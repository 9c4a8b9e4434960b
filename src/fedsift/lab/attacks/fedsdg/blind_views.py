# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Blind trainings with parties that keep all they see, and with protections taken away."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.crypto.products.between_two import moduli
from fedsift.data import Federation
from fedsift.engine import run_local
from fedsift.lab.attacks.recording import Stage, make_curious
from fedsift.methods.fedsdg.blind import label_holder as blind
from fedsift.methods.fedsdg.blind import messages
from fedsift.methods.fedsdg.blind.feature_holder import BlindFeatureHolder
from fedsift.methods.fedsdg.blind.numbers import FACTOR_BITS, GATE_BITS
from fedsift.methods.fedsdg.blind.params import BlindParams
from fedsift.methods.fedsdg.blind.training import BlindTraining
from fedsift.methods.fedsdg.row_splits import equal_batches
from fedsift.protocol import handles

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass
class Openings:
    """What a label holder has of a training: its own draws, and what was opened to it.

    Attributes
    ----------
    batches : list of tuple
        Rows, gates between 0 and 1, which of them count, and the number of the opening.
    sums, losses, means : list of ndarray
        Per opening: of every feature; of every block of validation rows; the gates' means.
    """

    batches: list[tuple[Integers, Floats, npt.NDArray[np.bool_], int]] = field(default_factory=list)
    sums: list[Floats] = field(default_factory=list)
    losses: list[Floats] = field(default_factory=list)
    means: list[Floats] = field(default_factory=list)


class ShuffledTraining(BlindTraining):
    """Draws other batches for every pass, so that every sum weighs rows in another way."""

    async def _pass(self, net: Any, stopped: Any, *, fixed: Any) -> bool:
        rows = self._rng.permutation(self._training)
        self._batches = equal_batches(rows, self._params.batch_size)
        self.layer.use_batches(self._batches, 1, training=True)
        return await super()._pass(net, stopped, fixed=fixed)


class CuriousBlindLabelHolder(blind.BlindLabelHolder):
    """Follows the protocol and keeps everything it sees."""

    exact: bool
    seen: Openings

    def watch(self, exact: bool = False) -> None:
        """Start keeping notes; ``exact`` takes limits and fixed batches away."""
        self.exact, self.seen = exact, Openings()

    def _check_opened(self, widths: Any) -> None:
        if not self.exact:
            super()._check_opened(widths)

    def _new_phase(self, layer: Any, gates: Any) -> Any:
        seen, scales = self.seen, self._params.scales
        train, gate_sums, losses = layer.train, layer.gate_sums, layer.losses

        async def seen_train(rows: Integers, drawn: Integers, counted: Any, net: Any) -> None:
            if counted is not None and len(seen.sums) < self._params.n_openings:
                noted = drawn / 2.0**GATE_BITS
                seen.batches.append((rows.copy(), noted, counted.copy(), len(seen.sums)))
            await train(rows, drawn, counted, net)

        async def seen_sums(net: Any) -> Floats:
            found: Floats = await gate_sums(net)
            seen.sums.append(found / 2.0**scales.gate_sums)
            return found

        async def seen_losses(rows: Integers, drawn: Integers, n_blocks: int, net: Any) -> Floats:
            found: Floats = await losses(rows, drawn, n_blocks, net)
            seen.losses.append(found / 4.0**scales.outputs)
            seen.means.append(drawn / 2.0**GATE_BITS)
            return found

        layer.train, layer.gate_sums, layer.losses = seen_train, seen_sums, seen_losses
        phase = super()._new_phase(layer, gates)
        if self.exact:
            phase.__class__ = ShuffledTraining
        return phase


@dataclass
class SharesOfRows:
    """Numbers of single rows that a feature holder has after one batch, each in [0, 1)."""

    rows: Integers
    numbers: Floats


class CuriousBlindFeatureHolder(BlindFeatureHolder):
    """Follows the protocol and keeps everything that has one number per row."""

    exact: bool
    views: list[SharesOfRows]

    def watch(self, exact: bool = False) -> None:
        """Start keeping notes; ``exact`` takes limits and secret factors away."""
        self.exact, self.views = exact, []

    def _check_opened(self, n_features: int, n_own: int) -> None:
        if not self.exact:
            super()._check_opened(n_features, n_own)

    def _factor(self, party: str) -> None:
        super()._factor(party)
        if self.exact:
            n_features = len(self._encoder.names)
            self._held().use_factors(np.full(n_features, 1 << FACTOR_BITS))

    def _own_factors(self, party: str, n_features: int) -> Integers:
        factors = super()._own_factors(party, n_features)
        return np.full_like(factors, 1 << FACTOR_BITS) if self.exact else factors

    @handles(messages.RowsWanted)
    async def forward(self, ask: Any, net: Any) -> Any:
        """Note which rows came together."""
        answer = await super().forward(ask, net)
        rows = self._held().table.rows_of(ask.batch)
        place = np.arange(len(rows)) / len(rows)
        if ask.batch not in self._judging:
            self.views.append(SharesOfRows(rows.copy(), place[:, None]))
        return answer

    @handles(messages.SquaresWanted)
    async def square(self, ask: Any, net: Any) -> Any:
        """Note the helper's shares of hidden values and outputs."""
        answer = await super().square(ask, net)
        network = self._helping()
        if self._batch not in self._judging:
            self._note(network._hidden)
            self._note(network.outputs)
        return answer

    @handles(messages.StepWanted)
    async def step(self, ask: Any, net: Any) -> None:
        """Note the share of the rows' gradients."""
        await super().step(ask, net)
        self._note(self._slope_share())

    def _note(self, shares: Any) -> None:
        """Residues (primes, units, rows), as numbers between 0 and 1."""
        view = self.views[-1]
        reals = shares.astype(np.float64) / np.array(moduli(), dtype=np.float64)[:, None, None]
        by_row = reals.reshape(-1, shares.shape[2]).T
        view.numbers = np.concatenate([view.numbers, by_row], axis=1)


CURIOUS_BLIND = {
    blind.BlindLabelHolder: CuriousBlindLabelHolder,
    BlindFeatureHolder: CuriousBlindFeatureHolder,
}


@dataclass
class BlindRecording:
    """One blind run, as each party saw it."""

    params: BlindParams
    openings: Openings
    features: dict[str, list[SharesOfRows]]
    training: Integers
    validation: Integers
    targets: Floats
    stage: Stage

    def role(self, party: str) -> Any:
        """A party's role as it is at the end."""
        return self.stage.nodes[party][0]


def record_blind(
    federation: Federation, params: BlindParams, *, exact: bool = False
) -> BlindRecording:
    """Train blindly with curious parties and return what each of them has."""
    holder, target = federation.label_holder, federation.target
    assert holder is not None and target is not None  # noqa: S101, PT018 - attacks need a label
    nodes = blind.build_nodes(federation.tables, holder, target, params)
    make_curious(nodes, CURIOUS_BLIND, exact)
    outcome = run_local(blind.PROTOCOL, nodes, protected=params.scheme != "plain")
    return read_blind(Stage(blind.PROTOCOL, nodes, outcome))


def read_blind(stage: Stage) -> BlindRecording:
    """What the curious parties of a blind run noted."""
    (labels,) = stage.roles(CuriousBlindLabelHolder).values()
    others = stage.roles(CuriousBlindFeatureHolder)
    targets = labels._targets / 2.0**labels._params.scales.outputs
    return BlindRecording(
        labels._params,
        labels.seen,
        {party: role.views for party, role in others.items()},
        labels._train_rows,
        labels._judge_rows,
        targets.T,
        stage,
    )
