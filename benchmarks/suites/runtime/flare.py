# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The echo at sites of a real federation, by an executor that these sites alone accept.

A site runs the classes that its own list names, and no list of a start-up kit names this one: the
benchmark adds it to the lists of the federation that it makes for itself. Signatures, certificates,
secure transports, hub and submission are those of any job.
"""

from __future__ import annotations

import json
import secrets
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from nvflare.apis.fl_context import FLContext

from benchmarks.suites.runtime.echo import PROTOCOL, Steps, build_nodes
from fedsift.config.job import load_job
from fedsift.data import catalog
from fedsift.deploy.flare.executor import SiteExecutor
from fedsift.deploy.flare.hub_session import HubSession
from fedsift.deploy.flare.wire import REPORT_SUFFIX, RESOURCES, job_folder
from fedsift.deploy.kits import Kit
from fedsift.deploy.sealed_reports import Report, choose_report, open_report, sign_job
from fedsift.deploy.site import Site
from fedsift.deploy.site_files import HUB, load_site
from fedsift.engine import Engine
from fedsift.engine.observer import Observer
from fedsift.errors import MemberDown
from fedsift.jobs.spec import JointJob
from fedsift.methods.registry import schemas

ECHO_CLASS = "benchmarks.suites.runtime.flare.EchoExecutor"
_POLL_SECONDS = 0.5


@dataclass(frozen=True, eq=False, repr=False)
class EchoSite(Site):
    """A site as it is in any job, which runs the echo instead of the job's method."""

    steps: Steps = ()

    def run(self, engine: Engine, observer: Observer | None = None) -> bytes | None:
        """Run the echo; the first party calls."""
        caller, wall = self.job.parties
        nodes = build_nodes(caller, wall, self.steps, engine.home)
        value = engine.run(PROTOCOL, nodes, observer=observer).value
        return None if value is None else msgspec.json.encode(value)


class EchoExecutor(SiteExecutor):
    """Accepts a job as any site does, then runs the echo.

    Parameters
    ----------
    job, signatures
        As of any job.
    steps : sequence of (size, rounds)
    """

    def __init__(self, job: str, signatures: Mapping[str, str], steps: Steps) -> None:
        super().__init__(job, signatures)
        self._steps = [(int(size), int(rounds)) for size, rounds in steps]

    def _prepare(self, fl_ctx: FLContext) -> str:
        refused = super()._prepare(fl_ctx)
        if self._member is not None:
            site = self._member.site
            self._member.site = EchoSite(site.job, site.settings, site.key, self._steps)
        return refused


def allow_echo(kit: Kit) -> None:
    """Put the executor on the list of a site that is about to start."""
    path = kit.folder / "local" / RESOURCES
    resources = json.loads(path.read_text(encoding="utf-8"))
    resources["class_allow_list"].append(ECHO_CLASS)
    path.write_text(json.dumps(resources, indent=2), encoding="utf-8")


def submit_echo(kit: Kit, path: Path, steps: Steps, limit_seconds: float) -> list[dict[str, Any]]:
    """Submit a job of two parties with the echo in place of its method; the caller's seconds.

    Parameters
    ----------
    kit : Kit
        Of the submitter.
    path : Path
        A job file whose method needs no neutral party.
    steps : sequence of (size, rounds)
    limit_seconds : float
        The job is ended if it takes longer.
    """
    settings = load_site(kit.settings)
    job = JointJob.from_job(
        load_job(path, schemas(), catalog.names(), engine="flare"),
        submitter=kit.name,
        nonce=secrets.token_hex(16),
    )
    text, key = job.to_text(), settings.key()
    members = {name: settings.pinned[name] for name in (HUB, *job.parties)}
    signatures = sign_job(text, kit.name, key, members)
    with HubSession(kit) as session, job_folder("echo", text, signatures, job.parties) as folder:
        _put_echo(folder, steps)
        job_id = session.ask("submit", folder=str(folder))["job"]
        sealed = _download_reports(session, job_id, limit_seconds)
    opened = [
        open_report(Report, one, kit.name, key, name, members[name], text)
        for name, one in sealed.items()
    ]
    report = choose_report(opened)
    if report is None or report.result is None:
        raise _no_echo("it ended without one") if report is None else report.to_error()
    found: list[dict[str, Any]] = msgspec.json.decode(report.result)
    return found


def _put_echo(folder: Path, steps: Steps) -> None:
    """Name the echo's executor in a job for FLARE."""
    for path in folder.rglob("config_fed_client.json"):
        config = json.loads(path.read_text(encoding="utf-8"))
        executor = config["executors"][0]["executor"]
        executor["path"] = ECHO_CLASS
        executor["args"]["steps"] = [list(step) for step in steps]
        path.write_text(json.dumps(config), encoding="utf-8")


def _download_reports(session: HubSession, job_id: str, limit_seconds: float) -> dict[str, bytes]:
    """What the members left for the submitter, once the job is over."""
    deadline = time.monotonic() + limit_seconds
    while not str(session.ask("status", job=job_id)["status"]).startswith("FINISHED"):
        if time.monotonic() > deadline:
            session.ask("abort", job=job_id)
            raise _no_echo(f"it takes longer than {limit_seconds:.0f} seconds")
        time.sleep(_POLL_SECONDS)
    with tempfile.TemporaryDirectory(prefix="fedsift-echo-") as folder:
        place = Path(session.ask("download", job=job_id, folder=folder)["folder"])
        return {
            path.name.removesuffix(REPORT_SUFFIX): path.read_bytes()
            for path in place.rglob(f"*{REPORT_SUFFIX}")
        }


def _no_echo(reason: str) -> MemberDown:
    return MemberDown(
        f"The echo on FLARE has no result: {reason}.",
        "Hub and sites must stay up while the benchmark runs.",
        "Run it again when the machine has less to do.",
    )
