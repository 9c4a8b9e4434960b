# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Labels from where gates start: 64 steps per column are enough, whatever noise gradients have.

Leak      A feature holder is told the rough merit of each of its columns. From columns that it
          made up it solves the labels of all training rows.
Fix       Gates belong to the label holder (``protocol="blind"``); a feature holder is told what was
          selected at the end, and no start.
Remains   The selection. It counts as known, so the guess is not 0.5: made-up columns tell about
          0.7 by being selected (``selection-labels``), and the rest of the protocol adds nothing.
"""

from __future__ import annotations

import numpy as np

from fedsift.data import split_vertical
from fedsift.lab.attacks.attack import UNPROTECTED, Attack, Trial
from fedsift.lab.attacks.fedsdg import blind
from fedsift.lab.attacks.fedsdg.blind_views import record_blind
from fedsift.lab.attacks.fedsdg.views import record
from fedsift.lab.attacks.made_columns import area, made_table, solve_labels
from fedsift.methods.fedsdg.blind.params import BlindParams
from fedsift.methods.fedsdg.messages import Params

_PARTY = "party-1"
_ROWS, _COLUMNS = 150, 600
_SELECTED = 10
_NOISE = 20.0


def from_gate_start(seed: int, n_columns: int = _COLUMNS) -> Trial:
    """The paper's protocol, with much noise on gradients."""
    X, y = made_table(_ROWS, n_columns, seed)
    federation = split_vertical(X, y, 1, label_holder=None, random_state=0)
    params = Params(scheme="plain", seed=seed, label_noise=_NOISE, max_epochs=1, min_epochs=0)
    run = record(federation, params)
    rows = np.unique(np.concatenate([run.labels[i].rows for i in run.training_batches()]))
    told = run.stage.nodes[_PARTY][0].gate_start  # type: ignore[attr-defined]  # a curious twin
    return Trial(area(solve_labels(X[rows], told, seed), y[rows]), 0.5, *run.stage.told)


def without_a_start(seed: int, n_columns: int = _COLUMNS) -> Trial:
    """The blind protocol: all that the party has, against its columns and their selection alone."""
    X, y = made_table(_ROWS, n_columns, seed)
    federation = split_vertical(X, y, 1, label_holder=None, random_state=0)
    params = BlindParams(
        scheme="plain",
        seed=seed,
        hidden=8,
        n_openings=10,
        passes=2,
        gate_learning_rate=0.3,
        n_blocks=1,
        n_settling=1,
        batch_size=64,
        rate_bits=7,
        n_features_to_select=_SELECTED,
    )
    run = record_blind(federation, params)
    rows, selected = run.training, np.zeros(n_columns)
    selected[np.asarray(run.role(_PARTY)._features)] = 1.0
    solved = area(solve_labels(X[rows], selected, seed), y[rows])
    areas = blind.areas_of_labels(run, _PARTY, X, y, seed)
    found, alone = max(solved, areas["found"]), max(solved, areas["alone"])
    return Trial(found, alone, *run.stage.told)


def _trial(variant: str, seed: int) -> Trial:
    return from_gate_start(seed) if variant == UNPROTECTED else without_a_start(seed)


ATTACKS = (
    Attack(
        name="gate-start",
        method="fedsdg",
        attacker="feature holder",
        uses=("GateStart",),
        aims_at=f"the label of every training row, by {_COLUMNS} columns made for it",
        measure="area under the ROC curve",
        unprotected=f"gates start by merit (protocol='paper', label_noise={_NOISE:g})",
        default="no start is told (protocol='blind'); what a guess reaches counts from the "
        f"{_SELECTED} selected, which are told and declared",
        trial=_trial,
        runs=(1, 5),
        declared_as=("gate-start",),
    ),
)
