# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""``fedsift deploy submit`` and ``result``: jobs in a federation."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from fedsift.cli.common import AsJson, console, errors_as_exit_codes, shown
from fedsift.cli.tables import Live, live_page
from fedsift.errors import ConfigError, LedgerAltered, PartyFailed, RunEnded, SiteUnreachable

if TYPE_CHECKING:
    from fedsift.config.job import Job
    from fedsift.deploy.submit import JobState, Watcher
    from fedsift.result import SelectionResult

_DAY_SECONDS = 86400.0

SubmitterKit = Annotated[Path, typer.Option("--kit", help="Startup kit of the submitter.")]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print only the paths of the written files.")
]


def submit(
    job: Annotated[Path, typer.Argument(help="Job file (TOML).", metavar="JOB.toml")],
    kit: SubmitterKit,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Output directory, instead of the job's."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Resume an interrupted run of this job.")
    ] = False,
    limit: Annotated[
        float, typer.Option("--limit", help="Seconds after which the job is stopped.")
    ] = _DAY_SECONDS,
    live: Live = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Submit a job, wait, and write result.json, report.html and ledger.jsonl."""
    with errors_as_exit_codes(as_json):
        from fedsift.cli import output
        from fedsift.cli.prepare import read_job
        from fedsift.cli.run import present

        read = read_job(job, engine="flare")
        directory = out or read.output
        output.check_writable(directory)
        output.check_trackers(read.trackers)
        with keeping_altered(directory):
            result = submitted(
                read, kit, resume=resume, limit=limit, quiet=quiet or as_json, live=live
            )
        present(directory, result, [], as_json=as_json, quiet=quiet, job=read)


def result(
    job_id: Annotated[str, typer.Argument(help="Id of the job.", metavar="JOB_ID")],
    kit: SubmitterKit,
    out: Annotated[Path, typer.Option("--out", "-o", help="Directory to write to.")] = Path(
        "fedsift-result"
    ),
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Fetch the result of a job that was submitted earlier."""
    with errors_as_exit_codes(as_json):
        from fedsift.cli import output
        from fedsift.cli.run import present
        from fedsift.deploy.kits import load_kit
        from fedsift.deploy.submit import fetch

        loaded = load_kit(kit, "submitter")
        output.check_writable(out)
        with keeping_altered(out):
            fetched = fetch(job_id, loaded)
        present(out, fetched, [], as_json=as_json, quiet=quiet)


@contextlib.contextmanager
def keeping_altered(directory: Path) -> Iterator[None]:
    """Write the files of a result that is not what its parties signed, and fail all the same."""
    try:
        yield
    except LedgerAltered as error:
        if error.result is not None:
            from fedsift.cli import output

            output.write_run(directory, error.result)
            error.add_note(f"The result is in {directory}; its report says what does not fit.")
        raise


def add_to(app: typer.Typer) -> None:
    """Make these commands part of ``fedsift deploy``."""
    for command in (submit, result):
        app.command()(command)


def submitted(
    job: Job,
    kit: Path | None,
    *,
    resume: bool = False,
    limit: float = _DAY_SECONDS,
    quiet: bool = False,
    live: bool = False,
) -> SelectionResult:
    """Submit a job with live progress on standard error and, if wanted, on a page."""
    from fedsift.deploy.kits import load_kit
    from fedsift.deploy.submit import submit_job

    if kit is None:
        raise ConfigError(
            "There is no startup kit to submit with.",
            "A job for a federation needs the submitter's.",
            "Name it with kit in [runtime], or use 'fedsift deploy submit --kit'.",
        )
    loaded = load_kit(kit, "submitter")
    try:
        with (
            live_page(job, wanted=live) as page,
            _watching(console(errors=True), quiet=quiet) as shown_to,
        ):

            def tell(state: JobState) -> None:
                page.job_state(state)
                if shown_to is not None:
                    shown_to(state)

            result = submit_job(
                job, loaded, resume=resume, live=live, limit_seconds=limit, watcher=tell
            )
            page.finish(result)
            return result
    except (PartyFailed, RunEnded, SiteUnreachable):
        typer.echo("Members keep checkpoints: --resume continues where the job stopped.", err=True)
        raise


@contextlib.contextmanager
def _watching(screen: Console, *, quiet: bool) -> Iterator[Watcher | None]:
    """Say what a job does: on one changing line in a terminal, one line per change elsewhere."""
    if quiet:
        yield None
        return
    known: set[str] = set()

    def named(state: JobState) -> None:
        if state.job_id not in known:
            known.add(state.job_id)
            screen.print(f"Submitted as job {shown(state.job_id)}.")
        for name in state.waiting:
            if name not in known:
                known.add(name)
                screen.print(f"Waiting for approval by {shown(name)}.")

    if not screen.is_terminal:
        yield named
        return
    with screen.status("Submitting") as status:

        def watcher(state: JobState) -> None:
            named(state)
            status.update(_line(state))

        yield watcher


def _line(state: JobState) -> str:
    parts = [shown(state.status.lower())]
    if state.waiting:
        parts.append(f"waiting for approval by {shown(', '.join(state.waiting))}")
    if state.protocol_number:
        parts.append(f"protocol {state.protocol_number}, round {state.round_number}")
    if state.finished:
        parts.append(f"done: {shown(', '.join(state.finished))}")
    return f"{'; '.join(parts)} ({state.seconds:.0f} s)"
