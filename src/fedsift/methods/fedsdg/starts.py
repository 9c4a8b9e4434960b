# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Where gates start: further open for features that alone tell more about the label."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_SMALLEST_IMPURITY = 1e-3
"""1/G has a pole where a feature tells the classes apart perfectly."""

START_STEPS = 64
"""Gates start at multiples of 1/64: a finer start would tell more about the label than it helps."""


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
