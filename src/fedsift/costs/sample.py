# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Small made-up tables that stand for the tables of a job: same columns and classes, few rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsift.data import Federation, PartyTable, Target
from fedsift.data.column import Column
from fedsift.data.remote_table import is_remote

Points = Callable[[Column], Sequence[float] | None]
"""Numbers that a column's values are taken from; None for any."""


@dataclass(frozen=True, eq=False, repr=False)
class SampleTable(PartyTable):
    """Columns of a few rows that say they are as long as those they stand for."""

    stands_for: int = 0

    @property
    def n_rows(self) -> int:
        """Rows of the table that this one stands for."""
        return self.stands_for

    def numeric_matrix(self) -> NDArray[np.float64]:
        """All columns as float64, with the few rows that are there."""
        return np.column_stack([column.as_floats() for column in self.columns])


def sample_federation(
    federation: Federation,
    n_rows: int,
    points: Points | None = None,
    stands_for: int | None = None,
) -> Federation:
    """Made-up tables of at most so many rows, or that say they have ``stands_for`` rows."""
    rng = np.random.default_rng(0)
    tables: dict[str, PartyTable] = {}
    for party, table in federation.tables.items():
        real = federation.n_rows if federation.setting == "vertical" else table.n_rows
        few = min(n_rows, real or n_rows)  # a table elsewhere may not have told its rows
        columns = tuple(_made_up(column, few, rng, points) for column in _columns(table))
        tables[party] = SampleTable(party, columns, stands_for=stands_for or few)
    target, fewest = federation.target, min(n_rows, federation.n_rows or n_rows)
    return replace(
        federation,
        tables=tables,
        target=None if target is None else _labels(target, fewest, rng),
        targets={
            party: None if own is None else _labels(own, tables[party].n_rows, rng)
            for party, own in federation.targets.items()
        },
        row_order={party: np.arange(table.n_rows) for party, table in tables.items()},
    )


def _columns(table: PartyTable) -> Sequence[Column]:
    """Columns as far as they are known here: of a table elsewhere, their names."""
    if not is_remote(table):
        return table.columns
    return [Column(name, "numeric", np.zeros(1)) for name in table.feature_names]


def _made_up(
    column: Column, n_rows: int, rng: np.random.Generator, points: Points | None
) -> Column:
    """A column of the same kind, with the same categories, gaps and sign."""
    values: NDArray[Any]
    if column.kind == "categorical":
        values = np.arange(n_rows) % max(1, len(column.categories))
    else:
        wanted = None if points is None else points(column)
        lowest = 0.0 if bool((column.values >= 0).all()) else -1.0
        values = np.linspace(lowest, 1.0, n_rows) if wanted is None else np.resize(wanted, n_rows)
    values = rng.permutation(values)
    if column.missing.any():
        values[: -(-n_rows // 10)] = -1 if column.kind == "categorical" else np.nan
    return Column(column.name, column.kind, values, column.categories)


def _labels(target: Target, n_rows: int, rng: np.random.Generator) -> Target:
    if target.kind == "numbers":
        return Target("numbers", values=rng.normal(size=n_rows))
    codes = rng.permutation(np.arange(n_rows) % len(target.classes))
    return Target("classes", codes=codes, classes=target.classes)
