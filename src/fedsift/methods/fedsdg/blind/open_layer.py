# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The network of the blind protocol on open integers: what the shares add up to.

Its numbers are those of the protocol to one unit per shortened number. Tests compare the protocol
with it, and a label holder without any partner trains with it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fedsift.crypto.products.between_two import Small
from fedsift.data.state_files import State
from fedsift.methods.fedsdg.blind.numbers import (
    FACTOR_BITS,
    HIDDEN_BITS,
    MOMENTUM_BITS,
    Floats,
    Scales,
    output_signs,
)
from fedsift.protocol import Network


class OpenLayer:
    """All columns in one place, integers in floating point (exact below 2**53).

    Parameters
    ----------
    inputs : ndarray of shape (n_rows, n_inputs)
        Integers.
    weights : ndarray of shape (n_hidden, n_inputs)
        Integers to start from.
    targets : ndarray of shape (n_outputs, n_rows)
        Integers at the scale of outputs.
    """

    def __init__(
        self, inputs: Small, weights: Small, targets: Small, feature_of_input: Small, scales: Scales
    ) -> None:
        self._inputs = inputs.astype(np.float64)
        self.weights: Floats = weights.astype(np.float64)
        self._targets = targets.astype(np.float64)
        self._feature_of_input = feature_of_input
        self._scales = scales
        self._bias = np.zeros(len(weights))
        self._start = self.weights.copy()
        self._last, self._last_bias = np.zeros_like(self.weights), np.zeros_like(self._bias)
        self._signs = output_signs(len(weights), len(targets)).astype(np.float64)
        self._sums = np.zeros(int(feature_of_input.max()) + 1 if feature_of_input.size else 0)

    def use_batches(self, batches: Sequence[Small], n_uses: int, *, training: bool) -> None:
        """Nothing has to be prepared."""

    async def train(
        self, rows: Small, gates: Small, counted: npt.NDArray[np.bool_] | None, net: Network
    ) -> None:
        """One step on some rows."""
        hidden, outputs = self._forward(rows, gates)
        errors = outputs - self._targets[:, rows]
        slopes = (self._signs.T @ errors) * (hidden + (1 << HIDDEN_BITS))
        slopes = np.floor(slopes / 2.0**self._scales.slope_shift + 0.5)
        gradient = slopes @ self._inputs[rows]
        by_input = (self.weights * gradient).sum(axis=0)
        by_feature = np.bincount(self._feature_of_input, by_input, len(self._sums))
        if counted is not None:
            self._sums += np.where(counted, by_feature, 0.0)
        step = slopes.sum(axis=1) * 2.0**self._scales.bias_shift
        self._last += gradient - _shorten(self._last)
        self._last_bias += step - _shorten(self._last_bias)
        self.weights -= self._last
        self._bias -= self._last_bias

    async def restart(self, net: Network) -> None:
        """The starting weights again."""
        self.weights, self._bias = self._start.copy(), np.zeros_like(self._bias)
        self._last, self._last_bias = np.zeros_like(self.weights), np.zeros_like(self._bias)

    async def gate_sums(self, net: Network) -> Floats:
        """Sums since the last time, by feature."""
        sums, self._sums = self._sums, np.zeros_like(self._sums)
        return np.asarray(sums * self.factors(len(sums)))

    def factors(self, n_features: int) -> Floats:
        """Of the sums: nobody has anything to hide here."""
        return np.full(n_features, 2.0**FACTOR_BITS)

    async def losses(self, rows: Small, gates: Small, n_blocks: int, net: Network) -> Floats:
        """Sums of squared errors over blocks of rows."""
        _, outputs = self._forward(rows, gates)
        squares = ((outputs - self._targets[:, rows]) ** 2).sum(axis=0)
        return np.array([block.sum() for block in np.array_split(squares, n_blocks)])

    def outputs(self, rows: Small, gates: Small) -> Floats:
        """Outputs of some rows, (n_outputs, n_rows)."""
        return self._forward(rows, gates)[1]

    def _forward(self, rows: Small, gates: Small) -> tuple[Floats, Floats]:
        gated = self.weights * gates[self._feature_of_input]
        hidden = gated @ self._inputs[rows].T + self._bias[:, None]
        hidden = np.floor(hidden / 2.0**self._scales.hidden_shift + 0.5)
        activations = hidden * hidden + hidden * 2.0 ** (HIDDEN_BITS + 1)
        return hidden, self._signs @ activations

    def state(self) -> State:
        """What a checkpoint has to bring back."""
        return {
            "weights": self.weights,
            "bias": self._bias,
            "last": self._last,
            "last_bias": self._last_bias,
        }

    def load(self, saved: State) -> None:
        """Take over what :meth:`state` gave."""
        self.weights, self._bias = saved["weights"], saved["bias"]
        self._last, self._last_bias = saved["last"], saved["last_bias"]


def _shorten(numbers: Floats) -> Floats:
    shortened: Floats = np.floor(numbers / 2.0**MOMENTUM_BITS + 0.5)
    return shortened
