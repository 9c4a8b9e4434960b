# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A drawing of the parties, their roles, and what went from one to the other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from fedsift.report import blocks
from fedsift.report.charts import WIDTH, cut_off
from fedsift.report.view import clean, size
from fedsift.result import SelectionResult

MOST_PARTIES = 9
_NODE_WIDTH, _NODE_HEIGHT = 96, 42
_ROLE_LETTERS = 22


@dataclass
class Flow:
    """All messages from one party to another, and the kinds of what the receiver learned."""

    messages: int = 0
    n_bytes: int = 0
    names: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)


Flows = Mapping[tuple[str, str], Flow]


def drawing(result: SelectionResult) -> str:
    """The drawing with a table of the same flows; empty if nothing was sent.

    Parties stand on a circle, the one that exchanged most on top. A full line brought its receiver
    something that the ledger lists, a dashed one nothing but ciphertexts, keys and requests.
    """
    flows = flows_of(result)
    if not flows:
        return ""
    parties = _by_volume(flows)
    shown = parties[:MOST_PARTIES]
    places, height = _places(len(shown))
    where = dict(zip(shown, places, strict=True))
    roles = _roles(result)
    arrows = [
        _arrow(where[a], where[b], a, b, flow)
        for (a, b), flow in flows.items()
        if a in where and b in where
    ]
    nodes = [_node(where[party], party, roles.get(party, [])) for party in shown]
    left_out = len(parties) - len(shown)
    note = "Solid line: the receiver learned something. Dashed line: only ciphertexts, keys and "
    note += "requests. Thicker lines carried more bytes."
    if left_out:
        note += f" {left_out} more parties are in the table only."
    label = f"Drawing of {len(shown)} parties and {len(arrows)} flows; the table below lists them."
    return (
        '<figure class="chart flows"><figcaption>Roles and flows</figcaption>'
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}">'
        f"{''.join(arrows)}{''.join(nodes)}</svg>"
        f'<p class="note">{escape(note)}</p>{blocks.folded("All flows", _table(flows))}</figure>'
    )


def flows_of(result: SelectionResult) -> dict[tuple[str, str], Flow]:
    """Flows by sender and receiver, from traffic and ledger."""
    flows: dict[tuple[str, str], Flow] = {}
    for row in result.traffic.rows:
        flow = flows.setdefault((clean(row.sender), clean(row.receiver)), Flow())
        flow.messages += row.messages
        flow.n_bytes += row.n_bytes
        flow.names.append(clean(row.message))
    brought: dict[tuple[str, str], list[Flow]] = {}
    for (_, receiver), flow in flows.items():
        for name in flow.names:
            brought.setdefault((receiver, name), []).append(flow)
    for learned in result.disclosures:
        kind = clean(learned.kind)
        for flow in brought.get((clean(learned.learner), clean(learned.message)), ()):
            if kind not in flow.kinds:
                flow.kinds.append(kind)
    return flows


def _by_volume(flows: Flows) -> list[str]:
    """Parties, first those with most partners, then those with most bytes."""
    partners: dict[str, set[str]] = {}
    n_bytes: dict[str, int] = {}
    for (a, b), flow in flows.items():
        for one, other in ((a, b), (b, a)):
            partners.setdefault(one, set()).add(other)
            n_bytes[one] = n_bytes.get(one, 0) + flow.n_bytes
    return sorted(partners, key=lambda party: (-len(partners[party]), -n_bytes[party]))


def _places(count: int) -> tuple[list[tuple[float, float]], int]:
    if count == 2:
        return [(_NODE_WIDTH / 2 + 6, 50), (WIDTH - _NODE_WIDTH / 2 - 6, 50)], 100
    height = 240 if count <= 5 else 300
    across, down = (WIDTH - _NODE_WIDTH) / 2 - 4, (height - _NODE_HEIGHT) / 2 - 6
    angles = [2 * math.pi * i / count - math.pi / 2 for i in range(count)]
    return [
        (WIDTH / 2 + across * math.cos(a), height / 2 + down * math.sin(a)) for a in angles
    ], height


