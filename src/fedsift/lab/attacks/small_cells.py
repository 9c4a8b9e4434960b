# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Attacks on single rows behind totals over members with different rows, by the coordinator.

Method    Filters of every score on rows of the same columns.
Leak      Sums over a class are a row's values where one row alone has a value (``missing-cells``);
          a cell of a table, a bin by a class, can be one row (``small-cells``); and a coordinator,
          which between organisations is at the hub, may look at sizes and say nothing of them, or
          say that they are large (``lying-sizes``).
Fix       Members compare sizes and cells with the minimum without opening them. What is not small
          is proved to each of them before it goes on; columns with few values are left out, bins
          with small cells are merged.
Remains   Members that lie, or tell the coordinator the secret that they share.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.crypto.masking import unmask_sum
from fedsift.data import Federation
from fedsift.errors import PartyFailed, PolicyViolation
from fedsift.lab.attacks.attack import UNPROTECTED, Attack, Trial
from fedsift.lab.attacks.recording import RecordingEngine, Stage, Twins, recorded_fit
from fedsift.maths import moments
from fedsift.methods.filter.coordinator import Coordinator
from fedsift.methods.filter.course import Course, Sizes
from fedsift.methods.filter.horizontal_messages import Due, MaskedSums
from fedsift.methods.filter.member import Member
from fedsift.methods.filter.selector import FilterSelector
from fedsift.protocol import Network, Policy, PublicArray

Floats = npt.NDArray[np.float64]

_ROWS, _COLUMNS = 90, 16
_EDGES = [0.0]
_MINIMUM = Policy(min_class_size=10, min_bin_size=10)
_BINS_ONLY = Policy(min_class_size=1, min_bin_size=10)


class LyingCoordinator(Coordinator):
    """Asks for sizes, and says of all that they are large enough."""

    @staticmethod
    def watch(role: Any) -> None:
        """Nothing to prepare."""

    async def _answer(self, course: Course, net: Network) -> Any:
        answer = await super()._answer(course, net)
        if not isinstance(course.request, Sizes) or not answer.any():
            return answer
        # Of the small counts it has the proof of the others alone.
        totals, _, proof = self._news
        large = np.zeros_like(answer)
        self._news = (totals, PublicArray.of(large), proof)
        return large


class TrustingMember(Member):
    """Takes the coordinator's word, as members did that checked nothing themselves."""

    @staticmethod
    def watch(role: Any) -> None:
        """Nothing to prepare."""

    def _checked_answer(self, ask: Due, course: Course) -> Any:
        if isinstance(course.request, Sizes):
            return ask.small.array()
        return super()._checked_answer(ask, course)


def _federation(X: Floats, y: npt.NDArray[np.int64]) -> Federation:
    shares = np.array_split(np.arange(len(y)), 3)
    return Federation.horizontal(
        {f"party-{i}": (X[rows], y[rows]) for i, rows in enumerate(shares)}
    )


def _class_sums(stage: Stage) -> Floats:
    """Sums of the second class by column, as the coordinator opens them."""
    replies = [message.sums.array() for message in stage.received("coordinator", MaskedSums)]
    found = np.full(_COLUMNS, np.nan)
    if not replies:
        return found
    (coordinator,) = stage.roles(Coordinator).values()
    request, totals = coordinator.course.request, unmask_sum(replies, moments.LIMBS)
    columns = list(request.columns)
    sums = moments.read_sums(totals, len(columns), 2, numeric=False, complete=request.complete)
    found[columns] = [float(column.sums[1]) for column in sums.columns]
    return found


def _known(found: Floats, true: Floats) -> float:
    return float((np.abs(found - true) < 1e-6).mean())


