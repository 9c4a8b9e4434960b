# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""``fedsift run``: carry out a job file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from fedsift.cli.common import (
    INTERRUPTED,
    AsJson,
    console,
    echo_json,
    errors_as_exit_codes,
    shown,
    warnings_collected,
)
from fedsift.cli.tables import (
    Live,
    features_table,
    learned_table,
    live_page,
    live_progress,
    steps_table,
)

if TYPE_CHECKING:
    from fedsift.config.job import Job
    from fedsift.result import SelectionResult


def run(
    job: Annotated[Path, typer.Argument(help="Job file (TOML).", metavar="JOB.toml")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Output directory, instead of the job's."),
    ] = None,
    as_json: AsJson = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print only the paths of the written files.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Resume an interrupted run of this job.")
    ] = False,
    live: Live = False,
) -> None:
    """Run a job and write result.json, report.html and ledger.jsonl."""
    with errors_as_exit_codes(as_json):
        from fedsift.cli import output, predicting
        from fedsift.cli import prepare as preparing

        read = preparing.read_job(job)
        directory = out or read.output
        output.check_writable(directory)
        output.check_trackers(read.trackers)
        if read.engine == "flare":
            from fedsift.cli.deploy_submit import keeping_altered, submitted

            with keeping_altered(directory):
                given = submitted(read, read.kit, resume=resume, quiet=quiet or as_json, live=live)
            present(directory, given, [], as_json=as_json, quiet=quiet, job=read)
            return
        preparing.check_place(read, resume=resume)
        with warnings_collected() as remarks, preparing.noting_checkpoints(read):
            ready = preparing.prepare(read)
            # What is left of an interrupted run is not known before it has been read.
            forecast = None if resume else predicting.predicted_before(ready)
            with (
                live_page(read, wanted=live) as page,
                live_progress(console(errors=True), quiet=quiet or as_json) as observer,
            ):
                with predicting.timed() as watch:
                    result = ready.run(page.beside(observer))
                result = predicting.with_prediction(result, forecast, watch)
                page.finish(result)
        # A training leaves a model: every party's part in a file of its own.
        model = getattr(ready.selector, "model_", None)
        interrupted = getattr(ready.selector, "interrupted_", False)
        present(
            directory,
            result,
            remarks,
            as_json=as_json,
            quiet=quiet,
            files=ready.files,
            model=model,
            # Half a run is no experiment.
            job=None if interrupted else read,
        )
        if interrupted:
            typer.echo("Interrupted; what was reached so far has been written.", err=True)
            if preparing.has_unfinished(read):
                typer.echo(preparing.how_to_go_on(read), err=True)
            raise typer.Exit(INTERRUPTED)


def present(
    directory: Path,
    result: SelectionResult,
    remarks: list[str],
    *,
    as_json: bool,
    quiet: bool,
    files: Mapping[str, str] | None = None,
    model: Any = None,
    job: Job | None = None,
) -> None:
    """Write a result's files, and those of the label holder, log it where the job says, show it."""
    from fedsift.cli import output

    paths = output.write_run(directory, result, files)
    if model is not None:
        model.save(directory / "model")
        paths["model"] = directory / "model"
    logged = {} if job is None else output.log_run(job.trackers, result, job.path.stem, directory)
    if as_json:
        files = {name: str(path) for name, path in paths.items()}
        echo_json({"files": files, "logged": logged, "remarks": remarks, "result": result})
        return
    if not quiet:
        print_result(console(), result, remarks)
    print_paths(console(), result, paths)
    for name, place in logged.items():
        console().print(f"{name}: {shown(place)}", soft_wrap=True)


def print_result(out: Console, result: SelectionResult, remarks: list[str]) -> None:
    """Headline, selected features, who learned what, cost."""
    from fedsift.cli.predicting import comparison
    from fedsift.report import view_of

    view = view_of(result)
    out.print(f"\n[bold]{shown(view.headline)}[/bold]\n")
    if result.steps:
        out.print(steps_table(result))
    out.print(features_table(view))
    out.print(learned_table("Who learned what", result.disclosures))
    out.print(f"Ledger: {shown(dict(view.facts)['ledger'])}")
    out.print(f"Cost: {shown(view.cost)}")
    for remark in (*remarks, *result.warnings):
        out.print(f"Remark: {shown(remark)}")
    against = comparison(result)
    if against is not None:
        out.print(f"Prediction: {against}")


def print_paths(out: Console, result: SelectionResult, paths: dict[str, Path]) -> None:
    """Where the files are, and the warning that no quiet mode may hide."""
    from fedsift.report.view import PLAIN_WARNING

    if result.security != "secure":
        out.print(f"[bold red]WARNING: {shown(PLAIN_WARNING)}[/bold red]")
    for name, path in paths.items():
        out.print(f"{name}: {shown(path)}", soft_wrap=True)
