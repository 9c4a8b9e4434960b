# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The two classes that NVIDIA FLARE runs for a job: one at every organisation, one at the hub.

A job carries the text of a job and its submitter's warrants, no code. Everything else comes from
the member's own folder, ``local/fedsift`` of its startup kit. FLARE hands out two tasks: *setup*
(has everybody accepted the job?) and *work* (play your part). The protocols themselves run from
member to member, through sealed lines. The hub learns counts and codes, passes sealed news on to a
submitter who watches, and keeps sealed letters for the submitter in ``fedsift/<member>.letter`` of
the job's result.
"""

from __future__ import annotations

import base64
import json
import logging
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nvflare.apis.controller_spec import Task
from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal

from fedsift.deploy.flare.transport import HUB, FlareTransport
from fedsift.deploy.letters import Report, job_text
from fedsift.deploy.member import Member, refusal
from fedsift.engine.threads import in_thread
from fedsift.errors import FedsiftError, SiteUnreachable

SETUP, WORK = "setup", "work"
LETTERS = "fedsift.letters"
"""Topic of letters to the hub, and of the command by which the submitter asks for them."""

PROGRESS = "fedsift.progress"
"""Topic of counts and sealed news to the hub."""

RESULT_FOLDER = "fedsift"
LETTER_SUFFIX, STATUS_FILE = ".letter", "status.json"

_SITE, _LETTER, _FAILED, _DROVE = "site", "letter", "failed", "drove"
_CODE, _STAGE, _ROUND, _NEWS = "code", "stage", "round", "news"
_MOST_NEWS_BYTES = 1_000_000
_SETUP_SECONDS = 300
_REPORT_SECONDS = 2.0
_SEND_SECONDS = 15.0
_LINGER_SECONDS = 4.0
_GRACE_SECONDS = 60.0
_GRACE_AFTER_FAILURE_SECONDS = 15.0
_GRACE_AFTER_DRIVER_SECONDS = 3.0
_LAST_LETTERS_SECONDS = 6.0
_FETCH_SECONDS = 3.0
_TICK_SECONDS = 0.1
_log = logging.getLogger(__name__)


class SiteExecutor(Executor):
    """An organisation's part in a job.

    Parameters
    ----------
    job : str
        The text of the job, as :func:`fedsift.deploy.letters.job_arguments` passes it.
    warrants : mapping of str to str
        The submitter's word for it, by member.
    """

    def __init__(self, job: str, warrants: Mapping[str, str]) -> None:
        super().__init__()
        self._job, self._warrants = job, dict(warrants)
        self._member: Member | None = None
        self._ended = threading.Event()

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Listen from the first moment of the job process to its last."""
        if event_type == EventType.START_RUN:
            self._signal: Signal = fl_ctx.get_run_abort_signal()
            self._name: str = fl_ctx.get_identity_name()
            engine = fl_ctx.get_engine()
            self._line = FlareTransport(engine, self._name, lambda: bool(self._signal.triggered))
        elif event_type == EventType.END_RUN:
            self._ended.set()
            self._line.close()

    def execute(
        self,
        task_name: str,
        shareable: Shareable,  # noqa: ARG002 - FLARE's signature
        fl_ctx: FLContext,
        abort_signal: Signal,  # noqa: ARG002
    ) -> Shareable:
        """Do one of the two tasks."""
        reply = make_reply(ReturnCode.OK)
        if task_name == SETUP and self._member is None:
            reply[_CODE] = self._prepare(fl_ctx)
        elif task_name == WORK and self._member is not None:
            report = self._member.run(self._line)
            self._hand_in(self._member, report)
            if self._line.aborted:
                # The driver may be looking for the member that was lost; it was not this one.
                self._ended.wait(_LINGER_SECONDS)
        else:
            reply = make_reply(ReturnCode.TASK_UNKNOWN)
        return reply

    def _prepare(self, fl_ctx: FLContext) -> str:
        """Accept the job, or say by a code that it is refused."""
        try:
            self._member = _member(self._name, self._job, self._warrants, fl_ctx)
        except Exception as error:
            return refusal(error)
        in_thread("reports to the hub", self._report, self._member.work.patience.idle_seconds)
        return ""

    def _hand_in(self, member: Member, report: Report) -> None:
        """Leave a letter for the submitter with the hub, if there is something to tell."""
        content = Shareable()
        content[_SITE], content[_FAILED] = self._name, bool(report.code)
        content[_DROVE] = member.progress is not None
        content[_LETTER] = member.letter(report) if report.result or report.code else b""
        content[_NEWS] = member.news()
        limit = member.work.patience.trip(len(content[_LETTER]))
        if self._line.aborted:
            limit = min(limit, _LINGER_SECONDS)
        try:
            self._line.send(HUB, LETTERS, content, limit)
        except SiteUnreachable as error:
            _log.error("%s", error.one_line)

    def _report(self, idle_seconds: float) -> None:
        """Tell the hub counts; a hub that is gone for too long ends the job here."""
        heard = time.monotonic()
        while not self._ended.wait(_REPORT_SECONDS):
            content = Shareable()
            progress = self._member.progress if self._member else None
            content[_STAGE], content[_ROUND] = progress or (0, 0)
            content[_SITE] = self._name
            content[_NEWS] = self._member.news() if self._member else b""
            try:
                self._line.send(HUB, PROGRESS, content, _SEND_SECONDS)
                heard = time.monotonic()
            except SiteUnreachable:
                if time.monotonic() - heard > idle_seconds:
                    _log.error("The hub was silent for %.0f seconds.", time.monotonic() - heard)
                    self._signal.trigger(True)
                    return


