# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Stochastic gates: a number between 0 and 1 per feature, learned while a network trains.

Paper 000 (FedSDG-FS), section IV. A gate is ``q = clip(mean + sigma * noise, 0, 1)`` with normal
noise. While training, noise lets a gate try out being open or closed; afterwards the noise is left
out and a gate whose mean is not above zero is closed for good.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

Floats = npt.NDArray[np.float64]


class GaussianGate(nn.Module):
    """One gate per feature (or per embedding column).

    Parameters
    ----------
    start : array-like of shape (n_gates,)
        Means to start from.
    sigma : float
        Standard deviation of the noise.
    """

    mean: nn.Parameter

    def __init__(self, start: npt.ArrayLike, sigma: float) -> None:
        super().__init__()
        self.mean = nn.Parameter(torch.as_tensor(np.asarray(start), dtype=torch.float32).clone())
        self.sigma = sigma

    def forward(self, generator: torch.Generator | None = None) -> torch.Tensor:
        """Values of all gates: noisy (one draw per batch) with a generator, final without."""
        if generator is None:
            return self.mean.clamp(0.0, 1.0)
        noise = torch.randn(self.mean.shape, generator=generator)
        return (self.mean + self.sigma * noise).clamp(0.0, 1.0)

    def of_rows(
        self, n_rows: int, generator: torch.Generator | None = None, n_draws: int = 1
    ) -> torch.Tensor:
        """Gates for the rows of a batch, which take turns with several draws (Equation 5).

        The gradient of the mean loss is then an average over the draws, each with its share of the
        rows, and nothing more has to be exchanged. A single draw is the same for all rows.

        Returns
        -------
        tensor of shape (n_rows, n_gates), or (n_gates,) for a single draw
        """
        if generator is None or n_draws == 1:
            return self.forward(generator)
        draws = torch.stack([self.forward(generator) for _ in range(n_draws)])
        return draws[torch.arange(n_rows) % n_draws]

    def open_probability(self) -> torch.Tensor:
        """Probability that each gate lets anything through: Phi(mean / sigma)."""
        return 0.5 * (1.0 + torch.erf(self.mean / (self.sigma * math.sqrt(2.0))))

    def open_gates(self) -> npt.NDArray[np.bool_]:
        """Which gates are open once the noise is left out."""
        return np.asarray(self.mean.detach().numpy() > 0.0)
