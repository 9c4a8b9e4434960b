# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A comparison as one HTML file that needs nothing else."""

from __future__ import annotations

from fedsift.lab.compare.comparison import Comparison, DataOutcome
from fedsift.lab.compare.view import (
    Sheet,
    disclosures_of,
    facts_of,
    failures_of,
    headline,
    notes_of,
    sheets_of,
    suspects_of,
)
from fedsift.report import blocks
from fedsift.report.view import clean

FOOTER = (
    "Made by fedsift from the comparison file alone. It holds names of parties, scores and costs; "
    "no rows of any party's data."
)


def render(comparison: Comparison) -> str:
    """A complete page."""
    parts = []
    suspects = suspects_of(comparison)
    if suspects:
        text = f"{', '.join(suspects)}: better or worse than chance although there is nothing to "
        parts.append(blocks.alarm(f"{text}learn. Do not trust these rows.", title="Not chance."))
    if comparison.interrupted:
        parts.append(
            blocks.alarm(
                "Only what was finished is shown.", title="The comparison was interrupted."
            )
        )
    parts += [_data(data) for data in comparison.data]
    parts.append(blocks.section("How to read this", "", blocks.bullets(notes_of(comparison))))
    settings = [(name, str(value)) for name, value in comparison.settings.items()]
    parts.append(
        blocks.section(
            "Settings and versions",
            "",
            blocks.grid(
                [
                    blocks.listing("Settings", settings),
                    blocks.listing("Versions", list(comparison.versions.items())),
                ]
            ),
        )
    )
    title = "fedsift: comparison"
    return blocks.document(title, headline(comparison), "\n".join(parts), footer=FOOTER)


def _data(data: DataOutcome) -> str:
    parts = [blocks.facts(facts_of(data))]
    parts += [
        blocks.alarm(f"{clean(row.label)}: {failures_of(row)}", title="Failed.")
        for row in data.rows
        if row.failed
    ]
    if data.notes:
        parts.append(blocks.bullets(clean(note) for note in data.notes))
    parts += [_sheet(sheet) for sheet in sheets_of(data)]
    learned = disclosures_of(data)
    if learned:
        table = blocks.table(("method", "who learned what"), learned, kind="cards")
        parts.append(blocks.folded("Who learned what", table))
    return blocks.section(clean(data.name), "", "".join(parts))


def _sheet(sheet: Sheet) -> str:
    table = blocks.table(sheet.header, sheet.rows, numeric=sheet.numeric)
    return f"<h3>{sheet.title}</h3>{table}"
