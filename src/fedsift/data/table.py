# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A party's table: the columns one organisation owns, checked and encoded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsift.data.column import Column, encode
from fedsift.data.ids import Ids, make_ids
from fedsift.data.sources import RawTable, check_unique, missing_column, read_source
from fedsift.errors import ColumnError, ParameterError, PartyError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Column", "PartyTable"]


@dataclass(frozen=True, eq=False, repr=False)
class PartyTable:
    """The columns of one owner.

    Build it with `from_any`, which checks the data. The ``repr`` shows name and shape only.

    Parameters
    ----------
    name : str
        Name of the party.
    columns : tuple of Column
        Its columns, in order.
    ids : ndarray of str of shape (n_rows,) or None
        Row ids, if the party has any.
    id_names : tuple of str
        The columns the ids were made of.

    Examples
    --------
    >>> table = PartyTable.from_any({"age": [31, 52], "job": ["cook", "smith"]}, name="bank")
    >>> table
    PartyTable('bank', 2 rows x 2 columns)
    >>> table.column("job").kind
    'categorical'
    """

    name: str
    columns: tuple[Column, ...]
    ids: Ids | None = None
    id_names: tuple[str, ...] = ()

    @classmethod
    def from_any(
        cls,
        source: Any,
        *,
        name: str,
        ids: str | Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        categorical: Sequence[str] = (),
    ) -> PartyTable:
        """Check and encode whatever a party has.

        Parameters
        ----------
        source : PartyTable, DataFrame, ndarray, dict, (X, names), or path of a file
            Arrays are 2-D, their columns are called ``x0``, ``x1``, ...; a dict maps names to
            1-D arrays; a file ends in ``.csv`` or ``.parquet``.
        name : str
            Name of the party.
        ids : str or list of str, optional
            Column or columns that identify a row; they are no features.
        columns : list of str, optional
            Keep only these columns, in this order.
        categorical : list of str
            Columns that hold categories although they look like numbers.

        Returns
        -------
        table : PartyTable
            Numbers, booleans as numeric columns; text and pandas categories as categorical ones.
        """
        if isinstance(source, PartyTable):
            return _rebuilt(source, name, _as_names(ids), columns, categorical)
        id_names = _as_names(ids)
        raw = read_source(
            source,
            party=name,
            text_columns=(*id_names, *categorical),
            index_columns=id_names,
        )
        return _encoded(raw, name, id_names, columns, categorical)

    def __repr__(self) -> str:
        return f"PartyTable({self.name!r}, {self.n_rows} rows x {self.n_columns} columns)"

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        if self.columns:
            return len(self.columns[0].values)
        return 0 if self.ids is None else len(self.ids)

    @property
    def n_columns(self) -> int:
        """Number of columns, ids not counted."""
        return len(self.columns)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return tuple(column.name for column in self.columns)

    def column(self, name: str) -> Column:
        """Return one column by name."""
        for column in self.columns:
            if column.name == name:
                return column
        raise missing_column(name, self.feature_names, self.name)

    def select(self, names: Iterable[str]) -> PartyTable:
        """Return the table with these columns only, in this order."""
        by_name = {column.name: column for column in self.columns}
        wanted = list(names)
        check_unique(wanted, self.name)
        for name in wanted:
            if name not in by_name:
                raise missing_column(name, self.feature_names, self.name)
        return replace(self, columns=tuple(by_name[name] for name in wanted))

    def drop(self, names: Iterable[str]) -> PartyTable:
        """Return the table without these columns."""
        gone = set(names)
        for name in sorted(gone - set(self.feature_names)):
            raise missing_column(name, self.feature_names, self.name)
        return self.select(name for name in self.feature_names if name not in gone)

    def take(self, row_indices: ArrayLike) -> PartyTable:
        """Return the table with these rows (numbers or a boolean mask), in this order."""
        rows = np.asarray(row_indices)
        if rows.dtype.kind == "b" and rows.shape == (self.n_rows,):
            rows = np.flatnonzero(rows)
        rows = rows.astype(np.int64)
        if rows.ndim != 1 or (len(rows) and (rows.min() < 0 or rows.max() >= self.n_rows)):
            raise ParameterError(
                f"Some row indices do not fit the {self.n_rows} rows of party {self.name!r}.",
                "Row indices form a 1-D array of numbers from 0 to the number of rows minus 1.",
                "Check where the indices come from.",
            )
        columns = tuple(column.take(rows) for column in self.columns)
        return replace(self, columns=columns, ids=None if self.ids is None else self.ids[rows])

    def numeric_matrix(self) -> NDArray[np.float64]:
        """Return all columns as float64; categories as codes, missing as NaN.

        Returns
        -------
        matrix : ndarray of shape (n_rows, n_columns)
            A fresh array that may be written to.
        """
        matrix = np.empty((self.n_rows, self.n_columns))
        for position, column in enumerate(self.columns):
            matrix[:, position] = column.as_floats()
        return matrix

    def to_pandas(self) -> pd.DataFrame:
        """Return a data frame; ids become its index, categories keep their text."""
        import pandas as pd

        index = None
        if self.ids is not None:
            index = pd.Index(self.ids, name=self.id_names[0] if len(self.id_names) == 1 else None)
        data = {
            column.name: (
                column.values.copy()
                if column.kind == "numeric"
                else pd.Categorical.from_codes(
                    column.values.astype(np.int64), categories=pd.Index(column.categories)
                )
            )
            for column in self.columns
        }
        return pd.DataFrame(data, index=index)