def _node(place: tuple[float, float], party: str, roles: Sequence[str]) -> str:
    x, y = place
    said = escape(f"{party}: {', '.join(roles) or 'takes part'}")
    lines, left, top = _two_lines(roles), x - _NODE_WIDTH / 2, y - _NODE_HEIGHT / 2
    y -= 5 * (len(lines) - 1)
    drawn = "".join(
        f'<text class="middle role" x="{x:.1f}" y="{y + 11 + 10 * i:.1f}">{escape(line)}</text>'
        for i, line in enumerate(lines)
    )
    return (
        f'<g><rect class="node" x="{left:.1f}" y="{top:.1f}" '
        f'width="{_NODE_WIDTH}" height="{_NODE_HEIGHT}" rx="6"><title>{said}</title></rect>'
        f'<text class="middle name" x="{x:.1f}" y="{y - 2:.1f}">{escape(cut_off(party, 14))}</text>'
        f"{drawn}</g>"
    )


def _two_lines(roles: Sequence[str]) -> list[str]:
    """Roles on one or two lines, the second one cut off where it is too long.

    Examples
    --------
    >>> _two_lines(["coordinator", "id leader", "label holder"])
    ['coordinator, id leader,', 'label holder']
    """
    first = ""
    for i, role in enumerate(roles):
        longer = f"{first}, {role}" if first else role
        if len(longer) > _ROLE_LETTERS and first:
            return [f"{first},", cut_off(", ".join(roles[i:]), _ROLE_LETTERS)]
        first = longer
    return [cut_off(first, _ROLE_LETTERS)]


def _arrow(
    start: tuple[float, float], end: tuple[float, float], sender: str, receiver: str, flow: Flow
) -> str:
    """A bent line from edge to edge of two boxes; the way back bends to the other side."""
    (x0, y0), (x1, y1) = start, end
    length = math.hypot(x1 - x0, y1 - y0) or 1.0
    across, down = (x1 - x0) / length, (y1 - y0) / length
    middle = ((x0 + x1) / 2 - down * 14, (y0 + y1) / 2 + across * 14)
    (x0, y0), (x1, y1) = _edge(start, middle), _edge(end, middle)
    width = 1 + min(3.0, math.log10(1 + flow.n_bytes) / 3)
    quiet = "" if flow.kinds else " quiet"
    said = escape(f"{sender} to {receiver}: {flow.messages:,} messages, {size(flow.n_bytes)}")
    return (
        f'<g><title>{said}</title><path class="flow{quiet}" d="M{x0:.1f},{y0:.1f} '
        f'Q{middle[0]:.1f},{middle[1]:.1f} {x1:.1f},{y1:.1f}" stroke-width="{width:.1f}"/>'
        f'<polygon class="head" points="{_head(middle, (x1, y1))}"/></g>'
    )


def _head(start: tuple[float, float], tip: tuple[float, float]) -> str:
    """Corners of an arrow's head."""
    length = math.hypot(tip[0] - start[0], tip[1] - start[1]) or 1.0
    across, down = (tip[0] - start[0]) / length, (tip[1] - start[1]) / length
    back = (tip[0] - 8 * across, tip[1] - 8 * down)
    corners = [tip, (back[0] - 4 * down, back[1] + 4 * across)]
    corners.append((back[0] + 4 * down, back[1] - 4 * across))
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)


def _edge(centre: tuple[float, float], towards: tuple[float, float]) -> tuple[float, float]:
    """Where the line from a box's centre leaves the box."""
    across, down = towards[0] - centre[0], towards[1] - centre[1]
    shares = [
        half / abs(way)
        for half, way in ((_NODE_WIDTH / 2 + 2, across), (_NODE_HEIGHT / 2 + 2, down))
        if way
    ]
    share = min([1.0, *shares])
    return centre[0] + share * across, centre[1] + share * down


def _table(flows: Flows) -> str:
    rows = [
        (a, b, f"{f.messages:,}", (size(f.n_bytes), f.n_bytes), ", ".join(f.kinds) or "nothing")
        for (a, b), f in flows.items()
    ]
    header = ("from", "to", "messages", "size", "the receiver learned")
    return blocks.table(header, rows, numeric=(2, 3), kind="cards")


def _roles(result: SelectionResult) -> dict[str, list[str]]:
    roles: dict[str, list[str]] = {}
    for row in result.disclosures:
        pairs = [(row.learner, row.learner_role)]
        pairs += [(party, row.about_role) for party in row.about.split(", ")]
        for party, role in pairs:
            own = roles.setdefault(clean(party), [])
            if role and clean(role) not in own:
                own.append(clean(role))
    return roles
