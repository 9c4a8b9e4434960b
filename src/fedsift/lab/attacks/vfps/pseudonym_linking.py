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
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.methods.vfps.aggregator import Aggregator

Integers = npt.NDArray[np.int64]


class CuriousAggregator(Aggregator):
    """Follows the protocol and keeps every order of pseudo-ids that it sees."""

    rankings: list[Integers]

    def watch(self) -> None:
        """Start keeping notes."""
        self.rankings = []

    async def _add_rounded(self, batch: Any, runs: list[int], net: Any) -> None:
        await super()._add_rounded(batch, runs, net)
        self.rankings += [batch.orders[run]._order.copy() for run in runs]


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


def linked(rankings: Sequence[Integers], row_of: Integers, true: Integers, depth: int) -> float:
    """Squared correlation of what an aggregator counts with how central the rows really are.

    Parameters
    ----------
    row_of : ndarray of shape (n_rows,)
        The row that the attacker takes each id for.
    true : ndarray of shape (n_rows,)
        How often each row really comes near.
    """
    counted = popularity(rankings, len(true), depth)
    if not counted.std() or not true.std():
        return 0.0
    return float(np.corrcoef(counted, true[row_of])[0, 1] ** 2)
