# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""VF-PS: which groups of participants are tested, and what follows from their scores.

Every strategy asks for the query terms of groups (``evaluate``) and never sees a distance. A group
counts as *testable* if it holds the data of no or at least two participants besides the leader's
own, or if groups of one are allowed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.errors import ParameterError
from fedsift.methods.vfps.distances import Params
from fedsift.methods.vfps.knn_mi import Estimate, estimate

Floats = npt.NDArray[np.float64]
Group = tuple[str, ...]
Terms = Mapping[Group, Floats]
Evaluate = Callable[[Sequence[Group]], Awaitable[Terms]]

MOST_SUBSETS = 2000


@dataclass(frozen=True)
class Players:
    """The participants, in party order, and which of them is the leader's own organisation."""

    names: tuple[str, ...]
    own: str | None
    singles: bool

    @property
    def n_others(self) -> int:
        """Participants besides the leader's own."""
        return len(self.others(self.names))

    def others(self, group: Sequence[str]) -> frozenset[str]:
        """Members whose data the leader does not have."""
        return frozenset(name for name in group if name != self.own)

    def testable(self, group: Sequence[str]) -> bool:
        """Whether the group's sum may be shown to the leader."""
        return bool(group) and (self.singles or len(self.others(group)) != 1)

    def group(self, members: Iterable[str]) -> Group:
        """Members in party order."""
        wanted = set(members)
        return tuple(name for name in self.names if name in wanted)

    def subsets(self, size: int) -> list[Group]:
        """All testable groups of a size."""
        return [g for g in itertools.combinations(self.names, size) if self.testable(g)]


@dataclass(frozen=True)
class Found:
    """The answer of a search."""

    selected: Group
    importances: dict[str, Estimate]
    history: tuple[dict[str, Any], ...]
    remarks: tuple[str, ...] = field(default=())


