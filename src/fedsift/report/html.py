# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The report as one HTML file that needs nothing else: no network, no other file."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from fedsift.report import blocks
from fedsift.report.view import PLAIN_WARNING, FeatureRow, PartyFeatures, ReportView
from fedsift.report.view import view_of as _view_of
from fedsift.result import SelectionResult


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
    view = _view_of(result)
    parts = (_banner, _facts, _selected, _learned, _cost, _remarks, _background)
    return blocks.document(view.title, view.headline, "\n".join(part(view) for part in parts))


def _banner(view: ReportView) -> str:
    return blocks.alarm(PLAIN_WARNING, title="Not secure.") if view.plain else ""


def _facts(view: ReportView) -> str:
    return blocks.facts(view.facts)


def _selected(view: ReportView) -> str:
    parts = [_party(features) for features in view.features]
    if view.participants:
        header = ("participant", "importance", "standard error", "outcome")
        rows = [(r.name, r.importance, r.standard_error, r.outcome) for r in view.participants]
        parts.append(blocks.table(header, rows, numeric=(1, 2)))
    return blocks.section(
        "What was selected", "Rank 1 is the best of all features.", "".join(parts)
    )


def _party(features: PartyFeatures) -> str:
    chosen, others = features.selected, features.others
    count = f"{len(chosen)} of {len(features.rows)} features"
    parts = [f"<h3>{escape(features.party)} <small>{count}</small></h3>"]
    if chosen:
        parts.append(_feature_table(chosen))
    if others:
        parts.append(blocks.folded(f"{len(others)} not selected", _feature_table(others)))
    return "".join(parts)


def _feature_table(rows: Sequence[FeatureRow]) -> str:
    cells = [(row.rank, row.name, row.score) for row in rows]
    return blocks.table(("rank", "feature", "score"), cells, numeric=(0, 2))


def _learned(view: ReportView) -> str:
    lead = "Counted from the messages that were really sent, by the declaration of each."
    if not view.learned:
        return blocks.section("Who learned what", lead, "<p>Nobody learned anything.</p>")
    header = ("who", "about", "learned", "form", "key of", "message", "times", "size")
    rows = [
        (r.learner, r.about, f"{r.kind}: {r.what}", r.form, r.key_owner, r.message, r.times, r.size)
        for r in view.learned
    ]
    ledger = blocks.table(header, rows, numeric=(6, 7), kind="cards")
    return blocks.section("Who learned what", lead, ledger)


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
