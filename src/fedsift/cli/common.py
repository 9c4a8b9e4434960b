# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What all commands share: exit codes, consoles, JSON for machines."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import warnings
from collections.abc import Iterator
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from fedsift.errors import FedsiftError, FileProblem, JobError, Mistake, OutOfMemory

INTERRUPTED = 130
_WIDTH_WITHOUT_TERMINAL = 120

AsJson = Annotated[bool, typer.Option("--json", help="Print machine-readable JSON.")]


@contextlib.contextmanager
def errors_as_exit_codes(as_json: bool = False) -> Iterator[None]:
    """Print a known error as one line and leave with its exit code; others keep their traceback.

    On a terminal a wrong job file is shown where it is wrong. With ``as_json`` the error is printed
    as JSON too, on standard output.
    """
    try:
        yield
    except JobError as error:
        _echo_error(error, as_json)
        if sys.stderr.isatty() and error.mistakes:
            from fedsift.cli.common import show

            show(console(errors=True), error)
            raise typer.Exit(error.exit_code) from None
        typer.echo(_heading(error), err=True)
        if len(error.problems) > 1:
            for problem in error.problems:
                typer.echo(f"  {one_line(problem)}", err=True)
        raise typer.Exit(error.exit_code) from None
    except FedsiftError as error:
        _echo_error(error, as_json)
        typer.echo(one_line(error.one_line), err=True)
        _echo_notes(error)
        raise typer.Exit(error.exit_code) from None
    except (OSError, MemoryError) as error:
        known = _known(error)
        _echo_error(known, as_json and isinstance(known, OutOfMemory))
        typer.echo(one_line(known.one_line), err=True)
        raise typer.Exit(known.exit_code) from None
    except KeyboardInterrupt as interrupt:
        typer.echo("Interrupted; nothing was written.", err=True)
        _echo_notes(interrupt)
        raise typer.Exit(INTERRUPTED) from None


def _known(error: OSError | MemoryError) -> FedsiftError:
    """What the operating system refused, as an error of ours."""
    if isinstance(error, MemoryError):
        return OutOfMemory.while_doing("for this command")
    name = "" if error.filename is None else f" {str(error.filename)[:200]!r}"
    return FileProblem(
        f"The system refuses{name or ' to write the output'}: "
        f"{error.strerror or type(error).__name__}.",
        "Paths must exist and be short enough, and outputs need free space and permission.",
        "Check the path, the permissions and the free space, then run the command again.",
    )


@contextlib.contextmanager
def output_checked() -> Iterator[None]:
    """End with an error if standard output has no room, also for what is still buffered."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OSError as error:
        # Python would try once more when it ends, and print a traceback.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        known = _known(error)
        typer.echo(one_line(known.one_line), err=True)
        raise SystemExit(known.exit_code) from None


def _echo_error(error: FedsiftError, as_json: bool) -> None:
    if as_json:
        parts = {"found": error.found, "needed": error.needed, "action": error.action}
        mistakes = error.mistakes if isinstance(error, JobError) else ()
        echo_json({"error": {"code": error.code, **parts, "mistakes": mistakes}})


def _echo_notes(error: BaseException) -> None:
    for note in getattr(error, "__notes__", ()):
        typer.echo(one_line(note), err=True)


def one_line(text: str) -> str:
    """Text without line breaks and without characters a terminal would act upon."""
    return "".join(c if c.isprintable() else " " for c in text)


def _heading(error: JobError) -> str:
    if len(error.problems) > 1:
        # The list follows, so the pointer to its first entry is left out.
        return one_line(f"{error.code}: {error.found} {error.needed}")
    return one_line(error.one_line)


def console(*, quiet: bool = False, errors: bool = False) -> Console:
    """A console on standard output or error; wide enough for tables where there is no terminal."""
    stream = sys.stderr if errors else sys.stdout
    width = None if stream.isatty() else _WIDTH_WITHOUT_TERMINAL
    return Console(stderr=errors, quiet=quiet, width=width, highlight=False)


def shown(text: object) -> str:
    """Text from a file, made safe for rich: no markup, no control characters."""
    return escape(one_line(str(text)))


def typed(path: object) -> str:
    """A path as it is typed in a shell, with quotes where it needs them; safe for rich."""
    if os.name == "nt":
        from subprocess import list2cmdline

        return shown(list2cmdline([str(path)]))
    return shown(shlex.quote(str(path)))


def echo_json(value: Any) -> None:
    """Print anything msgspec can encode as indented JSON."""
    import msgspec

    typer.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


@contextlib.contextmanager
def warnings_collected() -> Iterator[list[str]]:
    """Collect the texts of warnings for users, so that they are printed as remarks."""
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield texts
    texts += [str(w.message) for w in caught if w.category is UserWarning]


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
