# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Attack with a label of made-up numbers whose digits name rows, by whoever has the label.

Method    Vertical filter ``f``; numbers are not cut into classes there.
Leak      A score is a function of one sum: the label over the rows where a column of zeros and ones
          has a one. If the last digits of the label are powers of two, one for each row, the digits
          of that sum are the column's values in these rows. No row has much of the variance.
Fix       Scores of numeric labels are a kind of their own, ``numeric-scores``, which the policy of
          the party with the column has to name.
Remains   Whoever names it can be read: the score itself is as exact as it was.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fedsift.data import split_vertical
from fedsift.errors import PolicyViolation
from fedsift.lab.attacks.attack import UNPROTECTED, Attack, Trial
from fedsift.lab.attacks.recording import recorded_fit
from fedsift.methods.filter.selector import FilterSelector
from fedsift.protocol import Policy

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

N_ROWS, N_TOLD = 60, 20
"""Rows of the column, and how many of them the digits of one score can name."""

_UNIT = 2.0**N_TOLD
_NAMED = Policy(may_reveal=("basic", "scores"))


def made_label() -> Floats:
    """Numbers of one size, whose last digits name single rows: no row has much of the variance."""
    label = np.where(np.arange(N_ROWS) % 2, _UNIT, -_UNIT)
    label[:N_TOLD] += 2.0 ** np.arange(N_TOLD)
    return label


def read_rows(score: float, label: Floats, n_ones: int) -> Integers:
    """The first values of a column of zeros and ones, from its score and the number of its ones."""
    explained = np.sqrt(score / (score + N_ROWS - 2))
    spread = np.sqrt(((label - label.mean()) ** 2).sum())
    covered = explained * spread * np.sqrt(n_ones * (N_ROWS - n_ones) / N_ROWS)
    totals = n_ones * label.mean() + covered * np.array([1, -1])
    nearest = totals[np.abs(totals - np.rint(totals)).argmin()]
    digits = round(nearest) % int(_UNIT)
    return np.array([digits >> place & 1 for place in range(N_TOLD)])


def _trial(variant: str, seed: int) -> Trial:
    """Values known beyond a guess at the more frequent one."""
    column = (np.random.default_rng(seed).random(N_ROWS) < 0.4).astype(np.float64)
    label = made_label()
    federation = split_vertical(
        column[:, None], label, 1, label_holder=None, names=["shop"], task="regression"
    )
    policy = _NAMED if variant == UNPROTECTED else Policy()
    selector = FilterSelector("f", n_features_to_select=1, policy=policy)
    try:
        stage = recorded_fit(selector, federation)
    except PolicyViolation:
        return Trial(0.0, 0.0)
    found = read_rows(float(selector.scores_[0]), label, int(column.sum()))
    right, ones = float((found == column[:N_TOLD]).mean()), float(column[:N_TOLD].mean())
    guess = max(ones, 1 - ones)
    return Trial(max(0.0, (right - guess) / (1 - guess)), 0.0, *stage.told)


ON_FILTER = (
    Attack(
        name="label-digits",
        method="filter",
        attacker="label holder",
        uses=("NumericScores",),
        aims_at="the values of many rows of a column of zeros and ones",
        measure="values known beyond a guess",
        unprotected="the policy of the column's owner names numeric-scores",
        default="scores of numeric labels are refused",
        trial=_trial,
        runs=(2, 5),
        declared_as=("numeric-scores",),
    ),
)
