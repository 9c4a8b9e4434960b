# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The class that NVIDIA FLARE runs for a job at every organisation.

A job carries the text of a job and its submitter's signatures, no code. Everything else comes from
the member's own folder, ``local/fedsift`` of its start-up kit. The protocols themselves run from
member to member, over secure transports; the hub learns counts and codes.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal

from fedsift.deploy.flare import wire
from fedsift.deploy.flare.transport import FlareTransport
from fedsift.deploy.member import JobMember
from fedsift.deploy.sealed_reports import Report, decode_job
from fedsift.deploy.site import log_refusal
from fedsift.deploy.site_files import HUB
from fedsift.engine.local import in_thread
from fedsift.errors import SiteUnreachable

_log = logging.getLogger(__name__)


class SiteExecutor(Executor):
    """An organisation's part in a job.

    Parameters
    ----------
    job : str
        The text of the job, as :func:`fedsift.deploy.sealed_reports.encode_job` passes it.
    signatures : mapping of str to str
        The submitter's signatures of it, by member.
    """

    def __init__(self, job: str, signatures: Mapping[str, str]) -> None:
        super().__init__()
        self._job, self._signatures = job, dict(signatures)
        self._member: JobMember | None = None
        self._asking: JobMember | None = None
        self._ended = threading.Event()

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Listen from the first moment of the job process to its last."""
        if event_type == EventType.START_RUN:
            self._signal: Signal = fl_ctx.get_run_abort_signal()
            self._name: str = fl_ctx.get_identity_name()
            self._transport = FlareTransport(
                fl_ctx.get_engine(), self._name, lambda: bool(self._signal.triggered)
            )
        elif event_type == EventType.END_RUN:
            self._ended.set()
            self._transport.close()

    def execute(
        self,
        task_name: str,
        shareable: Shareable,  # noqa: ARG002 - FLARE's signature
        fl_ctx: FLContext,
        abort_signal: Signal,  # noqa: ARG002
    ) -> Shareable:
        """Do one of the two tasks."""
        reply = make_reply(ReturnCode.OK)
        if task_name == wire.SETUP and self._member is None:
            reply[wire.CODE] = self._prepare(fl_ctx)
        elif task_name == wire.WORK and self._member is not None:
            report = self._member.run(self._transport)
            self._send_report(self._member, report)
            if self._transport.aborted:
                # The driver may be looking for the member that was lost; it was not this one.
                self._ended.wait(self._member.site.timeouts.linger_seconds)
        else:
            reply = make_reply(ReturnCode.TASK_UNKNOWN)
        return reply

    def _prepare(self, fl_ctx: FLContext) -> str:
        """Accept the job, or say by a code that it is refused, or that a person has to approve."""
        try:
            if self._asking is None:
                self._asking = load_member(self._name, self._job, self._signatures, fl_ctx)
            if not self._asking.site.is_approved():
                return wire.WAITING
        except Exception as error:
            if self._asking is not None:
                report = Report.from_error(self._name, error, drove=False)
                self._send_report(self._asking, report)
            return log_refusal(error)
        self._member = self._asking
        in_thread("reports to the hub", self._send_progress, self._member)
        return ""

    def _send_report(self, member: JobMember, report: Report) -> None:
        """Leave a sealed report for the submitter with the hub, if there is something to say."""
        content, sealed = Shareable(), member.seal_report(report)
        content[wire.SITE], content[wire.FAILED] = self._name, bool(report.code)
        content[wire.DROVE] = member.driving is not None
        content[wire.REPORT] = sealed
        content[wire.SNAPSHOT] = member.seal_progress()
        limit = member.site.timeouts.limit_round_trip(len(sealed))
        if self._transport.aborted:
            limit = min(limit, member.site.timeouts.linger_seconds)
        try:
            self._transport.send(HUB, wire.REPORTS, content, limit)
        except SiteUnreachable as error:
            _log.error("%s", error.one_line)

    def _send_progress(self, member: JobMember) -> None:
        """Send counts to the hub; a hub that is gone for too long ends the job here."""
        limits, heard = member.site.timeouts, time.monotonic()
        while not self._ended.wait(limits.progress_interval_seconds):
            content = Shareable()
            content[wire.PROTOCOL], content[wire.ROUND] = member.driving or (0, 0)
            content[wire.SITE], content[wire.SNAPSHOT] = self._name, member.seal_progress()
            try:
                self._transport.send(HUB, wire.PROGRESS, content, limits.progress_send_seconds)
                heard = time.monotonic()
            except SiteUnreachable:
                silent = time.monotonic() - heard
                if silent > limits.idle_seconds:
                    _log.error("The hub was silent for %.0f seconds.", silent)
                    self._signal.trigger(True)
                    return


def load_member(name: str, job: str, signatures: Mapping[str, str], fl_ctx: FLContext) -> JobMember:
    """Make a member of a job from the member's own settings."""
    local = Path(fl_ctx.get_engine().get_workspace().get_site_config_dir())
    session = fl_ctx.get_job_id()
    return JobMember(name, local / "fedsift", decode_job(job), signatures, session=session)
