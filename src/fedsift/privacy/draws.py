# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Where private draws come from: the operating system, whenever somebody could gain from a seed.

A seed stands in the job, so every party knows it. Between organisations it drives *public* draws
only: which rows are held out, which groups are tested. Orders of columns, anchors, starting
weights, rows for validation, swarms and all that a party keeps to itself come from the operating
system. In one process, where one user has all the data, a seed repeats these draws too.

Noise that protects privacy never follows a seed, not even in one process.

Tests that compare runs number by number, and attacks on what version 0.1.0 did, use
:func:`fedsift.testing.draws.let_seeds_drive_everything`. No job, setting or environment variable
does the same.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from fedsift.crypto.modular import uniform_below

_seeds_drive_everything = False


def private_seed(seed: int | None, *, simulated: bool) -> int | None:
    """Seed of a run's private draws; None to take them from the operating system.

    Parameters
    ----------
    seed : int or None
        The job's.
    simulated : bool
        Whether all parties belong to whoever runs it.
    """
    return seed if simulated or _seeds_drive_everything else None


def noise_seed(seed: int | None) -> int | None:
    """Seed of noise that protects privacy: none, but in tests."""
    return seed if _seeds_drive_everything else None


def normal_noise(shape: tuple[int, ...], rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Standard normal noise from the operating system; from the generator in tests alone."""
    if _seeds_drive_everything:
        return rng.normal(0.0, 1.0, shape)
    # The middle of one of 2**53 equal steps: never 0 or 1, at which the quantile is infinite.
    uniform = (uniform_below(1 << 53, shape).astype(np.float64) + 0.5) * 2.0**-53
    return np.asarray(ndtri(uniform), dtype=np.float64)


def uniform_noise(
    half: int, shape: tuple[int, ...], rng: np.random.Generator | None
) -> npt.NDArray[np.int64]:
    """Whole numbers from -half to half - 1, without a generator from the operating system."""
    if rng is not None:
        return rng.integers(-half, half, shape)
    return uniform_below(2 * half, shape).astype(np.int64) - half
