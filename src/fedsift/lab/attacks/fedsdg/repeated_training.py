# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A training of the paper's protocol that somebody repeats with guesses, differentiably.

    g_t = embedding of (X * s_t),  Z_t = g_t W_t,  W_(t+1) = W_t - step * g_t^T delta_t

and the embedding's weights follow Adam, from gradients ``delta_t W_t^T`` of which the label
holder knows all but ``W_t``. Gates ``s_t`` are free in every epoch; so are those
of the embedding's columns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.methods.fedsdg.messages import Params
from fedsift.methods.fedsdg.split_network import HIDDEN_UNITS

Floats = npt.NDArray[np.float64]
Tensor = Any
"""A tensor of PyTorch, which is loaded when an attack runs."""

_OPEN = 0.5
_NEAR = 1e-4
"""How much gates are drawn to the middle, where nothing else holds them."""


@dataclass(frozen=True)
class Seen:
    """What a label holder has of a training with one batch in every epoch.

    Parameters
    ----------
    outputs, gradients : ndarray of shape (n_epochs, n_rows, n_outputs)
    sizes : tuple of int
        Columns of every feature holder.
    params : Params
        The job.
    """

    outputs: Floats
    gradients: Floats
    sizes: tuple[int, ...]
    params: Params

    @property
    def step(self) -> float:
        """What a unit of a row's gradient takes off the weights."""
        return float(2.0**-self.params.numbers.step_bits)


class _Adam:
    """Adam on tensors that other tensors depend on."""

    def __init__(self, rate: float, damping: float) -> None:
        self._rate, self._damping = rate, damping
        self._means: list[Tensor] = []
        self._squares: list[Tensor] = []
        self._n_steps = 0

    def step(self, values: list[Tensor], gradients: list[Tensor]) -> list[Tensor]:
        """The values after a step."""
        self._n_steps += 1
        means = self._means or [0.0] * len(values)
        squares = self._squares or [0.0] * len(values)
        self._means = [0.9 * m + 0.1 * g for m, g in zip(means, gradients, strict=True)]
        self._squares = [0.999 * s + 0.001 * g * g for s, g in zip(squares, gradients, strict=True)]
        first, second = 1 - 0.9**self._n_steps, 1 - 0.999**self._n_steps
        return [
            value - self._rate * (m / first) / (s / second + self._damping**2).sqrt()
            for value, m, s in zip(values, self._means, self._squares, strict=True)
        ]


class Guess(ABC):
    """Everything that the label holder does not know, and the outputs that it would have given.

    Parameters
    ----------
    seen : Seen
    seed : int
        Where the guess starts.
    """

    wanted: Tensor
    _columns: Tensor

    def __init__(self, seen: Seen, seed: int) -> None:
        import torch

        self._torch, self._seen = torch, seen
        self._draws = torch.Generator().manual_seed(seed)
        n_epochs, self._n_rows, self._n_outputs = seen.outputs.shape
        self._gates = self._normal(n_epochs, sum(seen.sizes), mean=_OPEN, spread=0.1)
        width = seen.params.embedding
        self._layers = [
            self._normal(width, self._n_outputs, spread=(width * (len(seen.sizes) + 1) / 2) ** -0.5)
            for _ in seen.sizes
        ]
        self._parts = [self._embedding(size, width) for size in seen.sizes]
        self._start(seed)
        self.variance = float((self.wanted**2).mean())
        # Of the size of a gradient: Adam's own epsilon is far below.
        self._typical = 0.3 * float(np.sqrt((seen.gradients**2).mean())) / np.sqrt(self._n_rows)

    @abstractmethod
    def _embedding(self, n_columns: int, width: int) -> list[Tensor]:
        """Weights of one party's embedding to start from."""

    @abstractmethod
    def _start(self, seed: int) -> None:
        """What there is to explain, and columns to start from."""

    @abstractmethod
    def _forward(self, inputs: Tensor, weights: list[Tensor], place: tuple[int, int]) -> Any:
        """The embedding in an epoch at a party, and whatever its gradients need."""

    @abstractmethod
    def _backward(self, kept: Any, weights: list[Tensor], layer: Tensor) -> Any:
        """What a step takes off the layer, and gradients of the embedding's weights."""

    @abstractmethod
    def found(self) -> Floats:
        """The guess of the columns."""

    @property
    def unknown(self) -> list[Tensor]:
        """All that can move."""
        weights = [tensor for part in self._parts for tensor in part]
        return [self._columns, self._gates, *self._layers, *weights]

    def penalty(self) -> Tensor:
        """Of gates far from the middle."""
        return _NEAR * ((self._gates - _OPEN) ** 2).mean()

    def outputs(self, damping: float | None) -> Tensor:
        """Outputs of all epochs; ``damping`` holds Adam's first steps back, None all of them."""
        parts, layers = [list(part) for part in self._parts], list(self._layers)
        rate = self._seen.params.learning_rate
        small = self._typical * (damping or 0.0) + 1e-8
        adams = [_Adam(rate, small) for _ in parts]
        columns, cuts = self._standardised(), np.cumsum((0, *self._seen.sizes))
        outputs = []
        for epoch, gates in enumerate(self._gates):
            inputs, total = columns * gates, self._torch.zeros(())
            for i, part in enumerate(parts):
                embedding, kept = self._forward(inputs[:, cuts[i] : cuts[i + 1]], part, (epoch, i))
                total = total + embedding @ layers[i]
                taken, gradients = self._backward(kept, part, layers[i])
                layers[i] = layers[i] - self._seen.step * taken
                if damping is not None:
                    parts[i] = adams[i].step(part, gradients)
            outputs.append(total)
        return self._torch.stack(outputs)

    def _standardised(self) -> Tensor:
        return self._columns / (self._columns**2).mean(0).sqrt()

    def _normal(self, *shape: int, mean: float = 0.0, spread: float = 1.0) -> Tensor:
        drawn = self._torch.randn(*shape, generator=self._draws, dtype=self._torch.float64)
        return (mean + spread * drawn).requires_grad_()

    def _uniform(self, *shape: int, limit: float) -> Tensor:
        drawn = self._torch.rand(*shape, generator=self._draws, dtype=self._torch.float64)
        return ((2 * drawn - 1) * limit).requires_grad_()

    def _fixed(self, values: Floats) -> Tensor:
        return self._torch.tensor(values, dtype=self._torch.float64)


