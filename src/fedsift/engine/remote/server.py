# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a site answers to other sites: calls of the stage in play, and how that stage ends."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, InvalidStateError
from dataclasses import dataclass, field

from fedsift.engine.remote.exchange import RemoteExchange
from fedsift.engine.remote.state import Ending, RunState
from fedsift.engine.remote.transport import Timeouts
from fedsift.engine.remote.wire import (
    Answer,
    Beat,
    Busy,
    Call,
    Cancel,
    Close,
    Fetch,
    Noted,
    Over,
    Poll,
    Question,
    Ready,
    Refusal,
    Reply,
    pack,
    read_question,
)
from fedsift.engine.session import fault_of
from fedsift.errors import FedsiftError, RunEnded, UndeclaredFlow
from fedsift.protocol.codec import Fault

_INLINE_BYTES = 1_000_000
"""Larger answers are announced first, so that the asker can allow for their way."""


@dataclass
class _Task:
    """A call of another site and its answer to be."""

    call: Call
    answer: Future[bytes] = field(default_factory=Future)


class SiteServer:
    """Answers for one site. Calls that come early wait for their stage to open."""

    def __init__(self, patience: Timeouts, state: RunState) -> None:
        self._patience = patience
        self._state = state
        self._stage: RemoteExchange | None = None
        self._reached = 0
        self._tasks: dict[tuple[str, int], _Task] = {}

    def open(self, stage: RemoteExchange) -> None:
        """Start answering for a stage."""
        with self._state.changed:
            self._stage, self._reached = stage, stage.number
            # A task that is answered at once may leave the table while this loop runs.
            for (site, _), task in list(self._tasks.items()):
                self._start(site, task)
            self._state.changed.notify_all()

    def shut(self) -> None:
        """Stop answering for the stage in play; calls that nobody fetched are dropped."""
        with self._state.changed:
            self._stage = None
            for key, task in list(self._tasks.items()):
                if task.call.stage <= self._reached:
                    del self._tasks[key]
                    task.answer.cancel()

    def answer(self, site: str, content: bytes) -> bytes:
        """Answer one note; it was really sent by that site."""
        self._state.heard(site)
        try:
            return pack(self._reply(site, read_question(content)))
        except FedsiftError as error:
            if self._state.ending is not None:
                return pack(self._over(self._state.ending))
            fault = fault_of(error, abroad=True)
            return pack(Refusal(fault.code, fault.text))

    def _reply(self, site: str, question: Question) -> Reply:
        match question:
            case Beat():
                return Noted()
            case Cancel(code=code, text=text):
                self._state.end(site, Fault(code, text))
                return Noted()
        if self._state.ending is not None:
            return self._over(self._state.ending)
        match question:
            case Call():
                return self._status(
                    site, question.number, self._take(site, question), question.hold
                )
            case Poll(number=number, hold=hold):
                return self._status(site, number, self._task(site, number), hold)
            case Fetch(number=number):
                frame = self._frame(self._task(site, number), 0.0)
                if frame is None:
                    return Busy()
                self._tasks.pop((site, number), None)
                return Answer(frame)
            case Close():
                return self._close(site, question)

    def _over(self, ending: Ending) -> Over:
        return Over(ending.site, ending.fault.code, ending.fault.text)

    def _take(self, site: str, call: Call) -> _Task:
        with self._state.changed:
            expected = self._reached if self._stage is not None else self._reached + 1
            # The next stage may already be in play elsewhere; nobody can be further ahead.
            if (
                not expected <= call.stage <= self._reached + 1
                or (site, call.number) in self._tasks
            ):
                raise _out_of_turn(site)
            task = self._tasks[site, call.number] = _Task(call)
            self._start(site, task)
            return task

    def _start(self, site: str, task: _Task) -> None:
        """Let the called role answer, if its stage is in play."""
        stage = self._stage
        if stage is None or stage.number != task.call.stage:
            return
        try:
            request = stage.request_of(site, task.call)
        except FedsiftError as error:
            task.answer.set_result(stage.session.codec.encode(fault_of(error, abroad=True)))
            return
        work = stage.nodes[request.receiver.party].submit(stage.serve(request))
        work.add_done_callback(_hand_on(task.answer))

    def _task(self, site: str, number: int) -> _Task:
        task = self._tasks.get((site, number))
        if task is None:
            raise _out_of_turn(site)
        return task

    def _status(self, site: str, number: int, task: _Task, hold: float) -> Reply:
        frame = self._frame(task, self._hold(hold))
        if frame is None:
            return Busy()
        if len(frame) > _INLINE_BYTES:
            return Ready(len(frame))
        self._tasks.pop((site, number), None)
        return Answer(frame)

    def _frame(self, task: _Task, timeout_seconds: float) -> bytes | None:
        """The answer to a call, or nothing yet."""
        try:
            return task.answer.result(timeout=timeout_seconds)
        except TimeoutError:
            return None
        except CancelledError:
            raise RunEnded(
                "The stage that was asked about is over.",
                "Calls are answered while their stage is in play.",
                "Run the job again.",
            ) from None

    def _close(self, site: str, note: Close) -> Reply:
        """Close the stage in play for its driver, once this site has come so far."""
        state = self._state
        with state.changed:
            state.changed.wait_for(
                lambda: self._reached >= note.stage or state.ending is not None,
                timeout=self._hold(note.hold),
            )
            stage = self._stage
            if self._reached < note.stage:
                return Busy()
            if (
                stage is None
                or stage.number != note.stage
                or stage.closed
                or site != stage.driver_site
            ):
                raise _out_of_turn(site)
            stage.closed = True
            state.changed.notify_all()
            return stage.tally()

    def _hold(self, wanted: float) -> float:
        longest = self._patience.hold_seconds
        return min(max(wanted, 0.0), longest) if math.isfinite(wanted) else longest


def _hand_on(answer: Future[bytes]) -> Callable[[Future[bytes]], None]:
    """Let one future end as another did."""

    def hand_on(work: Future[bytes]) -> None:
        with contextlib.suppress(InvalidStateError):
            if work.cancelled():
                answer.cancel()
            elif (error := work.exception()) is not None:
                answer.set_exception(error)
            else:
                answer.set_result(work.result())

    return hand_on


def _out_of_turn(site: str) -> UndeclaredFlow:
    return UndeclaredFlow(
        f"Site {site!r} asked for something that is not in turn.",
        "All sites play the same stages in the same order.",
        "Check that all sites run the same version of fedsift.",
    )
