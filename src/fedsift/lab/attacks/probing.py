# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Labels of choice: a label holder that asks about other rows of a feature holder in every job.

Method    filter by gini, as the example; every vertical method that scores columns by labels.
Leak      Whoever chooses the labels chooses what is counted. For two classes the impurity of bins
          is a sum over pairs of rows that share a bin. Two jobs that differ in the label of one row
          tell how many rows of a group share its bin (:func:`sharing`, ``pair-probing``). With two
          bins a single job tells how many rows of a group are in the first, and groups of a
          detecting matrix (:func:`detecting_matrix`) tell it of every row in fewer jobs than there
          are rows (``half-probing``). Each class has rows enough for any minimum, and the attacker
          removes its own history.
Fix       A feature holder takes part in one job for every 20 of the rows that are used
          (:data:`~fedsift.jobs.history.ROWS_PER_JOB`), in three at least and in 20 at most.
Remains   What the jobs within the limit tell, about fewer than three rows each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fedsift.errors import PolicyViolation
from fedsift.jobs.history import FEWEST_JOBS, ROWS_PER_JOB
from fedsift.lab.attacks.attack import Attack, Told, Trial
from fedsift.lab.attacks.members import LABEL, Members, submit, told_of
from fedsift.protocol import Policy
from fedsift.protocol.policy import SMALLEST_CLASS

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Rows = frozenset[int]

_BANK, _SHOP = "bank", "shop"
_COLUMN = "x"


class _NoMoreJobs(Exception):
    """A member refuses, or the attacker has asked as often as it wants to."""


@dataclass(eq=False)
class _LabelHolder:
    """Submits a job for every set of rows, and removes its own history before each.

    Parameters
    ----------
    members : Members
    values : ndarray of shape (n_rows,)
        The column of the other party.
    bins : int
    n_jobs : int
        Jobs that the attacker wants.
    """

    members: Members
    values: Floats
    bins: int
    n_jobs: int
    told: Told = ((), "")

    def score(self, rows: Iterable[int]) -> float:
        """The impurity of the column, with these rows in a class of their own."""
        if not self.n_jobs:
            raise _NoMoreJobs
        self.n_jobs -= 1
        label = np.isin(np.arange(len(self.values)), list(rows)).astype(np.int64)
        tables = {
            _BANK: pd.DataFrame({LABEL: label}),
            _SHOP: pd.DataFrame({_COLUMN: self.values}),
        }
        # The protection looked at is the history: encryption hides nothing from the label holder.
        settings = {"score": "gini", "bins": self.bins, "n_features_to_select": 1}
        job = submit(
            "vertical",
            [_BANK, _SHOP],
            method="filter",
            parameters={**settings, "security": "plain"},
        )
        self.members.forget(_BANK)
        try:
            result, stages = self.members.run(job, tables)
        except PolicyViolation:
            raise _NoMoreJobs from None
        self.told = told_of(stages)
        found: float = result.scores[_SHOP][_COLUMN]
        return found


Probe = Callable[[_LabelHolder, Integers], float]
"""Asks until there are no more jobs; given the true bins only to count what it got right."""


def _mounted(probe: Probe, n_rows: int, bins: int, n_jobs: int, guess: float) -> Any:
    def trial(variant: str, seed: int) -> Trial:
        values = np.random.default_rng((seed, 8)).normal(size=n_rows)
        codes = values.argsort().argsort() * bins // n_rows
        with Members.meet(variant, Policy(min_security_bits=0)) as members:
            holder = _LabelHolder(members, values, bins, n_jobs)
            found = probe(holder, codes)
        return Trial(found, guess, *holder.told)

    return trial


# Which rows share a bin with a given one

_ROWS, _BINS, _PAIR_JOBS = 60, 6, 60
_GROUP = SMALLEST_CLASS
_BIN_ROWS = _ROWS // _BINS


def sharing(without: float, with_row: float) -> int:
    """How many rows of a class share a bin with a row, by the scores without and with it.

    With ``a`` rows of a class in each bin of ``n`` rows, the impurity is one less the mean of
    ``(a * a + (n - a) * (n - a)) / n`` per row; one more row in one of the bins changes it by what
    that bin had.
    """
    change = (without - with_row) * _ROWS * _BIN_ROWS
    return round((change - 2 + 2 * _BIN_ROWS) / 4)


def _probe_pairs(holder: _LabelHolder, codes: Integers) -> float:
    """Ask about groups, and then about single rows together with a group that does not share."""
    others = np.arange(1, _ROWS)
    groups = [others[start : start + _GROUP] for start in range(0, len(others), _GROUP)]
    known: dict[int, bool] = {}
    apart: list[int] = []
    mixed: list[int] = []
    try:
        for group in groups:
            # The last group is filled up with rows that are known.
            filled = [*group, *apart[: _GROUP - len(group)]]
            shared = sharing(holder.score(filled), holder.score([0, *filled]))
            if shared in (0, len(group)):
                known.update(dict.fromkeys(group.tolist(), shared > 0))
                apart += group.tolist() if not shared else []
            else:
                mixed += group.tolist()
        for row in mixed if apart else ():
            filled = [row, *apart[:_GROUP]]
            known[row] = sharing(holder.score(filled), holder.score([0, *filled])) > 0
    except _NoMoreJobs:
        pass
    right = sum(bool(codes[row] == codes[0]) == shares for row, shares in known.items())
    return right / len(others)


