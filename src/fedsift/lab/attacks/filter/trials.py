# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Attacks on filters: isolated bins, two nearly equal partitions, totals of two runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.crypto.masking import unmask_sum
from fedsift.data import Federation, split_vertical
from fedsift.lab.attacks.attack import OPTION, UNPROTECTED, Attack, Trial
from fedsift.lab.attacks.filter import bin_isolation, total_difference
from fedsift.lab.attacks.recording import Stage, recorded_fit
from fedsift.methods.filter.horizontal_messages import MaskedSums
from fedsift.methods.filter.messages import OwnScores
from fedsift.methods.filter.selector import FilterSelector
from fedsift.protocol import Policy

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_ROWS, _POSITIVE, _VICTIMS = 60, 24, 8
_MIN_BIN = 5
_BANK, _REGISTRY = "bank", "label-holder"


def own_scores(stage: Stage, party: str) -> Floats | None:
    """Scores of a feature holder's own columns in its own order, if it was sent any."""
    received = stage.received(party, OwnScores)
    if not received:
        return None
    (role,) = stage.nodes[party]
    order: Any = role.order  # type: ignore[attr-defined]  # its own secret order
    values = np.empty(len(order))
    values[order] = received[0].scores.array()
    return values


def _scored(X: Floats, y: Integers, score: str, *, min_bin_size: int, share: bool) -> Stage:
    """A run with all columns at the attacker and the label elsewhere."""
    federation = split_vertical(X, y, 1, label_holder=None, names=[_BANK])
    allowed = ("row-count", "class-count", "selection", "own-scores")
    policy = {_REGISTRY: Policy(may_reveal=allowed, min_bin_size=1)} if share else None
    selector = FilterSelector(
        score, n_features_to_select=1, bins=[0.5], min_bin_size=min_bin_size, policy=policy
    )
    return recorded_fit(selector, federation)


def _labels(seed: int) -> tuple[Integers, Integers]:
    """Labels of all rows, and the rows the attacker is after."""
    rng = np.random.default_rng(seed)
    y = rng.permutation((np.arange(_ROWS) < _POSITIVE).astype(np.int64))
    return y, rng.permutation(_ROWS)[:_VICTIMS]


def _isolation(score: str) -> Callable[[str, int], Trial]:
    def trial(variant: str, seed: int) -> Trial:
        y, victims = _labels(seed)
        X = np.stack([bin_isolation.isolating_column(_ROWS, row) for row in victims], axis=1)
        bare = variant == UNPROTECTED
        min_bin_size = 1 if bare else _MIN_BIN
        stage = _scored(X, y, score, min_bin_size=min_bin_size, share=bare)
        scores = own_scores(stage, _BANK)
        guesses: list[int | None] = [None] * len(victims)
        if scores is not None:
            sizes = [np.bincount(X[:, j].astype(int)) for j in range(len(victims))]
            guesses = [
                bin_isolation.lonely_label(score, float(value), size, _POSITIVE)
                for value, size in zip(scores, sizes, strict=True)
            ]
        found = bin_isolation.share_right(guesses, y[victims])
        return Trial(found, 0.5, stage.outcome.ledger.rows())

    return trial


def _difference(variant: str, seed: int) -> Trial:
    y, victims = _labels(seed)
    rng = np.random.default_rng((seed, 1))
    pairs = [bin_isolation.nearly_equal_columns(_ROWS, row, rng) for row in victims]
    share = variant == UNPROTECTED
    stage = _scored(np.hstack(pairs), y, "gini", min_bin_size=_MIN_BIN, share=share)
    scores = own_scores(stage, _BANK)
    guesses: list[int | None] = [None] * len(victims)
    if scores is not None:
        guesses = [
            bin_isolation.label_by_difference(
                "gini", pair, np.bincount(columns[:, 0].astype(int)), _POSITIVE
            )
            for pair, columns in zip(scores.reshape(-1, 2), pairs, strict=True)
        ]
    found = bin_isolation.share_right(guesses, y[victims])
    return Trial(found, 0.5, stage.outcome.ledger.rows())


# Parties with rows of the same columns

_MEMBERS, _COLUMNS, _CLASSES = 3, 4, 2
_EPSILON = 1.0


def _members(seed: int) -> dict[str, tuple[Floats, Integers]]:
    rng = np.random.default_rng(seed)
    found = {}
    for i in range(_MEMBERS):
        y = rng.permutation(np.arange(40) % _CLASSES)
        found[f"party-{i + 1}"] = (rng.normal(size=(40, _COLUMNS)) + y[:, None], y)
    return found


def _pooled(parties: dict[str, tuple[Floats, Integers]], security: str) -> Stage:
    selector = FilterSelector("f", n_features_to_select=1, security=security)
    return recorded_fit(selector, Federation.horizontal(parties))


def _sent(stage: Stage) -> dict[str, Any]:
    """What each member sent the coordinator."""
    return {
        sender: message.sums.array()
        for sender, message in stage.received_from("coordinator", MaskedSums)
    }


