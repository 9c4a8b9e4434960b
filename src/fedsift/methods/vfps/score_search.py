# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""VF-PS with ``design="scores"``: strategies that see means and standard errors only.

Every question is a pair of groups: what does the first tell more than the second, a part of it?
Where the label holder's own columns are given, both hold them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fedsift.methods.vfps.distances import Params
from fedsift.methods.vfps.knn_mi import Estimate
from fedsift.methods.vfps.score_lists import CLEARLY
from fedsift.methods.vfps.search import Found, Group, Players, entry_of, random_groups

Pair = tuple[Group, Group]
Ask = Callable[[Sequence[Pair]], Awaitable[Mapping[Pair, Estimate]]]


async def search_scores(
    params: Params, players: Players, rng: np.random.Generator, ask: Ask
) -> Found:
    """Follow the strategy."""
    if params.strategy in ("greedy", "submodular"):
        return await forward(params, players, ask)
    if params.strategy == "shapley":
        return await shapley(params, players, rng, ask)
    if params.strategy == "brute-force":
        groups = players.subsets(params.n_participants)
    elif params.strategy == "individual":
        groups = [(name,) for name in players.names]
    else:
        groups = random_groups(players, params.n_groups, rng)
    gains = await ask([(group, ()) for group in groups])
    scores = {group: gains[group, ()] for group in groups}
    importances = {
        name: mean_of([score for group, score in scores.items() if name in group])
        for name in players.names
    }
    history = tuple(entry_of(group, score) for group, score in scores.items())
    if params.strategy == "brute-force":
        top = max(groups, key=lambda g: scores[g].value / params.price_of(g))
        return Found(top, importances, history)
    return Found(_best(params, importances), importances, history)


async def forward(params: Params, players: Players, ask: Ask) -> Found:
    """Add whoever adds most for its price, until there are enough or nobody clearly adds.

    Of a selected participant, the importance is what it added when it came; of the others, what
    they would add to the chosen group.
    """
    chosen: tuple[str, ...] = ()
    importances: dict[str, Estimate] = {}
    history: list[dict[str, Any]] = []
    total = Estimate(0.0, 0.0, 0)
    while len(chosen) < len(players.names):
        rest = [name for name in players.names if name not in chosen]
        size = 1 if chosen or players.singles else 2
        base = players.group(chosen)
        steps = {
            players.group((*chosen, *more)): more for more in itertools.combinations(rest, size)
        }
        gains = {
            group: gain for (group, _), gain in (await ask([(g, base) for g in steps])).items()
        }
        ended = len(chosen) >= params.n_participants
        able = [g for g in steps if not params.auto or _clear(gains[g])]
        if ended or not able:
            for group, more in steps.items():
                importances |= dict.fromkeys(more, gains[group])
                entry = entry_of(group, total + gains[group], step="left out", gain=gains[group])
                history.append({"participant": more[0], **entry})
            break
        best = max(able, key=lambda g: gains[g].value / params.price_of(steps[g]))
        for name in steps[best]:
            importances[name] = _divided(gains[best], len(steps[best]))
        total += gains[best]
        chosen = (*chosen, *steps[best])
        history.append(entry_of(best, total, step="add", gain=gains[best]))
    return Found(chosen, {n: importances[n] for n in players.names}, tuple(history))


async def shapley(params: Params, players: Players, rng: np.random.Generator, ask: Ask) -> Found:
    """Mean gain over random orders; each order is also read backwards."""
    names, shares = players.names, {name: list[Estimate]() for name in players.names}
    steps: list[tuple[Pair, Sequence[str]]] = []
    for _ in range(max(1, math.ceil(params.n_groups / (2 * len(names))))):
        order = [names[i] for i in rng.permutation(len(names))]
        for way in (order, order[::-1]):
            first = 1 if players.singles else 2
            ends = [0, *range(first, len(way) + 1)]
            steps += [
                ((players.group(way[:end]), players.group(way[:start])), way[start:end])
                for start, end in itertools.pairwise(ends)
            ]
    gains = await ask([pair for pair, _ in steps])
    worth: dict[Group, Estimate] = {(): Estimate(0.0, 0.0, 0)}
    history: dict[Group, dict[str, Any]] = {}
    for (group, base), more in steps:
        gain = gains[group, base]
        worth[group] = worth[base] + gain  # an order goes from nobody to everybody
        history[group] = entry_of(group, worth[group], gain=gain)
        for name in more:
            shares[name].append(_divided(gain, len(more)))
    importances = {name: mean_of(some) for name, some in shares.items()}
    return Found(_best(params, importances), importances, tuple(history.values()))


def mean_of(some: Sequence[Estimate]) -> Estimate:
    """A mean of scores on the same queries; its error is at most the mean of the errors."""
    if not some:
        return Estimate(0.0, 0.0, 0)
    value = float(np.mean([score.value for score in some]))
    return Estimate(value, float(np.mean([s.standard_error for s in some])), some[0].n_queries)


def _best(params: Params, importances: Mapping[str, Estimate]) -> Group:
    """The most important for their price, best first; ties go to the earlier party."""
    ranked = sorted(importances, key=lambda n: -importances[n].value / params.price_of([n]))
    return tuple(ranked[: params.n_participants])


def _clear(gain: Estimate) -> bool:
    return gain.value > CLEARLY * gain.standard_error


def _divided(gain: Estimate, n: int) -> Estimate:
    return Estimate(gain.value / n, gain.standard_error / n, gain.n_queries)
