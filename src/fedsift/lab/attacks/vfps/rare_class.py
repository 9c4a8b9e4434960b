# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""VF-PS: distances of a row of choice, by a label that asks about nothing else.

Leak      Queries are read until enough rows of their class are seen. Rows whose class nobody shares
          take no part. With a class of two rows, and all others alone in theirs, every query is
          about a row that the leader chose, and is read down to the other one.
Fix       ``min_class_size``: all rows of a job have classes of several rows, so all of them are
          queries, in an order that is drawn at random, and share the budget of distances.
Remains   The nearest rows of some rows; the leader does not choose of which.
"""

from __future__ import annotations

import numpy as np

from fedsift.data import split_vertical
from fedsift.lab.attacks.attack import UNPROTECTED, Attack, Trial
from fedsift.lab.attacks.rare_class import best_of
from fedsift.lab.attacks.recording import recorded_fit
from fedsift.lab.attacks.vfps.techniques import CURIOUS, PAPER, CuriousLeader
from fedsift.methods.vfps.selector import VFPSSelector
from fedsift.protocol import Policy
from fedsift.protocol.policy import SMALLEST_CLASS

_ROWS, _COLUMNS = 60, 4


def _trial(variant: str, seed: int) -> Trial:
    """Share of the distances of row 0, summed over a group, that the leader has seen."""
    X = np.random.default_rng(seed).normal(size=(_ROWS, _COLUMNS))
    least = 1 if variant == UNPROTECTED else SMALLEST_CLASS
    policy = Policy(min_class_size=least, min_security_bits=0)

    def tried(n_marked: int) -> Trial:
        places = np.arange(_ROWS)
        y = np.maximum(0, places - 1) if n_marked == 2 else (places >= n_marked).astype(np.int64)
        selector = VFPSSelector(
            n_participants=2, k=1, n_queries=_ROWS, security="plain", policy=policy,
            random_state=seed, **PAPER,
        )  # fmt: skip
        federation = split_vertical(X, y, _COLUMNS, label_holder=None, task="classification")
        stage = recorded_fit(selector, federation, CURIOUS)
        (leader,) = stage.roles(CuriousLeader).values()
        seen = [len(set(view.rows.tolist()) - {0}) for view in leader.views if view.query == 0]
        return Trial(max(seen, default=0) / (_ROWS - 1), 0.0, *stage.told)

    return best_of(tried, (2, SMALLEST_CLASS), 0.0)


ATTACKS = (
    Attack(
        name="rare-class-vfps",
        method="vfps",
        attacker="leader",
        uses=("GroupDistances",),
        aims_at="how far all others are from a row of choice, which shares its class with one row",
        measure="distances known",
        unprotected="min_class_size=1: two rows with a class, and no class with more rows",
        default=f"classes of fewer than {SMALLEST_CLASS} rows are refused; a class of "
        f"{SMALLEST_CLASS}",
        trial=_trial,
        runs=(20, 40),
        declared_as=("group-distances",),
    ),
)
