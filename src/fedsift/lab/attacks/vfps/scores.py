# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Attacks on VF-PS with ``design="scores"``: lists lined up, means taken apart."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import digamma

from fedsift.data import Federation, split_vertical
from fedsift.lab.attacks.attack import UNPROTECTED, Attack, Trial
from fedsift.lab.attacks.recording import Stage, recorded_fit
from fedsift.lab.attacks.vfps import techniques
from fedsift.lab.attacks.vfps.techniques import CuriousAggregator
from fedsift.methods.vfps import leader as vfps
from fedsift.methods.vfps import score_lists
from fedsift.methods.vfps import score_messages as messages
from fedsift.methods.vfps.aggregator import Aggregator, Participant
from fedsift.methods.vfps.knn_mi import Estimate
from fedsift.methods.vfps.selector import VFPSSelector

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_MOST_LISTS = 20
_COPIES = 200
"""So often an attacker repeats its own column, and drowns those of its partner."""


class MarkingLeader(vfps.Leader):
    """Makes all queries but the first worth nothing, so that one of them is the whole mean."""

    def watch(self) -> None:
        """Nothing is kept; the marks are the attack."""

    def _marks(self, number: int) -> Any:
        rows, alike, counted = super()._marks(number)
        return (rows, alike, counted) if number == 0 else (rows, counted.copy(), counted)


def _bank_and_partner(seed: int, n_rows: int, *, copies: int = 1) -> Federation:
    """A bank with one evenly spread column, a partner with another one."""
    rng = np.random.default_rng(seed)
    own = rng.permutation(np.linspace(0, 1, n_rows))[:, None]
    X = np.hstack([np.repeat(own, copies, axis=1), rng.normal(size=(n_rows, 1))])
    columns = [list(range(copies)), [copies]]
    return split_vertical(
        X, rng.integers(0, 2, n_rows), columns, names=("bank", "partner"), label_holder="bank",
        task="classification",
    )  # fmt: skip


def _fit(federation: Federation, seed: int, twins: Any, **settings: Any) -> Stage:
    return recorded_fit(
        VFPSSelector(n_participants="auto", random_state=seed, **settings), federation, twins
    )


def _numbers_of(stage: Stage, party: str) -> list[Floats]:
    """Lists of numbers about others that a party received."""
    return [message.values.array() for message in stage.received(party, messages.Gains)]


def _matched(variant: str, seed: int) -> Trial:
    """Subtract the own distances, which are known, from sums of the same rank and label."""
    stage = _fit(
        _bank_and_partner(seed, 80, copies=_COPIES), seed,
        {Aggregator: CuriousAggregator}, scaling="columns",
    )  # fmt: skip
    (leader,) = stage.roles(vfps.Leader).values()
    parts = stage.roles(Participant)
    (keeper,) = stage.roles(CuriousAggregator).values()
    lists = [(i, np.sort(v), 0) for i, v in enumerate(_numbers_of(stage, "bank"))]
    if variant == UNPROTECTED:
        lists = [
            (n, np.sort(sums[same == mark]), mark)
            for _, n, sums, same in keeper.lists
            for mark in (0, 1)
        ]
    guesses, truths = [], []
    for number, sums, mark in lists:
        query = int(leader._queries[number])
        rows, alike, _ = leader._marks(number)
        rows = rows[alike == mark]
        own = parts["bank"]._part(query)[rows]
        guess = np.zeros(len(rows))
        if len(sums) == len(rows):
            guess[np.argsort(own)] = sums - np.sort(own)
        guesses.append(guess)
        truths.append(parts["partner"]._part(query)[rows])
    found = techniques.likeness(np.concatenate(guesses), np.concatenate(truths).astype(float))
    return Trial(found, 0.0, *stage.told)


