# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A wrong job file on a terminal: the line, what in it is wrong, and how it was probably meant."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from fedsift.cli.common import one_line
from fedsift.errors import JobError, Mistake

_INDENT = "  "


def show(screen: Console, error: JobError) -> None:
    """Print everything that is wrong; rich leaves colours out where NO_COLOR asks for it."""
    many = len(error.mistakes) > 1
    text = f"{error.found} {error.needed}" if many else error.found
    screen.print(Text.assemble((f"{error.code}: ", "bold red"), (one_line(text), "bold")))
    for mistake in error.mistakes:
        for line in lines_of(mistake, with_found=many):
            screen.print(line, soft_wrap=True)


def lines_of(mistake: Mistake, *, with_found: bool = True) -> list[Text]:
    """What is wrong, the line with a mark under it, and the change as a diff.

    Examples
    --------
    >>> wrong = Mistake("Unknown.", "", "", 2, 1, 5, 'scroe = "f"', 'score = "f"')
    >>> for line in lines_of(wrong):
    ...     print(line.plain)
      line 2: Unknown.
      2 | scroe = "f"
        | ^^^^^
      - scroe = "f"
      + score = "f"
    """
    lines: list[Text] = []
    if with_found:
        place = f"line {mistake.line}: " if mistake.line else ""
        lines.append(Text.assemble(_INDENT, (place, "bold"), one_line(mistake.found)))
    if mistake.line:
        lines += _marked(mistake)
    if mistake.replacement is not None:
        lines.append(Text(f"{_INDENT}- {one_line(mistake.source)}", "red"))
    if mistake.replacement:
        lines.append(Text(f"{_INDENT}+ {one_line(mistake.replacement)}", "green"))
    advice = one_line(" ".join(part for part in (mistake.needed, mistake.action) if part))
    if advice:
        lines.append(Text(f"{_INDENT}{advice}", "dim"))
    return lines


def _marked(mistake: Mistake) -> list[Text]:
    number = str(mistake.line)
    bar = f"{_INDENT}{' ' * len(number)} | "
    # A tab is one letter to the mark and many to the eye.
    mark = " " * (mistake.column - 1) + "^" * max(1, mistake.width)
    return [
        Text.assemble(_INDENT, (number, "dim"), (" | ", "dim"), one_line(mistake.source)),
        Text.assemble((bar, "dim"), (mark, "bold yellow")),
    ]