class HubController(Controller):
    """The hub's part in a job: hand out tasks, keep letters, play the neutral roles.

    Parameters
    ----------
    job, warrants
        As at the organisations.
    """

    def __init__(self, job: str, warrants: Mapping[str, str]) -> None:
        super().__init__()
        self._job, self._warrants = job, dict(warrants)
        self._refused: dict[str, str] = {}
        self._finished: set[str] = set()
        self._failed: set[str] = set()
        self._told: set[str] = set()
        self._driver_failed = False
        self._place = (0, 0)
        self._own: Member | None = None
        self._news: dict[str, bytes] = {}
        self._n_news = 0
        self._sites: tuple[str, ...] = ()
        self._done = False
        self._fetched = threading.Event()

    def start_controller(self, fl_ctx: FLContext) -> None:
        """Listen before anybody is asked to do anything."""
        engine, signal = fl_ctx.get_engine(), fl_ctx.get_run_abort_signal()
        self._sites = tuple(sorted(client.name for client in engine.get_clients()))
        run_folder = Path(engine.get_workspace().get_run_dir(fl_ctx.get_job_id()))
        self._folder = run_folder / RESULT_FOLDER
        self._folder.mkdir(parents=True, exist_ok=True)
        self._line = FlareTransport(engine, HUB, lambda: bool(signal.triggered))
        engine.register_aux_message_handler(LETTERS, self._take_letter)
        engine.register_aux_message_handler(PROGRESS, self._take_progress)
        engine.register_app_command(LETTERS, self._show_letters)

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        """Walk through the job."""
        own = self._own = self._set_up(abort_signal, fl_ctx)
        if not self._refused and not abort_signal.triggered:
            task = Task(WORK, Shareable(), result_received_cb=self._take_result)
            self.broadcast(task, fl_ctx, targets=list(self._sites), min_responses=len(self._sites))
            waiting = set(self._sites)
            if own is not None and own.takes_part:
                waiting.add(HUB)
                in_thread("the hub's part", self._play, own)
            self._wait(waiting, abort_signal, task)
        (self._folder / STATUS_FILE).write_text(json.dumps(self._status()), encoding="utf-8")
        self._done = True
        if self._refused or self._failed:
            self._fetched.wait(_FETCH_SECONDS)
            self.system_panic("a member refused the job or failed", fl_ctx)

    def stop_controller(self, fl_ctx: FLContext) -> None:  # noqa: ARG002
        """Let go of everything."""
        self._line.close()

    def _set_up(self, abort_signal: Signal, fl_ctx: FLContext) -> Member | None:
        """Ask everybody whether the job is accepted; who does not answer has not."""
        own, answers = None, dict[str, str]()

        def take(client_task: Any, fl_ctx: FLContext) -> None:  # noqa: ARG001
            code = client_task.result.get(_CODE)
            answers[client_task.client.name] = code if isinstance(code, str) else FedsiftError.code

        task = Task(SETUP, Shareable(), timeout=_SETUP_SECONDS, result_received_cb=take)
        self.broadcast(task, fl_ctx, targets=list(self._sites), min_responses=len(self._sites))
        try:
            # Meanwhile, as all members need some seconds to load what they run.
            own = _member(HUB, self._job, self._warrants, fl_ctx)
        except Exception as error:
            self._refused[HUB] = refusal(error)
        while task.completion_status is None and not abort_signal.triggered:
            time.sleep(_TICK_SECONDS)
        if task.completion_status is None:
            self.cancel_task(task)
        for site in self._sites:
            code = answers.get(site, SiteUnreachable.code)
            if code:
                self._refused[site] = code[:4]
        return own

    def _play(self, own: Member) -> None:
        report = own.run(self._line)
        letter = own.letter(report) if report.result or report.code else b""
        self._note(HUB, letter, failed=bool(report.code), drove=own.progress is not None)
        self._finished.add(HUB)

    def _wait(self, waiting: set[str], abort_signal: Signal, task: Task) -> None:
        """Wait for everybody, or for whoever still comes once somebody has told how it ended."""
        first: float | None = None
        while not waiting <= self._finished and not abort_signal.triggered:
            if first is None and (self._told or task.completion_status is not None):
                first = time.monotonic()
            grace = _GRACE_AFTER_FAILURE_SECONDS if self._failed else _GRACE_SECONDS
            # Nobody can tell the submitter more than the driver has; a lost site tells nothing.
            grace = _GRACE_AFTER_DRIVER_SECONDS if self._driver_failed else grace
            if first is not None and time.monotonic() - first > grace:
                break
            time.sleep(_TICK_SECONDS)
        deadline = time.monotonic() + _LAST_LETTERS_SECONDS
        while abort_signal.triggered and time.monotonic() < deadline:
            if waiting <= self._told or self._driver_failed:
                break
            time.sleep(_TICK_SECONDS)
        if task.completion_status is None:
            self.cancel_task(task)
        self._failed |= waiting - self._finished - self._told

    def _take_result(self, client_task: Any, fl_ctx: FLContext) -> None:  # noqa: ARG002
        self._finished.add(client_task.client.name)

    def _take_letter(self, topic: str, request: Shareable, fl_ctx: Any) -> Shareable:  # noqa: ARG002
        site, letter = request.get(_SITE), request.get(_LETTER)
        if site not in self._sites or not isinstance(letter, bytes):
            return make_reply(ReturnCode.BAD_REQUEST_DATA)
        failed, drove = bool(request.get(_FAILED)), bool(request.get(_DROVE))
        self._keep_news(site, request.get(_NEWS))
        self._note(site, letter, failed=failed, drove=drove)
        return make_reply(ReturnCode.OK)

    def _note(self, site: str, letter: bytes, *, failed: bool, drove: bool) -> None:
        if letter:
            (self._folder / f"{site}{LETTER_SUFFIX}").write_bytes(letter)
            self._told.add(site)
        if failed:
            self._failed.add(site)
            self._driver_failed |= drove

    def _take_progress(self, topic: str, request: Shareable, fl_ctx: Any) -> Shareable:  # noqa: ARG002
        place = request.get(_STAGE), request.get(_ROUND)
        if all(isinstance(number, int) for number in place) and place > self._place:
            self._place = place
        if request.get(_SITE) in self._sites:
            self._keep_news(request.get(_SITE), request.get(_NEWS))
        return make_reply(ReturnCode.OK)

    def _keep_news(self, site: str, news: Any) -> None:
        """The latest of every member; in memory only, as the result tells all of it."""
        if isinstance(news, bytes) and 0 < len(news) <= _MOST_NEWS_BYTES:
            self._news[site] = news
            self._n_news += 1

    def _show_letters(self, topic: str, data: Any, fl_ctx: Any) -> dict[str, Any]:  # noqa: ARG002
        """How far the job is and, once it has ended, what it left: FLARE itself takes longer.

        ``data`` is how many pieces of news the submitter has been passed already.
        """
        if self._own is not None:
            self._keep_news(HUB, self._own.news())
        news = self._news if self._n_news != data else {}
        letters = self._folder.glob(f"*{LETTER_SUFFIX}") if self._done else ()
        texts = {
            path.name.removesuffix(LETTER_SUFFIX): base64.b64encode(path.read_bytes()).decode()
            for path in letters
        }
        if self._done:
            self._fetched.set()
        return {
            "done": self._done,
            "status": self._status(),
            "letters": texts,
            "news": {site: base64.b64encode(one).decode() for site, one in news.items()},
            "n_news": self._n_news,
        }

    def _status(self) -> dict[str, Any]:
        stage, round_number = self._place
        return {
            "stage": stage,
            "round": round_number,
            "finished": sorted(self._finished),
            "failed": sorted(self._failed),
            "refused": dict(self._refused),
        }


def _member(name: str, job: str, warrants: Mapping[str, str], fl_ctx: FLContext) -> Member:
    """A member from its own settings."""
    local = Path(fl_ctx.get_engine().get_workspace().get_site_config_dir())
    session = fl_ctx.get_job_id()
    return Member(name, local / "fedsift", job_text(job), warrants, session=session)
