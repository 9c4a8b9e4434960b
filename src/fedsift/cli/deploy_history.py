# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a member revealed and decides: ``deploy history``, ``budget``, ``inbox``, ``approve``."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedsift.cli.common import AsJson, console, echo_json, errors_as_exit_codes, one_line, shown
from fedsift.cli.deploy import KitPath
from fedsift.cli.tables import table

if TYPE_CHECKING:
    from fedsift.deploy.site_files import SiteSettings
    from fedsift.jobs.history import Budget, History
    from fedsift.jobs.inbox import Request

OwnKit = Annotated[Path, typer.Option("--kit", help="Startup kit of the organisation.")]
Report = Annotated[
    Path | None, typer.Option("--report", help="Also write history and budgets as an HTML page.")
]
WaitingJob = Annotated[
    str, typer.Argument(help="The job's number in the inbox, or its beginning.", metavar="JOB")
]


def history(kit: KitPath, report: Report = None, as_json: AsJson = False) -> None:
    """List the jobs a member took part in: what it revealed, to whom, and what that cost."""
    with errors_as_exit_codes(as_json):
        from fedsift.report import history as page

        settings, kept = _open(kit)
        jobs = kept.list_jobs()
        _write_report(report, settings, kept)
        if as_json:
            echo_json(jobs)
            return
        screen = console()
        made = table(f"Jobs of {shown(settings.name)}", *page.JOB_HEADER)
        for job in jobs:
            made.add_row(*map(shown, page.job_cells(job)))
        screen.print(made if jobs else f"{shown(settings.name)} has taken part in no job yet.")
        if report is not None:
            screen.print(f"Written: {shown(report)}")


def budget(kit: KitPath, report: Report = None, as_json: AsJson = False) -> None:
    """Show what every table of a member has spent, and what its policy leaves."""
    with errors_as_exit_codes(as_json):
        import msgspec

        from fedsift.report import history as page

        settings, kept = _open(kit)
        budgets = _budgets(settings, kept)
        _write_report(report, settings, kept)
        if as_json:
            echo_json(
                [
                    {**msgspec.structs.asdict(one), "jobs_left": one.jobs_left, "left": one.left()}
                    for one in budgets
                ]
            )
            return
        made = table(f"Budgets of {shown(settings.name)}", *page.BUDGET_HEADER)
        for one in budgets:
            for line in page.budget_cells(one):
                made.add_row(*map(shown, line))
        screen = console()
        screen.print(made)
        if report is not None:
            screen.print(f"Written: {shown(report)}")


def inbox(
    kit: KitPath,
    web: Annotated[
        bool, typer.Option("--web", help="Serve a page on this machine to decide, until Ctrl-C.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the jobs that wait for a person: who would learn what, the cost, and what is left."""
    with errors_as_exit_codes(as_json):
        from fedsift.cli.predicting import tell_measuring
        from fedsift.deploy.outlook import Outlooks
        from fedsift.deploy.site import policy_of
        from fedsift.deploy.site_files import load_site
        from fedsift.jobs.inbox import WAITING, Inbox
        from fedsift.report import inbox as page

        settings, _ = _open(kit)
        kept, look_ahead = Inbox(settings.folder), Outlooks(settings.folder, tell_measuring)

        def listed() -> tuple[Request, ...]:
            return kept.list_requests(policy_of(load_site(settings.folder)), look_ahead)

        if web:
            with page.InboxServer(settings.name, kept, listed) as server:
                typer.echo(f"Inbox of {one_line(settings.name)}: {server.url}", err=True)
                _wait_for_interrupt()
            return
        requests = listed()
        if as_json:
            echo_json(requests)
            return
        screen = console()
        waiting = [request for request in requests if request.state == WAITING]
        for request in waiting:
            made = table(f"Job {request.job[:12]}", "", "")
            for pair in page.request_facts(request):
                made.add_row(*map(shown, pair))
            screen.print(made)
            made = table(page.LEARNED_TITLE, *page.LEARNED_HEADER)
            for cells in page.learned_lines(request):
                made.add_row(*map(shown, cells))
            screen.print(made)
            for note in request.notes:
                screen.print(f"Note: {shown(note)}")
            made = table("What these parties have learned before", "who", "kind", "jobs")
            for line in page.before_lines(request):
                made.add_row(*map(shown, line))
            screen.print(made if made.row_count else "These parties have learned nothing before.")
        if waiting:
            screen.print("Decide with 'fedsift deploy approve JOB --kit KIT', or 'reject'.")
        else:
            screen.print("No job waits for a decision.")


def approve(job: WaitingJob, kit: OwnKit, as_json: AsJson = False) -> None:
    """Let a waiting job run."""
    _decide(kit, job, as_json, approve=True)


def reject(
    job: WaitingJob,
    kit: OwnKit,
    reason: Annotated[str, typer.Option("--reason", help="Why; the submitter reads it.")],
    as_json: AsJson = False,
) -> None:
    """Refuse a waiting job."""
    _decide(kit, job, as_json, approve=False, reason=reason)


def _decide(kit: Path, job: str, as_json: bool, *, approve: bool, reason: str = "") -> None:
    with errors_as_exit_codes(as_json):
        from fedsift.jobs.inbox import APPROVED, REJECTED, Inbox

        settings, _ = _open(kit)
        decided = Inbox(settings.folder).decide(job, approve=approve, reason=reason)
        state = APPROVED if approve else REJECTED
        if as_json:
            echo_json({"job": decided, "state": state})
        else:
            console().print(f"Job {decided[:12]}: {state}.")


def _wait_for_interrupt() -> None:
    """Stay until Ctrl-C, which is how this is meant to end."""
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        return


def add_to(app: typer.Typer) -> None:
    """Make these commands part of ``fedsift deploy``."""
    for command in (history, budget, inbox, approve, reject):
        app.command()(command)


def _open(kit: Path) -> tuple[SiteSettings, History]:
    from fedsift.deploy.kits import load_kit
    from fedsift.deploy.site_files import load_site
    from fedsift.jobs.history import History

    settings = load_site(load_kit(kit).settings)
    return settings, History(settings.folder)


def _write_report(path: Path | None, settings: SiteSettings, kept: History) -> None:
    if path is not None:
        from fedsift.config.toml import PRIVATE, write_text
        from fedsift.report.history import render

        text = render(settings.name, kept.list_jobs(), _budgets(settings, kept))
        write_text(path, text, PRIVATE)


def _budgets(settings: SiteSettings, kept: History) -> list[Budget]:
    """Of every table that was used, and of the rows that the one in the settings has now."""
    from fedsift.deploy.outlook import budget_now
    from fedsift.deploy.site import policy_of
    from fedsift.errors import FedsiftError

    policy, own = policy_of(settings), str(settings.data or "")
    tables = [job.data for job in kept.list_jobs()]
    found = {data: kept.budget(data, policy) for data in (*tables, own) if data}
    if own:
        with contextlib.suppress(FedsiftError):  # a table that is not there now was used before
            found[own] = budget_now(settings)
    return list(found.values())
