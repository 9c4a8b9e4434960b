# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Means, standard errors and paired differences over splits.

Training rows of different splits overlap, so their scores are not independent and the usual
standard error is too small. The one used here is that of Nadeau and Bengio ("Inference for the
generalization error", Machine Learning 52, 2003): ``sqrt((1/n + n_test/n_train) * variance)``.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

import msgspec


class Mean(msgspec.Struct, frozen=True):
    """A mean over splits.

    Attributes
    ----------
    value : float
    standard_error : float or None
        None for a single split.
    n : int
        Number of splits.
    """

    value: float
    standard_error: float | None
    n: int


def mean_over_splits(values: Sequence[float], test_share: float) -> Mean | None:
    """Mean and corrected standard error.

    Parameters
    ----------
    values : sequence of float
        One per split; none gives None.
    test_share : float
        Test rows by training rows.

    Examples
    --------
    >>> mean_over_splits([1.0, 2.0, 3.0], 0.0)
    Mean(value=2.0, standard_error=0.5773502691896257, n=3)
    """
    if not values:
        return None
    error = None
    if len(values) > 1:
        error = math.sqrt((1 / len(values) + test_share) * statistics.variance(values))
    return Mean(statistics.fmean(values), error, len(values))


def paired_difference(
    left: Mapping[tuple[int, int], float],
    right: Mapping[tuple[int, int], float],
    test_share: float,
) -> Mean | None:
    """Mean of left minus right over the splits (seed, fold) that both have."""
    common = [left[split] - right[split] for split in left if split in right]
    return mean_over_splits(common, test_share)
