# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a site sends to other sites: handshakes, calls, heartbeats, and that a run is over."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from secrets import token_bytes
from typing import TypeVar

import msgspec

from fedsift.crypto.identity import Identity
from fedsift.engine.local import in_thread
from fedsift.engine.remote.secure_transport import RunState, SecureTransport, aborted
from fedsift.engine.remote.wire import (
    CancelRun,
    CloseExchange,
    FetchReply,
    Heartbeat,
    PollReply,
    Refused,
    ReplyReady,
    RoleCall,
    RoleReply,
    RunOver,
    SiteCounts,
    SiteReply,
    SiteRequest,
    StillBusy,
    decode_reply,
    encode,
)
from fedsift.engine.timeouts import Timeouts
from fedsift.errors import BadFrame, FedsiftError, ParameterError, RunEnded, SiteUnreachable
from fedsift.protocol.message import Fault

R = TypeVar("R")


class SiteClient:
    """Sends for one site.

    Parameters
    ----------
    transport : SecureTransport
    members : mapping of party -> site
    """

    def __init__(
        self,
        transport: SecureTransport,
        members: Mapping[str, str],
        timeouts: Timeouts,
        state: RunState,
    ) -> None:
        self.site = transport.site
        self.others = tuple(sorted({*members.values()} - {self.site}))
        self._transport = transport
        self._members = dict(members)
        self._timeouts = timeouts
        self._state = state
        self._numbers = itertools.count(1)
        self._secrets: dict[str, bytes] = {}
        self._stopped = threading.Event()

    def site_of(self, party: str) -> str:
        """Return where a party lives."""
        if party not in self._members:
            raise ParameterError(
                f"No site is known for party {party!r}.",
                "Every party of a job lives at one of its sites.",
                "Check the members of the job.",
            )
        return self._members[party]

    @property
    def parties(self) -> tuple[str, ...]:
        """All parties of the job, in its order."""
        return tuple(self._members)

    def parties_at(self, site: str) -> tuple[str, ...]:
        """Return the parties that live at a site."""
        return tuple(party for party, place in self._members.items() if place == site)

    def share_secret(self, site: str) -> bytes:
        """Return what only this site and another one know in this run."""
        if site not in self._secrets:
            own = site == self.site
            self._secrets[site] = token_bytes(32) if own else self._transport.share_secret(site)
        return self._secrets[site]

    def identify(self, party: str, *scope: str) -> Identity:
        """Make the identity of a party here, in one protocol of this run."""
        return self._transport.identify(party, self._members, *scope)

    def next_number(self) -> int:
        """Return a number that no other call of this site has."""
        return next(self._numbers)

    def connect_all(self) -> None:
        """Wait until every other site is there, and agree with each on the job."""
        work = self.ask_all("connect to", self._connect)
        wait(work.values())
        for future in work.values():
            future.result()

    def start_heartbeats(self) -> None:
        """Show every other site from time to time that this one is alive."""
        self.ask_all("heartbeat to", self._send_heartbeats)

    def stop_heartbeats(self) -> None:
        """Send no more signs of life."""
        self._stopped.set()

    def ask_all(self, name: str, ask: Callable[[str], R]) -> dict[str, Future[R]]:
        """Call a function for every other site at once, each on a thread of its own."""
        return {site: in_thread(f"{name} {site}", ask, site) for site in self.others}

    def call(
        self, site: str, call: RoleCall, deadline: float, given_up: threading.Event
    ) -> bytes | Fault:
        """Send a call to its site and wait for the reply, polling while that site computes."""
        hold = self._hold(deadline)
        reply = self._send(site, msgspec.structs.replace(call, hold=hold), hold)
        while True:
            match reply:
                case RoleReply(frame=frame):
                    return frame
                case Refused(code=RunEnded.code):
                    raise run_is_over()
                case Refused(code=code, text=text):
                    return Fault(code, text)
                case ReplyReady(n_bytes=n_bytes):
                    reply = self._send(site, FetchReply(call.number), 0.0, n_bytes)
                case StillBusy():
                    self.check_running()
                    if given_up.is_set():
                        return Fault(RunEnded.code, "nobody waits for the answer any more")
                    hold = self._hold(deadline)
                    reply = self._send(site, PollReply(call.number, hold), hold)
                case _:
                    raise _unexpected_reply(site)

    def close(self, site: str, exchange: int, deadline: float) -> SiteCounts | Fault:
        """Tell a site that a protocol has ended and return its counts."""
        while True:
            hold = self._hold(deadline)
            match self._send(site, CloseExchange(exchange, hold), hold):
                case SiteCounts() as counts:
                    return counts
                case Refused(code=code, text=text):
                    return Fault(code, text)
                case StillBusy():
                    self.check_running()
                    if time.monotonic() > deadline:
                        return Fault(SiteUnreachable.code, "it has not come so far in time")
                case _:
                    raise _unexpected_reply(site)

    def cancel(self, fault: Fault) -> None:
        """Tell every other site that the run is over; those that cannot be reached are left."""

        def cancel(site: str) -> None:
            with contextlib.suppress(FedsiftError):
                self._send(site, CancelRun(fault.code, fault.text), 0.0)

        if not self._transport.aborted:
            wait(self.ask_all("cancel", cancel).values(), timeout=self._timeouts.cancel_seconds)

    def find_missing(self) -> list[str]:
        """Return the sites that show no sign of life when asked for one."""
        work = self.ask_all("probe", lambda site: self._send(site, Heartbeat(), 0.0))
        wait(work.values(), timeout=self._timeouts.probe_seconds)
        return [site for site, future in work.items() if not future.done() or future.exception()]

    def check_running(self) -> None:
        """Raise if the run is over."""
        if self._state.ending is not None:
            raise run_is_over()
        if self._transport.aborted:
            raise aborted()

    def _send(
        self, site: str, request: SiteRequest, hold_seconds: float, n_bytes: int = 0
    ) -> SiteReply:
        content = encode(request)
        limit = self._timeouts.limit_round_trip(len(content) + n_bytes, hold_seconds)
        raw = self._transport.request(site, content, limit)
        self._state.heard(site)
        reply = decode_reply(raw)
        if isinstance(reply, RunOver):
            # Another site knows already that the run is over.
            self._state.end(reply.site, Fault(reply.code, reply.text))
            raise run_is_over()
        return reply

    def _hold(self, deadline: float) -> float:
        return min(self._timeouts.hold_seconds, max(0.0, deadline - time.monotonic()))

    def _connect(self, site: str) -> None:
        """Try until the site is there; a site that disagrees is not waited for."""
        limits = self._timeouts
        deadline, pause = time.monotonic() + limits.join_seconds, limits.first_retry_seconds
        while True:
            self.check_running()
            left = max(limits.first_retry_seconds, deadline - time.monotonic())
            try:
                self._transport.connect(site, min(limits.round_trip_seconds, left))
            except SiteUnreachable:
                if time.monotonic() > deadline:
                    limit = f"it did not join within {limits.join_seconds:g} seconds"
                    raise SiteUnreachable(site, limit) from None
            else:
                self._state.heard(site)
                return
            time.sleep(pause)
            pause = min(2 * pause, limits.longest_retry_seconds)

    def _send_heartbeats(self, site: str) -> None:
        while not self._stopped.wait(self._timeouts.heartbeat_seconds):
            # A site that cannot be reached is noticed by whoever asks it next.
            with contextlib.suppress(FedsiftError):
                self._send(site, Heartbeat(), 0.0)


def run_is_over() -> RunEnded:
    """Make the error of a run that was ended somewhere; the run's state knows why."""
    return RunEnded("The run is over.", "All sites must run to the end.", "Run the job again.")


def _unexpected_reply(site: str) -> BadFrame:
    return BadFrame(
        f"Site {site!r} answered something else than it was asked.",
        "All sites must follow the same version of the protocol between sites.",
        "Check that all sites run the same version of fedsift.",
    )
