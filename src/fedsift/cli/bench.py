# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""``fedsift bench``: run a benchmark suite, or compare two result files."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from fedsift.cli.common import AsJson, echo_json, errors_as_exit_codes
from fedsift.errors import ParameterError


class Profile(StrEnum):
    """How large the cases are."""

    smoke = "smoke"
    regular = "regular"
    paper = "paper"


def bench(
    suite: Annotated[str, typer.Argument(help="Suite to run, or 'compare'.")] = "filters",
    files: Annotated[
        list[Path] | None, typer.Argument(help="With 'compare': the old and the new file.")
    ] = None,
    profile: Annotated[Profile, typer.Option(help="Size of the cases.")] = Profile.smoke,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="JSON file to write.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run a suite of benchmarks; 'bench compare OLD NEW' fails on counts that grew."""
    with errors_as_exit_codes():
        if suite == "compare":
            _compare(files or [], as_json=as_json)
            return
        if files:
            raise ParameterError(
                f"{len(files)} files were given with the suite {suite!r}.",
                "Only 'compare' takes files.",
                "Use 'fedsift bench compare OLD NEW', or leave the files out.",
            )
        _run(suite, profile.value, out, as_json=as_json)


def _run(suite: str, profile: str, out: Path | None, *, as_json: bool) -> None:
    import msgspec

    from fedsift.bench import run_suite
    from fedsift.cli.output import check_writable
    from fedsift.result import write_atomically

    if out is not None:
        check_writable(out.parent)

    def echo(line: str) -> None:
        # Progress must not mix with the JSON on standard output.
        typer.echo(line, err=as_json)

    outcome = run_suite(suite, profile, echo)
    if out is not None:
        text = msgspec.json.format(msgspec.json.encode(outcome), indent=2).decode() + "\n"
        echo(f"Wrote {write_atomically(out, text)}.")
    if as_json:
        echo_json(outcome)


def _compare(files: list[Path], *, as_json: bool) -> None:
    from fedsift.bench import compare

    if len(files) != 2:
        raise ParameterError(
            f"{len(files)} files were given.",
            "'compare' needs two: the old and the new one.",
            "Use 'fedsift bench compare OLD NEW'.",
        )
    lines, exit_code = compare(*files)
    if as_json:
        echo_json({"lines": lines, "exit_code": exit_code})
    else:
        for line in lines:
            typer.echo(line)
    if exit_code:
        raise typer.Exit(exit_code)
