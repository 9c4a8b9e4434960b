# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""``fedsift deploy local``: a whole federation on this machine, to try things out."""

from __future__ import annotations

import contextlib
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from fedsift.cli.common import AsJson, console, errors_as_exit_codes, shown, typed
from fedsift.cli.tables import Live
from fedsift.errors import ParameterError

if TYPE_CHECKING:
    from fedsift.config.job import Job
    from fedsift.deploy.local import LocalFederation

_DATASET, _LABEL = "breast_cancer", "diagnosis"
_TICK_SECONDS = 1.0


def local(
    job: Annotated[
        Path | None,
        typer.Argument(help="Job whose parties' files are used.", metavar="[JOB.toml]"),
    ] = None,
    parties: Annotated[
        int | None,
        typer.Option("--parties", help="Number of parties, if no job is given.", min=2, max=20),
    ] = None,
    trial: Annotated[
        str | None,
        typer.Option("--try", help="Run a quick job of this method, then stop everything."),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option("--folder", help="Keep kits and data here instead of in a temporary folder."),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Directory for the result of the job.")
    ] = Path("fedsift-local"),
    live: Live = False,
    as_json: AsJson = False,
) -> None:
    """Start a hub and organisations as processes on this machine, and stop them at the end.

    With a job file, or with --try, that job is run. Otherwise the federation stays up until Ctrl-C.
    """
    with errors_as_exit_codes(as_json):
        from fedsift.cli import output, predicting
        from fedsift.cli.prepare import read_job
        from fedsift.cli.run import present

        runs = job is not None or trial is not None
        if live and not runs:
            raise ParameterError(
                "--live without a job.",
                "A page shows a job that runs.",
                "Name a job file, or a method with --try; 'deploy submit' has --live too.",
            )
        output.check_writable(out)
        folders = tempfile.TemporaryDirectory(prefix="fedsift-local-")
        with _ends_in_order(), folders as temporary:
            path = job or _toy(Path(temporary) if folder is None else folder, parties, trial)
            read = read_job(path, engine="embedded")
            output.check_trackers(read.trackers)
            screen = console(errors=True, quiet=as_json)
            if read.data.dataset is not None:
                raise ParameterError(
                    "The job splits a catalogued data set.",
                    "A federation needs a file per party.",
                    "Make files with 'fedsift split', or leave the job out.",
                )
            forecast = predicting.predicted_from_files(read) if runs else None
            with _federation(read, folder, screen) as federation:
                if not runs:
                    _stay(federation, path, screen)
                    return
                from fedsift.cli.deploy_submit import submitted

                read = read_job(path, engine="flare")
                kit = federation.submitter.folder
                with predicting.timed() as watch:
                    result = submitted(read, kit, quiet=as_json, live=live)
            result = predicting.with_prediction(result, forecast, watch)
            present(out, result, [], as_json=as_json, quiet=False, job=read)


def add_to(app: typer.Typer) -> None:
    """Make this command part of ``fedsift deploy``."""
    app.command()(local)


@contextlib.contextmanager
def _ends_in_order() -> Iterator[None]:
    """Let a request to terminate end everything like Ctrl-C, so that no process is left behind."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _federation(job: Job, folder: Path | None, screen: Console) -> LocalFederation:
    from fedsift.deploy.local import LocalFederation

    place = None if folder is None else folder / "federation"
    federation = LocalFederation.for_job(job, folder=place)
    names = ", ".join(entry.name for entry in job.parties)
    screen.print(f"Starting a hub and {len(job.parties)} organisations: {shown(names)}.")
    return federation


def _toy(folder: Path, parties: int | None, method: str | None) -> Path:
    """A job on a shipped data set, cut into as many parties."""
    from fedsift.data import catalog
    from fedsift.deploy.local import Toy, demo_of, write_toy
    from fedsift.methods.registry import method_named

    known = method_named(method or "filter")
    quick = demo_of(known)
    loaded = catalog.load(_DATASET, as_frame=True)
    frame = loaded.X.assign(**{_LABEL: loaded.y})
    n_parties = parties or quick.n_parties
    toy = Toy(_LABEL, quick.setting, n_parties, method=known.name, parameters=quick.parameters)
    return write_toy(frame, folder / "data", toy)


def _stay(federation: LocalFederation, job: Path, screen: Console) -> None:
    kit = federation.submitter.folder
    screen.print(f"The federation is up; its kits are in {shown(federation.folder / 'kits')}.")
    screen.print("Try, in another terminal:")
    screen.print(f"  fedsift deploy status {typed(kit)}", soft_wrap=True)
    screen.print(f"  fedsift deploy submit {typed(job)} --kit {typed(kit)}", soft_wrap=True)
    screen.print("Ctrl-C takes it down.")
    try:
        while True:
            time.sleep(_TICK_SECONDS)
    except KeyboardInterrupt:
        screen.print("Taking it down.")
