# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A comparison as plain text."""

from __future__ import annotations

from collections.abc import Iterator

from fedsift.lab.compare.comparison import Comparison
from fedsift.lab.compare.view import (
    Sheet,
    facts_of,
    failures_of,
    headline,
    notes_of,
    sheets_of,
)
from fedsift.report.view import clean


def render(comparison: Comparison) -> str:
    """Everything a terminal should show."""
    lines = [headline(comparison), ""]
    for data in comparison.data:
        lines += [clean(data.name), "=" * len(clean(data.name))]
        lines += [f"{name}: {value}" for name, value in facts_of(data)]
        lines += [f"note: {clean(note)}" for note in data.notes]
        lines += [f"failed: {clean(r.label)}: {failures_of(r)}" for r in data.rows if r.failed]
        for sheet in sheets_of(data):
            lines += ["", *_table(sheet)]
        lines.append("")
    lines += notes_of(comparison)
    return "\n".join(lines) + "\n"


def _table(sheet: Sheet) -> Iterator[str]:
    yield sheet.title
    if not sheet.rows:
        yield "  nothing yet"
        return
    widths = [
        max(len(row[i]) for row in (sheet.header, *sheet.rows)) for i in range(len(sheet.header))
    ]
    yield _line(sheet, sheet.header, widths)
    yield "  " + "  ".join("-" * width for width in widths)
    for row in sheet.rows:
        yield _line(sheet, row, widths)


def _line(sheet: Sheet, cells: tuple[str, ...], widths: list[int]) -> str:
    placed = [
        cell.rjust(width) if i in sheet.numeric else cell.ljust(width)
        for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return ("  " + "  ".join(placed)).rstrip()
