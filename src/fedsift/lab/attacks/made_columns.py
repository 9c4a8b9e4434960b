# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Labels from a number per column, by a feature holder that makes its columns up.

Leak      A number that says how a column of zeros and ones goes with the label is an equation in
          the labels of its ones. One random column per unknown label and a few more give all of
          them (:func:`solve_labels`), be the number a score, the start of a gate (FedSDG-FS,
          ``protocol="paper"``) or just whether the column was selected.
Fix       No score and no start goes back to feature holders. A selection drawn with
          differential privacy (``release_epsilon``) depends little on any label.
Remains   A selection tells its receiver which of its columns go with the label. That is the
          answer it asked for; with many more columns than rows, it is an answer about rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.data import split_vertical
from fedsift.lab.attacks.attack import DEFAULT, OPTION, UNPROTECTED, Attack, Trial
from fedsift.lab.attacks.recording import Stage, recorded_fit
from fedsift.methods.filter.messages import OwnScores, Selected
from fedsift.methods.filter.selector import FilterSelector
from fedsift.protocol import Policy

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_STARTS = 20
_MAIN_DIRECTIONS = 8
_SMALLEST_IMPURITY = 1e-3


def made_table(n_rows: int, n_columns: int, seed: int) -> tuple[Floats, Integers]:
    """Random columns of zeros and ones, and labels that have nothing to do with them."""
    rng = np.random.default_rng(seed)
    y = rng.permutation((np.arange(n_rows) < 0.4 * n_rows).astype(np.int64))
    return rng.integers(0, 2, (n_rows, n_columns)).astype(np.float64), y


def solve_labels(columns: Floats, told: Floats, seed: int) -> list[Floats]:
    """Guesses of all labels: the main direction of what was told, and what climbing makes of it.

    Parameters
    ----------
    columns : ndarray of shape (n_rows, n_columns)
        Zeros and ones.
    told : ndarray of shape (n_columns,)
        Larger for columns that tell more about the label.

    Returns
    -------
    list of ndarray of shape (n_rows,)
        Empty if all columns were told the same.
    """
    if told.std() == 0:
        return []
    rng = np.random.default_rng(seed)
    centred = columns - columns.mean(axis=0)
    directions = np.linalg.eigh((centred * (told - told.mean())) @ centred.T)[1]
    main = directions[:, -1]
    wanted = (told - told.mean()) / told.std()
    mixed = directions[:, -_MAIN_DIRECTIONS:] @ rng.normal(size=(_MAIN_DIRECTIONS, _STARTS - 1))
    climbed = [_climb(columns, start > np.median(start), wanted) for start in np.c_[main, mixed].T]
    return [main, max(climbed, key=lambda pair: pair[0])[1]]


def _climb(columns: Floats, start: npt.NDArray[np.bool_], wanted: Floats) -> tuple[float, Floats]:
    """Change one label after the other while that explains better what was told."""
    labels = start.astype(np.float64)
    sizes = columns.sum(axis=0)
    best = -np.inf
    while True:
        change = 1 - 2 * labels
        ones = columns.T @ labels + change[:, None] * columns
        fits = _agreement(ones, sizes, len(labels), (labels.sum() + change)[:, None], wanted)
        row = int(fits.argmax())
        if fits[row] <= best + 1e-12:
            return best, labels
        best = float(fits[row])
        labels[row] = 1 - labels[row]


def _agreement(
    ones: Floats, sizes: Floats, n_rows: int, positives: Floats, wanted: Floats
) -> Floats:
    """Correlation of what was told with the merit that columns would have, for many guesses."""
    impurity = (_spread(ones, sizes) + _spread(positives - ones, n_rows - sizes)) / n_rows
    merit = 1.0 / np.maximum(impurity, _SMALLEST_IMPURITY)
    centred = merit - merit.mean(axis=1, keepdims=True)
    size = np.maximum(centred.std(axis=1, keepdims=True), 1e-12)
    return np.asarray((centred / size * wanted).mean(axis=1))


def _spread(ones: Floats, sizes: Floats) -> Floats:
    """Gini impurity of a bin, times its size."""
    return np.asarray(2 * ones * (sizes - ones) / np.maximum(sizes, 1))


def area(guesses: list[Floats], labels: Integers) -> float:
    """Area under the ROC curve of the best guess; which class is which is taken as known."""
    from sklearn.metrics import roc_auc_score

    areas = [float(roc_auc_score(labels, guess)) for guess in guesses]
    return max((max(found, 1 - found) for found in areas), default=0.5)


# Scores and selections of a filter

_ROWS, _COLUMNS, _SELECTED = 120, 600, 60
_PARTY, _REGISTRY = "party-1", "label-holder"
_SETTINGS: dict[str, dict[str, Any]] = {
    UNPROTECTED: {
        "policy": {
            _REGISTRY: Policy(may_reveal=("row-count", "class-count", "selection", "own-scores")),
            _PARTY: Policy(),
        }
    },
    DEFAULT: {},
    OPTION: {"bins": [0.5], "release_epsilon": 1.0},
}


def own_scores(stage: Stage, party: str) -> Floats | None:
    """Scores of a feature holder's own columns in its own order, if it was sent any."""
    received = stage.received(party, OwnScores)
    if not received:
        return None
    values = np.empty(len(_order(stage, party)))
    values[_order(stage, party)] = received[0].scores.array()
    return values


def own_selection(stage: Stage, party: str) -> Floats:
    """One for each column that a feature holder was told is selected, in its own order."""
    (told,) = stage.received(party, Selected)
    values = np.zeros(len(_order(stage, party)))
    values[_order(stage, party)[list(told.features)]] = 1.0
    return values


def _order(stage: Stage, party: str) -> Integers:
    (role,) = stage.nodes[party]
    return np.asarray(role.order)  # type: ignore[attr-defined]  # its own secret order


def _by_filter(variant: str, seed: int) -> Trial:
    X, y = made_table(_ROWS, _COLUMNS, seed)
    federation = split_vertical(X, y, 1, label_holder=None, names=[_PARTY])
    selector = FilterSelector("gini", n_features_to_select=_SELECTED, **_SETTINGS[variant])
    stage = recorded_fit(selector, federation)
    impurities = own_scores(stage, _PARTY)
    told = own_selection(stage, _PARTY) if impurities is None else -impurities
    return Trial(area(solve_labels(X, told, seed), y), 0.5, *stage.told)


ON_FILTER = (
    Attack(
        name="selection-labels",
        method="filter",
        attacker="feature holder",
        uses=("Selected", "OwnScores"),
        aims_at=f"the label of every row, by {_COLUMNS} columns made for it, {_ROWS} rows",
        measure="area under the ROC curve",
        unprotected="scores go back to their owner",
        default=f"no score goes back; {_SELECTED} columns are selected",
        option="release_epsilon=1: the selection is drawn with differential privacy",
        trial=_by_filter,
        runs=(4, 10),
        declared_as=("selection", "own-scores"),
    ),
)
