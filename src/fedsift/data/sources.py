# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Tables as they come: arrays, frames and dictionaries, read into columns of one length.

Names, ids, categories and class labels of different parties are compared as text, so a pandas float
``7.0`` at one party and an integer ``7`` at another come out alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedsift.config.toml import did_you_mean
from fedsift.errors import ColumnError, ParameterError, ValueProblem

LONGEST_NAME = 1000
"""Characters of a column's name; names travel in messages, reports and errors."""
MOST_COLUMNS = 1_000_000
"""Of an array; every column takes memory, whether or not there are rows."""
PAIR = np.dtype([("event", np.float64), ("time", np.float64)])
"""One label: 1 where the event came and 0 where following ended before, and how long it took."""
LabelColumn = str | Mapping[str, str]
"""Name of the label column, or of those of ``time`` and ``event``."""


_SHOWN_NAMES = 8


def plain_text(value: Any) -> str:
    """Text of one cell: stripped, and without the ``.0`` that pandas adds to whole numbers."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value).strip()


def parses_as_number(text: str) -> bool:
    """Whether Python would read this text as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def in_reading_order(texts: Iterable[str]) -> tuple[str, ...]:
    """Distinct texts in the order a person expects: by size if all are numbers, else by letter."""
    distinct = sorted(set(texts))
    if all(parses_as_number(text) for text in distinct):
        distinct.sort(key=float)
    return tuple(distinct)


