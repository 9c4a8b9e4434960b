# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""``fedsift plan``: who will learn what, and what it will cost, before anything is sent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedsift.cli.common import (
    AsJson,
    console,
    echo_json,
    errors_as_exit_codes,
    shown,
    warnings_collected,
)
from fedsift.cli.tables import learned_table, table

if TYPE_CHECKING:
    from fedsift.config.job import Job
    from fedsift.costs import Estimate
    from fedsift.data import Federation
    from fedsift.methods.execution import Plan


def plan(
    job: Annotated[Path, typer.Argument(help="Job file (TOML).", metavar="JOB.toml")],
    shape: Annotated[
        list[str] | None,
        typer.Option(
            "--shape",
            metavar="PARTY=ROWSxCOLUMNS",
            help="Size of a table at another organisation; repeatable.",
        ),
    ] = None,
    classes: Annotated[
        int,
        typer.Option("--classes", help="With --shape: number of classes; 0 for a numeric label."),
    ] = 2,
    common: Annotated[
        int | None,
        typer.Option("--common", help="With --shape: number of rows that all parties share."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check a job, list who would learn what, and predict its cost; sends nothing."""
    with errors_as_exit_codes(as_json):
        from fedsift.cli.predicting import predicted
        from fedsift.cli.prepare import SHAPES_NOTE, prepare, prepare_shapes, read_job

        read = read_job(job)
        with warnings_collected() as remarks:
            given = (shape or [], classes, common)
            ready = prepare_shapes(read, *given) if shape else prepare(read)
            federation, planned = ready.plan()
            forecast = predicted(ready)
        notes = [*planned.notes, *remarks, *federation.warnings, *([SHAPES_NOTE] if shape else [])]
        if as_json:
            echo_json(_as_mapping(ready.job, federation, planned, notes, forecast))
        else:
            _print(ready.job, federation, planned, notes, forecast, elsewhere=bool(shape))


def _as_mapping(
    job: Job,
    federation: Federation,
    planned: Plan,
    notes: list[str],
    forecast: Estimate | None,
) -> dict[str, Any]:
    return {
        "method": planned.method,
        "steps": [step.method for step in job.steps],
        "setting": federation.setting,
        "parties": list(federation.parties),
        "label_holder": federation.label_holder,
        "n_rows": federation.n_rows,
        "n_features": federation.n_features,
        "security_bits": planned.security_bits,
        "disclosures": list(planned.disclosures),
        "policies": dict(job.policies),
        "notes": notes,
        "cost": None if forecast is None else forecast.to_plain(),
    }


def _print(
    job: Job,
    federation: Federation,
    planned: Plan,
    notes: list[str],
    forecast: Estimate | None,
    *,
    elsewhere: bool,
) -> None:
    from fedsift.cli.predicting import print_forecast

    out = console()
    out.print(f"[bold]Plan of {shown(job.path.name)}: {shown(planned.method)}[/bold]")
    for line in federation.describe():
        if not line.startswith("note:"):
            out.print(shown(line))
    out.print(learned_table("Who will learn what", planned.disclosures))
    out.print(_policies(job, federation))
    if not planned.security_bits:
        out.print("[bold red]WARNING: this run is not encrypted.[/bold red]")
    for note in notes:
        out.print(f"Note: {shown(note)}")
    print_forecast(forecast)
    decided = (
        "Every organisation's own policy decides" if elsewhere else "The policies allow this run"
    )
    out.print(f"{decided}. Nothing was sent and nothing was written.")


def _policies(job: Job, federation: Federation) -> Any:
    made = table("Policies", "party", "allows")
    for party in federation.parties:
        policy = job.policies.get(party)
        if policy is None:
            made.add_row(shown(party), "no policy: what the method needs, nothing optional")
            continue
        rules = "; ".join(f"{key} {_words(value)}" for key, value in policy.items())
        made.add_row(shown(party), shown(rules or "the defaults of a policy"))
    return made


def _words(value: Any) -> str:
    return ", ".join(value) or "nothing" if isinstance(value, list) else str(value)
