# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""VF-PS, the leader's books: how candidates are searched, how many it may see, what they scored.

Separate designs search by rounded sums and keep to a budget of distances; all others use Fagin's
algorithm as long as it pays.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.errors import BadFrame
from fedsift.methods.vfps.distances import Params
from fedsift.methods.vfps.search import Group

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

PILOT_QUERIES = 4
WORTHWHILE_SHARE = 0.5
"""Fagin is given up where its candidates are a larger share of the rows than this."""

_CHUNK_NUMBERS = 1 << 20
_SCAN_NUMBERS = 1 << 19
_MOST_RUNS = 128


class CandidateBook:
    """Which search to use for a group, and what has been found and shown so far."""

    def __init__(self, params: Params, n_rows: int) -> None:
        self._params = params
        self._n_rows = n_rows
        self._fagin_shares: dict[int, list[float]] = {}
        self._shares: list[float] = []
        self._left = self._quota = 0
        self._granted = False
        self._tested: dict[Group, int] = {}
        self._full: set[Group] = set()

    def search_by(self, n_members: int) -> str:
        """How candidates are found: separate designs must not show the leader more than needed."""
        if not self._params.fagin:
            return "all rows"
        if self._params.separate:
            return "rounded"
        return "all rows" if self._worthwhile(n_members) is False else "fagin"

    def chunk_size(self, n_members: int) -> int:
        """Runs that go together: a few while it is open whether Fagin pays, then many."""
        search = self.search_by(n_members)
        if search == "fagin" and self._worthwhile(n_members) is None:
            return PILOT_QUERIES
        numbers = _SCAN_NUMBERS if search == "all rows" else _CHUNK_NUMBERS
        return max(1, min(_MOST_RUNS, numbers // self._n_rows))

    def note(self, n_members: int, found: list[Integers]) -> None:
        """Remember what share of the rows became candidates."""
        shares = [len(rows) / self._n_rows for rows in found]
        self._shares += shares
        if self.search_by(n_members) == "fagin":
            self._fagin_shares.setdefault(n_members, []).extend(shares)

    @property
    def mean_share(self) -> float:
        """Candidates as a share of the rows, over all queries that were searched."""
        return float(np.mean(self._shares)) if self._shares else 1.0

    def grant(self, n_distances: int) -> None:
        """Set the number of distances that may be shown in the whole run; once, however resumed."""
        if not self._granted:
            self._left, self._granted = n_distances, True

    def next_group(self, n_waiting: int) -> None:
        """Give the next of the waiting groups its share of what is left."""
        self._quota = self._left // n_waiting

    def is_full(self, members: Group) -> bool:
        """Whether no more may be shown of a group."""
        return members in self._full

    def within_quota(self, members: Group, found: list[Integers]) -> list[Integers]:
        """As many of the queries as may be shown of this group; one if there is any room."""
        if not self._params.separate or self._params.unlimited:
            return found
        costs = np.cumsum([len(rows) - 1 for rows in found])
        kept = int(np.searchsorted(costs, self._quota, side="right"))
        if not kept and not self._tested.get(members) and costs[0] <= self._left:
            kept = 1
        if kept < len(found):
            self._full.add(members)
        self._tested[members] = self._tested.get(members, 0) + kept
        spent = int(costs[kept - 1]) if kept else 0
        self._left, self._quota = self._left - spent, self._quota - spent
        return found[:kept]

    def remarks(self) -> list[str]:
        """What a reader of the result should know."""
        given_up = [
            f"Fagin's candidates are {np.mean(shares[:PILOT_QUERIES]):.0%} of the rows with {m} "
            f"participants in a group (first {PILOT_QUERIES} queries): from then on all rows are "
            "compared, many queries per ciphertext."
            for m, shares in sorted(self._fagin_shares.items())
            if _gone(shares)
        ]
        if not self._full:
            return given_up
        return [
            *given_up,
            f"{len(self._full)} of {len(self._tested)} groups were tested on fewer queries than "
            f"planned ({sum(self._tested.values())} tests in all): the leader sees at most half as "
            "many distances as the participants have values. Policies that name "
            "'all-row-distances' lift this limit.",
        ]

    def to_plain(self) -> dict[str, Any]:
        """Plain values, to go on from later."""
        return {
            "fagin_shares": self._fagin_shares,
            "shares": self._shares,
            "budget": [self._left, self._quota, self._granted],
            "tested": [[list(group), count] for group, count in self._tested.items()],
            "full": [list(group) for group in self._full],
        }

    def load(self, saved: dict[str, Any]) -> None:
        """Take over what :meth:`to_plain` gave."""
        self._fagin_shares, self._shares = saved["fagin_shares"], saved["shares"]
        self._left, self._quota, self._granted = saved["budget"]
        self._tested = {tuple(group): count for group, count in saved["tested"]}
        self._full = {tuple(group) for group in saved["full"]}

    def _worthwhile(self, n_members: int) -> bool | None:
        """Whether Fagin saves enough for groups of a size; None while nobody knows."""
        shares = self._fagin_shares
        if any(m <= n_members and _gone(some) for m, some in shares.items()):
            return False
        return True if len(shares.get(n_members, ())) >= PILOT_QUERIES else None


@dataclass
class Scored:
    """Terms of some groups, on as many of their queries as are finished."""

    terms: dict[Group, Floats]
    n_queries: int = 0

    def add(self, n_queries: int, terms: Mapping[Group, Floats]) -> None:
        """Take in the terms of some more queries."""
        self.n_queries += n_queries
        self.terms = {g: np.concatenate([known, terms[g]]) for g, known in self.terms.items()}


class ScoreBook:
    """The leader's book of scores: groups whose sums were opened are not asked about again."""

    def __init__(self) -> None:
        self._scored: dict[str, Scored] = {}

    def begun(self, groups: Sequence[Group]) -> bool:
        """Whether some queries of these groups are finished."""
        return _name(groups) in self._scored and self[groups].n_queries > 0

    def __getitem__(self, groups: Sequence[Group]) -> Scored:
        fresh = Scored({group: np.empty(0) for group in groups})
        return self._scored.setdefault(_name(groups), fresh)

    def to_plain(self) -> dict[str, Any]:
        """Plain values, to go on from later."""
        return {
            name: [one.n_queries, [[list(g), terms] for g, terms in one.terms.items()]]
            for name, one in self._scored.items()
        }

    def load(self, saved: dict[str, Any]) -> None:
        """Take over what :meth:`to_plain` gave."""
        self._scored = {
            name: Scored({tuple(group): terms for group, terms in parts}, n_queries)
            for name, (n_queries, parts) in saved.items()
        }


def _name(groups: Sequence[Group]) -> str:
    """What stands for groups that are tested together."""
    return hashlib.sha256(repr([tuple(group) for group in groups]).encode()).hexdigest()


def too_few_rows() -> BadFrame:
    """The error of a search that has come to its end without result."""
    return BadFrame(
        "The aggregator has named all rows, and there are too few of a query's label among them.",
        "Every row is named once, in the order of the distances.",
        "Check that all parties run the same version of fedsift and the same job.",
    )


def _gone(shares: list[float]) -> bool:
    first = shares[:PILOT_QUERIES]
    return len(first) >= PILOT_QUERIES and float(np.mean(first)) > WORTHWHILE_SHARE