class LinearGuess(Guess):
    """Of a linear model: all happens in the few directions that outputs have."""

    def _embedding(self, n_columns: int, width: int) -> list[Tensor]:
        return [self._normal(n_columns, width, spread=0.1)]

    def _start(self, seed: int) -> None:  # noqa: ARG002 - draws come from it already
        seen, n_columns = self._seen, sum(self._seen.sizes)
        stacked = np.concatenate(list(seen.outputs), axis=1)
        directions = np.linalg.svd(stacked, full_matrices=False)[0][:, :n_columns]
        self._basis = directions * np.sqrt(self._n_rows)
        self.wanted = self._fixed(self._basis.T @ seen.outputs / self._n_rows)
        self._sent = self._fixed(self._basis.T @ seen.gradients)
        self._columns = self._normal(self._basis.shape[1], n_columns)

    def _standardised(self) -> Tensor:
        return self._columns / (self._columns**2).sum(0).sqrt()

    def _forward(self, inputs: Tensor, weights: list[Tensor], place: tuple[int, int]) -> Any:
        return inputs @ weights[0], inputs.T @ self._sent[place[0]]

    def _backward(self, kept: Any, weights: list[Tensor], layer: Tensor) -> Any:
        return weights[0].T @ kept, [kept @ layer.T / self._n_rows]

    def found(self) -> Floats:
        """What the small matrix makes of the outputs' directions."""
        return np.asarray(self._basis @ self._columns.detach().numpy())


class NetworkGuess(Guess):
    """Of the default network: one hidden layer, bounded outputs, gates on both sides."""

    def __init__(self, seen: Seen, seed: int) -> None:
        self._both = seen.params.gates == "dual"
        super().__init__(seen, seed)
        shape = (len(seen.outputs), len(seen.sizes), seen.params.embedding)
        self._back_gates = self._normal(*shape, mean=0.8, spread=0.05)

    def _embedding(self, n_columns: int, width: int) -> list[Tensor]:
        inner, outer = n_columns**-0.5, HIDDEN_UNITS**-0.5
        return [
            self._uniform(HIDDEN_UNITS, n_columns, limit=inner),
            self._uniform(HIDDEN_UNITS, limit=inner),
            self._uniform(width, HIDDEN_UNITS, limit=outer),
            self._uniform(width, limit=outer),
        ]

    def _start(self, seed: int) -> None:
        seen, n_columns = self._seen, sum(self._seen.sizes)
        stacked = np.concatenate(list(seen.outputs), axis=1)
        left = np.linalg.svd(stacked - stacked.mean(axis=0), full_matrices=False)[0]
        turned = np.linalg.qr(np.random.default_rng(seed).normal(size=(n_columns, n_columns)))[0]
        turned = np.eye(n_columns) if seed % 1000 == 0 else turned
        start = self._fixed(left[:, :n_columns] @ turned * np.sqrt(self._n_rows))
        self._columns = start.requires_grad_()
        self.wanted, self._sent = self._fixed(seen.outputs), self._fixed(seen.gradients)

    @property
    def unknown(self) -> list[Tensor]:
        """All that can move."""
        return [*super().unknown, *([self._back_gates] if self._both else [])]

    def penalty(self) -> Tensor:
        """Of gates far from where they start."""
        behind = ((self._back_gates - 0.8) ** 2).mean() if self._both else 0.0
        return super().penalty() + _NEAR * behind

    def _standardised(self) -> Tensor:
        centred = self._columns - self._columns.mean(0)
        return centred / (centred**2).mean(0).sqrt()

    def _forward(self, inputs: Tensor, weights: list[Tensor], place: tuple[int, int]) -> Any:
        before = inputs @ weights[0].T + weights[1]
        hidden = before.clamp(min=0)
        bounded = self._torch.tanh(hidden @ weights[2].T + weights[3])
        gates = self._back_gates[place] if self._both else 1.0
        return bounded * gates, (inputs, before, hidden, bounded, gates, self._sent[place[0]])

    def _backward(self, kept: Any, weights: list[Tensor], layer: Tensor) -> Any:
        inputs, before, hidden, bounded, gates, sent = kept
        outer = (sent @ layer.T / self._n_rows) * gates * (1 - bounded * bounded)
        inner = (outer @ weights[2]) * (before > 0)
        gradients = [inner.T @ inputs, inner.sum(0), outer.T @ hidden, outer.sum(0)]
        return (bounded * gates).T @ sent, gradients

    def found(self) -> Floats:
        """The columns as they are."""
        return np.asarray(self._standardised().detach().numpy())