def _member_sums(variant: str, seed: int) -> Trial:
    parties = _members(seed)
    stage = _pooled(parties, "plain" if variant == UNPROTECTED else "secure")
    X, y = parties["party-1"]
    true = np.stack([X[y == k].sum(axis=0) for k in range(_CLASSES)], axis=1)
    part = _sent(stage)["party-1"]
    numbers = total_difference.member_parts(part)
    read = total_difference.Totals.read(numbers, _COLUMNS, _CLASSES)
    return Trial(total_difference.recovered(read.sums, true), 0.0, stage.outcome.ledger.rows())


def _row_difference(variant: str, seed: int) -> Trial:
    parties = _members(seed)
    security = "plain" if variant == UNPROTECTED else "secure"
    X, y = parties["party-1"]
    row = int(np.random.default_rng((seed, 2)).integers(len(y)))
    fewer = {**parties, "party-1": (np.delete(X, row, axis=0), np.delete(y, row))}
    stages = [_pooled(given, security) for given in (parties, fewer)]
    totals = [
        total_difference.Totals.read(
            total_difference.pooled(list(_sent(stage).values())), _COLUMNS, _CLASSES
        )
        for stage in stages
    ]
    gap = totals[0].minus(totals[1])
    label_found = int(gap.class_sizes.argmax() == y[row])
    found = label_found * total_difference.recovered(gap.means, X[row])
    return Trial(float(found), 0.0, stages[0].outcome.ledger.rows())


_EDGES = (-0.5, 0.5, 1.5)
_WIDE = 12
"""Columns of the tables that are subtracted."""


def _pooled_tables(
    parties: dict[str, tuple[Floats, Integers]], **settings: Any
) -> tuple[Integers, Stage]:
    """Bin-by-class counts of all members together, as the coordinator adds them up."""
    selector = FilterSelector("gini", n_features_to_select=1, bins=list(_EDGES), **settings)
    stage = recorded_fit(selector, Federation.horizontal(parties))
    # The tables are the last sums that members send.
    totals = unmask_sum(list(_sent(stage).values()))
    return np.array(totals).reshape(_WIDE, -1, _CLASSES), stage


def _count_difference(variant: str, seed: int) -> Trial:
    rng = np.random.default_rng((seed, 4))
    parties = {}
    for i in range(_MEMBERS):
        y = rng.permutation(np.arange(60) % _CLASSES)
        parties[f"party-{i + 1}"] = (rng.normal(size=(60, _WIDE)) + y[:, None], y)
    X, y = parties["party-1"]
    fewer = {**parties, "party-1": (X[1:], y[1:])}
    settings: dict[str, Any] = {"security": "plain"} if variant == UNPROTECTED else {}
    if variant == OPTION:
        settings = {"epsilon": _EPSILON}
    (with_row, stage), (without, _) = (_pooled_tables(p, **settings) for p in (parties, fewer))
    gap = (with_row - without).reshape(_WIDE, -1)
    true = np.searchsorted(_EDGES, X[0]) * _CLASSES + y[0]
    found = float((gap.argmax(axis=1) == true).mean())
    return Trial(found, 1 / gap.shape[1], stage.outcome.ledger.rows())


ATTACKS = (
    *(
        Attack(
            name=f"bin-isolation-{score}",
            method="filter",
            attacker="feature holder",
            uses=("OwnScores",),
            aims_at="the label of a row that is alone in a bin",
            measure="labels right",
            unprotected="bins of one row, scores go back to their owner",
            default=f"bins of at least {_MIN_BIN} rows, no score goes back",
            trial=_isolation(score),
            declared_as=("own-scores",),
        )
        for score in ("gini", "iv")
    ),
    Attack(
        name="partition-difference",
        method="filter",
        attacker="feature holder",
        uses=("OwnScores",),
        aims_at="the label of the one row by which two columns differ",
        measure="labels right",
        unprotected=f"scores go back to their owner; bins of at least {_MIN_BIN} rows",
        default="no score goes back",
        trial=_difference,
        declared_as=("own-scores",),
    ),
    Attack(
        name="member-sums",
        method="filter",
        attacker="coordinator",
        uses=("MaskedSums",),
        aims_at="one member's sums by class",
        measure="sums known",
        unprotected="no masks (security='plain')",
        default="pairwise masks",
        trial=_member_sums,
        runs=(1, 3),
        declared_as=(),
        tolerance=0.05,
    ),
    Attack(
        name="row-difference",
        method="filter",
        attacker="coordinator",
        uses=("MaskedSums",),
        aims_at="the one row by which two runs differ",
        measure="values and label known",
        unprotected="no masks (security='plain')",
        default="pairwise masks; the totals of two runs are subtracted",
        trial=_row_difference,
        runs=(1, 3),
        declared_as=("pooled-sums",),
        tolerance=0.05,
    ),
    Attack(
        name="count-difference",
        method="filter",
        attacker="coordinator",
        uses=("MaskedSums",),
        aims_at="bins and label of the one row by which two runs differ",
        measure="bins and labels right",
        unprotected="no masks (security='plain')",
        default="pairwise masks; the tables of two runs are subtracted",
        option=f"differential privacy, epsilon={_EPSILON:g} in each run",
        trial=_count_difference,
        runs=(3, 10),
        declared_as=("pooled-sums",),
    ),
)
