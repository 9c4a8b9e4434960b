# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Charts as inline SVG: every mark has a text of its own, and every chart a table of its numbers.

Colours come from the page's style sheet, so that a chart is right in light, dark and print.
Drawings are 360 units wide: small enough that their letters can be read on a phone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from fedsift.report import blocks

WIDTH = 360
N_COLOURS = 6
MOST_ROWS = 40
"""Rows that a drawing shows; its table has all of them up to ``MOST_LISTED``."""
MOST_LISTED = 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 10, 10, 34
_LETTER = 6.0
"""Width of a letter at the size that charts use."""
_NAME = 23
"""Letters of a name beside a drawing; the rest is cut off there, not in the table."""

Point = tuple[float, float]
Cells = Sequence[Sequence[float | None]]


@dataclass(frozen=True)
class Dot:
    """One line of a dot chart: a label, a value, maybe its standard error, and a group.

    Dots of the same group have the same colour; hollow ones were not selected.
    """

    label: str
    value: float
    error: float | None = None
    group: str = ""
    hollow: bool = False


def lines(
    title: str,
    curves: Mapping[str, Sequence[Point]],
    *,
    x: str,
    y: str,
    cut: float | None = None,
    note: str = "",
) -> str:
    """Curves over a common axis, with a dotted line at the x value ``cut``.

    Examples
    --------
    >>> "<svg" in lines("Loss", {"training": [(1, 0.5), (2, 0.25)]}, x="epoch", y="loss")
    True
    """
    shown = {name: _thinned(points) for name, points in curves.items() if points}
    if not shown:
        return ""
    height = 210
    places = [p[0] for own in shown.values() for p in own]
    whole = all(place == int(place) for place in places)  # rounds, epochs and ranks are counted
    xs = _Scale.of(places, _LEFT, WIDTH - _RIGHT, least=1.0 if whole else 0.0)
    ys = _Scale.of([p[1] for own in shown.values() for p in own], height - _BOTTOM, _TOP)
    parts = [_grid(xs, ys, height, x, y)]
    if cut is not None and xs.low <= cut <= xs.high:
        parts.append(
            f'<line class="cut" x1="{xs(cut):.1f}" x2="{xs(cut):.1f}" y1="{_TOP}" '
            f'y2="{height - _BOTTOM}"><title>{escape(x)} {_short(cut)}</title></line>'
        )
    for i, (name, points) in enumerate(shown.items()):
        path = " ".join(f"{xs(a):.1f},{ys(b):.1f}" for a, b in points)
        parts.append(f'<polyline class="line s{i % N_COLOURS}" points="{path}"/>')
        parts += [
            f'<circle class="mark s{i % N_COLOURS}" cx="{xs(a):.1f}" cy="{ys(b):.1f}" r="2.6">'
            f"<title>{escape(name)}: {escape(x)} {_short(a)}, {escape(y)} {_short(b)}</title>"
            "</circle>"
            for a, b in points
        ]
    described = ", ".join(
        f"{name} from {_short(own[0][1])} to {_short(own[-1][1])}" for name, own in shown.items()
    )
    rows = [(name, _short(a), _short(b)) for name, own in curves.items() for a, b in own]
    header = ("curve", x, y)
    desc = f"{y} by {x}: {described}."
    listed = _listed(header, rows, (1, 2))
    return _figure(title, desc, parts, height, listed, legend=list(shown), note=note)


def dots(title: str, given: Sequence[Dot], *, x: str, note: str = "") -> str:
    """Values along a common axis, one line each, with whiskers of one standard error."""
    if not given:
        return ""
    some = given[:MOST_ROWS]
    groups = list(dict.fromkeys(dot.group for dot in given if dot.group))
    left = min(150.0, max(_text_width(dot.label, _NAME) for dot in some) + 8)
    height = _TOP + 16 * len(some) + _BOTTOM
    ends = [dot.value + sign * (dot.error or 0) for dot in some for sign in (-1, 1)]
    xs = _Scale.of(ends, left, WIDTH - _RIGHT - 4)
    parts = [_across(xs, height, x)]
    for i, dot in enumerate(some):
        middle = _TOP + 16 * i + 8
        colour = f"s{groups.index(dot.group) % N_COLOURS}" if dot.group else "s0"
        error = "" if dot.error is None else f" ± {_short(dot.error)}"
        outcome = ", not selected" if dot.hollow else ""
        group = f" ({dot.group})" if dot.group else ""
        said = escape(f"{dot.label}{group}: {_short(dot.value)}{error}{outcome}")
        if dot.error:
            a, b = xs(dot.value - dot.error), xs(dot.value + dot.error)
            parts.append(
                f'<path class="whisker {colour}" d="M{a:.1f} {middle}H{b:.1f}'
                f'M{a:.1f} {middle - 3}v6M{b:.1f} {middle - 3}v6"/>'
            )
        hollow = " hollow" if dot.hollow else ""
        parts.append(
            f'<text class="label" x="{left - 6:.1f}" y="{middle + 3.5:.1f}">'
            f"{escape(cut_off(dot.label, _NAME))}</text>"
            f'<circle class="mark {colour}{hollow}" cx="{xs(dot.value):.1f}" cy="{middle}" r="4">'
            f"<title>{said}</title></circle>"
        )
    header = ("name", *(("group",) if groups else ()), x, "standard error", "outcome")
    rows = [
        (
            dot.label,
            *((dot.group,) if groups else ()),
            _short(dot.value),
            "-" if dot.error is None else f"± {_short(dot.error)}",
            "not selected" if dot.hollow else "selected",
        )
        for dot in given
    ]
    more = "" if len(some) == len(given) else f" The drawing shows the first {len(some)}."
    desc = f"{len(given)} values of {x}, from {cut_off(given[0].label, 40)} downwards.{more}"
    place = 1 + bool(groups)
    listed = _listed(header, rows, (place, place + 1))
    return _figure(title, desc, parts, height, listed, legend=groups, note=f"{note}{more}")


