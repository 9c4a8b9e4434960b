# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""``fedsift compare``: the same data through several methods, with controls."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedsift.cli.common import (
    INTERRUPTED,
    AsJson,
    console,
    echo_json,
    errors_as_exit_codes,
    shown,
    warnings_collected,
)
from fedsift.errors import ParameterError

if TYPE_CHECKING:
    from fedsift.lab.compare.comparison import Comparison

COMPARISON, REPORT, TEXT = "comparison.json", "report.html", "comparison.txt"
JOURNAL = ".compare-journal.jsonl"
_FAILED = 3


class Profile(StrEnum):
    """How many folds and seeds."""

    smoke = "smoke"
    regular = "regular"
    paper = "paper"


class Security(StrEnum):
    """With encryption, or the same messages without it."""

    secure = "secure"
    plain = "plain"


def compare(
    files: Annotated[
        list[Path],
        typer.Argument(help="Job files on the same data, or one compare file.", metavar="JOB.toml"),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Output directory, instead of the file's."),
    ] = None,
    profile: Annotated[
        Profile, typer.Option(help="Number of folds and seeds: few, as in the file, or many.")
    ] = Profile.regular,
    folds: Annotated[
        int | None, typer.Option(help="Number of folds, instead of the file's.")
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(help="How often rows are assigned to folds, instead of the file's."),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(help="Downstream model, instead of the file's; repeatable."),
    ] = None,
    security: Annotated[
        Security | None, typer.Option(help="Override the file's security: secure or plain.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Number of processes, instead of the file's.")
    ] = None,
    fresh: Annotated[
        bool,
        typer.Option(
            "--fresh", help="Start again and discard finished parts of an interrupted comparison."
        ),
    ] = False,
    as_json: AsJson = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print only the paths of the written files.")
    ] = False,
) -> None:
    """Compare methods on the same folds, with controls; write comparison.json and report.html."""
    with errors_as_exit_codes():
        from fedsift.cli import output
        from fedsift.lab.compare.run import compare as run

        data, contestants, settings, directory = _read(files, profile.value)
        directory = out or directory
        output.check_writable(directory)
        journal = directory / JOURNAL
        if fresh:
            journal.unlink(missing_ok=True)
        given: dict[str, Any] = {
            "folds": folds,
            "seeds": seeds,
            "models": model,
            "workers": workers,
        }
        given["security"] = None if security is None else security.value
        settings |= {name: value for name, value in given.items() if value not in (None, [])}
        with warnings_collected(), _progress(silent=quiet or as_json) as echo:
            comparison = run(data, contestants, journal=journal, echo=echo, **settings)
        _present(directory, comparison, as_json=as_json, quiet=quiet)
        if comparison.interrupted:
            typer.echo("Interrupted; what was finished has been written.", err=True)
            typer.echo("The same command resumes from there.", err=True)
            raise typer.Exit(INTERRUPTED)
        if comparison.failures:
            for failure in comparison.failures:
                typer.echo(shown(failure), err=True)
            raise typer.Exit(_FAILED)


def _read(files: list[Path], profile: str) -> tuple[Any, Any, dict[str, Any], Path]:
    """Data, methods, settings and place for the outcome."""
    from fedsift.cli.prepare import read_job
    from fedsift.data import catalog
    from fedsift.lab.compare.data import case_of, cases_of_jobs
    from fedsift.lab.compare.file import PROFILES, is_compare_file, load_compare_file
    from fedsift.methods.registry import schemas

    if any(is_compare_file(path) for path in files):
        if len(files) > 1:
            raise ParameterError(
                f"{len(files)} files are given, a compare file among them.",
                "A compare file names all data and methods itself.",
                "Give it alone, or give job files only.",
            )
        plan = load_compare_file(files[0], schemas(), catalog.names(), profile)
        seed = plan.settings.get("seed", 0)
        cases = [case_of(entry, seed) for entry in plan.data]
        return cases, [e.contestants for e in plan.data], dict(plan.settings), plan.output
    jobs = [read_job(path, engine=None) for path in files]
    cases, contestants = cases_of_jobs(jobs)
    settings: dict[str, Any] = dict(PROFILES[profile])
    settings["seed"] = next((job.seed for job in jobs if job.seed is not None), 0)
    limits = [job.timeout_seconds for job in jobs if job.timeout_seconds is not None]
    if limits:
        settings["timeout_seconds"] = max(limits)
    # Not where the job's own report is, which has the same name.
    return cases, contestants, settings, files[0].parent / "compare-out"


def _present(directory: Path, comparison: Comparison, *, as_json: bool, quiet: bool) -> None:
    """Write the files and show the table."""
    from fedsift.cli import output
    from fedsift.lab.compare.view import render_html, suspects_of

    text = comparison.text()
    output.write_all(
        directory,
        {
            COMPARISON: comparison.to_json() + "\n",
            REPORT: render_html(comparison),
            TEXT: text,
        },
    )
    names = {"comparison": COMPARISON, "report": REPORT, "text": TEXT}
    paths = {key: directory / name for key, name in names.items()}
    if as_json:
        files = {name: str(path) for name, path in paths.items()}
        echo_json({"files": files, "comparison": comparison})
        return
    if not quiet:
        typer.echo(text, nl=False)
    out = console()
    if not comparison.passed:
        suspects = ", ".join(suspects_of(comparison))
        out.print(f"[bold red]NOT CHANCE on shuffled labels: {shown(suspects)}[/bold red]")
    for name, path in paths.items():
        out.print(f"{name}: {shown(path)}", soft_wrap=True)


@contextlib.contextmanager
def _progress(*, silent: bool) -> Iterator[Callable[[str], None] | None]:
    """One line that is rewritten on a terminal, else a line per cell; on standard error."""
    errors = console(errors=True)
    if silent:
        yield None
    elif errors.is_terminal:
        with errors.status("Starting") as status:
            yield lambda line: status.update(shown(line))
    else:
        yield lambda line: typer.echo(shown(line), err=True)
