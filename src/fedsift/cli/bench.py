# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""``fedsift bench``: run the benchmarks of a source checkout, which are not installed."""

from __future__ import annotations

import importlib
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from fedsift.cli.common import AsJson, errors_as_exit_codes
from fedsift.errors import ConfigError


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
    root: Annotated[Path, typer.Option(help="Source checkout with the benchmarks.")] = Path(),
    as_json: AsJson = False,
) -> None:
    """Run benchmarks of a source checkout; 'compare OLD NEW' fails on counts that grew."""
    with errors_as_exit_codes(as_json):
        if not (root / "benchmarks" / "suites").is_dir():
            raise ConfigError(
                "There are no benchmarks in this folder.",
                "Benchmarks belong to the source checkout of fedsift and are not installed.",
                "Call 'fedsift bench' in a checkout, or name one with --root.",
            )
        sys.path.insert(0, str(root.resolve()))
        runner = importlib.import_module("benchmarks.runner")
        raise typer.Exit(runner.execute(suite, files or [], profile.value, out, as_json))