def _isolated(variant: str, seed: int) -> Trial:
    """With marks of its own making the leader asks about one query, and reads its count."""
    federation = _bank_and_partner(seed, 80)
    twins = {vfps.Leader: MarkingLeader, Aggregator: CuriousAggregator}
    with _replaced("rounded_mean", _exact_mean if variant == UNPROTECTED else None):
        stage = _fit(federation, seed, twins)
    (leader,) = stage.roles(MarkingLeader).values()
    (keeper,) = stage.roles(CuriousAggregator).values()
    _, _, sums, alike = keeper.lists[0]
    (gain,) = _numbers_of(stage, "bank")[0]
    base, n = keeper._terms[()], len(leader._queries)
    k, true = leader._params.k, score_lists.worth(sums, alike, leader._params.k, likelihood=False)
    counts = np.arange(k, len(sums) + 1)
    sizes = digamma(len(sums) + 1) - digamma(int(alike.sum()) + 1) + digamma(k)
    possible = sizes - digamma(counts)
    best = possible[np.argmin(np.abs(possible - (float(gain) * n + base[0])))]
    unchanged = float(abs(base[0] - true) < 1e-9)  # what the own columns alone let it guess
    return Trial(float(abs(best - true) < 1e-9), unchanged, *stage.told)


def _exact_mean(values: Floats, reach: float) -> Estimate:  # noqa: ARG001
    return Estimate(float(np.nanmean(values)), 0.0, len(values))


def share_lined_up(stage: Stage) -> float | None:
    """Share of pairs of queries whose summed distance the aggregator has; None without lists.

    Two lists of one group that have a single number in common are taken to share that distance.
    """
    (keeper,) = stage.roles(CuriousAggregator).values()
    (leader,) = stage.roles(vfps.Leader).values()
    queries, parties = leader._queries, stage.roles(Participant)
    group = keeper.lists[0][0] if keeper.lists else ()
    lists = [one for one in keeper.lists if one[0] == group][:_MOST_LISTS]
    right = []
    for i, (_, first, some, _) in enumerate(lists):
        for _, second, others, _ in lists[i + 1 :]:
            common = np.intersect1d(some, others)
            true = sum(
                int(parties[name]._part(int(queries[first]))[queries[second]]) for name in group
            )
            right.append(len(common) == 1 and int(common[0]) == true)
    return float(np.mean(right)) if right else None


def _lined_up(variant: str, seed: int) -> Trial:
    """Lists of two queries have the distance between them in common: pairwise distances follow."""
    with _replaced("left_out", _only_itself if variant == UNPROTECTED else None):
        stage = _fit(
            _bank_and_partner(seed, 60), seed, {Aggregator: CuriousAggregator}, n_queries=20
        )
    return Trial(share_lined_up(stage) or 0.0, 0.0, *stage.told)


def _only_itself(number: int, n_queries: int) -> Integers:  # noqa: ARG001
    return np.array([number])


@contextmanager
def _replaced(name: str, function: Any) -> Iterator[None]:
    """Take a protection away while a run lasts."""
    kept = getattr(score_lists, name)
    setattr(score_lists, name, function or kept)
    try:
        yield
    finally:
        setattr(score_lists, name, kept)


ATTACKS = (
    Attack(
        name="own-distances",
        method="vfps",
        attacker="leader",
        uses=("Gains",),
        aims_at="distances of the only partner, by own columns that drown them, ranks, labels",
        measure="squared correlation",
        unprotected="the leader reads the shuffled list of summed distances with their labels",
        default="design='scores': the leader reads one rounded mean per group",
        trial=_matched,
        runs=(1, 5),
    ),
    Attack(
        name="single-query",
        method="vfps",
        attacker="leader",
        uses=("Gains",),
        aims_at="the count of one query, by marks that make all other queries worth nothing",
        measure="counts read",
        unprotected="means that are not rounded",
        default="means rounded to what one query can change",
        trial=_isolated,
        runs=(8, 20),
    ),
    Attack(
        name="query-distances",
        method="vfps",
        attacker="aggregator",
        uses=("ListParts",),
        aims_at="summed distances between queries, by numbers that two lists have in common",
        measure="pairs found",
        unprotected="every list holds all rows",
        default="the distance between two queries is in one list only",
        trial=_lined_up,
        runs=(1, 5),
    ),
)
