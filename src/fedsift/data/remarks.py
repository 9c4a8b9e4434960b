# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Remarks on a federation that is fine but may not be what the user meant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fedsift.data.column import Column
from fedsift.data.table import PartyTable
from fedsift.data.target import Target

_RARE_CLASS_ROWS = 5
_MOSTLY = 0.5


def remarks_on(
    tables: Mapping[str, PartyTable], targets: Sequence[Target | None]
) -> tuple[str, ...]:
    """List constant, mostly missing and id-like columns and rare classes; counts only.

    Parameters
    ----------
    tables : mapping of str to PartyTable
        Checked tables.
    targets : sequence of Target or None
        The labels of all parties.

    Returns
    -------
    remarks : tuple of str
        One sentence each.
    """
    remarks = [remark for table in tables.values() for remark in _on_table(table)]
    return (*remarks, *_on_targets([target for target in targets if target is not None]))


def _on_table(table: PartyTable) -> list[str]:
    checks = (
        (_is_constant, "have the same value in every row"),
        (_is_mostly_missing, "are missing in more than half of the rows"),
        (_is_like_an_id, "have a different category in every row, like an id"),
    )
    remarks = []
    for check, text in checks:
        n_found = sum(check(column) for column in table.columns)
        if n_found:
            remarks.append(f"{n_found} of {table.n_columns} columns of {table.name!r} {text}.")
    return remarks


def _is_constant(column: Column) -> bool:
    if column.missing.any():
        return False
    return bool((column.values == column.values[0]).all())


def _is_mostly_missing(column: Column) -> bool:
    return float(column.missing.mean()) > _MOSTLY


def _is_like_an_id(column: Column) -> bool:
    n_rows = len(column.values)
    return column.kind == "categorical" and n_rows > 1 and len(column.categories) >= n_rows


def _on_targets(targets: Sequence[Target]) -> list[str]:
    if not targets:
        return []
    if targets[0].kind == "numbers":
        values = np.concatenate([target.values for target in targets])
        return ["The label is the same number in every row."] if np.ptp(values) == 0 else []
    codes = np.concatenate([target.codes for target in targets])
    sizes = np.bincount(codes, minlength=targets[0].n_classes)
    n_rare = int((sizes < _RARE_CLASS_ROWS).sum())
    if not n_rare:
        return []
    return [f"{n_rare} of {len(sizes)} classes have fewer than {_RARE_CLASS_ROWS} rows."]
