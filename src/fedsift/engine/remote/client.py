# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a site sends to other sites: greetings, calls, signs of life, the news that it is over."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Mapping
from concurrent.futures import wait

import msgspec

from fedsift.engine.remote.secure_transport import SecureTransport, aborted
from fedsift.engine.remote.state import RunState
from fedsift.engine.remote.transport import Timeouts
from fedsift.engine.remote.wire import (
    Answer,
    Beat,
    Busy,
    Call,
    Cancel,
    Close,
    Counts,
    Fetch,
    Over,
    Poll,
    Question,
    Ready,
    Refusal,
    Reply,
    pack,
    read_reply,
)
from fedsift.engine.threads import in_thread
from fedsift.errors import BadFrame, FedsiftError, ParameterError, RunEnded, SiteUnreachable
from fedsift.protocol.codec import Fault

_GOODBYE_SECONDS = 5.0
_PROBE_SECONDS = 2.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0


class SiteClient:
    """Sends for one site.

    Parameters
    ----------
    line : SecureTransport
    members : mapping of party -> site
    """

    def __init__(
        self, line: SecureTransport, members: Mapping[str, str], patience: Timeouts, state: RunState
    ) -> None:
        self.site = line.site
        self.others = tuple(sorted({*members.values()} - {self.site}))
        self._line = line
        self._members = dict(members)
        self._patience = patience
        self._state = state
        self._numbers = itertools.count(1)
        self._stopped = threading.Event()

    def site_of(self, party: str) -> str:
        """Where a party lives."""
        if party not in self._members:
            raise ParameterError(
                f"No site is known for party {party!r}.",
                "Every party of a job lives at one of its sites.",
                "Check the members of the job.",
            )
        return self._members[party]

    def parties_at(self, site: str) -> tuple[str, ...]:
        """Who lives at a site."""
        return tuple(party for party, place in self._members.items() if place == site)

    def next_number(self) -> int:
        """A number that no other call of this site has."""
        return next(self._numbers)

    def greet_all(self) -> None:
        """Wait until every other site is there, and agree with each on the job."""
        work = [in_thread(f"greet {site}", self._greet, site) for site in self.others]
        wait(work)
        for future in work:
            future.result()

    def start_beating(self) -> None:
        """Show every other site from time to time that this one is alive."""
        for site in self.others:
            in_thread(f"beat to {site}", self._beat, site)

    def stop(self) -> None:
        """Send no more signs of life."""
        self._stopped.set()

    def ask(
        self, site: str, call: Call, deadline: float, given_up: threading.Event
    ) -> bytes | Fault:
        """Bring a call to its site and wait for the answer, polling while that site computes."""
        hold = self._hold(deadline)
        reply = self._send(site, msgspec.structs.replace(call, hold=hold), hold)
        while True:
            match reply:
                case Answer(frame=frame):
                    return frame
                case Refusal(code=RunEnded.code):
                    raise over()
                case Refusal(code=code, text=text):
                    return Fault(code, text)
                case Over():
                    raise self._ended(reply)
                case Ready(n_bytes=n_bytes):
                    reply = self._send(site, Fetch(call.number), 0.0, n_bytes)
                case Busy():
                    self.check_on()
                    if given_up.is_set():
                        return Fault(RunEnded.code, "nobody waits for the answer any more")
                    hold = self._hold(deadline)
                    reply = self._send(site, Poll(call.number, hold), hold)
                case _:
                    raise _strange(site)

    def close(self, site: str, stage: int, deadline: float) -> Counts | Fault:
        """Tell a site that a stage is over and get its counts."""
        while True:
            hold = self._hold(deadline)
            match self._send(site, Close(stage, hold), hold):
                case Counts() as tally:
                    return tally
                case Over() as news:
                    raise self._ended(news)
                case Refusal(code=code, text=text):
                    return Fault(code, text)
                case Busy():
                    self.check_on()
                    if time.monotonic() > deadline:
                        return Fault(SiteUnreachable.code, "it has not come so far in time")
                case _:
                    raise _strange(site)

    def cancel(self, fault: Fault) -> None:
        """Tell every other site that the run is over; whoever cannot be reached is left."""

        def tell(site: str) -> None:
            with contextlib.suppress(FedsiftError):
                self._send(site, Cancel(fault.code, fault.text), 0.0)

        if not self._line.aborted:
            work = [in_thread(f"cancel {site}", tell, site) for site in self.others]
            wait(work, timeout=_GOODBYE_SECONDS)

    def missing(self) -> list[str]:
        """Sites that show no sign of life when asked for one."""
        work = {
            site: in_thread(f"probe {site}", self._send, site, Beat(), 0.0) for site in self.others
        }
        wait(work.values(), timeout=_PROBE_SECONDS)
        return [site for site, future in work.items() if not future.done() or future.exception()]

    def _send(self, site: str, note: Question, hold_seconds: float, n_bytes: int = 0) -> Reply:
        content = pack(note)
        limit = self._patience.trip(len(content) + n_bytes, hold_seconds)
        raw = self._line.request(site, content, limit)
        self._state.heard(site)
        return read_reply(raw)

    def _ended(self, news: Over) -> RunEnded:
        """Another site knows already that the run is over."""
        self._state.end(news.site, Fault(news.code, news.text))
        return over()

    def _hold(self, deadline: float) -> float:
        return min(self._patience.hold_seconds, max(0.0, deadline - time.monotonic()))

    def check_on(self) -> None:
        """Raise if the run is over."""
        if self._state.ending is not None:
            raise over()
        if self._line.aborted:
            raise aborted()

    def _greet(self, site: str) -> None:
        """Greet until the site is there; a site that disagrees is not waited for."""
        deadline, pause = time.monotonic() + self._patience.join_seconds, _FIRST_PAUSE
        while True:
            self.check_on()
            left = max(_FIRST_PAUSE, deadline - time.monotonic())
            try:
                self._line.greet(site, min(self._patience.exchange_seconds, left))
            except SiteUnreachable:
                if time.monotonic() > deadline:
                    limit = f"it did not join within {self._patience.join_seconds:g} seconds"
                    raise SiteUnreachable(site, limit) from None
            else:
                self._state.heard(site)
                return
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _beat(self, site: str) -> None:
        while not self._stopped.wait(self._patience.beat_seconds):
            # A site that cannot be reached is noticed by whoever asks it next.
            with contextlib.suppress(FedsiftError):
                self._send(site, Beat(), 0.0)


def over() -> RunEnded:
    """The run was ended somewhere; why is known to the run's state."""
    return RunEnded("The run is over.", "All sites must play to the end.", "Run the job again.")


def _strange(site: str) -> BadFrame:
    return BadFrame(
        f"Site {site!r} answered something else than it was asked.",
        "Sites must follow the agreed version of the relay.",
        "Check that all sites run the same version of fedsift.",
    )
