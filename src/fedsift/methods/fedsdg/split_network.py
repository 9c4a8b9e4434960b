# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The networks on both sides of the interactive layer, and how they are made repeatably."""

from __future__ import annotations

import threading
from collections.abc import Callable

import torch
from torch import nn

from fedsift.errors import ParameterError

MakeEmbedding = Callable[[int, int], nn.Module]
"""From (number of inputs, embedding width) to a network; any ``torch.nn.Module`` will do."""

MakeTop = Callable[[int, int], nn.Module]
"""From (outputs of the interactive layer, classes or 1) to the network behind the layer."""

HIDDEN_UNITS = 100
_making = threading.Lock()


def bounded_embedding(n_inputs: int, width: int) -> nn.Module:
    """The default embedding: one hidden layer, outputs in (-1, 1).

    Bounded outputs suit fixed-point numbers: every one of them uses the whole range.
    """
    return nn.Sequential(
        nn.Linear(n_inputs, HIDDEN_UNITS), nn.ReLU(), nn.Linear(HIDDEN_UNITS, width), nn.Tanh()
    )


def linear_embedding(n_inputs: int, width: int) -> nn.Module:
    """No hidden layer, no activation: the whole model stays linear in the features."""
    layer = nn.Linear(n_inputs, width, bias=False)
    nn.init.normal_(layer.weight, std=0.1)
    return layer


def first_layer(network: nn.Module, n_inputs: int) -> nn.Linear | None:
    """The weights that inputs meet first, if they are those of a linear layer over all of them."""
    for module in network.modules():
        if isinstance(module, nn.Linear):
            return module if module.in_features == n_inputs else None
    return None


class TopNetwork(nn.Module):
    """What follows the interactive layer, at the label holder.

    Parameters
    ----------
    n_inputs : int
        Outputs of the interactive layer.
    n_outputs : int
        Classes, or 1 for regression.
    linear : bool
        Only a bias; then both numbers are the same.
    """

    def __init__(self, n_inputs: int, n_outputs: int, *, linear: bool = False) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(n_inputs))
        self.rest: nn.Module = (
            nn.Identity() if linear else nn.Sequential(nn.ReLU(), nn.Linear(n_inputs, n_outputs))
        )

    def forward(self, outputs: torch.Tensor) -> torch.Tensor:
        """Class scores, or the standardised prediction, of shape (n_rows, n_outputs)."""
        result: torch.Tensor = self.rest(outputs + self.bias)
        return result


def check_top(network: nn.Module, n_inputs: int, n_outputs: int) -> nn.Module:
    """Refuse a network that does not turn the layer's outputs into one number per class."""
    found = type(network).__name__
    if isinstance(network, nn.Module):
        was_training = network.training
        with torch.no_grad():
            shape = tuple(network.eval()(torch.zeros(2, n_inputs)).shape)
        network.train(was_training)
        if shape == (2, n_outputs):
            return network
        found = f"a network with outputs of shape {shape} for 2 rows"
    raise ParameterError(
        f"top_network made {found}.",
        f"A torch.nn.Module from {n_inputs} inputs to {n_outputs} outputs is needed.",
        "Make it from the two numbers that top_network is called with.",
    )


def made_with_seed(make: Callable[[], nn.Module], seed: int) -> nn.Module:
    """A network whose start depends on the seed alone.

    PyTorch draws starting weights from one generator for the whole process; parties that build
    their networks at the same time must not take numbers from each other.
    """
    with _making, torch.random.fork_rng(devices=[]):
        torch.manual_seed(torch_seed(seed))
        return make()


def torch_seed(seed: int) -> int:
    """PyTorch takes 63 bits of a seed."""
    return seed % (1 << 63)
