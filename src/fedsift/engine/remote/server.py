# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a site answers to other sites: calls of the current exchange, and how it ends."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, InvalidStateError
from dataclasses import dataclass, field

from fedsift.engine.remote.exchange import RemoteExchange
from fedsift.engine.remote.secure_transport import Ending, RunState
from fedsift.engine.remote.wire import (
    CancelRun,
    CloseExchange,
    FetchReply,
    Heartbeat,
    PollReply,
    Received,
    Refused,
    ReplyReady,
    RoleCall,
    RoleReply,
    RunOver,
    SiteReply,
    SiteRequest,
    StillBusy,
    decode_request,
    encode,
)
from fedsift.engine.session import to_fault
from fedsift.engine.timeouts import Timeouts
from fedsift.errors import FedsiftError, RunEnded, UndeclaredFlow
from fedsift.protocol.message import Fault

_INLINE_BYTES = 1_000_000
"""Larger replies are announced first, so that the asker can allow time for them."""


@dataclass
class _Task:
    """A call of another site and its reply to come."""

    call: RoleCall
    reply: Future[bytes] = field(default_factory=Future)


class SiteServer:
    """Answers for one site. Calls that come early wait for their exchange."""

    def __init__(self, timeouts: Timeouts, state: RunState) -> None:
        self._timeouts = timeouts
        self._state = state
        self._exchange: RemoteExchange | None = None
        self._reached = 0
        self._tasks: dict[tuple[str, int], _Task] = {}

    def open(self, exchange: RemoteExchange) -> None:
        """Start answering for an exchange."""
        with self._state.changed:
            self._exchange, self._reached = exchange, exchange.number
            # A task that is answered at once may leave the table while this loop runs.
            for (site, _), task in list(self._tasks.items()):
                self._start(site, task)
            self._state.changed.notify_all()

    def close(self) -> None:
        """Stop answering for the current exchange; calls that nobody fetched are dropped."""
        with self._state.changed:
            self._exchange = None
            for key, task in list(self._tasks.items()):
                if task.call.exchange <= self._reached:
                    del self._tasks[key]
                    task.reply.cancel()

    def answer(self, site: str, content: bytes) -> bytes:
        """Answer one message; it was really sent by that site."""
        self._state.heard(site)
        try:
            return encode(self._reply(site, decode_request(content)))
        except FedsiftError as error:
            if self._state.ending is not None:
                return encode(self._over(self._state.ending))
            fault = to_fault(error, for_others=True)
            return encode(Refused(fault.code, fault.text))

    def _reply(self, site: str, request: SiteRequest) -> SiteReply:
        match request:
            case Heartbeat():
                return Received()
            case CancelRun(code=code, text=text):
                self._state.end(site, Fault(code, text))
                return Received()
        if self._state.ending is not None:
            return self._over(self._state.ending)
        match request:
            case RoleCall():
                return self._status(site, request.number, self._take(site, request), request.hold)
            case PollReply(number=number, hold=hold):
                return self._status(site, number, self._task(site, number), hold)
            case FetchReply(number=number):
                frame = self._frame(self._task(site, number), 0.0)
                if frame is None:
                    return StillBusy()
                self._tasks.pop((site, number), None)
                return RoleReply(frame)
            case CloseExchange():
                return self._close(site, request)

    def _over(self, ending: Ending) -> RunOver:
        return RunOver(ending.site, ending.fault.code, ending.fault.text)

    def _take(self, site: str, call: RoleCall) -> _Task:
        with self._state.changed:
            expected = self._reached if self._exchange is not None else self._reached + 1
            # The next exchange may already run elsewhere; nobody can be further ahead.
            if (
                not expected <= call.exchange <= self._reached + 1
                or (site, call.number) in self._tasks
            ):
                raise _out_of_turn(site)
            task = self._tasks[site, call.number] = _Task(call)
            self._start(site, task)
            return task

    def _start(self, site: str, task: _Task) -> None:
        """Let the called role answer, if its exchange is the current one."""
        exchange = self._exchange
        if exchange is None or exchange.number != task.call.exchange:
            return
        try:
            request = exchange.to_request(site, task.call)
        except FedsiftError as error:
            task.reply.set_result(exchange.session.codec.encode(to_fault(error, for_others=True)))
            return
        work = exchange.nodes[request.receiver.party].submit(exchange.serve(request))
        work.add_done_callback(_copy_result_to(task.reply))

    def _task(self, site: str, number: int) -> _Task:
        task = self._tasks.get((site, number))
        if task is None:
            raise _out_of_turn(site)
        return task

    def _status(self, site: str, number: int, task: _Task, hold: float) -> SiteReply:
        frame = self._frame(task, self._hold(hold))
        if frame is None:
            return StillBusy()
        if len(frame) > _INLINE_BYTES:
            return ReplyReady(len(frame))
        self._tasks.pop((site, number), None)
        return RoleReply(frame)

    def _frame(self, task: _Task, timeout_seconds: float) -> bytes | None:
        """Return the reply to a call, or nothing yet."""
        try:
            return task.reply.result(timeout=timeout_seconds)
        except TimeoutError:
            return None
        except CancelledError:
            raise RunEnded(
                "The protocol that was asked about has ended.",
                "Calls are answered while their protocol runs.",
                "Run the job again.",
            ) from None

    def _close(self, site: str, request: CloseExchange) -> SiteReply:
        """Close the current exchange for its driver, once this site has come so far."""
        state = self._state
        with state.changed:
            state.changed.wait_for(
                lambda: self._reached >= request.exchange or state.ending is not None,
                timeout=self._hold(request.hold),
            )
            exchange = self._exchange
            if self._reached < request.exchange:
                return StillBusy()
            if (
                exchange is None
                or exchange.number != request.exchange
                or exchange.closed
                or site != exchange.driver_site
            ):
                raise _out_of_turn(site)
            exchange.closed = True
            state.changed.notify_all()
            return exchange.count_asked()

    def _hold(self, wanted: float) -> float:
        longest = self._timeouts.hold_seconds
        return min(max(wanted, 0.0), longest) if math.isfinite(wanted) else longest


def _copy_result_to(goal: Future[bytes]) -> Callable[[Future[bytes]], None]:
    """Let one future end as another did."""

    def copy(work: Future[bytes]) -> None:
        with contextlib.suppress(InvalidStateError):
            if work.cancelled():
                goal.cancel()
            elif (error := work.exception()) is not None:
                goal.set_exception(error)
            else:
                goal.set_result(work.result())

    return copy


def _out_of_turn(site: str) -> UndeclaredFlow:
    return UndeclaredFlow(
        f"Site {site!r} asked for something that is not in turn.",
        "All sites run the same protocols in the same order.",
        "Check that all sites run the same version of fedsift.",
    )
