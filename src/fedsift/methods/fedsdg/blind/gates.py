# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Gates of the blind protocol, all at the label holder: one per unnamed column."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.crypto.products.between_two import Small
from fedsift.methods.fedsdg.blind.numbers import GATE_BITS, Floats

_FULL = 1 << GATE_BITS
_FIRST_DECAY, _SECOND_DECAY = 0.9, 0.99
_FARTHEST = 1.5
"""Means stay within this of zero, so that a closed gate can open again."""


class Gates:
    """Means of the gates, stepped by Adam from one opened number per column.

    Parameters
    ----------
    start : ndarray of shape (n_features,)
        Means to start from.
    sigma, price, rate : float
        Noise, weight of the mean probability that a gate is open relative to the loss of predicting
        the mean, and size of a step.
    """

    def __init__(self, start: Floats, sigma: float, price: float, rate: float) -> None:
        self.means: Floats = np.array(start, dtype=np.float64)
        self._sigma, self._price, self._rate = sigma, price, rate
        self._first = np.zeros_like(self.means)
        self._second = np.zeros_like(self.means)
        self._n_steps = 0

    def draw(self, rng: np.random.Generator) -> tuple[Small, npt.NDArray[np.bool_]]:
        """Noisy gates in steps of 1/32, and which of them are neither closed nor fully open."""
        noisy = self.means + self._sigma * rng.normal(size=len(self.means))
        return gate_integers(noisy), (noisy > 0.0) & (noisy < 1.0)

    def step(self, slopes: Floats) -> None:
        """Move all means, by the slopes of the loss and the price of an open gate."""
        density = np.exp(-0.5 * (self.means / self._sigma) ** 2)
        density /= self._sigma * math.sqrt(2.0 * math.pi)
        gradient = slopes + self._price / len(self.means) * density
        self._n_steps += 1
        self._first = _FIRST_DECAY * self._first + (1 - _FIRST_DECAY) * gradient
        self._second = _SECOND_DECAY * self._second + (1 - _SECOND_DECAY) * gradient**2
        mean = self._first / (1 - _FIRST_DECAY**self._n_steps)
        size = np.sqrt(self._second / (1 - _SECOND_DECAY**self._n_steps)) + 1e-8
        self.means = np.clip(self.means - self._rate * mean / size, -_FARTHEST, _FARTHEST)

    def state(self) -> dict[str, Any]:
        """What a checkpoint has to bring back."""
        return {
            "means": self.means,
            "first": self._first,
            "second": self._second,
            "n_steps": self._n_steps,
        }

    def load(self, saved: dict[str, Any]) -> None:
        """Take over what :meth:`state` gave."""
        self.means, self._first, self._second = saved["means"], saved["first"], saved["second"]
        self._n_steps = int(saved["n_steps"])


def gate_integers(means: Floats) -> Small:
    """Gates between 0 and 1 as multiples of 1/32."""
    return np.rint(np.clip(means, 0.0, 1.0) * _FULL).astype(np.int64)


@dataclass(frozen=True)
class Judged:
    """What is known of the model after one opening.

    Parameters
    ----------
    number : int
    n_open : int
    loss, standard_error : float
        Squared error on validation rows, from the means of blocks.
    means : ndarray
        Of all gates.
    blocks : ndarray, optional
        Mean squared errors of the blocks of validation rows.
    """

    number: int
    n_open: int
    loss: float
    standard_error: float
    means: Floats
    blocks: Floats | None = None

    def error_against(self, other: Judged) -> float:
        """Standard error of the difference of two losses on the same blocks of rows."""
        if self.blocks is None or other.blocks is None:
            return other.standard_error
        if len(self.blocks) < 2:
            return 0.0
        return float((self.blocks - other.blocks).std(ddof=1) / np.sqrt(len(self.blocks)))


def frontier(judged: list[Judged]) -> list[Judged]:
    """Best loss for every number of features that no smaller number reaches.

    Examples
    --------
    >>> gates = np.zeros(1)
    >>> found = frontier([Judged(0, 9, 0.3, 0, gates), Judged(1, 5, 0.2, 0, gates),
    ...                   Judged(2, 2, 0.25, 0, gates), Judged(3, 2, 0.4, 0, gates)])
    >>> [(one.n_open, one.loss) for one in found]
    [(2, 0.25), (5, 0.2)]
    """
    found: list[Judged] = []
    for one in sorted(judged, key=lambda one: (one.n_open, one.loss)):
        if one.n_open and (not found or one.loss < found[-1].loss):
            found.append(one)
    return found


def choose(judged: list[Judged], rule: str) -> Judged | None:
    """The state of the gates to select by, or None if no gate was ever open.

    Parameters
    ----------
    rule : {"best", "one-se", "fewest"}
        Smallest loss; fewest features within one standard error of it; or within two.
    """
    candidates = frontier(judged)
    if not candidates:
        return None
    best = candidates[-1]
    slack = {"best": 0.0, "one-se": 1.0, "fewest": 2.0}[rule] * best.standard_error
    return next(one for one in candidates if one.loss <= best.loss + slack)


def selected_features(chosen: Judged | None, means: Floats, exactly: int | None) -> Small:
    """Which gates stay open: those of the chosen state, an exact number, or the best one alone.

    Where fewer gates than the exact number are open, the next widest join them.
    """
    known = means if chosen is None else chosen.means
    if exactly is None and chosen is not None:
        return np.flatnonzero(known > 0.0)
    ranked = np.lexsort((np.arange(len(known)), -known))
    return np.sort(ranked[: 1 if exactly is None else exactly])
