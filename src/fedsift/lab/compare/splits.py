# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Training and test rows, and how many rows stand in both."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedsift.errors import ParameterError
from fedsift.lab.compare.cases import Case, Floats, Integers, Pooled

_QUANTILES = 4


@dataclass(frozen=True, eq=False)
class Split:
    """One fold of one seed: everything is chosen and trained on the other rows.

    Parameters
    ----------
    seed : int
        Of the folds, and of what methods draw.
    fold : int
        From 0.
    train, test : ndarray of int
        Numbers of rows.
    """

    seed: int
    fold: int
    train: Integers
    test: Integers


@dataclass(frozen=True)
class Copies:
    """Rows that occur more than once, and how many test rows were seen in training.

    Parameters
    ----------
    n_rows : int
        All rows.
    n_copies : int
        Rows whose features repeat those of an earlier row.
    shared : float
        Share of test rows whose features stand in the training rows too, over all splits.
    """

    n_rows: int
    n_copies: int
    shared: float


def make_splits(case: Case, folds: int, seeds: tuple[int, ...]) -> list[Split]:
    """Folds that every method of a comparison is judged on.

    Classes (or quartiles of numbers) and, in a horizontal federation, parties are spread evenly.

    Parameters
    ----------
    case : Case
    folds : int
        At least 2.
    seeds : tuple of int
        Every seed shuffles the rows anew.
    """
    pooled = case.pooled
    units = copies_of(pooled.X) if case.copies_together else np.arange(pooled.n_rows)
    n_units = len(np.unique(units))
    if not 2 <= folds <= n_units:
        raise ParameterError(
            f"{folds} folds for {n_units} different rows of {case.name!r}.",
            f"A number from 2 to {n_units} is needed.",
            "Choose fewer folds, or more data.",
        )
    splits = []
    for seed in seeds:
        fold_of = _folds(pooled, units, folds, seed)
        for fold in range(folds):
            test = np.flatnonzero(fold_of == fold)
            splits.append(Split(seed, fold, np.flatnonzero(fold_of != fold), test))
    return splits


def copies_of(X: Floats) -> Integers:
    """For every row the number of the first row with the same values.

    Examples
    --------
    >>> copies_of(np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]])).tolist()
    [0, 1, 0]
    """
    first: dict[bytes, int] = {}
    # Missing values are alike, and so are the two zeros.
    clean = np.ascontiguousarray(np.where(np.isnan(X), np.nan, X) + 0.0)
    return np.array(
        [first.setdefault(row.tobytes(), number) for number, row in enumerate(clean)],
        dtype=np.int64,
    )


def count_copies(case: Case, splits: list[Split]) -> Copies:
    """How far test rows repeat training rows; hashes are compared and no value is kept."""
    unit = copies_of(case.pooled.X)
    n_copies = len(unit) - len(np.unique(unit))
    shared = [float(np.isin(unit[split.test], unit[split.train]).mean()) for split in splits]
    return Copies(len(unit), n_copies, float(np.mean(shared)) if shared else 0.0)


def _folds(pooled: Pooled, units: Integers, folds: int, seed: int) -> Integers:
    """Deal the rows out class by class, so that no fold has one more than another needs."""
    rng = np.random.default_rng([seed, folds])
    members = np.unique(units)
    stratum = _strata(pooled)[members] * (int(pooled.row_party.max()) + 1)
    stratum = stratum + pooled.row_party[members]
    shuffled = rng.permutation(len(members))
    order = shuffled[np.argsort(stratum[shuffled], kind="stable")]
    fold_of_member = np.empty(len(members), dtype=np.int64)
    # Which fold comes first is left to chance, else the first would always be the larger.
    fold_of_member[order] = (np.arange(len(members)) + int(rng.integers(folds))) % folds
    return fold_of_member[np.searchsorted(members, units)]


def _strata(pooled: Pooled) -> Integers:
    target = pooled.target
    if target is None:
        return np.zeros(pooled.n_rows, dtype=np.int64)
    if target.kind == "classes":
        return target.codes
    inner = np.quantile(target.values, np.linspace(0, 1, _QUANTILES + 1)[1:-1])
    return np.searchsorted(inner, target.values).astype(np.int64)
