# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Attacks by more than one job: what a single run hides, several runs on the same tables tell.

Differences
Method    filter on rows of the same columns (and any other method that opens sums over rows).
Leak      Totals of two jobs whose rows differ by one row differ by that row, value for value
          (``row-difference``, ``count-difference``).
Fix       Every member remembers which rows it took part with, and refuses a job whose rows differ
          from those of one or two earlier ones, added or subtracted, in fewer than
          ``min_row_change`` (:mod:`fedsift.jobs.history`).
Remains   Totals are declared as ``pooled-sums``, and so are those of the rows by which two jobs may
          differ. Two jobs that differ by a member differ by its sums.

Repetitions
Method    filter, as the example; every method that reveals sums or scores of the same rows.
Leak      Noise is averaged out over jobs (``repeat-job``), over the steps of one job
          (``budget-by-steps``), or over runs of one job that the hub starts again
          (``replayed-job``). Labels of choice are in :mod:`fedsift.lab.attacks.probing`.
Fix       Every member keeps a history: budgets add up over steps and jobs, and a job runs once.
Remains   What the jobs within the limits tell.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pandas as pd

from fedsift.errors import BadEnvelope, PolicyViolation
from fedsift.jobs.spec import JointStep
from fedsift.lab.attacks import filter as single_runs
from fedsift.lab.attacks import probing
from fedsift.lab.attacks.attack import UNPROTECTED, Attack, Trial
from fedsift.lab.attacks.filter import COLUMNS, Parties, Totals, draw_members, recovered
from fedsift.lab.attacks.members import LABEL, Members, opened_totals, submit, told_of
from fedsift.lab.attacks.recording import Stage
from fedsift.maths import moments
from fedsift.protocol import Policy

Floats = npt.NDArray[np.float64]

_EDGES = (-0.5, 0.5, 1.5)
_CLASSES = 2

# Rows by which two jobs differ

_WIDE = 12
"""Columns of the tables whose counts are subtracted."""


def _two_jobs(variant: str, parties: Parties, fewer: Parties, **settings: Any) -> list[list[Stage]]:
    """Submit a job, then the same on tables that lack a row; the second may be refused."""
    found: list[list[Stage]] = []
    with Members.meet(variant) as members, contextlib.suppress(PolicyViolation):
        for given in (parties, fewer):
            tables = {
                party: pd.DataFrame(X).add_prefix("x").assign(label=y)
                for party, (X, y) in given.items()
            }
            job = submit("horizontal", list(tables), method="filter", parameters=settings)
            found.append(members.run(job, tables)[1])
    return found


def _row_difference(variant: str, seed: int) -> Trial:
    parties = draw_members(seed)
    X, y = parties["party-1"]
    row = int(np.random.default_rng((seed, 2)).integers(len(y)))
    fewer = {**parties, "party-1": (np.delete(X, row, axis=0), np.delete(y, row))}
    runs = _two_jobs(variant, parties, fewer, score="f", n_features_to_select=1)
    if len(runs) < 2:
        return Trial(0.0, 0.0, *told_of(runs[0]))
    more, less = (
        Totals.read(opened_totals(stages, moments.LIMBS)[-1], COLUMNS, _CLASSES) for stages in runs
    )
    gap = more.minus(less)
    return Trial(recovered(gap.means, X[row]), 0.0, *told_of(runs[0]))


def _count_difference(variant: str, seed: int) -> Trial:
    """Bin-by-class counts of all members together, as the coordinator adds them up, subtracted."""
    parties = draw_members((seed, 4), 60, _WIDE)
    X, y = parties["party-1"]
    fewer = {**parties, "party-1": (X[1:], y[1:])}
    settings = {"score": "gini", "bins": list(_EDGES), "n_features_to_select": 1}
    runs = _two_jobs(variant, parties, fewer, **settings)
    guess = 1 / (len(_EDGES) + 1)
    if len(runs) < 2:
        return Trial(guess, guess, *told_of(runs[0]))
    # Classes have numbers of their own in every run; bins do not.
    more, less = (
        np.array(opened_totals(stages)[-1]).reshape(_WIDE, -1, _CLASSES).sum(axis=2)
        for stages in runs
    )
    found = float(((more - less).argmax(axis=1) == np.searchsorted(_EDGES, X[0])).mean())
    return Trial(found, guess, *told_of(runs[0]))


# Noise that is averaged out

_TIMES = 20
_EPSILON = 1.0
_CLOSE = 3.0
"""Rows by which a count may be wrong to be known; the noise of one run is several times that."""
_BINS = len(_EDGES) + 1
_COUNTED = {"score": "gini", "bins": list(_EDGES), "n_features_to_select": 2, "epsilon": _EPSILON}


