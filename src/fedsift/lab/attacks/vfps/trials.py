# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Attacks on VF-PS: distances that are solved, geometries that are fitted, ids that are linked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.crypto.shuffle import SecretOrder
from fedsift.data import Federation, split_vertical
from fedsift.errors import PolicyViolation
from fedsift.lab.attacks.attack import UNPROTECTED, Attack, Told, Trial
from fedsift.lab.attacks.outside import seen_outside
from fedsift.lab.attacks.recording import JobRun, Mounted, Stage, recorded_fit
from fedsift.lab.attacks.vfps import rare_class, scores, techniques
from fedsift.lab.attacks.vfps.techniques import CURIOUS, PAPER, View
from fedsift.methods.vfps import leader as vfps
from fedsift.methods.vfps.distances import Ranking, part_of_distance, size_bits, standardised
from fedsift.methods.vfps.messages import (
    MESSAGES,
    AllRowDistances,
    PairedGroupDistances,
    SubRankings,
    divided,
)
from fedsift.methods.vfps.participant import Participant
from fedsift.methods.vfps.selector import VFPSSelector
from fedsift.protocol import Policy

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_DEPTH = 64
"""Rows that count as near another one."""

_MOST_FITTED = 1200
_FEWEST_RANKED, _MOST_RANKED = 100, 2000

_PAIRED = PairedGroupDistances.declaration.kind
_ALL_ROWS: dict[str, Any] = {"fagin": False, "allowed": AllRowDistances.declaration.kind}

# What is found in a run


def views_of(stage: Stage) -> list[View]:
    """Everything the leader decrypted."""
    (leader,) = stage.roles(techniques.CuriousLeader).values()
    views: list[View] = getattr(leader, "views", [])
    return views


def solved_share(views: Sequence[View]) -> float:
    """Share of the participants' parts of distances that the sums of one query determine."""
    by_query: dict[int, list[View]] = {}
    for view in views:
        by_query.setdefault(view.query, []).append(view)
    solved = [
        guess.solved
        for some in by_query.values()
        for guess in techniques.solve_parts(some, {}).values()
    ]
    return float(np.mean(solved)) if solved else 0.0


def fitted(views: Sequence[View], columns: dict[str, Floats]) -> float:
    """Squared correlation of columns fitted to all groups together with the true ones."""
    names, n_rows = list(columns), len(next(iter(columns.values())))
    guess = techniques.fit_jointly(views, names, n_rows, n_starts=2)
    alike = [techniques.likeness(guess[:, i], columns[name]) for i, name in enumerate(names)]
    return float(np.mean(alike))


def rankings_of(stage: Stage) -> list[Integers]:
    """Every order of pseudo-ids that the aggregator saw."""
    (aggregator,) = stage.roles(techniques.CuriousAggregator).values()
    rankings: list[Integers] = list(aggregator.rankings)
    if not rankings:
        for message in stage.received(vfps.AGGREGATOR, SubRankings):
            rankings += divided(message.ids, message.lengths, message.lengths.shape[0])
    return [ranking for ranking in rankings if len(ranking)]


def centrality(matrix: Floats, n_participants: int, depth: int) -> Integers:
    """How often each row really comes near another one."""
    rankings = [
        np.argsort(part_of_distance(matrix, query, n_participants), kind="stable")
        for query in range(len(matrix))
    ]
    return techniques.popularity(rankings, len(matrix), depth)


