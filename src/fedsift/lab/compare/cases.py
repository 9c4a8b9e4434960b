# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A federation to compare methods on: its truth, what one would see pooled, and its folds.

Features are numbered by the table that was split (``Federation.original_support``), rows by the
parties one after the other in a horizontal federation.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.data import Column, Federation, Target
from fedsift.data.state_files import fingerprint
from fedsift.errors import ParameterError

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

# Remarks of their own: without any, a federation looks through all columns for some.
_SOME_ROWS = "Only the rows of one fold take part."
_SHUFFLED = "The labels are shuffled, as a control."
_QUANTILES = 4


@dataclass(frozen=True, eq=False)
class Case:
    """One federation of a comparison.

    Parameters
    ----------
    name : str
        As shown in tables.
    federation : Federation
        All rows; training and test rows are cut out of it.
    truth : tuple of int, optional
        The features that are known to matter.
    copies_together : bool
        Put rows with the same features into the same fold.
    """

    name: str
    federation: Federation
    truth: tuple[int, ...] | None = None
    copies_together: bool = False

    @cached_property
    def digest(self) -> str:
        """Stands for the data, to tell whether a stored result still belongs to it."""
        fed = self.federation
        parts = [fed.tables[party] for party in fed.tables]
        return fingerprint(*parts, fed.target, *fed.targets.values())

    @cached_property
    def pooled(self) -> PooledData:
        """The columns side by side, which only a simulation may look at."""
        return PooledData.of(self.federation)


@dataclass(frozen=True, eq=False)
class PooledData:
    """All rows and columns in one place, ready for models of scikit-learn.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_columns)
        Numbers as they are, missing ones as NaN; categories as one column each.
    feature_of : ndarray of int of shape (n_columns,)
        Which feature a column of ``X`` belongs to.
    target : Target or None
    row_party : ndarray of int of shape (n_rows,)
        Owner of every row; 0 everywhere in a vertical federation.
    feature_party : ndarray of int of shape (n_features,)
        Owner of every feature; -1 in a horizontal federation, where all have them.
    """

    X: Floats
    feature_of: Integers
    target: Target | None
    row_party: Integers
    feature_party: Integers

    @classmethod
    def of(cls, federation: Federation) -> PooledData:
        """Put a federation's tables together."""
        parties = list(federation.tables)
        columns: dict[int, list[Column]] = {}
        feature_party = np.full(federation.n_features, -1, dtype=np.int64)
        for number, party in enumerate(parties):
            table = federation.tables[party]
            for place, column in zip(federation.column_order[party], table.columns, strict=True):
                columns.setdefault(place, []).append(column)
                if federation.setting == "vertical":
                    feature_party[place] = number
        blocks = [_numbers(columns[place]) for place in sorted(columns)]
        sizes = [federation.tables[party].n_rows for party in parties]
        if federation.setting == "vertical":
            row_party = np.zeros(sizes[0], dtype=np.int64)
        else:
            row_party = np.repeat(np.arange(len(parties)), sizes)
        return cls(
            np.concatenate(blocks, axis=1),
            np.repeat(np.arange(len(blocks)), [block.shape[1] for block in blocks]),
            joint_target(federation),
            row_party,
            feature_party,
        )

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """Number of features; a categorical one counts once."""
        return len(self.feature_party)

    @property
    def y(self) -> npt.NDArray[Any]:
        """Class codes or numbers."""
        if self.target is None:
            return np.empty(0)
        return self.target.codes if self.target.kind == "classes" else self.target.values

    def columns_of(self, features: Collection[int]) -> Integers:
        """Columns of ``X`` that belong to some features."""
        return np.flatnonzero(np.isin(self.feature_of, list(features)))


def joint_target(federation: Federation) -> Target | None:
    """The labels of all rows, or None where a party has none."""
    if federation.setting == "vertical":
        return federation.target
    targets = [federation.targets.get(party) for party in federation.tables]
    known = [target for target in targets if target is not None]
    if len(known) < len(targets):
        return None
    if known[0].kind == "classes":
        codes = np.concatenate([target.codes for target in known])
        return Target("classes", codes=codes, classes=known[0].classes)
    values, event, time = (
        np.concatenate([getattr(target, name) for target in known])
        for name in ("values", "event", "time")
    )
    return Target("numbers", values=values, event=event, time=time)


def take_rows(federation: Federation, rows: Integers) -> Federation:
    """The same parties with some of the rows; parties without any are left out."""
    if federation.setting == "vertical":
        return replace(
            federation,
            tables={party: table.take(rows) for party, table in federation.tables.items()},
            target=None if federation.target is None else federation.target.take(rows),
            row_order={party: own[rows] for party, own in federation.row_order.items()},
            warnings=(*federation.warnings, _SOME_ROWS),
        )
    tables, targets, order, start = {}, {}, {}, 0
    for party, table in federation.tables.items():
        own = np.sort(rows[(rows >= start) & (rows < start + table.n_rows)]) - start
        start += table.n_rows
        if not len(own):
            continue
        target = federation.targets.get(party)
        tables[party] = table.take(own)
        targets[party] = None if target is None else target.take(own)
        order[party] = federation.row_order[party][own]
    return replace(
        federation,
        tables=tables,
        targets=targets,
        row_order=order,
        parties=tuple(tables),
        column_order={party: federation.column_order[party] for party in tables}
        if federation.column_order
        else {},
        warnings=(*federation.warnings, _SOME_ROWS),
    )


def with_permuted_labels(federation: Federation, seed: int) -> Federation:
    """The same rows with their labels shuffled; in a horizontal federation over all parties."""
    target = joint_target(federation)
    if target is None:
        return federation
    shuffled = target.take(np.random.default_rng(seed).permutation(target.n_rows))
    if federation.setting == "vertical":
        return replace(federation, target=shuffled, warnings=(*federation.warnings, _SHUFFLED))
    targets, start = {}, 0
    for party, table in federation.tables.items():
        targets[party] = shuffled.take(np.arange(start, start + table.n_rows))
        start += table.n_rows
    return replace(federation, targets=dict(targets), warnings=(*federation.warnings, _SHUFFLED))


def _numbers(pieces: list[Column]) -> Floats:
    """One feature of all rows: a number, or one column per category."""
    if pieces[0].kind == "numeric":
        return np.concatenate([piece.as_floats() for piece in pieces])[:, None]
    codes = np.concatenate([piece.values for piece in pieces]).astype(np.int64)
    # A missing category is none of the others.
    known = np.arange(max(1, len(pieces[0].categories)))
    return np.asarray(codes[:, None] == known, dtype=np.float64)


# Training and test rows, and how many rows stand in both


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


def _folds(pooled: PooledData, units: Integers, folds: int, seed: int) -> Integers:
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


def _strata(pooled: PooledData) -> Integers:
    target = pooled.target
    if target is None:
        return np.zeros(pooled.n_rows, dtype=np.int64)
    if target.kind == "classes":
        return target.codes
    inner = np.quantile(target.values, np.linspace(0, 1, _QUANTILES + 1)[1:-1])
    return np.searchsorted(inner, target.values).astype(np.int64)
