# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Many tests at once: q-values, and selections with a bounded share of false discoveries.

Benjamini and Hochberg's procedure: with a q-value of at most ``fdr`` for every selected feature,
the expected share of features among them that tell nothing is at most ``fdr``, if the tests are
independent or positively dependent.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.stats import false_discovery_control

Floats = npt.NDArray[np.float64]


def q_values(p_values: npt.ArrayLike) -> Floats:
    """Q-values of tests; NaN stands for a test that was not made, and does not count.

    Examples
    --------
    >>> q_values([0.01, 0.02, float("nan"), 0.9]).round(3).tolist()
    [0.03, 0.03, nan, 0.9]
    """
    found = np.array(p_values, dtype=np.float64)
    known = ~np.isnan(found)
    if known.any():
        found[known] = false_discovery_control(found[known], method="bh")
    return found


def select_by_fdr(p_values: npt.ArrayLike, fdr: float) -> npt.NDArray[np.bool_]:
    """Select all tests whose q-value is at most ``fdr``; it may be none.

    Examples
    --------
    >>> select_by_fdr([0.01, 0.02, float("nan"), 0.9], 0.1).tolist()
    [True, True, False, False]
    """
    return np.asarray(q_values(p_values) <= fdr)