def heat_map(
    title: str, rows: Sequence[str], columns: Sequence[str], values: Cells, *, note: str = ""
) -> str:
    """A matrix in colours around its middle value; cells without a value stay empty."""
    known = [v for line in values for v in line if v is not None]
    if not known:
        return ""
    some, across = list(rows[:MOST_ROWS]), list(columns[:MOST_ROWS])
    left = min(150.0, max(_text_width(name, _NAME) for name in some) + 8)
    top = min(110.0, max(_text_width(name, 18) for name in across) * 0.85 + 14)
    side = min(26.0, (WIDTH - left - _RIGHT) / len(across))
    tall = max(side, 12.0) if side < 12 else side
    height = math.ceil(top + tall * len(some) + 30)
    low, high = min(known), max(known)
    parts = []
    for j, name in enumerate(across):
        at = left + side * (j + 0.5) + 3
        parts.append(
            f'<text class="tick" transform="translate({at:.1f} {top - 4:.1f}) rotate(-55)">'
            f"{escape(cut_off(name, 18))}<title>{escape(name)}</title></text>"
        )
    for i, name in enumerate(some):
        y = top + tall * i
        parts.append(
            f'<text class="label" x="{left - 6:.1f}" y="{y + tall / 2 + 3.5:.1f}">'
            f"{escape(cut_off(name, _NAME))}<title>{escape(name)}</title></text>"
        )
        for j, other in enumerate(across):
            value = values[i][j]
            said = f"{name} with {other}: {'-' if value is None else _short(value)}"
            parts.append(
                f'<rect class="{_shade(value, low, high)}" x="{left + side * j:.1f}" y="{y:.1f}" '
                f'width="{side - 1:.1f}" height="{tall - 1:.1f}"><title>{escape(said)}</title>'
                "</rect>"
            )
    parts.append(_shades(low, high, left, top + tall * len(some) + 8))
    lines_of = [
        (name, *("-" if v is None else _short(v) for v in line))
        for name, line in zip(rows, values, strict=True)
    ]
    header = ("", *columns)
    desc = (
        f"{len(rows)} rows and {len(columns)} columns, values from {_short(low)} to {_short(high)}."
    )
    listed = _listed(header, lines_of, tuple(range(1, len(header))))
    return _figure(title, desc, parts, height, listed, note=note)


_MOST_VALUE = 1e300


class _Scale:
    """From values to places on the drawing."""

    def __init__(
        self, low: float, high: float, start: float, end: float, least: float = 0.0
    ) -> None:
        self.low, self.high = low, high
        self._start, self._end = start, end
        self._least = least

    @classmethod
    def of(cls, values: Iterable[float], start: float, end: float, *, least: float = 0.0) -> _Scale:
        """Room for all values, ending at round numbers that are at least so far apart."""
        known = [_bounded(value) for value in values]
        low, high = min(known), max(known)
        if low == high:
            low, high = low - (abs(low) * 0.1 or 1), high + (abs(high) * 0.1 or 1)
        step = max(_step(high - low), least)
        ends = (math.floor(low / step) * step, math.ceil(high / step) * step)
        return cls(*ends, start, end, least)

    def __call__(self, value: float) -> float:
        share = (_bounded(value) - self.low) / (self.high - self.low)
        return self._start + share * (self._end - self._start)

    def ticks(self) -> list[float]:
        """Round numbers along the axis."""
        step = max(_step(self.high - self.low), self._least)
        count = round((self.high - self.low) / step)
        return [round((self.low + i * step) / step) * step for i in range(count + 1)]


