# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Seeds as scikit-learn users give them, turned into a numpy Generator."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedsift.errors import ParameterError

RandomState = int | np.random.Generator | None


def as_generator(random_state: Any) -> np.random.Generator:
    """Return a Generator for a seed, a Generator, an old RandomState, or None (unpredictable)."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(int(random_state.randint(2**31 - 1)))
    if random_state is None:
        return np.random.default_rng()
    if isinstance(random_state, int | np.integer) and random_state >= 0:
        return np.random.default_rng(int(random_state))
    raise ParameterError(
        f"random_state is a {type(random_state).__name__} that is no seed.",
        "It must be None, an integer of at least 0, or a numpy Generator.",
        "Pass for example random_state=0.",
    )
