# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""``fedsift report``: a report from a result file."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from fedsift.cli.common import errors_as_exit_codes


class Format(StrEnum):
    """Forms of a report."""

    text = "text"
    json = "json"
    html = "html"


def report(
    result: Annotated[
        Path,
        typer.Argument(help="result.json of a run, or its directory.", metavar="RESULT.json"),
    ],
    form: Annotated[
        Format, typer.Option("--format", "-f", help="Format of the report.")
    ] = Format.text,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write to this file instead of printing.")
    ] = None,
) -> None:
    """Print or write a report from a result file."""
    with errors_as_exit_codes():
        from fedsift.cli.output import RESULT
        from fedsift.result import SelectionResult, write_atomically

        path = result / RESULT if os.path.isdir(result) else result
        content = _rendered(SelectionResult.load(path), form)
        if out is None:
            typer.echo(content, nl=False)
        else:
            typer.echo(f"Wrote {write_atomically(out, content)}.")


def _rendered(result: object, form: Format) -> str:
    from fedsift.report import html, text
    from fedsift.result import SelectionResult

    assert isinstance(result, SelectionResult)  # noqa: S101 - typed late to keep --help fast
    if form is Format.json:
        return result.to_json() + "\n"
    return html.render(result) if form is Format.html else text.render(result)
