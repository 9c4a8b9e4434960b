# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A party's table: checked and encoded columns that one organisation owns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsift.data.ids import Ids, make_ids
from fedsift.data.sources import (
    RawColumn,
    RawTable,
    check_unique,
    in_reading_order,
    is_missing,
    missing_column,
    parses_as_number,
    plain_text,
    read_source,
)
from fedsift.errors import ColumnError, ParameterError, PartyError, ValueProblem

__all__ = ["Column", "PartyTable"]


Kind = Literal["numeric", "categorical"]

# From this share of numbers on, the remaining text is more likely a slip than a category.
_NUMERIC_SHARE = 0.9


@dataclass(frozen=True, eq=False, repr=False)
class Column:
    """One column of a party.

    Parameters
    ----------
    name : str
        Column name.
    kind : {"numeric", "categorical"}
        What the values mean.
    values : ndarray of shape (n_rows,)
        float64 with NaN for missing (numeric) or int64 codes with -1 for missing (categorical).
        Made read-only.
    categories : tuple of str
        Meaning of the codes; empty for numeric columns.
    """

    name: str
    kind: Kind
    values: NDArray[np.float64] | NDArray[np.int64]
    categories: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.values.flags.writeable = False

    def __repr__(self) -> str:
        return f"Column({self.name!r}, {self.kind}, {len(self.values)} rows)"

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Which rows have no value."""
        return np.isnan(self.values) if self.kind == "numeric" else self.values < 0

    def take(self, rows: NDArray[np.int64]) -> Column:
        """Return the column with these rows in this order; categories stay as they are."""
        return Column(self.name, self.kind, self.values[rows], self.categories)

    def as_floats(self) -> NDArray[np.float64]:
        """Return the values as float64; codes become numbers and missing becomes NaN."""
        floats = self.values.astype(np.float64)
        if self.kind == "categorical":
            floats[self.values < 0] = np.nan
        return floats

    def as_raw(self) -> RawColumn:
        """Return the column in the form it might have come in, e.g. to use it as a label."""
        if self.kind == "numeric":
            return RawColumn(self.name, self.values)
        texts = np.array([*self.categories, None], dtype=object)
        return RawColumn(self.name, texts[self.values], True, self.categories)

    def recoded(self, categories: tuple[str, ...]) -> Column:
        """Return the column with codes that point into a longer list of categories."""
        if categories == self.categories:
            return self
        position = {text: code for code, text in enumerate(categories)}
        new_codes = np.array([*(position[text] for text in self.categories), -1], dtype=np.int64)
        return Column(self.name, self.kind, new_codes[self.values.astype(np.int64)], categories)


def encode(raw: RawColumn, *, party: str, categorical: bool = False) -> Column:
    """Check one raw column and encode it.

    Parameters
    ----------
    raw : RawColumn
        The column as it came.
    party : str
        Name of the owner, for error messages.
    categorical : bool
        Treat the values as categories even if they are numbers.

    Returns
    -------
    column : Column
        The encoded column, which shares no memory with the raw one.
    """
    categorical = categorical or raw.declared_categorical
    values = _as_numbers_or_objects(raw, party, categorical)
    if values.dtype.kind in "biuf" and not categorical:
        return Column(raw.name, "numeric", _checked_numbers(values, raw.name, party))
    return _encode_categories(raw, values, party, categorical)


def objects_as_numbers(values: NDArray[Any]) -> NDArray[Any]:
    """Turn an object array of numbers into a numeric one; leave any other array alone."""
    if values.dtype.kind != "O":
        return values
    missing = is_missing(values)
    present = values[~missing]
    if len(present) == 0 or not all(isinstance(v, Real | Decimal | np.bool_) for v in present):
        return values
    if not missing.any() and all(isinstance(v, bool | np.bool_) for v in present):
        return values.astype(bool)
    if not missing.any() and all(isinstance(v, int | np.integer) for v in present):
        return np.array([_float_of(v) for v in present]) if _too_long(present) else _int64(present)
    numbers = np.full(len(values), np.nan)
    numbers[~missing] = [_float_of(value) for value in present]
    return numbers


def _too_long(present: NDArray[Any]) -> bool:
    return any(not -(2**63) <= int(value) < 2**63 for value in present)


def _int64(present: NDArray[Any]) -> NDArray[np.int64]:
    return np.array([int(value) for value in present], dtype=np.int64)


def _float_of(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf")


def _as_numbers_or_objects(raw: RawColumn, party: str, categorical: bool) -> NDArray[Any]:
    """Return bool, int or float values, or an object array of everything else."""
    values = raw.values
    if values.dtype.kind == "S":
        values = np.char.decode(values, "utf-8", "replace")
    if values.dtype.kind in "U":
        return values.astype(object)
    if values.dtype.kind in "biuf":
        return values
    if values.dtype.kind == "O":
        return objects_as_numbers(values)
    if values.dtype.kind == "M" and categorical:
        return values.astype(object)
    raise ColumnError(
        f"Column {raw.name!r} of party {party!r} is of type {values.dtype.name}.",
        "A column holds numbers, booleans or text.",
        "Convert it, for example a date to a number of days, or leave the column out.",
    )


def _checked_numbers(values: NDArray[Any], name: str, party: str) -> NDArray[np.float64]:
    numbers = values.astype(np.float64)
    infinite = np.isinf(numbers)
    if infinite.any():
        raise ValueProblem(
            f"Column {name!r} of party {party!r} contains infinity in {int(infinite.sum())} "
            f"row(s), first in row {int(infinite.argmax())} (rows count from 0).",
            "Numbers must be finite or missing.",
            "Replace infinite values by NaN, or fix their source.",
        )
    if np.isnan(numbers).all():
        raise _all_missing(name, party)
    return numbers


def _encode_categories(
    raw: RawColumn, values: NDArray[Any], party: str, categorical: bool
) -> Column:
    missing = is_missing(values)
    if missing.all():
        raise _all_missing(raw.name, party)
    texts = [None if gone else plain_text(v) for v, gone in zip(values, missing, strict=True)]
    if not categorical:
        _refuse_text_among_numbers(texts, raw.name, party)
    present = {text for text in texts if text is not None}
    categories = in_reading_order(present)
    if raw.order is not None:
        categories = tuple(text for text in dict.fromkeys(raw.order) if text in present)
    code = {text: number for number, text in enumerate(categories)}
    codes = np.array([-1 if text is None else code[text] for text in texts], dtype=np.int64)
    return Column(raw.name, "categorical", codes, categories)


def _refuse_text_among_numbers(texts: list[str | None], name: str, party: str) -> None:
    known = {text: parses_as_number(text) for text in set(texts) if text is not None}
    numeric = [None if text is None else known[text] for text in texts]
    n_present = sum(flag is not None for flag in numeric)
    n_text = sum(flag is False for flag in numeric)
    if n_present - n_text < _NUMERIC_SHARE * n_present:
        return
    action = f"Mend the entries, or list {name!r} under `categorical` if it holds categories."
    if n_text == 0:
        raise ValueProblem(
            f"Column {name!r} of party {party!r} holds numbers stored as text, from row "
            f"{numeric.index(True)} on (rows count from 0).",
            "Numbers must have a numeric type.",
            f"Convert the column. {action}",
        )
    raise ValueProblem(
        f"Column {name!r} of party {party!r} holds text in {n_text} of {n_present} rows that are "
        f"otherwise numbers, first in row {numeric.index(False)} (rows count from 0).",
        "There must be no text in a numeric column.",
        action,
    )


def _all_missing(name: str, party: str) -> ColumnError:
    return ColumnError(
        f"Column {name!r} of party {party!r} has no value in any row.",
        "A column needs at least one value that is not missing.",
        "Leave the column out, or check how it was exported.",
    )


if TYPE_CHECKING:
    import pandas as pd


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