def _lying_sizes(variant: str, seed: int) -> Trial:
    """One row of a class; the coordinator is told so, and goes on."""
    X = np.random.default_rng((seed, 20)).normal(size=(_ROWS, _COLUMNS)) + 1
    y = (np.arange(_ROWS) < 1).astype(np.int64)
    twins: Twins = {Coordinator: LyingCoordinator}
    if variant == UNPROTECTED:
        twins = {**twins, Member: TrustingMember}
    engine = RecordingEngine(twins)
    selector = FilterSelector("f", n_features_to_select=1, policy=_MINIMUM)
    try:
        selector.run(_federation(X, y), engine=engine)
    except PartyFailed as error:
        if error.cause_code != "E307":
            raise
        return Trial(0.0, 0.0)
    stage = engine.stages[-1]
    return Trial(_known(_class_sums(stage), X[0]), 0.0, *stage.told)


def _missing_cells(variant: str, seed: int) -> Trial:
    """Two large classes; of the second one row alone has values in half of the columns."""
    rng = np.random.default_rng((seed, 21))
    X, y = rng.normal(size=(_ROWS, _COLUMNS)), np.arange(_ROWS) % 2
    few = np.arange(_COLUMNS // 2)
    X[np.ix_(np.flatnonzero(y == 1)[1:], few)] = np.nan
    policy = Policy(min_class_size=1, min_bin_size=1) if variant == UNPROTECTED else _MINIMUM
    selector = FilterSelector("f", n_features_to_select=1, policy=policy)
    stage = recorded_fit(selector, _federation(X, y))
    found = _class_sums(stage)
    return Trial(_known(found[few], X[1, few]), 0.0, *stage.told)


def _small_cells(score: str) -> Callable[[str, int], Trial]:
    """Two bins and two classes with 44 and 1 rows in each: the bin of a single row is read."""

    def trial(variant: str, seed: int) -> Trial:
        rng = np.random.default_rng((seed, 22))
        y = np.arange(_ROWS) % 2
        X = np.where(y[:, None] == 1, 1.0, -1.0) * rng.uniform(0.5, 1.5, (_ROWS, _COLUMNS))
        single = rng.integers(0, _ROWS // 2, (2, _COLUMNS)) * 2 + np.array([[0], [1]])
        X[single, np.arange(_COLUMNS)] *= -1
        policy = _BINS_ONLY if variant == UNPROTECTED else _MINIMUM
        selector = FilterSelector(
            score, n_features_to_select=1, bins=_EDGES, min_bin_size=10, policy=policy
        )
        try:
            stage = recorded_fit(selector, _federation(X, y))
        except PolicyViolation:
            return Trial(0.0, 0.0)
        replies = [message.sums.array() for message in stage.received("coordinator", MaskedSums)]
        tables = np.array(unmask_sum(replies)).reshape(_COLUMNS, -1, 2)
        return Trial(float((tables == 1).any(axis=(1, 2)).mean()), 0.0, *stage.told)

    return trial


def _attack(name: str, trial: Callable[[str, int], Trial], **facts: Any) -> Attack:
    given: dict[str, Any] = {
        "method": "filter",
        "attacker": "coordinator",
        "uses": ("HiddenCounts", "MaskedSums"),
        "runs": (1, 5),
        "tolerance": 0.05,
        **facts,
    }
    return Attack(name=name, trial=trial, **given)


ATTACKS = (
    _attack(
        "lying-sizes",
        _lying_sizes,
        aims_at="the values of a row that has a class of its own, by saying that it has not",
        measure="values known",
        unprotected="members take the coordinator's word on sizes",
        default="sizes that are not small are proved to every member",
    ),
    _attack(
        "missing-cells",
        _missing_cells,
        aims_at="the value of the only row of a class that has one",
        measure="values known",
        unprotected="sums over any number of values (min_class_size=1)",
        default="columns with fewer than 10 values in a class are left out",
    ),
    *(
        _attack(
            f"small-cells-{score}",
            _small_cells(score),
            aims_at="the bin of the only row of its class in it",
            measure="columns with a cell of one row",
            unprotected="bins of at least 10 rows, cells of any size (min_class_size=1)",
            default="bins with cells of 1 to 9 rows are merged",
        )
        for score in ("gini", "mi", "iv", "chi2")
    ),
)