def attack_run(run: JobRun, stage: Stage) -> Iterator[Mounted]:
    """The leader solves and fits distances; the aggregator links ids."""
    ((party, leader),) = stage.roles(vfps.Leader).items()
    views, told = views_of(stage), stage.told
    matrices = {name: role._matrix for name, role in stage.roles(Participant).items()}
    lined_up = scores.share_lined_up(stage)
    if lined_up is not None:
        yield "query-distances", vfps.AGGREGATOR, Trial(lined_up, 0.0, *told)
        return
    if views:
        yield "distance-solving", party, Trial(solved_share(views), 0.0, *told)
    others = {name: m[:, 0] for name, m in matrices.items() if name != leader._own}
    small = sum(len(column) for column in others.values()) <= _MOST_FITTED
    if views and small and all(matrices[name].shape[1] == 1 for name in others):
        yield "distance-reconstruction", party, Trial(fitted(views, others), 0.0, *told)
    else:
        run.notes.append(
            f"{party}: columns are fitted to distances for small tables of one column only."
        )
    rankings = rankings_of(stage)
    n_rows = len(next(iter(matrices.values())))
    if not rankings or not _FEWEST_RANKED <= n_rows <= _MOST_RANKED:
        run.notes.append(
            f"{vfps.AGGREGATOR}: how often ids come near is counted for "
            f"{_FEWEST_RANKED} to {_MOST_RANKED} rows; fewer would show chance only."
        )
        return
    depth = min(_DEPTH, max(1, n_rows // 4))
    central = [centrality(matrix, len(matrices), depth) for matrix in matrices.values()]
    rows = np.arange(n_rows)
    found = max(techniques.linked(rankings, rows, true, depth) for true in central)
    yield "pseudonym-linking", vfps.AGGREGATOR, Trial(found, 0.0, *told)


# Generated data


def _one_column_each(seed: int, n_rows: int) -> Federation:
    """Four one-column participants, the easiest prey; the label is at a party of its own."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n_rows)
    X = rng.normal(size=(n_rows, 4)) + np.array([1.5, 1.0, 0.5, 0.0]) * y[:, None]
    return split_vertical(X, y, 4, label_holder=None, task="classification")


def _fit(federation: Federation, seed: int, *, allowed: str = "", **settings: Any) -> Stage:
    """The method as it is by default, or with a kind that policies must name first."""
    if allowed:
        needed = {m.declaration.kind for m in MESSAGES if not m.declaration.optional}
        settings["policy"] = Policy(may_reveal=(*sorted(needed), allowed), min_security_bits=0)
    settings = PAPER | settings
    return recorded_fit(VFPSSelector(random_state=seed, **settings), federation, CURIOUS)


def columns_of(federation: Any) -> dict[str, Floats]:
    """The column of every one-column participant, as the method scales it."""
    return {name: standardised(table)[0][:, 0] for name, table in federation.tables.items()}


def _solved(variant: str, seed: int) -> Trial:
    bare = {"design": "shared", "allowed": _PAIRED} if variant == UNPROTECTED else {}
    stage = _fit(_one_column_each(seed, 80), seed, n_queries=40, **bare)
    return Trial(solved_share(views_of(stage)), 0.0, *stage.told)


def _solved_search(strategy: str, variant: str, seed: int) -> Trial:
    """The same for a search over overlapping groups, which policies refuse unless they name it."""
    settings: dict[str, Any] = {"strategy": strategy, "n_participants": 2, "n_queries": 20}
    if variant == UNPROTECTED:
        settings["allowed"] = _PAIRED
    try:
        stage = _fit(_one_column_each(seed, 80), seed, **settings)
    except PolicyViolation:
        return Trial(0.0, 0.0)
    return Trial(solved_share(views_of(stage)), 0.0, *stage.told)


def _fitted(variant: str, seed: int) -> Trial:
    bare: dict[str, Any] = {"n_queries": 40}
    if variant == UNPROTECTED:
        bare = {"n_queries": 15, **_ALL_ROWS}
    federation = _one_column_each(seed, 40)
    stage = _fit(federation, seed, **bare)
    return Trial(fitted(views_of(stage), columns_of(federation)), 0.0, *stage.told)


def _subtracted(variant: str, seed: int) -> Trial:
    """Squared distances in one participant's column, from the geometries of three groups."""
    n_rows = 100
    bare: dict[str, Any] = {"n_queries": n_rows}
    if variant == UNPROTECTED:
        bare = {"n_queries": 60, **_ALL_ROWS}
    federation = _one_column_each(seed, n_rows)
    stage = _fit(federation, seed, **bare)
    pairs = np.random.default_rng((seed, 1)).integers(0, n_rows, size=(400, 2))
    trio = ("party-1", "party-2", "party-3")
    guess = techniques.subtract_geometries(views_of(stage), trio, pairs, n_rows)
    column = columns_of(federation)["party-1"]
    true = (column[pairs[:, 0]] - column[pairs[:, 1]]) ** 2
    return Trial(techniques.likeness(guess, true), 0.0, *stage.told)


def _linked(variant: str, seed: int) -> Trial:
    n_rows = 200
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n_rows)
    base = rng.normal(size=(n_rows, 1)) + y[:, None]
    X = base + 0.05 * rng.normal(size=(n_rows, 3))
    federation = split_vertical(X, y, 3, label_holder=None, task="classification")
    stage = _fit(federation, seed, n_queries=100)
    matrix = standardised(federation.tables["party-1"])[0]
    true = centrality(matrix, 3, _DEPTH)
    rankings, row_of = rankings_of(stage), np.arange(n_rows)
    if variant == UNPROTECTED:
        order = SecretOrder(bytes(32), 0, n_rows)
        row_of = order.row_of
        rankings = [
            Ranking(part_of_distance(matrix, query, 3), order).block(_DEPTH)
            for query in range(len(rankings))
        ]
    return Trial(techniques.linked(rankings, row_of, true, _DEPTH), 0.0, *stage.told)


_WIDTHS = (2, 8, 64)


def _seen_by_participant(width: int, seed: int, *, told_cap: bool) -> tuple[list[Any], Told]:
    """What a participant sees on the outside of messages that are to reveal nothing."""
    rng = np.random.default_rng((seed, width))
    y = np.arange(60) % 2
    X = rng.normal(size=(60, 6 + width)) + y[:, None]
    columns = [[0, 1], [2, 3], [4, 5], list(range(6, 6 + width))]
    federation = split_vertical(X, y, columns, label_holder=None, task="classification")
    stage = _fit(federation, 0, n_queries=4, n_groups=2, security="plain")
    seen: list[tuple[tuple[str, ...], list[Any]]] = [
        (where, values) for where, values in seen_outside([stage]).items() if where[1] == "party-1"
    ]
    if told_cap:  # version 0.1.0 sent the scale of the widest participant to all
        seen.append((("cap_bits",), [max(map(size_bits, (2, width)))]))
    return sorted(map(repr, seen)), stage.told


def _widest(variant: str, seed: int) -> Trial:
    """A participant plays the job with made-up parties, and takes the width that looks the same."""
    told_cap = variant == UNPROTECTED
    made_up = {w: _seen_by_participant(w, seed + 1000, told_cap=told_cap)[0] for w in _WIDTHS}
    right = 0
    for width in _WIDTHS:
        outside, told = _seen_by_participant(width, seed, told_cap=told_cap)
        seen = set(outside)
        guess = max(_WIDTHS, key=lambda w: len(seen & set(made_up[w])))
        right += guess == width
    return Trial(right / len(_WIDTHS), 1 / len(_WIDTHS), job=told[1])


_BARE_ROWS = "all rows are compared (fagin=False)"


_SEPARATE = (
    "groups of two and more, none twice in a query, nearest rows only, a budget of distances"
)


ATTACKS = (
    Attack(
        name="distance-solving",
        method="vfps",
        attacker="leader",
        uses=("GroupDistances", "PairedGroupDistances"),
        aims_at="one participant's part of a distance",
        measure="parts solved",
        unprotected="design='shared' (the paper): overlapping groups on one query",
        default="design='separate': " + _SEPARATE,
        trial=_solved,
        runs=(1, 3),
        declared_as=("paired-groups", "single-party-distances"),
        tolerance=0.05,
    ),
    *(
        Attack(
            name=f"distance-solving-{strategy}",
            method="vfps",
            attacker="leader",
            uses=("PairedGroupDistances",),
            aims_at="one participant's part of a distance",
            measure="parts solved",
            unprotected="every policy names 'paired-groups': overlapping groups on one query",
            default=f"strategy={strategy!r} with design='separate' is refused: no policy names "
            "'paired-groups'",
            trial=partial(_solved_search, strategy),
            runs=(1, 3),
            tolerance=0.05,
        )
        for strategy in ("greedy", "shapley", "brute-force")
    ),
    Attack(
        name="distance-reconstruction",
        method="vfps",
        attacker="leader",
        uses=("GroupDistances", "AllRowDistances"),
        aims_at="the columns of one-column participants, all groups fitted together",
        measure="squared correlation",
        unprotected=_BARE_ROWS,
        default=_SEPARATE,
        trial=_fitted,
        runs=(2, 5),
        declared_as=("all-row-distances", "group-distances"),
    ),
    Attack(
        name="geometry-subtraction",
        method="vfps",
        attacker="leader",
        uses=("GroupDistances", "AllRowDistances"),
        aims_at="distances in one participant's column, from three overlapping groups",
        measure="squared correlation",
        unprotected=_BARE_ROWS,
        default=_SEPARATE,
        trial=_subtracted,
        runs=(1, 5),
        declared_as=("all-row-distances", "group-distances"),
    ),
    Attack(
        name="widest-party",
        method="vfps",
        attacker="participant",
        uses=("SharedSecret", "RoundedWanted"),
        aims_at="how many columns the widest participant has: 2, 8 or 64",
        measure="widths guessed",
        unprotected="the scale of the widest participant is sent to all (version 0.1.0)",
        default="one scale for all, whatever they have",
        trial=_widest,
        runs=(1, 5),
    ),
    Attack(
        name="pseudonym-linking",
        method="vfps",
        attacker="aggregator",
        uses=("RoundedParts", "SubRankings"),
        aims_at="which rows are central, by ids that come back",
        measure="squared correlation",
        unprotected="one shuffle for all queries (the paper)",
        default="a new secret shuffle for every query",
        trial=_linked,
        runs=(2, 5),
        declared_as=(),
    ),
    *rare_class.ATTACKS,
    *scores.ATTACKS,
)