def _hospitals(seed: int) -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng((seed, 7))
    tables = {}
    for name in ("north", "south", "west"):
        y = rng.permutation(np.arange(60) % _CLASSES)
        X = rng.normal(size=(60, 2)) + y[:, None]
        tables[name] = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], LABEL: y})
    return tables


def _share_close(totals: Sequence[Sequence[int]], tables: Mapping[str, pd.DataFrame]) -> float:
    """Share of cells whose mean over all runs is nearly the true count.

    Classes have numbers of their own in every run: the attacker takes the order that fits the runs
    before best, and is told which of the two it has in the end.
    """
    whole = pd.concat(tables.values())
    cells = [np.searchsorted(_EDGES, whole[name]) * _CLASSES + whole[LABEL] for name in ("a", "b")]
    true = np.array([np.bincount(one, minlength=_BINS * _CLASSES) for one in cells])
    total = np.zeros((2, _BINS, _CLASSES))
    for numbers in totals:
        one = np.array(numbers).reshape(2, -1, _CLASSES)[:, :_BINS]
        total += max(one, one[:, :, ::-1], key=lambda order: float((order * total).sum()))
    found = [order.reshape(true.shape) / len(totals) for order in (total, total[:, :, ::-1])]
    return max(float((np.abs(one - true) <= _CLOSE).mean()) for one in found)


def _averaged(attack: str, variant: str, seed: int) -> Trial:
    """Run a job with noise as often as members let it, and average what was opened."""
    tables = _hospitals(seed)
    limit = (
        Policy() if variant == UNPROTECTED or attack == "replayed-job" else Policy(max_epsilon=1)
    )
    one = submit("horizontal", list(tables), method="filter", parameters=_COUNTED)
    steps = (JointStep(method="filter", parameters=_COUNTED),) * _TIMES
    stages: list[Stage] = []
    with Members.meet(variant, limit) as members:
        jobs = [one] * _TIMES
        if attack == "repeat-job":
            jobs = [msgspec.structs.replace(one, nonce=f"{n:032x}") for n in range(_TIMES)]
        elif attack == "budget-by-steps":
            chain = submit("horizontal", list(tables), method="chain", steps=steps)
            jobs = [chain, one]  # if the chain is refused, one run is what there is
        for job in jobs:
            with contextlib.suppress(PolicyViolation, BadEnvelope):
                stages += members.run(job, tables)[1]
    totals = opened_totals(stages)
    guess = float(np.mean([_share_close([one], tables) for one in totals]))
    return Trial(_share_close(totals, tables), guess, *told_of(stages))


_attack = partial(
    Attack,
    method="filter",
    attacker="coordinator",
    uses=("MaskedSums",),
    aims_at="bin-by-class counts behind noise",
    measure=f"counts known to {_CLOSE:g} rows",
    runs=(1, 3),
    declared_as=(),
    tolerance=0.25,
)

ATTACKS = (
    *single_runs.ATTACKS,
    Attack(
        name="row-difference",
        method="filter",
        attacker="coordinator",
        uses=("MaskedSums",),
        aims_at="the one row by which two jobs differ",
        measure="values known",
        unprotected="members forget; the totals of two jobs are subtracted",
        default="members remember, and refuse rows that differ in fewer than min_row_change",
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
        aims_at="bins of the one row by which two jobs differ",
        measure="bins right",
        unprotected="members forget; the tables of two jobs are subtracted",
        default="members remember, and refuse rows that differ in fewer than min_row_change",
        trial=_count_difference,
        runs=(1, 3),
        declared_as=("pooled-sums",),
    ),
    _attack(
        name="budget-by-steps",
        unprotected=f"every step may spend an epsilon of {_EPSILON:g}; {_TIMES} steps",
        default=f"max_epsilon = {_EPSILON:g} is for all steps together",
        trial=partial(_averaged, "budget-by-steps"),
    ),
    _attack(
        name="repeat-job",
        unprotected=f"every job may spend an epsilon of {_EPSILON:g}; {_TIMES} jobs",
        default=f"members remember; max_epsilon = {_EPSILON:g} is for all jobs on a table",
        trial=partial(_averaged, "repeat-job"),
    ),
    _attack(
        name="replayed-job",
        unprotected=f"the hub starts one job {_TIMES} times",
        default="members run a job once",
        trial=partial(_averaged, "replayed-job"),
    ),
    *probing.ATTACKS,
)