def _bounded(value: float) -> float:
    """A value whose distance from any other one is a number too."""
    return max(-_MOST_VALUE, min(_MOST_VALUE, value))


def _step(spread: float) -> float:
    """1, 2 or 5 times a power of ten, for about five ticks."""
    rough = spread / 5
    power = float(10 ** math.floor(math.log10(rough)))
    return next((power * f for f in (1, 2, 5) if power * f >= rough * 0.999), power * 10)


def _grid(xs: _Scale, ys: _Scale, height: int, x: str, y: str) -> str:
    parts = [_across(xs, height, x)]
    for value in ys.ticks():
        at = ys(value)
        parts.append(
            f'<line class="grid-line" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{at:.1f}" '
            f'y2="{at:.1f}"/><text class="label" x="{_LEFT - 5}" y="{at + 3.5:.1f}">'
            f"{_tick(value)}</text>"
        )
    parts.append(
        f'<text class="tick" transform="translate(9 {height / 2 + len(y) * _LETTER / 2:.1f}) '
        f'rotate(-90)">{escape(y)}</text>'
    )
    return "".join(parts)


def _across(xs: _Scale, height: float, x: str) -> str:
    base = height - _BOTTOM
    parts = []
    for value in xs.ticks():
        at = xs(value)
        parts.append(
            f'<line class="grid-line" x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP}" y2="{base}"/>'
            f'<text class="middle" x="{at:.1f}" y="{base + 13}">{_tick(value)}</text>'
        )
    middle = (xs(xs.low) + xs(xs.high)) / 2
    parts.append(f'<text class="middle" x="{middle:.1f}" y="{base + 28}">{escape(x)}</text>')
    return "".join(parts)


def _shade(value: float | None, low: float, high: float) -> str:
    """Style of a cell: one of nine shades, from the lowest value to the highest."""
    if value is None:
        return "none"
    share = 0.5 if high == low else (value - low) / (high - low)
    return f"h{min(8, int(share * 9))}"


def _shades(low: float, high: float, left: float, y: float) -> str:
    """The scale below a heat map."""
    cells = "".join(
        f'<rect class="h{i}" x="{left + 14 * i:.1f}" y="{y:.1f}" width="13" height="8"/>'
        for i in range(9)
    )
    return (
        f'{cells}<text class="tick" x="{left:.1f}" y="{y + 19:.1f}">{_short(low)}</text>'
        f'<text class="label" x="{left + 126:.1f}" y="{y + 19:.1f}">{_short(high)}</text>'
    )


def _figure(
    title: str,
    desc: str,
    parts: Iterable[str],
    height: float,
    listed: str,
    *,
    legend: Sequence[str] = (),
    note: str = "",
) -> str:
    keys = "".join(
        f'<li><svg width="18" height="10" aria-hidden="true"><line class="line s{i % N_COLOURS}" '
        f'x1="0" x2="18" y1="5" y2="5"/><circle class="mark s{i % N_COLOURS}" cx="9" cy="5" '
        f'r="3"/></svg>{escape(name)}</li>'
        for i, name in enumerate(legend)
    )
    shown = f'<ul class="legend">{keys}</ul>' if len(legend) > 1 else ""
    below = f'<p class="note">{escape(note.strip())}</p>' if note.strip() else ""
    return (
        f'<figure class="chart"><figcaption>{escape(title)}</figcaption>{shown}'
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" '
        f'aria-label="{escape(title)}. {escape(desc)}">{"".join(parts)}</svg>'
        f"{below}{listed}</figure>"
    )


def _listed(header: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[int]) -> str:
    """The numbers behind a drawing, folded."""
    more = len(rows) - MOST_LISTED
    rest = f"<p>{more:,} more are in the result file.</p>" if more > 0 else ""
    made = blocks.table(header, rows[:MOST_LISTED], numeric=numeric)
    return blocks.folded("Numbers", made + rest)


def _thinned(points: Sequence[Point], most: int = 200) -> Sequence[Point]:
    """At most so many points, the last one always among them."""
    if len(points) <= most:
        return points
    step = math.ceil(len(points) / most)
    kept = list(points[::step])
    return kept if kept[-1] == points[-1] else [*kept, points[-1]]


def _tick(value: float) -> str:
    """A number for an axis: thousands and millions by their letters.

    Examples
    --------
    >>> [_tick(v) for v in (0.25, 1500, 2e6)]
    ['0.25', '1.5k', '2M']
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{letter}"
    return _short(value)


def _short(value: float) -> str:
    """A number for a label or a table."""
    if value and (abs(value) >= 1e6 or abs(value) < 1e-4):
        return f"{value:.2e}"
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:,.0f}"


def _text_width(text: str, most: int) -> float:
    return len(cut_off(text, most)) * _LETTER


def cut_off(text: str, most: int) -> str:
    """The first letters of a text that is too long."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