def as_raw(table: PartyTable) -> RawTable:
    """Return a checked table in raw form, e.g. to take a label column out of it."""
    return RawTable(tuple(column.as_raw() for column in table.columns), table.n_rows)


def _as_names(ids: str | Sequence[str] | None) -> tuple[str, ...]:
    if ids is None:
        return ()
    return (ids,) if isinstance(ids, str) else tuple(ids)


def _encoded(
    raw: RawTable,
    party: str,
    id_names: tuple[str, ...],
    columns: Sequence[str] | None,
    categorical: Sequence[str],
) -> PartyTable:
    for name in categorical:
        raw.column(name, party)
    id_columns = [raw.column(name, party) for name in id_names]
    features = raw.without(id_names)
    if columns is not None:
        check_unique(columns, party)
        features = features.only(columns, party)
    _refuse_empty(features, party)
    return PartyTable(
        name=party,
        columns=tuple(
            encode(column, party=party, categorical=column.name in categorical)
            for column in features.columns
        ),
        ids=make_ids(id_columns, party) if id_columns else None,
        id_names=id_names,
    )


def _rebuilt(
    table: PartyTable,
    party: str,
    id_names: tuple[str, ...],
    columns: Sequence[str] | None,
    categorical: Sequence[str],
) -> PartyTable:
    """Rename and narrow down a table that was checked before."""
    table = replace(table, name=party)
    if id_names and id_names != table.id_names:
        known = tuple(name for name in id_names if name in table.feature_names)
        if table.ids is not None and not known:
            raise ColumnError(
                f"The table of party {party!r} was built with other id columns.",
                "Every table must be aligned by the same id.",
                "Build the table again with the right `ids`.",
            )
        id_columns = [table.column(name).as_raw() for name in id_names]
        ids = make_ids(id_columns, party)
        table = replace(table.drop(id_names), ids=ids, id_names=id_names)
    changed = {
        name: encode(table.column(name).as_raw(), party=party, categorical=True)
        for name in categorical
    }
    kept = table if columns is None else table.select(columns)
    rebuilt = replace(kept, columns=tuple(changed.get(c.name, c) for c in kept.columns))
    if not rebuilt.columns:
        _refuse_empty(RawTable((), rebuilt.n_rows), party)
    return rebuilt


def _refuse_empty(table: RawTable, party: str) -> None:
    if table.columns and table.n_rows:
        return
    lacking = "rows" if table.columns else "columns"
    raise PartyError(
        f"The table of party {party!r} is empty: {table.n_rows} rows and "
        f"{len(table.columns)} columns besides the ids.",
        "A party needs at least one row and one column.",
        f"Give the party some {lacking}, or leave the party out.",
    )
