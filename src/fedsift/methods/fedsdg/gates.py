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

_SMALLEST_IMPURITY = 1e-3
"""1/G has a pole where a feature tells the classes apart perfectly."""

START_STEPS = 64
"""Gates start at multiples of 1/64: a finer start would tell more about the label than it helps."""


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

    def open_probability(self) -> torch.Tensor:
        """Probability that each gate lets anything through: Phi(mean / sigma)."""
        return 0.5 * (1.0 + torch.erf(self.mean / (self.sigma * math.sqrt(2.0))))

    def open_gates(self) -> npt.NDArray[np.bool_]:
        """Which gates are open once the noise is left out."""
        return np.asarray(self.mean.detach().numpy() > 0.0)


def start_from_gini(impurities: Floats) -> Floats:
    """Means to start from, larger for features that alone tell more (Algorithm 1, line 11).

    The paper starts in proportion to 1/G. On real data 1/G hardly varies, which makes that a
    constant start; standardising it over the features of all parties keeps the order and gives it
    a range.

    Parameters
    ----------
    impurities : ndarray of shape (n_features,)
        Gini impurity of the label in the bins of each feature, over all parties.

    Returns
    -------
    means : ndarray of shape (n_features,)
        In [0, 1], around 1/2, in steps of 1/64.
    """
    merit = 1.0 / np.maximum(impurities, _SMALLEST_IMPURITY)
    spread = merit.std()
    standard = (merit - merit.mean()) / spread if spread > 0 else np.zeros_like(merit)
    means = np.clip(0.5 + 0.25 * standard, 0.0, 1.0)
    rounded: Floats = np.rint(means * START_STEPS) / START_STEPS
    return rounded
