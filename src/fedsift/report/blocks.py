# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Pieces of HTML that every kind of report is made of; all text is escaped here."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from string import Template

Cell = str | tuple[str, float]
"""Text of a table cell, with the number to sort by where the text is not that number."""

MOST_BARS = 8
"""Bars that are shown at once; smaller ones open on demand."""

LONG_TEXT = 40
"""Letters from which on a column of a table needs room for its sentences."""

FOOTER = (
    "Made by fedsift from the result file alone. It holds names of features and parties, scores "
    "and costs; no rows of any party's data."
)
# A page that is served asks for an icon unless it brings one.
_LIVE_HEAD = (
    '<link rel="icon" href="data:,"><noscript><meta http-equiv="refresh" content="3"></noscript>'
)


def document(
    title: str,
    headline: str,
    body: str,
    *,
    footer: str = FOOTER,
    script: str | None = None,
    live: bool = False,
    forms: bool = False,
) -> str:
    """A complete page that needs nothing else: no network, no other file.

    Parameters
    ----------
    title, headline, footer : str
        Plain text.
    body : str
        HTML, made of the other blocks.
    script : str, optional
        Instead of the one that sorts and filters tables.
    live : bool
        Whether the page may ask its own server for more, and reloads itself without scripts.
    forms : bool
        Whether the page may send forms to its own server.
    """
    files = resources.files("fedsift.report")
    template = files.joinpath("page.html").read_text(encoding="utf-8")
    if script is None:
        script = files.joinpath("page.js").read_text(encoding="utf-8")
    return Template(template).substitute(
        title=escape(title),
        headline=escape(headline),
        body=body,
        footer=escape(footer),
        script=script,
        allowed=fingerprint(script),
        connect="'self'" if live else "'none'",
        forms="'self'" if forms else "'none'",
        head=_LIVE_HEAD if live else "",
    )


def fingerprint(script: str) -> str:
    """What the page's security policy calls its only script; any other one is refused."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def section(title: str, lead: str, content: str) -> str:
    """A heading, a sentence in plain text (may be empty), and content in HTML."""
    shown = f'<p class="lead">{escape(lead)}</p>' if lead else ""
    return f"<section><h2>{escape(title)}</h2>{shown}{content}</section>"


def alarm(text: str, *, title: str = "") -> str:
    """A box in red."""
    strong = f"<strong>{escape(title)}</strong> " if title else ""
    return f'<p class="alarm" role="alert">{strong}{escape(text)}</p>'


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Names and values as a row of small cards."""
    return f'<dl class="facts">{_definitions(pairs)}</dl>'


def listing(title: str, pairs: Iterable[tuple[str, str]]) -> str:
    """Names and values, one pair per line, under a small heading."""
    return f"<div><h3>{escape(title)}</h3><dl>{_definitions(pairs)}</dl></div>"


def grid(parts: Iterable[str]) -> str:
    """Blocks side by side where the screen is wide enough."""
    return f'<div class="grid">{"".join(parts)}</div>'


def bars(title: str, rows: Sequence[tuple[str, str, float]]) -> str:
    """A small table of amounts with bars; a row is a name, the amount as text, a share of 1."""
    if not rows:
        return ""
    room = MOST_BARS if len(rows) > MOST_BARS + 2 else len(rows)
    made = _bar_table(rows[:room])
    if len(rows) > room:
        made += folded(f"{len(rows) - room} more", _bar_table(rows[room:]))
    return f"<div><h3>{escape(title)}</h3>{made}</div>"


def _bar_table(rows: Sequence[tuple[str, str, float]]) -> str:
    lines = "".join(
        f"<tr><td>{escape(name)}</td><td class='n'>{escape(amount)}</td>"
        f"<td class='bar'><i style='width:{100 * share:.1f}%'></i></td></tr>"
        for name, amount, share in rows
    )
    return f'<table class="bars"><tbody>{lines}</tbody></table>'


def folded(summary: str, content: str) -> str:
    """Content in HTML that opens on demand."""
    return f"<details><summary>{escape(summary)}</summary>{content}</details>"


def names(texts: Iterable[str]) -> str:
    """A list of short names, as many in a line as fit."""
    return f'<ul class="names">{"".join(f"<li>{escape(text)}</li>" for text in texts)}</ul>'


def bullets(texts: Iterable[str]) -> str:
    """A plain list."""
    return f"<ul>{''.join(f'<li>{escape(text)}</li>' for text in texts)}</ul>"


def table(
    header: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    *,
    numeric: Sequence[int] = (),
    kind: str = "wide",
) -> str:
    """A table of texts; with scripts on, a reader can sort it, and filter a long one.

    Parameters
    ----------
    numeric : sequence of int
        Columns that hold numbers, from 0.
    kind : {"wide", "cards"}
        Of the kind ``cards`` each row becomes a block on a narrow screen.
    """
    lines = list(rows)
    long = {
        i
        for row in lines
        for i, content in enumerate(row)
        if isinstance(content, str) and len(content) > LONG_TEXT
    }

    def cell(position: int, content: Cell) -> str:
        text, key = content if isinstance(content, tuple) else (content, None)
        style = ' class="n"' if position in numeric else ' class="long"' if position in long else ""
        label = f' data-label="{escape(header[position])}"' if kind == "cards" else ""
        value = "" if key is None else f' data-v="{key:.17g}"'
        return f"<td{style}{label}{value}>{escape(text)}</td>"

    head = "".join(_column(text, i in numeric) for i, text in enumerate(header))
    body = "".join(
        f"<tr>{''.join(cell(i, text) for i, text in enumerate(row))}</tr>" for row in lines
    )
    # Focusable: a table that is wider than the screen can be moved with the arrow keys.
    return (
        f'<div class="scroll" tabindex="0" role="group" aria-label="Table"><table class="{kind}">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _column(text: str, is_number: bool) -> str:
    if not text:  # rows are named by their first cell, which needs no heading
        return "<td></td>"
    style = ' class="n"' if is_number else ""
    return f'<th scope="col"{style}>{escape(text)}</th>'


def _definitions(pairs: Iterable[tuple[str, str]]) -> str:
    return "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in pairs
    )
