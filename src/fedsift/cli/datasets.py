# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""``fedsift datasets``: named data sets and where they come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fedsift.cli.common import AsJson, console, echo_json, errors_as_exit_codes, shown
from fedsift.cli.tables import table

if TYPE_CHECKING:
    from fedsift.data import DatasetInfo


def datasets(as_json: AsJson = False) -> None:
    """List the data sets a job file can name."""
    with errors_as_exit_codes():
        from fedsift.data import catalog

        rows = [_as_mapping(catalog.info(name)) for name in catalog.names()]
        if as_json:
            echo_json(rows)
            return
        numbers = ("rows", "features", "classes")
        made = table("Data sets", "name", *numbers, "licence", "where", numeric=numbers)
        for row in rows:
            sizes = (str(row[f"n_{number}"]) for number in numbers)
            made.add_row(shown(row["name"]), *sizes, shown(row["licence"]), shown(row["where"]))
        out = console()
        out.print(made)
        out.print("Files named NAME.npz are looked for in the directory FEDSIFT_DATA.")


def _as_mapping(info: DatasetInfo) -> dict[str, Any]:
    from fedsift.data import catalog

    return {
        "name": info.name,
        "n_rows": info.n_rows,
        "n_features": info.n_features,
        "n_classes": info.n_classes,
        "task": info.task,
        "licence": info.licence,
        "origin": info.origin,
        "shipped": info.shipped,
        "available": catalog.is_available(info.name),
        "openml_id": info.openml_id,
        "where": _where(info),
    }


def _where(info: DatasetInfo) -> str:
    from fedsift.data import catalog

    if info.shipped:
        return "shipped"
    if catalog.is_available(info.name):
        return "available here"
    if info.openml_id is not None:
        return f"fetched from OpenML ({info.openml_id}) when needed"
    return f"get it from: {info.origin}"
