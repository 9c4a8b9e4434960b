# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Reading a party's CSV or Parquet file, with every way it can fail said in one line.

In files that fedsift writes, no cell is a formula to a spreadsheet. Ids and classes come from other
parties, and a spreadsheet runs text that begins with ``=``; an apostrophe in front makes it text
again. Numbers stay as they are.
"""

from __future__ import annotations

import csv
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedsift.data.sources import check_unique
from fedsift.errors import FileProblem

if TYPE_CHECKING:
    import pandas as pd

_SUFFIXES = (".csv", ".parquet")
_SEPARATORS = (",", ";", "\t", "|")


def read_frame(path: Path, text_columns: Sequence[str] = ()) -> pd.DataFrame:
    """Read a table from a file.

    Parameters
    ----------
    path : Path
        A ``.csv`` file (first line holds the names; separated by comma, semicolon, tab or bar)
        or a ``.parquet`` file.
    text_columns : sequence of str
        Columns of a CSV file to keep as text.

    Returns
    -------
    frame : DataFrame
        The table, without any check of its values.
    """
    suffix = path.suffix.lower()
    if suffix not in _SUFFIXES:
        raise _bad_suffix(path)
    check_readable(path)
    return _read_csv(path, text_columns) if suffix == ".csv" else _read_parquet(path)


def column_names(path: Path) -> list[str]:
    """Names of the columns of a table; no row is read."""
    suffix = path.suffix.lower()
    if suffix not in _SUFFIXES:
        raise _bad_suffix(path)
    check_readable(path)
    if suffix == ".csv":
        names = _header(path)[0]
    else:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            names = list(pq.read_schema(path).names)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise _bad_parquet(path, error) from None
    check_unique([name for name in names if name], path.name)
    return [name for name in names if name]


def check_readable(path: Path) -> None:
    """Refuse a path that is missing, a directory, or closed to this user."""
    try:
        with path.open("rb"):
            return
    except IsADirectoryError:
        raise FileProblem(
            f"{path.name!r} is a directory.", "A file is needed.", "Give the path of one file."
        ) from None
    except FileNotFoundError:
        raise FileProblem(
            f"File {path.name!r} was not found in {str(path.parent)!r}.",
            "The file must exist.",
            "Check the path; a relative path starts at the working directory.",
        ) from None
    except PermissionError:
        raise FileProblem(
            f"No permission to read file {path.name!r}.",
            "The user who runs fedsift must be able to read it.",
            "Change the permissions of the file, or run as another user.",
        ) from None
    except OSError as error:
        raise FileProblem(
            f"File {path.name!r} cannot be opened ({type(error).__name__}).",
            "The file must be readable.",
            "Check the path and the storage it is on.",
        ) from None


def _read_csv(path: Path, text_columns: Sequence[str]) -> pd.DataFrame:
    import pandas as pd

    header, separator = _header(path)
    check_unique([name for name in header if name], path.name)
    try:
        with warnings.catch_warnings():
            # pandas only warns when rows are longer than the header and then drops cells.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            return pd.read_csv(
                path,
                sep=separator,
                encoding="utf-8-sig",
                index_col=False,
                low_memory=False,
                dtype=dict.fromkeys((n for n in text_columns if n in header), "str"),
            )
    except pd.errors.ParserWarning:
        raise _bad_csv(path, "has rows with more cells than the header has names") from None
    except pd.errors.ParserError as error:
        # The original text may quote cells; only its line number is passed on.
        line = re.search(r"line (\d+)", str(error))
        where = f" near line {line.group(1)}" if line else ""
        raise _bad_csv(path, f"is not a regular CSV table{where}") from None
    except (UnicodeDecodeError, ValueError, OSError) as error:
        raise _bad_csv(path, f"cannot be read as CSV ({type(error).__name__})") from None


def _header(path: Path) -> tuple[list[str], str]:
    """Return the names in the first line and the separator between them."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            first_line = stream.readline()
    except UnicodeDecodeError:
        raise _bad_csv(path, "is not text in UTF-8") from None
    if not first_line.strip():
        raise _bad_csv(path, "has no header line")
    if "\x00" in first_line:
        raise _bad_csv(path, "holds binary data")
    separator = max(_SEPARATORS, key=first_line.count)
    try:
        return next(csv.reader([first_line], delimiter=separator)), separator
    except csv.Error:
        raise _bad_csv(path, "has an irregular header line, or a name that is too long") from None


def _bad_suffix(path: Path) -> FileProblem:
    return FileProblem(
        f"File {path.name!r} has the suffix {path.suffix.lower()!r}.",
        f"Tables are read from {' or '.join(_SUFFIXES)} files.",
        "Convert the file, or load it yourself and pass a data frame.",
    )


def _bad_csv(path: Path, problem: str) -> FileProblem:
    return FileProblem(
        f"File {path.name!r} {problem}.",
        "A CSV file needs one line of names, then one line of as many cells per row, in UTF-8.",
        "Open the file and fix it, or export it again.",
    )


def _read_parquet(path: Path) -> pd.DataFrame:
    import pandas as pd
    import pyarrow as pa

    try:
        return pd.read_parquet(path)
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _bad_parquet(path, error) from None


def _bad_parquet(path: Path, error: Exception) -> FileProblem:
    return FileProblem(
        f"File {path.name!r} cannot be read as Parquet ({type(error).__name__}).",
        "A .parquet file must hold one Parquet table.",
        "Write the file again, for example with DataFrame.to_parquet.",
    )


if TYPE_CHECKING:
    import pandas as pd

_BEGINNINGS = ("=", "+", "-", "@", "\t")


def plain_cell(value: Any) -> Any:
    """Text that no spreadsheet takes for a formula; numbers and other text as they are.

    Examples
    --------
    >>> plain_cell("=1+1"), plain_cell("-1.5"), plain_cell(-1.5), plain_cell("a=b")
    ("'=1+1", '-1.5', -1.5, 'a=b')
    """
    if isinstance(value, str) and "\r" in value:
        value = value.replace("\r", " ")  # which readers take for the end of a line
    if not isinstance(value, str) or not value.lstrip(" ").startswith(_BEGINNINGS):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def plain_cells(frame: pd.DataFrame) -> pd.DataFrame:
    """A table, with its names, for a CSV file."""
    made = frame.rename(columns=plain_cell)
    for place, kind in enumerate(made.dtypes):
        if str(kind) in ("object", "str", "string", "category"):
            cells = [plain_cell(cell) for cell in made.iloc[:, place]]
            made.isetitem(place, cells)
    return made
