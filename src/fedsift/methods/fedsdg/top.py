# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What only the label holder has: labels, top network, loss, and the gradients it sends out."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from fedsift.data.target import Target
from fedsift.methods.fedsdg.layer_numbers import Floats
from fedsift.methods.fedsdg.messages import Params
from fedsift.methods.fedsdg.row_splits import Rows
from fedsift.methods.fedsdg.split_network import (
    MakeTop,
    TopNetwork,
    check_top,
    made_with_seed,
)
from fedsift.privacy.draws import normal_noise


@dataclass(frozen=True)
class Verdict:
    """How a model does on some rows.

    Parameters
    ----------
    loss : float
        Mean cross-entropy, or mean squared error of the standardised target.
    score : float
        Accuracy, or R2.
    comparable : float
        What epochs are compared by, larger is better: accuracy, or minus the squared error.
    standard_error : float
        Of ``comparable``.
    """

    loss: float
    score: float
    comparable: float
    standard_error: float


class TopSide:
    """Top network with its optimiser, and the labels in the form the loss needs.

    Parameters
    ----------
    target : Target
    training : ndarray of int
        Rows whose mean and spread standardise a numeric target.
    params : Params
    seed : int
        Starting weights.
    make : callable, optional
        Another top network.
    """

    def __init__(
        self,
        target: Target,
        training: Rows,
        params: Params,
        seed: int,
        make: MakeTop | None = None,
    ) -> None:
        self._target = target
        self._params = params
        self.mean, self.scale = 0.0, 1.0
        if target.kind == "classes":
            self._labels = torch.from_numpy(target.codes.copy())
        else:
            known = target.values[training]
            self.mean, self.scale = float(known.mean()), float(known.std()) or 1.0
            standard = (target.values - self.mean) / self.scale
            self._labels = torch.from_numpy(standard.astype(np.float32))
        self.network = new_top(params, target.n_classes, seed, make)
        self._optimiser = torch.optim.Adam(self.network.parameters(), lr=params.learning_rate)

    def learn(self, rows: Rows, outputs: Floats) -> tuple[float, Floats]:
        """Algorithm 3, lines 1-4: a step of the top network; loss and gradient of the outputs."""
        self.network.train()
        reached = torch.tensor(outputs, dtype=torch.float32, requires_grad=True)
        loss = self._losses(self.network(reached), rows).mean()
        self._optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimiser.step()
        assert reached.grad is not None  # noqa: S101 - it requires one
        # Per row, not per batch: fixed point keeps the bits where they are needed.
        return float(loss.detach()), reached.grad.numpy().astype(np.float64) * len(rows)

    def judge(self, rows: Rows, outputs: Floats) -> Verdict:
        """Loss and score on some rows."""
        self.network.eval()
        with torch.no_grad():
            results = self.network(torch.tensor(outputs, dtype=torch.float32))
            losses = self._losses(results, rows).numpy().astype(np.float64)
        loss = float(losses.mean())
        if self._target.kind == "classes":
            right = results.argmax(dim=1).numpy() == self._target.codes[rows]
            score = float(right.mean())
            error = math.sqrt(max(score * (1 - score), 1e-4) / len(rows))
            return Verdict(loss, score, score, error)
        spread = float(self._labels[torch.from_numpy(rows)].var(correction=0)) or 1.0
        error = float(losses.std() / math.sqrt(len(rows)))
        return Verdict(loss, 1.0 - loss / spread, -loss, error)

    def _losses(self, results: torch.Tensor, rows: Rows) -> torch.Tensor:
        labels = self._labels[torch.from_numpy(rows)]
        if self._target.kind == "classes":
            return functional.cross_entropy(results, labels, reduction="none")
        return (results[:, 0] - labels) ** 2

    def model_state(self) -> dict[str, Any]:
        """Weights of the top network, copied."""
        return copy.deepcopy(self.network.state_dict())

    def optimiser_state(self) -> dict[int, Any]:
        """What going on with the training needs on top."""
        state: dict[int, Any] = copy.deepcopy(self._optimiser.state_dict()["state"])
        return state

    def load(self, model: Mapping[str, Any], optimiser: Mapping[int, Any] | None = None) -> None:
        """Take over weights, and the optimiser's state if the training goes on."""
        self.network.load_state_dict(model)
        if optimiser is not None:
            whole = self._optimiser.state_dict()
            whole["state"] = {int(key): value for key, value in optimiser.items()}
            self._optimiser.load_state_dict(whole)


def new_top(params: Params, n_classes: int, seed: int, make: MakeTop | None = None) -> nn.Module:
    """A fresh top network; ``n_classes`` is 0 for regression."""
    sizes = params.outputs, max(1, n_classes)
    linear = params.model == "linear"
    if make is None:
        return made_with_seed(lambda: TopNetwork(*sizes, linear=linear), seed)
    return check_top(made_with_seed(lambda: make(*sizes), seed), *sizes)


def protected(delta: Floats, params: Params, noise: np.random.Generator) -> Floats:
    """Gradients with noise that makes them tell feature holders less about labels."""
    if params.label_noise > 0:
        spread = params.label_noise * float(np.sqrt((delta**2).mean()))
        delta = delta + normal_noise(delta.shape, noise) * spread
    return delta
