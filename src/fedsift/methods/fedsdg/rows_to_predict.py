# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Checks of the tables that a prediction is made for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fedsift.data.table import PartyTable
from fedsift.errors import AlignmentError, ParameterError, PartyError


def check_rows(tables: Mapping[str, PartyTable], needed: Sequence[str]) -> int:
    """The number of rows, if all needed parties are there and have the same."""
    for party in needed:
        if party not in tables:
            raise party_missing(party)
    sizes = {table.n_rows for table in tables.values()}
    if len(sizes) != 1:
        raise AlignmentError(
            f"The parties have {', '.join(map(str, sorted(sizes)))} rows.",
            "All parties need the same rows in the same order.",
            "Align the parties by id first.",
        )
    n_rows = sizes.pop()
    if not n_rows:
        raise ParameterError(
            "There are no rows to predict.", "At least one row is needed.", "Give some rows."
        )
    return n_rows


def party_missing(party: str) -> PartyError:
    """A party of the model has no table."""
    return PartyError(
        f"The model uses columns of party {party!r}, which is not there.",
        "Every party whose features were selected takes part in a prediction.",
        f"Add the table of {party!r}.",
    )
