# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The class that NVIDIA FLARE runs for a job at the hub.

It hands out two tasks: *setup* (has everybody accepted the job?) and *work* (run your part), and
runs the neutral roles. It keeps the members' sealed reports for the submitter as
``fedsift/<member>.report`` of the job's result, and passes sealed snapshots on to a submitter who
watches.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nvflare.apis.controller_spec import Task
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal

from fedsift.deploy.flare import wire
from fedsift.deploy.flare.executor import load_member
from fedsift.deploy.flare.transport import FlareTransport
from fedsift.deploy.member import JobMember
from fedsift.deploy.site import log_refusal
from fedsift.deploy.site_files import HUB
from fedsift.engine.local import in_thread
from fedsift.engine.timeouts import DEFAULT_TIMEOUTS
from fedsift.errors import FedsiftError, SiteUnreachable

_MOST_SNAPSHOT_BYTES = 1_000_000


class HubController(Controller):
    """The hub's part in a job.

    Parameters
    ----------
    job, signatures
        As at the organisations.
    """

    def __init__(self, job: str, signatures: Mapping[str, str]) -> None:
        super().__init__()
        self._job, self._signatures = job, dict(signatures)
        self._refused: dict[str, str] = {}
        self._waiting: tuple[str, ...] = ()
        self._finished: set[str] = set()
        self._failed: set[str] = set()
        self._reported: set[str] = set()
        self._driver_failed = False
        self._place = (0, 0)
        self._own: JobMember | None = None
        self._snapshots: dict[str, bytes] = {}
        self._n_snapshots = 0
        self._sites: tuple[str, ...] = ()
        self._done = False
        self._fetched = threading.Event()

    def start_controller(self, fl_ctx: FLContext) -> None:
        """Listen before anybody is asked to do anything."""
        engine, signal = fl_ctx.get_engine(), fl_ctx.get_run_abort_signal()
        self._sites = tuple(sorted(client.name for client in engine.get_clients()))
        run_folder = Path(engine.get_workspace().get_run_dir(fl_ctx.get_job_id()))
        self._folder = run_folder / wire.RESULT_FOLDER
        self._folder.mkdir(parents=True, exist_ok=True)
        self._transport = FlareTransport(engine, HUB, lambda: bool(signal.triggered))
        engine.register_aux_message_handler(wire.REPORTS, self._take_report)
        engine.register_aux_message_handler(wire.PROGRESS, self._take_progress)
        engine.register_app_command(wire.REPORTS, self._show_reports)

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        """Walk through the job."""
        own = self._own = self._set_up(abort_signal, fl_ctx)
        if not self._refused and not abort_signal.triggered:
            task = Task(wire.WORK, Shareable(), result_received_cb=self._take_result)
            self.broadcast(task, fl_ctx, targets=list(self._sites), min_responses=len(self._sites))
            waiting = set(self._sites)
            if own is not None and own.takes_part:
                waiting.add(HUB)
                in_thread("the hub's part", self._run_own_part, own)
            self._wait(waiting, abort_signal, task)
        (self._folder / wire.STATUS_FILE).write_text(json.dumps(self._status()), encoding="utf-8")
        self._done = True
        if self._refused or self._failed:
            self._fetched.wait(DEFAULT_TIMEOUTS.report_fetch_seconds)
            self.system_panic("a member refused the job or failed", fl_ctx)

    def stop_controller(self, fl_ctx: FLContext) -> None:  # noqa: ARG002
        """Wait for nothing any more."""
        self._transport.close()

    def _set_up(self, abort_signal: Signal, fl_ctx: FLContext) -> JobMember | None:
        """Ask everybody whether the job is accepted; where people decide, ask again until then."""
        own, answers, limits = None, dict[str, str](), DEFAULT_TIMEOUTS
        task = self._ask(self._sites, answers, fl_ctx)
        try:
            # Meanwhile, as all members need some seconds to load what they run.
            own = load_member(HUB, self._job, self._signatures, fl_ctx)
        except Exception as error:
            self._refused[HUB] = log_refusal(error)
        self._take_answers(self._sites, task, answers, abort_signal)
        while self._waiting and not self._refused and not abort_signal.triggered:
            time.sleep(limits.approval_poll_seconds)
            task = self._ask(self._waiting, answers, fl_ctx)
            self._take_answers(self._waiting, task, answers, abort_signal)
        return own

    def _ask(self, sites: tuple[str, ...], answers: dict[str, str], fl_ctx: FLContext) -> Task:
        """Ask members whether they accept the job."""
        answers.clear()

        def take(client_task: Any, fl_ctx: FLContext) -> None:  # noqa: ARG001
            code = client_task.result.get(wire.CODE)
            answers[client_task.client.name] = code if isinstance(code, str) else FedsiftError.code

        limit = DEFAULT_TIMEOUTS.setup_seconds
        task = Task(wire.SETUP, Shareable(), timeout=limit, result_received_cb=take)
        self.broadcast(task, fl_ctx, targets=list(sites), min_responses=len(sites))
        return task

    def _take_answers(
        self, sites: tuple[str, ...], task: Task, answers: dict[str, str], abort_signal: Signal
    ) -> None:
        """Wait for the answers; a member that does not answer has not accepted."""
        while task.completion_status is None and not abort_signal.triggered:
            time.sleep(DEFAULT_TIMEOUTS.controller_poll_seconds)
        if task.completion_status is None:
            self.cancel_task(task)
        codes = {site: answers.get(site, SiteUnreachable.code) for site in sites}
        self._waiting = tuple(site for site, code in codes.items() if code == wire.WAITING)
        self._refused |= {
            site: code[:4] for site, code in codes.items() if code and code != wire.WAITING
        }

    def _run_own_part(self, own: JobMember) -> None:
        report = own.run(self._transport)
        failed, drove = bool(report.code), own.driving is not None
        self._keep_report(HUB, own.seal_report(report), failed=failed, drove=drove)
        self._finished.add(HUB)

    def _wait(self, waiting: set[str], abort_signal: Signal, task: Task) -> None:
        """Wait for everybody, or for whoever still comes once somebody has reported the end."""
        first: float | None = None
        limits = DEFAULT_TIMEOUTS
        while not waiting <= self._finished and not abort_signal.triggered:
            if first is None and (self._reported or task.completion_status is not None):
                first = time.monotonic()
            limit = limits.last_report_seconds
            if self._driver_failed:
                # Nobody can report more than the driver has; a lost site reports nothing.
                limit = limits.last_report_after_driver_seconds
            elif self._failed:
                limit = limits.last_report_after_failure_seconds
            if first is not None and time.monotonic() - first > limit:
                break
            time.sleep(limits.controller_poll_seconds)
        deadline = time.monotonic() + limits.last_report_after_abort_seconds
        while abort_signal.triggered and time.monotonic() < deadline:
            if waiting <= self._reported or self._driver_failed:
                break
            time.sleep(limits.controller_poll_seconds)
        if task.completion_status is None:
            self.cancel_task(task)
        self._failed |= waiting - self._finished - self._reported

    def _take_result(self, client_task: Any, fl_ctx: FLContext) -> None:  # noqa: ARG002
        self._finished.add(client_task.client.name)

    def _take_report(self, topic: str, request: Shareable, fl_ctx: Any) -> Shareable:  # noqa: ARG002
        site, sealed = request.get(wire.SITE), request.get(wire.REPORT)
        if site not in self._sites or not isinstance(sealed, bytes):
            return make_reply(ReturnCode.BAD_REQUEST_DATA)
        failed, drove = bool(request.get(wire.FAILED)), bool(request.get(wire.DROVE))
        self._keep_snapshot(site, request.get(wire.SNAPSHOT))
        self._keep_report(site, sealed, failed=failed, drove=drove)
        return make_reply(ReturnCode.OK)

    def _keep_report(self, site: str, sealed: bytes, *, failed: bool, drove: bool) -> None:
        if sealed:
            (self._folder / f"{site}{wire.REPORT_SUFFIX}").write_bytes(sealed)
            self._reported.add(site)
        if failed:
            self._failed.add(site)
            self._driver_failed |= drove

    def _take_progress(self, topic: str, request: Shareable, fl_ctx: Any) -> Shareable:  # noqa: ARG002
        place = request.get(wire.PROTOCOL), request.get(wire.ROUND)
        if all(isinstance(number, int) for number in place) and place > self._place:
            self._place = place
        if request.get(wire.SITE) in self._sites:
            self._keep_snapshot(request.get(wire.SITE), request.get(wire.SNAPSHOT))
        return make_reply(ReturnCode.OK)

    def _keep_snapshot(self, site: str, sealed: Any) -> None:
        """Keep the latest of every member; in memory only, as the result holds all of it."""
        if isinstance(sealed, bytes) and 0 < len(sealed) <= _MOST_SNAPSHOT_BYTES:
            self._snapshots[site] = sealed
            self._n_snapshots += 1

    def _show_reports(self, topic: str, data: Any, fl_ctx: Any) -> dict[str, Any]:  # noqa: ARG002
        """Tell how far the job is and, once it has ended, what it left: FLARE takes longer.

        ``data`` is how many snapshots the submitter has been passed already.
        """
        if self._own is not None:
            self._keep_snapshot(HUB, self._own.seal_progress())
        reports = self._folder.glob(f"*{wire.REPORT_SUFFIX}") if self._done else ()
        if self._done:
            self._fetched.set()
        return {
            wire.DONE: self._done,
            wire.STATUS: self._status(),
            wire.SEALED: {
                path.name.removesuffix(wire.REPORT_SUFFIX): _to_text(path.read_bytes())
                for path in reports
            },
            wire.SNAPSHOTS: {site: _to_text(sealed) for site, sealed in self._snapshots.items()}
            if self._n_snapshots != data
            else {},
            wire.N_SNAPSHOTS: self._n_snapshots,
        }

    def _status(self) -> dict[str, Any]:
        protocol, round_number = self._place
        return {
            wire.PROTOCOL: protocol,
            wire.ROUND: round_number,
            wire.FINISHED: sorted(self._finished),
            wire.FAILED: sorted(self._failed),
            wire.REFUSED: dict(self._refused),
            wire.WAITING: list(self._waiting),
        }


def _to_text(sealed: bytes) -> str:
    return base64.b64encode(sealed).decode()