def united(lists: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """One list that holds every text of all lists; an order given on purpose is kept."""
    everything = list(dict.fromkeys(text for texts in lists for text in texts))
    if all(texts == in_reading_order(texts) for texts in lists):
        return in_reading_order(everything)
    return tuple(everything)


def shortened(names: Iterable[str]) -> str:
    """List the first few names, and how many more there are."""
    listed = [repr(name) for name in names]
    more = len(listed) - _SHOWN_NAMES
    return ", ".join(listed[:_SHOWN_NAMES]) + (f" and {more} more" if more > 0 else "")


def is_missing(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Which entries of any array are missing: None, NaN, NA, or text of blanks only."""
    if values.dtype.kind == "f":
        return np.asarray(np.isnan(values), dtype=bool)
    if values.dtype.kind == "M":
        return np.asarray(np.isnat(values), dtype=bool)
    if values.dtype.kind != "O":
        return np.zeros(len(values), dtype=bool)
    import pandas as pd

    blank = [isinstance(value, str) and not value.strip() for value in values]
    missing: NDArray[np.bool_] = np.asarray(pd.isna(values), dtype=bool) | np.array(blank, bool)
    return missing


if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False, repr=False)
class RawColumn:
    """One column as it came.

    Parameters
    ----------
    name : str
        Column name.
    values : ndarray of shape (n_rows,)
        Any dtype; object arrays may mix numbers, text and missing entries.
    declared_categorical : bool
        Whether the source itself says that these are categories.
    order : tuple of str or None
        The categories in the order the source gave them on purpose.
    """

    name: str
    values: NDArray[Any]
    declared_categorical: bool = False
    order: tuple[str, ...] | None = None


@dataclass(frozen=True, eq=False, repr=False)
class RawTable:
    """Raw columns of one party, all of the same length."""

    columns: tuple[RawColumn, ...]
    n_rows: int

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(column.name for column in self.columns)

    def column(self, name: str, party: str) -> RawColumn:
        """Return the column of that name; the error speaks of ``party``."""
        for column in self.columns:
            if column.name == name:
                return column
        raise missing_column(name, self.names, party)

    def only(self, names: Iterable[str], party: str) -> RawTable:
        """Return the table with these columns only, in this order."""
        by_name = {column.name: column for column in self.columns}
        chosen = tuple(by_name[n] if n in by_name else self.column(n, party) for n in names)
        return RawTable(chosen, self.n_rows)

    def without(self, names: Iterable[str]) -> RawTable:
        """Return the table without some columns."""
        gone = set(names)
        return RawTable(tuple(c for c in self.columns if c.name not in gone), self.n_rows)


def missing_column(name: str, known: Sequence[str], party: str) -> ColumnError:
    """Build the error for a column that is not there."""
    return ColumnError(
        f"Party {party!r} has no column {name!r}.",
        f"It must be one of its {len(known)} columns.",
        did_you_mean(name, known, f"Known columns: {shortened(known)}."),
    )


def read_source(
    source: Any, *, party: str, text_columns: Sequence[str] = (), index_columns: Sequence[str] = ()
) -> RawTable:
    """Read anything a party may hand over.

    Parameters
    ----------
    source : RawTable, DataFrame, ndarray, mapping, path, or tuple (X, names)
        The party's data.
    party : str
        Name of the party, for error messages.
    text_columns : sequence of str
        Columns of a CSV file to read as text, so that ``007`` stays ``007``.
    index_columns : sequence of str
        Names to look for in a data frame's index when they are not among its columns.

    Returns
    -------
    table : RawTable
        Columns with unique names and equal lengths; may be empty.
    """
    if isinstance(source, RawTable):
        return source
    if isinstance(source, str | Path):
        from fedsift.data.files import read_frame

        return from_frame(read_frame(Path(source), text_columns), party, index_columns)
    if isinstance(source, Mapping):
        return from_mapping(source, party)
    if isinstance(source, np.ndarray):
        return from_matrix(source, None, party)
    if isinstance(source, tuple) and len(source) == 2:
        return _from_named(source[0], source[1], party)
    if _is_frame(source):
        return from_frame(source, party, index_columns)
    raise ParameterError(
        f"The data of party {party!r} is a {type(source).__name__}.",
        "It must be a data frame, a 2-D array, a dictionary of columns, (X, names), a PartyTable "
        "or the path of a .csv or .parquet file.",
        "Convert it first, for example with pandas.DataFrame(...).",
    )


def from_mapping(columns: Mapping[Any, Any], party: str) -> RawTable:
    """Read a dictionary of name -> 1-D array."""
    raw = tuple(raw_column(str(name), values, party) for name, values in columns.items())
    check_unique(tuple(column.name for column in raw), party)
    for column in raw[1:]:
        if len(column.values) != len(raw[0].values):
            raise ColumnError(
                f"Column {column.name!r} of party {party!r} has {len(column.values)} rows but "
                f"column {raw[0].name!r} has {len(raw[0].values)}.",
                "All columns of one party need the same number of rows.",
                "Check where the columns come from.",
            )
    return RawTable(raw, len(raw[0].values) if raw else 0)


def from_matrix(matrix: NDArray[Any], names: Sequence[str] | None, party: str) -> RawTable:
    """Read a 2-D array; columns are called ``x0``, ``x1``, ... unless named."""
    if matrix.ndim != 2:
        raise ColumnError(
            f"The array of party {party!r} has {matrix.ndim} dimension(s).",
            "A table needs a 2-D array of shape (n_rows, n_columns).",
            "Reshape it, for example with array.reshape(-1, 1) for one column.",
        )
    if matrix.shape[1] > MOST_COLUMNS:  # before memory is taken for their names
        raise ColumnError(
            f"The array of party {party!r} has {matrix.shape[1]:,} columns.",
            f"At most {MOST_COLUMNS:,} columns are possible.",
            "Pass fewer columns, or check whether the array should be turned round.",
        )
    if names is None:
        names = [f"x{index}" for index in range(matrix.shape[1])]
    if len(names) != matrix.shape[1]:
        raise ColumnError(
            f"Party {party!r} gives {len(names)} names for {matrix.shape[1]} columns.",
            "Every column needs one name.",
            "Pass as many names as the array has columns.",
        )
    check_unique(tuple(names), party)
    columns = tuple(RawColumn(name, matrix[:, index]) for index, name in enumerate(names))
    return RawTable(columns, matrix.shape[0])


def from_frame(frame: pd.DataFrame, party: str, index_columns: Sequence[str] = ()) -> RawTable:
    """Read a data frame; named index levels count as columns only when asked for."""
    wanted = [name for name in index_columns if name not in frame.columns]
    if wanted and all(name in frame.index.names for name in wanted):
        frame = frame.reset_index(level=wanted)
    names = tuple(str(name) for name in frame.columns)
    check_unique(names, party)
    columns = tuple(
        _from_series(name, frame.iloc[:, position]) for position, name in enumerate(names)
    )
    return RawTable(columns, len(frame))


def raw_column(name: str, values: Any, party: str) -> RawColumn:
    """Read one 1-D array-like, e.g. labels or one column of a dictionary."""
    pairs = pairs_in(values, name)
    if pairs is not None:
        return RawColumn(name, pairs)
    if hasattr(values, "dtype") and hasattr(values, "to_numpy") and hasattr(values, "iloc"):
        return _from_frame_part(name, values, party)
    array = values if isinstance(values, np.ndarray) else _array_of(values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ColumnError(
            f"Column {name!r} of party {party!r} has {array.ndim} dimension(s).",
            "A column is a 1-D array.",
            "Pass one column at a time.",
        )
    return RawColumn(name, array)


def check_unique(names: Sequence[str], party: str) -> None:
    """Refuse a table in which two columns have the same name, or one has an endless name."""
    longest = max(map(len, names), default=0)
    if longest > LONGEST_NAME:
        raise ColumnError(
            f"Party {party!r} has a column name of {longest:,} characters.",
            f"A name has at most {LONGEST_NAME:,} characters.",
            "Rename the column.",
        )
    repeated = sorted({name for name in names if names.count(name) > 1}) if _repeats(names) else []
    if repeated:
        raise ColumnError(
            f"Party {party!r} has {len(repeated)} column name(s) more than once: "
            f"{shortened(repeated)}.",
            "Column names must be unique within a party.",
            "Rename or remove the duplicates.",
        )


def _repeats(names: Sequence[str]) -> bool:
    return len(set(names)) < len(names)


def _is_frame(source: Any) -> bool:
    """Whether this is a pandas data frame, without importing pandas to find out."""
    return hasattr(source, "iloc") and hasattr(source, "columns") and hasattr(source, "index")


def _from_named(matrix: Any, names: Any, party: str) -> RawTable:
    array = np.asarray(matrix)
    return from_matrix(array, [str(name) for name in names], party)


def _from_frame_part(name: str, values: Any, party: str) -> RawColumn:
    if values.ndim == 1:
        return _from_series(name, values)
    return raw_column(name, values.to_numpy(), party)


def _from_series(name: str, series: Any) -> RawColumn:
    """Keep integers exact and say which columns pandas already knows as categories."""
    dtype = series.dtype
    if isinstance(dtype, np.dtype):
        return RawColumn(name, series.to_numpy())
    if hasattr(dtype, "categories"):
        order = tuple(plain_text(value) for value in dtype.categories) if dtype.ordered else None
        return RawColumn(name, series.astype(object).to_numpy(), True, order)
    exact = getattr(dtype, "numpy_dtype", None)
    if exact is not None and exact.kind in "biuf" and not series.isna().any():
        return RawColumn(name, series.to_numpy(dtype=exact))
    return RawColumn(name, series.astype(object).to_numpy())


def _array_of(values: Any) -> NDArray[Any]:
    """Make an array of a list without turning its numbers into text or its None into nan text."""
    array = np.asarray(values)
    if array.dtype.kind in "US" and array.ndim == 1:
        return np.array(list(values), dtype=object)
    return array


# Survival times: labels of two parts


def label_columns(label: LabelColumn | None) -> tuple[str, ...]:
    """Columns that a label is made of."""
    if label is None or isinstance(label, str):
        return () if label is None else (label,)
    return label["time"], label["event"]


def as_pairs_of(event: Any, time: Any, name: str) -> NDArray[Any]:
    """Events and times as one column of labels; missing ones are NaN."""
    pairs = np.empty(len(event), dtype=PAIR)
    pairs["event"] = _numbers_of(event, f"event of the {name}")
    pairs["time"] = _numbers_of(time, f"time of the {name}")
    return pairs


def pairs_in(y: Any, name: str) -> NDArray[Any] | None:
    """Labels of two parts as one column; None if they are something else.

    Parameters
    ----------
    y : structured array of (event, time), or frame or mapping with ``event`` and ``time``
    name : str
        What to call the labels in errors.
    """
    if isinstance(y, np.ndarray) and y.dtype.names is not None:
        if len(y.dtype.names) != 2 or y.ndim != 1:
            raise ValueProblem(
                f"The {name} is a structured array of {len(y.dtype.names)} fields.",
                "A survival label has two: whether the event came, and the time, in this order.",
                "Build the array from these two columns.",
            )
        event, time = (y[field] for field in y.dtype.names)
        return as_pairs_of(event, time, name)
    if isinstance(y, Mapping):
        names: Any = y
    else:
        names = getattr(y, "columns", ())
    if set(names) != {"event", "time"}:
        return None
    event, time = np.asarray(y["event"]), np.asarray(y["time"])
    if len(event) != len(time):
        raise ValueProblem(
            f"The {name} has {len(event)} events and {len(time)} times.",
            "Every row has one of both.",
            "Take both from the same table.",
        )
    return as_pairs_of(event, time, name)


def _numbers_of(values: Any, name: str) -> NDArray[np.float64]:
    from fedsift.data.table import objects_as_numbers

    array = objects_as_numbers(np.asarray(values))
    if array.dtype.kind not in "biuf":
        raise ValueProblem(
            f"The {name} is not numeric.",
            "Events are 0 or 1, and times are numbers.",
            "Convert the column to numbers.",
        )
    return array.astype(np.float64)
