# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The report as one HTML file that needs nothing else: no network, no other file."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from fedsift.report import blocks, course, flows
from fedsift.report.view import (
    PLAIN_WARNING,
    STEPS_HEADER,
    FeatureRow,
    PartyFeatures,
    ReportView,
    steps_of,
    view_of,
)
from fedsift.result import SelectionResult

MOST_FEATURES = 1000
"""Features that one table lists; a page stays under 2 MB, and the result file has all of them."""
MOST_LEDGER_ROWS = 2000
_STEPS_LEAD = (
    "Every step saw only what the step before it left. Costs and disclosures on this page are "
    "those of the whole chain."
)


def render(result: SelectionResult) -> str:
    """Build the page.

    Parameters
    ----------
    result : SelectionResult
        The only source of everything on the page.

    Returns
    -------
    page : str
        A complete HTML document.
    """
    view = view_of(result)
    parts = [
        blocks.alarm(PLAIN_WARNING, title="Not secure.") if view.plain else "",
        blocks.facts(view.facts),
        _steps(result),
        _selected(view, result),
        course.course(result),
        _cost(view),
        _learned(view, result),
        _remarks(view),
        _background(view),
    ]
    return blocks.document(view.title, view.headline, "\n".join(part for part in parts if part))


def _selected(view: ReportView, result: SelectionResult) -> str:
    how_sure = course.uncertainty(result)
    parts = [course.ranking_chart(result)]
    parts += [f'<p class="note">{escape(how_sure)}</p>'] if how_sure else []
    if view.participants:
        header = ("participant", course.worth(result), "outcome")
        rows = [(r.name, (r.importance, r.order), r.outcome) for r in view.participants]
        parts.append(course.participants_chart(result))
        parts.append(_filled_table(header, rows, text=(0, 2), kind="cards"))
    room = MOST_FEATURES
    for features in view.features:
        parts.append(_party(features, room))
        room = max(0, room - len(features.rows))
    return blocks.section("What was selected and why", course.why(result), "".join(parts))


def _party(features: PartyFeatures, room: int) -> str:
    chosen, others = features.selected, features.others
    count = f"{len(chosen)} of {features.total} features"
    parts = [f"<h3>{escape(features.party)} <small>{count}</small></h3>"]
    if chosen:
        parts.append(_feature_table(chosen, room))
    if others:
        made = _feature_table(others, max(0, room - len(chosen)))
        parts.append(blocks.folded(f"{len(others)} not selected", made))
    return "".join(parts)


def _feature_table(rows: Sequence[FeatureRow], room: int) -> str:
    """As many rows as there is room for; features of which only names are known are listed."""
    more = max(0, len(rows) - room)
    rest = f"<p>{more:,} more are in the result file.</p>" if more else ""
    if all(row.score == row.found == row.rank == "-" for row in rows):
        return blocks.names(row.name for row in rows[:room]) + rest
    header = ("rank", "feature", "score", "p-value", "q-value", "found in", "margin")
    cells = [
        (
            r.rank,
            r.name,
            r.score if r.order is None else (r.score, r.order),
            r.p_value,
            r.q_value,
            r.found,
            r.margin,
        )
        for r in rows[:room]
    ]
    return (_filled_table(header, cells, text=(1,)) if cells else "") + rest


def _filled_table(
    header: Sequence[str],
    rows: Sequence[Sequence[blocks.Cell]],
    *,
    text: Sequence[int],
    kind: str = "wide",
) -> str:
    """A table without the columns that have no entry; those in ``text`` hold no numbers."""
    kept = [i for i in range(len(header)) if any(row[i] != "-" for row in rows)]
    return blocks.table(
        [header[i] for i in kept],
        [[row[i] for i in kept] for row in rows],
        numeric=[place for place, i in enumerate(kept) if i not in text],
        kind=kind,
    )


def _learned(view: ReportView, result: SelectionResult) -> str:
    lead = "Taken from the messages that were sent, and what each of them declares."
    drawn = flows.drawing(result)
    if not view.learned:
        return blocks.section("Who learned what", lead, f"<p>Nobody learned anything.</p>{drawn}")
    header = ("step", "who", "about", "learned", "form", "key of", "message", "times", "size")
    rows = [
        (
            row.step,
            row.learner,
            row.about,
            f"{row.kind}: {row.what}",
            row.form,
            row.key_owner,
            row.message,
            row.times,
            row.size,
        )
        for row in view.learned[:MOST_LEDGER_ROWS]
    ]
    more = len(view.learned) - len(rows)
    rest = f"<p>{more:,} more are in the result file.</p>" if more else ""
    ledger = _filled_table(header, rows, text=range(1, 7), kind="cards")
    return blocks.section("Who learned what", lead, f"{drawn}{ledger}{rest}")


def _cost(view: ReportView) -> str:
    parts = [
        blocks.bars("Bytes by message", view.by_message),
        blocks.bars("Bytes sent by party", view.by_party),
        blocks.bars("Seconds by phase, all parties together", view.phases),
    ]
    return blocks.section("What it cost", view.cost, blocks.grid(parts))


def _remarks(view: ReportView) -> str:
    if not view.warnings:
        return ""
    return blocks.section("Remarks", "", blocks.bullets(view.warnings))


def _background(view: ReportView) -> str:
    parts = [blocks.listing("Settings", view.settings), blocks.listing("Versions", view.versions)]
    return blocks.section("Settings and versions", "", blocks.grid(parts))


def _steps(result: SelectionResult) -> str:
    """All steps of a chain, or nothing."""
    if not result.steps:
        return ""
    made = blocks.table(STEPS_HEADER, steps_of(result), numeric=(0, 3, 4, 5, 6), kind="cards")
    return blocks.section("Steps of the chain", _STEPS_LEAD, made)
