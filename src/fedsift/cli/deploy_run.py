# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""``fedsift deploy start``, ``stop``, ``status`` and ``logs``: the processes of a member."""

from __future__ import annotations

import datetime as dt
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedsift.cli.common import AsJson, console, echo_json, errors_as_exit_codes, shown
from fedsift.cli.deploy import KitPath
from fedsift.cli.tables import table
from fedsift.errors import ParameterError

if TYPE_CHECKING:
    from fedsift.deploy.kits import Kit

KitPaths = Annotated[list[Path], typer.Argument(help="Folders of startup kits.", metavar="KIT...")]


def start(
    kits: KitPaths,
    foreground: Annotated[
        bool,
        typer.Option("--foreground", help="Stay in the foreground, for systemd or a container."),
    ] = False,
    wait: Annotated[
        float, typer.Option("--wait", help="Seconds to wait for the connection; 0 does not wait.")
    ] = 60.0,
) -> None:
    """Start a member: the hub listens; an organisation connects to it and waits for jobs."""
    with errors_as_exit_codes():
        from fedsift.deploy import processes
        from fedsift.deploy.kits import load_kit

        loaded = [load_kit(kit) for kit in kits]
        if foreground:
            if len(loaded) != 1:
                raise ParameterError(
                    f"{len(loaded)} kits were given with --foreground.",
                    "Only one process can stay in the foreground.",
                    "Name one kit.",
                )
            processes.run_here(loaded[0])
        screen = console()
        for kit in loaded:
            pid = processes.start(kit)
            screen.print(f"{shown(kit.name)}: started as process {pid}.")
        for kit in loaded:
            if wait > 0:
                processes.wait_until_up(kit, wait)
                where = f"{kit.host}:{processes.port_of(kit)}"
                verb = "listens at" if kit.kind == "hub" else "is connected to"
                screen.print(f"{shown(kit.name)}: {verb} {shown(where)}.")


def stop(kits: KitPaths) -> None:
    """Stop a member and the jobs it runs."""
    with errors_as_exit_codes():
        from fedsift.deploy import processes
        from fedsift.deploy.kits import load_kit

        screen = console()
        for kit in [load_kit(path) for path in kits]:
            ended = processes.stop(kit)
            numbers = ", ".join(map(str, ended))
            outcome = f"ended process {numbers}." if ended else "was not running."
            screen.print(f"{shown(kit.name)}: {outcome}")


def status(kits: KitPaths, as_json: AsJson = False) -> None:
    """Show which members run here; with a submitter's kit, who is connected to the hub."""
    with errors_as_exit_codes():
        from fedsift.deploy.kits import load_kit

        rows = [_status_of(load_kit(path)) for path in kits]
        if as_json:
            echo_json(rows)
            return
        screen = console()
        made = table("Members here", "member", "state", "process", "since", "job processes")
        asked = [row for row in rows if "connected" in row]
        for row in rows:
            if "connected" not in row:
                state = "running" if row["running"] else "not running"
                jobs = ", ".join(map(str, row["job_pids"]))
                made.add_row(shown(row["name"]), state, str(row["pid"] or ""), row["since"], jobs)
        if made.row_count:
            screen.print(made)
        for row in asked:
            _print_hub(screen, row)


def logs(
    kit: KitPath,
    lines: Annotated[int, typer.Option("--lines", "-n", help="Number of lines.", min=1)] = 40,
) -> None:
    """Show the end of a member's log."""
    with errors_as_exit_codes():
        from fedsift.deploy.kits import load_kit
        from fedsift.deploy.processes import log_files

        loaded = load_kit(kit)
        screen = console()
        files = log_files(loaded)
        if not files:
            screen.print(f"{shown(loaded.name)} has written no log yet.")
            return
        with files[0].open(encoding="utf-8", errors="replace") as stream:
            for line in deque(stream, maxlen=lines):
                screen.print(shown(line.rstrip("\n")), soft_wrap=True)


def add_to(app: typer.Typer) -> None:
    """Make these commands part of ``fedsift deploy``."""
    for command in (start, stop, status, logs):
        app.command()(command)


def _status_of(kit: Kit) -> dict[str, Any]:
    if kit.kind == "submitter":
        return _hub_seen_by(kit)
    from fedsift.deploy import processes

    running = processes.status(kit)
    jobs = running.job_pids if running else processes.job_pids(kit)
    return {
        "name": kit.name,
        "kind": kit.kind,
        "running": running is not None,
        "pid": running.pid if running else None,
        "since": _time(running.since) if running else "",
        "job_pids": list(jobs),
    }


def _hub_seen_by(kit: Kit) -> dict[str, Any]:
    from fedsift.deploy.flare.hub_session import HubSession

    with HubSession(kit) as session:
        members = session.find_connected()
        jobs = session.ask("jobs")["jobs"]
    return {
        "name": kit.name,
        "kind": kit.kind,
        "connected": [name for name in kit.organisations if members.get(name)],
        "missing": [name for name in kit.organisations if not members.get(name)],
        "jobs": jobs,
    }


def _print_hub(screen: Any, row: dict[str, Any]) -> None:
    made = table("Organisations at the hub", "organisation", "state")
    for name in row["connected"]:
        made.add_row(shown(name), "connected")
    for name in row["missing"]:
        made.add_row(shown(name), "not connected")
    screen.print(made)
    listed = table("Latest jobs", "job", "method", "status", "submitted", "took")
    for job in row["jobs"]:
        # FLARE gives times to the microsecond.
        submitted, took = (job[key].partition(".")[0] for key in ("submit_time", "duration"))
        cells = (job["job_id"], job["job_name"], job["status"], submitted, took)
        listed.add_row(*map(shown, cells))
    if listed.row_count:
        screen.print(listed)


def _time(seconds: float) -> str:
    return dt.datetime.fromtimestamp(seconds).astimezone().isoformat(" ", "seconds")