# Which half every row is in

_ODD_ROWS, _HALVES, _HALF_JOBS = 61, 2, 32
"""With an odd number of rows the halves have different sizes, which tells them apart."""
_SMALLER = _ODD_ROWS // 2


def detecting_matrix(depth: int) -> Integers:
    """Sets of objects whose sums tell every object, if each is zero or one.

    Of Cantor and Mills: ``2 ** depth - 1`` sets for ``depth * 2 ** (depth - 1)`` objects.

    Examples
    --------
    >>> detecting_matrix(2)
    array([[1, 1, 1, 0],
           [1, 0, 0, 1],
           [0, 1, 0, 1]])
    """
    if depth == 1:
        return np.ones((1, 1), dtype=np.int64)
    half = detecting_matrix(depth - 1)
    n_sets, n_objects = half.shape
    none, one = np.zeros((n_sets, 1), dtype=np.int64), np.ones((n_sets, 1), dtype=np.int64)
    last = np.repeat([0, 1, 0, 1], [n_objects, n_objects, n_sets, 1])
    return np.vstack(
        [
            np.hstack([half, half, np.eye(n_sets, dtype=np.int64), none]),
            np.hstack([half, 1 - half, np.zeros((n_sets, n_sets), dtype=np.int64), one]),
            last,
        ]
    )


def detected(sums: Integers, depth: int) -> Integers:
    """The objects behind the sums of a detecting matrix.

    Examples
    --------
    >>> detected(detecting_matrix(2) @ [0, 1, 1, 0], 2)
    array([0, 1, 1, 0])
    """
    if depth == 1:
        return np.asarray(sums, dtype=np.int64)
    n_sets = len(sums) // 2
    plus, minus, total = sums[:n_sets], sums[n_sets:-1] - sums[-1], sums[-1]
    single = (plus + minus) % 2
    first = detected((plus + minus - single) // 2, depth - 1)
    second = detected((plus - minus - single) // 2, depth - 1)
    return np.concatenate([first, second, single, [total - second.sum()]])


def in_smaller_half(score: float, n_chosen: int) -> int:
    """How many rows of a class are in the smaller of two halves, by the score."""
    sizes = np.array([_SMALLER, _ODD_ROWS - _SMALLER])
    counts = np.arange(max(0, n_chosen - sizes[1]), min(n_chosen, sizes[0]) + 1)
    chosen = np.stack([counts, n_chosen - counts], axis=1)
    impurity = 1 - ((chosen**2 + (sizes - chosen) ** 2) / sizes).sum(axis=1) / _ODD_ROWS
    return int(counts[np.abs(impurity - score).argmin()])


def _probe_halves(holder: _LabelHolder, codes: Integers) -> float:
    """Count known rows as told, and half of the others as guessed rightly."""
    base = list(range(_ODD_ROWS - SMALLEST_CLASS, _ODD_ROWS))
    found: dict[int, int] = {}
    n_jobs = holder.n_jobs
    if holder.members.folder is not None:
        n_jobs = max(FEWEST_JOBS, _ODD_ROWS // ROWS_PER_JOB)  # the attacker knows the limit
    try:
        in_base = in_smaller_half(holder.score(base), len(base))
        left, n_jobs = list(range(_ODD_ROWS - len(base))), n_jobs - 1
        while n_jobs and left:
            depth = (n_jobs + 1).bit_length() - 1
            matrix = detecting_matrix(depth)
            rows, left = left[: matrix.shape[1]], left[matrix.shape[1] :]
            sums = []
            for line in matrix[:, : len(rows)]:
                asked = [*base, *np.array(rows)[line == 1].tolist()]
                sums.append(in_smaller_half(holder.score(asked), len(asked)) - in_base)
            found.update(zip(rows, detected(np.array(sums), depth).tolist(), strict=False))
            n_jobs -= len(matrix)
    except _NoMoreJobs:
        pass
    smaller = codes == int(np.bincount(codes).argmin())
    right = sum(bool(smaller[row]) == bool(half) for row, half in found.items())
    return (right + (_ODD_ROWS - len(found)) / 2) / _ODD_ROWS


def _attack(name: str, trial: Any, n_jobs: int, aims_at: str, measure: str) -> Attack:
    return Attack(
        name=name,
        method="filter",
        attacker="label holder",
        uses=("SealedScores",),
        aims_at=aims_at,
        measure=measure,
        unprotected=f"members forget; {n_jobs} jobs with labels of choice",
        default=f"members remember; one job for every {ROWS_PER_JOB} rows",
        trial=trial,
        runs=(1, 5),
    )


ATTACKS = (
    _attack(
        "pair-probing",
        _mounted(_probe_pairs, _ROWS, _BINS, _PAIR_JOBS, 0.0),
        _PAIR_JOBS,
        "which rows of another party share a bin with a given row, asked in groups",
        "rows found out about",
    ),
    _attack(
        "half-probing",
        _mounted(_probe_halves, _ODD_ROWS, _HALVES, _HALF_JOBS, 0.5),
        _HALF_JOBS,
        "in which half of a column every row of another party is",
        "rows put in the right half",
    ),
)
