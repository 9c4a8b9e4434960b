# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""VF-PS: what a curious aggregator makes of the sub-rankings and rounded sums.

Method    vfps (paper 002). The aggregator sees, per query, orders of rows under pseudo-ids.
Leak      The paper shuffles once, so an id is the same row in every query: counting how often ids
          come near tells central rows from remote ones, and one known row stays known.
Fix       Every query has a shuffle of its own, drawn from a secret the aggregator does not have.
          What is left is the order of ids inside one query, unlinked to any other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]


def popularity(rankings: Sequence[Integers], n_rows: int, depth: int) -> Integers:
    """How often each pseudo-id is among the first of a ranking.

    Examples
    --------
    >>> popularity([np.array([2, 0, 1]), np.array([2, 1, 0])], 3, depth=1).tolist()
    [0, 0, 2]
    """
    counts = np.zeros(n_rows, dtype=np.int64)
    for ranking in rankings:
        counts[ranking[:depth]] += 1
    return counts
