# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""One checked column: numbers with NaN for missing, or category codes with -1 for missing."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedsift.data.sources import RawColumn
from fedsift.data.wording import in_reading_order, parses_as_number, plain_text
from fedsift.errors import ColumnError, ValueProblem

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
