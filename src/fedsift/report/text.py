# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The report as plain text, for a terminal, a log or an e-mail."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from fedsift.report import course
from fedsift.report.view import (
    PLAIN_WARNING,
    STEPS_HEADER,
    CostRow,
    PartyFeatures,
    ReportView,
    steps_of,
    view_of,
)
from fedsift.result import SelectionResult


def render(result: SelectionResult) -> str:
    """Write the whole report, ending with a line break."""
    view = view_of(result)
    blocks = [
        _head(view),
        _steps(result),
        _selected(view, result),
        _learned(view),
        _cost(view),
        _background(view),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def columns(
    header: Sequence[str], rows: Sequence[Sequence[str]], numeric: Collection[int] = ()
) -> list[str]:
    """Lines of a table whose columns are as wide as their longest entry; numbers end in line.

    Examples
    --------
    >>> columns(("name", "n"), [("age", "1")])
    ['name  n', '----  -', 'age   1']
    """
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    return [
        "  ".join(
            cell.rjust(width) if i in numeric else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (header, ["-" * width for width in widths], *rows)
    ]


def _head(view: ReportView) -> str:
    lines = [view.title, "=" * len(view.title), "", view.headline]
    if view.plain:
        lines += ["", f"WARNING: {PLAIN_WARNING}"]
    lines.append("")
    lines += [f"{name}: {value}" for name, value in view.facts]
    return "\n".join(lines)


def _steps(result: SelectionResult) -> str:
    rows = steps_of(result)
    return "\n".join([*_title("Steps"), "", *columns(STEPS_HEADER, rows)]) if rows else ""


def _selected(view: ReportView, result: SelectionResult) -> str:
    lines = [*_title("What was selected and why"), "", course.why(result)]
    how_sure = course.uncertainty(result)
    lines += ["", how_sure] if how_sure else []
    for features in view.features:
        lines += ["", *_party(features)]
    if view.participants:
        header = ("participant", course.worth(result), "outcome")
        rows = [(r.name, r.importance, r.outcome) for r in view.participants]
        lines += ["", *_filled(header, rows)]
    return "\n".join(lines)


def _party(features: PartyFeatures) -> list[str]:
    chosen = features.selected
    lines = [f"{features.party}: {len(chosen)} of {features.total} features"]
    if chosen:
        header = ("rank", "feature", "score", "p-value", "q-value", "found in", "margin")
        rows = [
            (row.rank, row.name, row.score, row.p_value, row.q_value, row.found, row.margin)
            for row in chosen
        ]
        lines += [f"  {line}" for line in _filled(header, rows)]
    return lines


def _filled(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table without the columns that have no entry."""
    kept = [i for i in range(len(header)) if any(row[i] != "-" for row in rows)]
    return columns([header[i] for i in kept], [[row[i] for i in kept] for row in rows])


def _learned(view: ReportView) -> str:
    if not view.learned:
        return "\n".join([*_title("Who learned what"), "", "Nobody learned anything."])
    header = ("step", "who", "about", "learned", "form", "times")
    rows = [
        (r.step, r.learner, r.about, f"{r.kind}: {r.what}", r.form, r.times) for r in view.learned
    ]
    # Only chained jobs have steps.
    first = 0 if any(row.step != "-" for row in view.learned) else 1
    lines = columns(header[first:], [row[first:] for row in rows])
    return "\n".join([*_title("Who learned what"), "", *lines])


def _cost(view: ReportView) -> str:
    lines = [*_title("What it cost"), "", view.cost]
    for header, rows in (
        ("message", view.by_message),
        ("sent by", view.by_party),
        ("phase", view.phases),
    ):
        if rows:
            lines += ["", *columns((header, "amount"), _amounts(rows))]
    return "\n".join(lines)


def _background(view: ReportView) -> str:
    lines = _title("Settings and versions")
    lines += ["", *(f"{name} = {value}" for name, value in view.settings)]
    lines += ["", *(f"{name} {version}" for name, version in view.versions)]
    if view.warnings:
        lines += ["", *_title("Remarks"), "", *(f"- {text}" for text in view.warnings)]
    return "\n".join(lines)


def _amounts(rows: Sequence[CostRow]) -> list[tuple[str, str]]:
    return [(row.name, row.amount) for row in rows]


def _title(text: str) -> list[str]:
    return [text, "-" * len(text)]
