# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""``fedsift attack``: what known attacks recover, from generated data or from a job's own run."""

from __future__ import annotations

from enum import StrEnum
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
from fedsift.cli.tables import table
from fedsift.errors import ParameterError

if TYPE_CHECKING:
    from fedsift.lab.attacks.attack import AttackReport, AttackRow
    from fedsift.lab.attacks.recording import JobRun

RESULT, REPORT = "attack.json", "attack.html"
NOT_DECLARED = 5
"""Exit code if an attack recovers what nothing declares, or fails where it must succeed."""


class Profile(StrEnum):
    """How many runs are attacked."""

    quick = "quick"
    regular = "regular"


def attack(
    job: Annotated[
        Path | None,
        typer.Argument(help="Job file to run and attack.", metavar="[JOB.toml]"),
    ] = None,
    profile: Annotated[
        Profile, typer.Option(help="How many runs to attack, without a job.")
    ] = Profile.quick,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", help="Run only this attack, without a job; repeatable."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Directory for attack.json and attack.html.")
    ] = None,
    show_list: Annotated[bool, typer.Option("--list", help="List the attacks and stop.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run the known attacks and report what they recovered, against which protection.

    Without a job, every attack runs on generated data, once without a protection and once with
    the defaults. With a job, the job runs in this process, and every role attacks with what it
    received. The exit code is 5 if an attack recovers what nothing declares.
    """
    with errors_as_exit_codes():
        if show_list:
            _list(as_json=as_json)
            return
        if job is not None and only:
            raise ParameterError(
                "Attacks were named together with a job.",
                "The attacks on a job are those of its method.",
                "Leave out --only, or the job.",
            )
        if out is not None:
            from fedsift.cli.output import check_writable

            check_writable(out)
        echo = _progress(quiet=as_json)
        with warnings_collected():
            report = _on_job(job, echo) if job is not None else _on_all(profile, only or [], echo)
        _present(report, out, as_json=as_json)
        if report.bad:
            raise typer.Exit(NOT_DECLARED)


def _on_all(profile: Profile, only: list[str], echo: Any) -> AttackReport:
    from fedsift.lab.attacks.suite import run_attacks

    return run_attacks(profile.value, only, echo)


def _on_job(path: Path, echo: Any) -> AttackReport:
    from fedsift.cli.prepare import read_job
    from fedsift.lab.attacks.job import attack_run, refuse_without_attacks

    job = read_job(path)
    refuse_without_attacks(job.method)
    return attack_run(_recorded(job), f"the job {path.name}", echo)


def _recorded(job: Any) -> JobRun:
    """Run the job with everything kept; checkpoints of an interrupted run are left alone."""
    from fedsift.cli.prepare import prepare
    from fedsift.lab.attacks.job import record_federation, record_tables

    ready = prepare(job)
    if ready.joint is not None:
        return record_tables(ready.joint, ready.local_parties)
    selector = ready.selector.set_params(checkpoint=None)
    return record_federation(job.method, selector, ready.federation, job.timeout_seconds)


def _progress(*, quiet: bool) -> Any:
    def echo(row: AttackRow) -> None:
        if not quiet:
            typer.echo(f"{row.attack} ({row.attacker}), {row.variant}: {row.verdict}", err=True)

    return echo


def _present(report: AttackReport, out: Path | None, *, as_json: bool) -> None:
    paths = _written(report, out) if out is not None else {}
    if as_json:
        echo_json({"files": {k: str(p) for k, p in paths.items()}, "report": report})
        return
    from fedsift.lab.attacks.page import headline, legend

    screen = console()
    screen.print(f"\n[bold]{shown(headline(report))}[/bold]\n")
    screen.print(_rows_table(report))
    for line in (*report.notes, *legend(report)):
        screen.print(shown(line))
    for name, path in paths.items():
        screen.print(f"{name}: {shown(path)}", soft_wrap=True)


def _rows_table(report: AttackReport) -> Any:
    from fedsift.lab.attacks.page import against, found_text, used_text

    made = table(
        "What the attacks recovered", "attack", "attacker used", "against", "recovered", "guess",
        "declared as", "verdict", numeric=("recovered", "guess"),
    )  # fmt: skip
    for row in report.rows:
        bad = row in report.bad
        verdict = f"[bold red]{row.verdict}[/bold red]" if bad else row.verdict
        made.add_row(
            shown(row.attack),
            shown(f"{row.attacker}: {used_text(row)}"),
            shown(against(row)),
            shown(f"{found_text(row)} {row.measure}"),
            f"{row.guess:.3f}",
            shown(", ".join(row.declared) or "-"),
            verdict,
        )
    return made


def _written(report: AttackReport, out: Path) -> dict[str, Path]:
    from fedsift.cli.output import write_all
    from fedsift.lab.attacks.page import render

    write_all(out, {RESULT: report.to_json(), REPORT: render(report)})
    return {"result": out / RESULT, "report": out / REPORT}


def _list(*, as_json: bool) -> None:
    from fedsift.lab.attacks.suite import list_attacks

    if as_json:
        fields = ("name", "method", "attacker", "uses", "aims_at", "measure", "declared_as")
        echo_json([{name: getattr(a, name) for name in fields} for a in list_attacks()])
        return
    made = table("Attacks", "attack", "method", "attacker", "used", "wants")
    for a in list_attacks():
        made.add_row(*map(shown, (a.name, a.method, a.attacker, ", ".join(a.uses), a.aims_at)))
    console().print(made)
