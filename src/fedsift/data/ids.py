# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Row ids: text that is equal at two parties exactly when the rows belong together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsift.data.column import is_missing
from fedsift.data.sources import RawColumn
from fedsift.data.wording import plain_text
from fedsift.errors import AlignmentError

Ids = NDArray[np.str_]


def make_ids(columns: Sequence[RawColumn], party: str) -> Ids:
    """Normalise one or more id columns.

    Parameters
    ----------
    columns : sequence of RawColumn
        The columns that together identify a row.
    party : str
        Name of the owner, for error messages.

    Returns
    -------
    ids : ndarray of str of shape (n_rows,)
        Stripped text; several columns are joined so that different tuples stay different.
    """
    parts = [_texts(column, party) for column in columns]
    if len(parts) == 1:
        ids = np.array(parts[0], dtype=np.str_)
    else:
        # A length prefix keeps ("ab", "c") and ("a", "bc") apart whatever the cells contain.
        joined = [
            "".join(f"{len(part)}:{part}" for part in row) for row in zip(*parts, strict=True)
        ]
        ids = np.array(joined, dtype=np.str_)
    refuse_duplicates(ids, party)
    return ids


def refuse_duplicates(ids: Ids, party: str) -> None:
    """Refuse ids that occur more than once; say how many, not which."""
    n_repeated = len(ids) - len(np.unique(ids))
    if n_repeated:
        raise AlignmentError(
            f"Party {party!r} has duplicate ids: {n_repeated} of its {len(ids)} rows repeat "
            "the id of an earlier row.",
            "An id must stand for one row.",
            "Remove or merge the duplicates, or add a column that distinguishes the rows.",
        )


def _texts(column: RawColumn, party: str) -> list[str]:
    values: NDArray[Any] = column.values
    missing = is_missing(values.astype(object) if values.dtype.kind in "US" else values)
    if missing.any():
        raise AlignmentError(
            f"Id column {column.name!r} of party {party!r} is empty in {int(missing.sum())} of "
            f"{len(values)} rows.",
            "Every row needs an id.",
            "Fill in the ids, or remove those rows.",
        )
    if values.dtype.kind == "M":
        values = values.astype("datetime64[us]").astype(np.str_)
    return [plain_text(value) for value in values.tolist()]
