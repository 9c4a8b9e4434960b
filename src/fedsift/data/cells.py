# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Cells of CSV files that fedsift writes: none of them is a formula to a spreadsheet.

Ids and classes come from other parties, and a spreadsheet runs text that begins with ``=``. An
apostrophe in front makes it text again. Numbers stay as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