def group_size(players: Players) -> int:
    """Members of a test group: half of the participants, as far as testable groups allow.

    Sets of different size have scores that cannot be compared, so all test groups have one size.
    """
    m = len(players.names)
    least = 1 if players.singles else (3 if players.own in players.names else 2)
    return max(1, min(m - 1, max(m // 2, least)))


def random_groups(players: Players, n_groups: int, rng: np.random.Generator) -> list[Group]:
    """Distinct test groups of equal size in which all participants appear about equally often."""
    size, names = group_size(players), players.names
    if math.comb(len(names), size) <= n_groups:
        groups = players.subsets(size)
        return [groups[i] for i in rng.permutation(len(groups))]
    found: dict[Group, None] = {}
    for _ in range(20 * n_groups):
        order = [names[i] for i in rng.permutation(len(names))]
        for start in range(0, len(order) - size + 1, size):
            group = players.group(order[start : start + size])
            if players.testable(group) and len(found) < n_groups:
                found[group] = None
        if len(found) == n_groups:
            break
    return list(found)


def assign(
    players: Players, groups: Sequence[Group], n_queries: int, rng: np.random.Generator
) -> dict[Group, list[int]]:
    """Query numbers of each group; groups of one query share no participant but the leader's."""
    served: dict[Group, list[int]] = {group: [] for group in groups}
    for query in range(n_queries):
        taken: set[str] = set()
        order = sorted(groups, key=lambda g: (len(served[g]), rng.random()))
        for group in order:
            others = players.others(group)
            if not others & taken:
                served[group].append(query)
                taken |= others
            if len(taken) > players.n_others - 1:
                break
    return served


def by_form(
    players: Players, groups: Sequence[Group], params: Params, most: int
) -> list[tuple[str, list[Group]]]:
    """Groups by the form their sums have to be declared in, not too many at a time."""
    forms: dict[str, list[Group]] = {}
    for group in groups:
        alone = len(players.others(group)) == 1
        form = "all rows" if params.unlimited else "separate"
        form = "paired" if params.paired else form
        # Singles share no participant: nothing to pair unless the strategy does.
        if alone or (params.singles and not params.paired):
            form = "single"
        forms.setdefault(form, []).append(group)
    return [
        (form, some[i : i + most])
        for form, some in forms.items()
        for i in range(0, len(some), most)
    ]


def from_separate(players: Players, n_select: int, terms: Terms) -> Found:
    """Group testing: the importance is the mean score of the groups a participant was in."""
    scores = {group: estimate(values) for group, values in terms.items() if len(values)}
    importances = {}
    for name in players.names:
        own = [score for group, score in scores.items() if name in group]
        value = float(np.mean([s.value for s in own])) if own else 0.0
        variance = sum(s.standard_error**2 for s in own)
        error = math.sqrt(variance) / len(own) if own else 0.0
        importances[name] = Estimate(value, error, sum(s.n_queries for s in own))
    history = tuple(entry_of(group, score) for group, score in scores.items())
    untested = [name for name, score in importances.items() if not score.n_queries]
    remarks = (
        f"No test was left for groups with {', '.join(untested)}: an importance of 0 says nothing "
        "there. Use fewer neighbours (k) or more rows.",
    )
    return Found(best(importances, n_select), importances, history, remarks if untested else ())


def from_shared(players: Players, n_select: int, terms: Terms) -> Found:
    """The same from groups that were all tested on the same queries."""
    importances = {}
    for name in players.names:
        own = [values for group, values in terms.items() if name in group]
        importances[name] = estimate(np.mean(own, axis=0) if own else [])
    history = tuple(entry_of(group, estimate(values)) for group, values in terms.items())
    return Found(best(importances, n_select), importances, history)


async def search(
    strategy: str,
    players: Players,
    n_select: int,
    n_groups: int,
    rng: np.random.Generator,
    evaluate: Evaluate,
) -> Found:
    """Any strategy whose groups are all tested on the same queries."""
    if strategy == "greedy":
        return await greedy(players, n_select, evaluate)
    if strategy == "brute-force":
        return await brute_force(players, n_select, evaluate)
    if strategy == "shapley":
        return await shapley(players, n_select, n_groups, rng, evaluate)
    if strategy == "individual":
        groups: list[Group] = [(name,) for name in players.names]
    else:
        groups = random_groups(players, n_groups, rng)
    return from_shared(players, n_select, await evaluate(groups))


async def brute_force(players: Players, n_select: int, evaluate: Evaluate) -> Found:
    """The group of the wanted size with the highest score."""
    if math.comb(len(players.names), n_select) > MOST_SUBSETS:
        raise ParameterError(
            f"There are {math.comb(len(players.names), n_select)} groups of {n_select} among "
            f"{len(players.names)} participants.",
            f"At most {MOST_SUBSETS} are tested one by one.",
            "Use strategy='greedy', which finds the same group in nearly all cases.",
        )
    groups = players.subsets(n_select)
    terms = await evaluate(groups)
    top = max(groups, key=lambda group: float(terms[group].mean()))
    found = from_shared(players, n_select, terms)
    return Found(top, found.importances, found.history, _left_out(players, n_select))


async def greedy(players: Players, n_select: int, evaluate: Evaluate) -> Found:
    """Add whoever adds most to the joint score, then exchange members while that helps.

    The importance of a selected participant is what the group loses without it; that of the
    others is what they would add to the group: a copy of a member adds next to nothing.
    """
    scores: dict[Group, Floats] = {}

    async def ask(groups: Sequence[Group]) -> None:
        scores.update(await evaluate([g for g in dict.fromkeys(groups) if g not in scores]))

    def value(group: Group) -> float:
        return float(scores[group].mean())

    start = players.subsets(1 if players.singles else 2)
    await ask(start)
    chosen = max(start, key=value)
    history = [entry_of(chosen, estimate(scores[chosen]), step="start")]
    while len(chosen) != n_select:
        wider = [players.group({*chosen, name}) for name in players.names if name not in chosen]
        await ask(wider)
        before, chosen = chosen, max(wider, key=value)
        gain = estimate(scores[chosen] - scores[before])
        history.append(entry_of(chosen, estimate(scores[chosen]), step="add", gain=gain))
    while True:
        swaps = [
            group
            for gone in chosen
            for name in players.names
            if name not in chosen
            and players.testable(group := players.group({*chosen, name} - {gone}))
        ]
        await ask(swaps)
        better = max([chosen, *swaps], key=value)
        if value(better) <= value(chosen):
            break
        gain = estimate(scores[better] - scores[chosen])
        chosen = better
        history.append(entry_of(chosen, estimate(scores[chosen]), step="exchange", gain=gain))

    rest = {name: players.group({*chosen, name}) for name in players.names if name not in chosen}
    without = {name: players.group({*chosen} - {name}) for name in chosen}
    narrower = [group for group in without.values() if players.testable(group)]
    await ask([*rest.values(), *narrower])
    importances = {}
    for name in players.names:
        if name in rest:
            importances[name] = estimate(scores[rest[name]] - scores[chosen])
        elif without[name] in scores:
            importances[name] = estimate(scores[chosen] - scores[without[name]])
        else:  # a group of one, or of nobody, has no score: members share it
            importances[name] = estimate(scores[chosen] / len(chosen))
    for name in rest:
        gain = importances[name]
        entry = entry_of(rest[name], estimate(scores[rest[name]]), step="left out", gain=gain)
        history.append({"participant": name, **entry})
    return Found(chosen, importances, tuple(history), _left_out(players, n_select))


async def shapley(
    players: Players, n_select: int, n_groups: int, rng: np.random.Generator, evaluate: Evaluate
) -> Found:
    """Mean marginal score over random orders; each order is also read backwards."""
    names = players.names
    orders: list[list[str]] = []
    # Every order costs as many groups as there are participants, at most.
    for _ in range(max(1, math.ceil(n_groups / (2 * len(names))))):
        order = [names[i] for i in rng.permutation(len(names))]
        orders += [order, order[::-1]]
    prefixes = {players.group(order[: i + 1]): None for order in orders for i in range(len(order))}
    terms = await evaluate([group for group in prefixes if players.testable(group)])
    shares: dict[str, list[Floats]] = {name: [] for name in names}
    for order in orders:
        before: Floats | float = 0.0
        waiting: list[str] = []
        for i, name in enumerate(order):
            waiting.append(name)
            group = players.group(order[: i + 1])
            if group not in terms:
                continue  # not testable: whoever waits shares the next step
            for member in waiting:
                shares[member].append((terms[group] - before) / len(waiting))
            before, waiting = terms[group], []
    importances = {name: estimate(np.mean(shares[name], axis=0)) for name in names}
    history = tuple(entry_of(group, estimate(values)) for group, values in terms.items())
    return Found(best(importances, n_select), importances, history)


def best(importances: Mapping[str, Estimate], n_select: int) -> Group:
    """The most important ones, in party order; ties go to the earlier party."""
    ranked = sorted(importances, key=lambda name: -importances[name].value)[:n_select]
    return tuple(name for name in importances if name in ranked)


def _left_out(players: Players, n_select: int) -> tuple[str, ...]:
    """Say which groups could not be compared."""
    n_all = math.comb(len(players.names), n_select)
    n_tested = len(players.subsets(n_select))
    if n_tested == n_all:
        return ()
    return (
        f"{n_all - n_tested} of {n_all} groups of {n_select} hold one participant's data besides "
        "the leader's and were not tested: policies do not allow 'single-party-distances'.",
    )


def entry_of(
    group: Group, score: Estimate, *, step: str = "test", gain: Estimate | None = None
) -> dict[str, Any]:
    """A line of the history."""
    row: dict[str, Any] = {
        "step": step,
        "group": list(group),
        "mutual_information": score.value,
        "standard_error": score.standard_error,
        "n_queries": score.n_queries,
    }
    if gain is not None:
        row["gain"] = gain.value
        row["gain_standard_error"] = gain.standard_error
    return row
