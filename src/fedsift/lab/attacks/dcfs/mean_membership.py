# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Membership from a published mean (Homer and others, 2008).

Method    dcfs, and whatever else tells parties a mean of all rows.
Leak      Every row pulls the mean of all rows a little towards itself. With many more columns than
          rows these little pulls add up: a row that was in lies along the mean's deviation from
          the population, a row that was not lies anywhere.
Fix       None inside the method: columns must be brought to one scale. Many rows per column make
          the pull small; noise on the mean would end it.
Remains   ``pooled-moments`` is declared.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def membership_by_mean(mean: Floats, reference: Floats, rows: Floats) -> Floats:
    """How far each row lies along the deviation of a mean from the population's.

    Parameters
    ----------
    mean : ndarray of shape (n_features,)
        Of the rows that took part, in units of equal spread.
    reference : ndarray of shape (n_others, n_features)
        Other rows of the same population, which the attacker has.
    rows : ndarray of shape (n_candidates, n_features)

    Examples
    --------
    >>> mean, reference = np.array([0.5, 0.0]), np.array([[0.2, 0.1], [-0.2, -0.1]])
    >>> membership_by_mean(mean, reference, np.array([[1.0, 0.0], [-1.0, 0.0]])).tolist()
    [0.5, -0.5]
    """
    population = reference.mean(axis=0)
    return np.asarray((rows - population) @ (mean - population))
