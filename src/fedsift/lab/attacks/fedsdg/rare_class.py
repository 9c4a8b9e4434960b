# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Blind trainings with a label that one row has alone: sums of gates are sums about that row.

Leak      A network that predicts the other class for all rows is wrong about a single one, so that
          every sum is the error of that row times what its columns do to the output. Columns in
          which the row is far out have large sums, whatever their weights and secret factors.
Fix       ``min_class_size``: the label holder refuses classes of which fewer rows are left for
          training.
Remains   The same about several rows together.
"""

from __future__ import annotations

import numpy as np

from fedsift.data import split_vertical
from fedsift.lab.attacks.attack import UNPROTECTED, Attack, Trial
from fedsift.lab.attacks.fedsdg.blind_views import CURIOUS_BLIND, read_blind
from fedsift.lab.attacks.rare_class import alike, best_of
from fedsift.lab.attacks.recording import recorded_fit
from fedsift.methods.fedsdg.selector import FedSDGSelector
from fedsift.methods.filter.features import unit_columns
from fedsift.protocol import Policy
from fedsift.protocol.policy import SMALLEST_CLASS

_ROWS, _COLUMNS = 60, 32
_PARTY = "bank"
_SIZES = (1, *range(SMALLEST_CLASS, SMALLEST_CLASS + 3))
"""Rows of the class. Some of them validate, so that the smallest that is allowed is larger."""


def _trial(variant: str, seed: int) -> Trial:
    """How far out the row is in every column, from the mean size of the column's sums."""
    X = np.random.default_rng(seed).normal(size=(_ROWS, _COLUMNS))
    least = 1 if variant == UNPROTECTED else SMALLEST_CLASS

    def tried(n_marked: int) -> Trial:
        y = (np.arange(_ROWS) < n_marked).astype(np.int64)
        selector = FedSDGSelector(
            n_features_to_select=2, init="constant", layer_learning_rate=1.0, security="plain",
            policy=Policy(min_class_size=least, min_security_bits=0), random_state=seed,
        )  # fmt: skip
        federation = split_vertical(X, y, 1, label_holder=None, names=[_PARTY])
        run = read_blind(recorded_fit(selector, federation, CURIOUS_BLIND))
        sums = np.abs(np.array(run.openings.sums))
        found = (sums / sums.std(axis=1, keepdims=True)).mean(axis=0)
        true = np.abs(unit_columns(X)[0])[run.role(_PARTY)._order]
        return Trial(alike(found, true), 0.0, *run.stage.told)

    return best_of(tried, _SIZES, 0.0)


ATTACKS = (
    Attack(
        name="rare-class-fedsdg",
        method="fedsdg",
        attacker="label holder",
        uses=("GateSums",),
        aims_at="in which columns a row that has a class of its own is far out",
        measure="squared correlation",
        unprotected="min_class_size=1: one row with a class of its own (protocol='blind')",
        default=f"classes with fewer than {SMALLEST_CLASS} rows for training are refused; the "
        "smallest class that is not",
        trial=_trial,
        runs=(1, 5),
        declared_as=("gate-sums",),
    ),
)
