# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The report as one HTML file that needs nothing else: no network, no scripts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from string import Template

from fedsift.report.view import PLAIN_WARNING, CostRow, FeatureRow, PartyFeatures, ReportView
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
    template = resources.files("fedsift.report").joinpath("page.html").read_text(encoding="utf-8")
    parts = (_banner, _facts, _selected, _learned, _cost, _remarks, _background)
    body = "\n".join(part(view) for part in parts)
    return Template(template).substitute(
        title=escape(view.title), headline=escape(view.headline), body=body
    )


def _banner(view: ReportView) -> str:
    if not view.plain:
        return ""
    return f'<p class="alarm" role="alert"><strong>Not secure.</strong> {escape(PLAIN_WARNING)}</p>'


def _facts(view: ReportView) -> str:
    return f'<dl class="facts">{_definitions(view.facts)}</dl>'


def _selected(view: ReportView) -> str:
    parts = [_party(features) for features in view.features]
    if view.participants:
        header = ("participant", "importance", "standard error", "outcome")
        rows = [(r.name, r.importance, r.standard_error, r.outcome) for r in view.participants]
        parts.append(_table(header, rows, numeric=(1, 2)))
    return _section("What was selected", "Rank 1 is the best of all features.", "".join(parts))


def _party(features: PartyFeatures) -> str:
    chosen, others = features.selected, features.others
    count = f"{len(chosen)} of {len(features.rows)} features"
    parts = [f"<h3>{escape(features.party)} <small>{count}</small></h3>"]
    if chosen:
        parts.append(_feature_table(chosen))
    if others:
        parts.append(
            f"<details><summary>{len(others)} not selected</summary>"
            f"{_feature_table(others)}</details>"
        )
    return "".join(parts)


def _feature_table(rows: Sequence[FeatureRow]) -> str:
    cells = [(row.rank, row.name, row.score) for row in rows]
    return _table(("rank", "feature", "score"), cells, numeric=(0, 2))


def _learned(view: ReportView) -> str:
    lead = "Counted from the messages that were really sent, by the declaration of each."
    if not view.learned:
        return _section("Who learned what", lead, "<p>Nobody learned anything.</p>")
    header = ("who", "about", "learned", "form", "key of", "message", "times", "size")
    rows = [
        (r.learner, r.about, f"{r.kind}: {r.what}", r.form, r.key_owner, r.message, r.times, r.size)
        for r in view.learned
    ]
    ledger = _table(header, rows, numeric=(6, 7), kind="cards")
    return _section("Who learned what", lead, ledger)


def _cost(view: ReportView) -> str:
    parts = [
        _bars("Bytes by message", view.by_message),
        _bars("Bytes sent by party", view.by_party),
        _bars("Seconds by phase, all parties together", view.phases),
    ]
    return _section("What it cost", view.cost, f'<div class="grid">{"".join(parts)}</div>')


def _bars(title: str, rows: Sequence[CostRow]) -> str:
    if not rows:
        return ""
    lines = "".join(
        f"<tr><td>{escape(row.name)}</td><td class='n'>{escape(row.amount)}</td>"
        f"<td class='bar'><i style='width:{100 * row.share:.1f}%'></i></td></tr>"
        for row in rows
    )
    return f'<div><h3>{escape(title)}</h3><table class="bars"><tbody>{lines}</tbody></table></div>'


def _remarks(view: ReportView) -> str:
    if not view.warnings:
        return ""
    items = "".join(f"<li>{escape(text)}</li>" for text in view.warnings)
    return _section("Remarks", "", f"<ul>{items}</ul>")


def _background(view: ReportView) -> str:
    settings = f"<div><h3>Settings</h3><dl>{_definitions(view.settings)}</dl></div>"
    versions = f"<div><h3>Versions</h3><dl>{_definitions(view.versions)}</dl></div>"
    return _section("Settings and versions", "", f'<div class="grid">{settings}{versions}</div>')


def _section(title: str, lead: str, content: str) -> str:
    shown = f'<p class="lead">{escape(lead)}</p>' if lead else ""
    return f"<section><h2>{escape(title)}</h2>{shown}{content}</section>"


def _definitions(pairs: Iterable[tuple[str, str]]) -> str:
    return "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in pairs
    )


def _table(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numeric: Sequence[int] = (),
    kind: str = "wide",
) -> str:
    """A table; of the kind ``cards`` each row becomes a block on a narrow screen."""

    def cell(tag: str, position: int, text: str) -> str:
        style = ' class="n"' if position in numeric else ""
        return f'<{tag}{style} data-label="{escape(header[position])}">{escape(text)}</{tag}>'

    head = "".join(cell("th", i, text) for i, text in enumerate(header))
    body = "".join(
        f"<tr>{''.join(cell('td', i, text) for i, text in enumerate(row))}</tr>" for row in rows
    )
    return (
        f'<div class="scroll"><table class="{kind}"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )
