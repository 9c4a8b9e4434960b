# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""One site of several: it plays its own roles and reaches the others over a sealed line.

Every site runs the same script and so plays the same protocols in the same order; each is a
*stage*. The site of the driving role drives it and then closes it everywhere; until then every
other site answers. A site that still computes says so, which tells a slow site from a dead one. A
site that fails cancels the run everywhere; one that hears nothing from the driver for too long ends
its part by itself. Nothing waits without a limit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self

from fedsift.engine.exchange import DEFAULT_TIMEOUT_SECONDS, failure, printable
from fedsift.engine.outcome import Outcome, sum_timings
from fedsift.engine.remote.client import SiteClient
from fedsift.engine.remote.exchange import RemoteExchange
from fedsift.engine.remote.secure_transport import SecureTransport, aborted
from fedsift.engine.remote.server import SiteServer
from fedsift.engine.remote.state import RunState
from fedsift.engine.remote.transport import Timeouts
from fedsift.engine.remote.wire import Counts
from fedsift.engine.session import Observer, fault_of
from fedsift.engine.threads import in_thread, one_thread_each
from fedsift.errors import (
    Disagreement,
    FedsiftError,
    PartyFailed,
    PolicyViolation,
    RunEnded,
    SiteUnreachable,
)
from fedsift.protocol.codec import Fault
from fedsift.protocol.policy import Policy
from fedsift.protocol.protocol import Protocol
from fedsift.protocol.remote_role import RemoteRole
from fedsift.protocol.role import DrivingRole, Role

_TICK_SECONDS = 0.2
"""How often a wait looks whether the engine has given up."""


class SiteEngine:
    """Plays this site's part in every protocol of a job; use it in a ``with`` statement.

    Parameters
    ----------
    members : mapping of party -> site
        Where every party of the job lives, the same at all sites.
    line : SecureTransport
        To the other sites.
    patience : Patience, optional
        How long to wait for them.
    """

    def __init__(
        self, members: Mapping[str, str], line: SecureTransport, patience: Timeouts | None = None
    ) -> None:
        self._line = line
        self._patience = patience or Timeouts()
        self._state = RunState()
        self._courier = SiteClient(line, members, self._patience, self._state)
        self._desk = SiteServer(self._patience, self._state)
        self._stages = 0
        self._stage: RemoteExchange | None = None

    def __repr__(self) -> str:
        return f"<player at {self._line.site!r}>"

    @property
    def home(self) -> tuple[str, ...] | None:
        """Parties that live here."""
        return self._courier.parties_at(self._line.site)

    @property
    def driving(self) -> tuple[int, int] | None:
        """Number of the stage that is, or was last, driven from here, and its round."""
        stage = self._stage
        if stage is None or isinstance(stage.driver, RemoteRole):
            return None
        return stage.number, stage.round_number

    def __enter__(self) -> Self:
        """Meet the other sites and agree on the job; refuses those that run another one."""
        self._line.serve(self._desk.answer)
        try:
            self._courier.greet_all()
        except RunEnded as error:
            raise self._reason() or error from None
        except BaseException as error:
            self._give_up(error)
            raise
        self._courier.start_beating()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # The line stays served: the last reply may have been lost and be asked for again.
        self._courier.stop()
        if error is not None:
            self._give_up(error)

    def run(
        self,
        protocol: Protocol,
        nodes: Mapping[str, Sequence[Role]],
        *,
        policies: Mapping[str, Policy] | None = None,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
        protected: bool = True,
        observer: Observer | None = None,
        on_interrupt: Callable[[], None] | None = None,
        keep_frames: bool = False,
    ) -> Outcome:
        """See :class:`fedsift.engine.api.Engine`."""
        self._stages += 1
        stage = RemoteExchange(
            self._stages,
            protocol,
            nodes,
            self._courier,
            policies=policies,
            timeout_seconds=timeout_seconds,
            keep_frames=keep_frames,
            protected=protected,
            observer=observer,
        )
        self._stage = stage
        self._desk.open(stage)
        try:
            with one_thread_each():
                if isinstance(stage.driver, RemoteRole):
                    return self._attend(stage)
                return self._drive(stage, stage.driver, on_interrupt)
        except RunEnded as error:
            raise self._reason() or error from None
        except BaseException as error:
            self._give_up(error)
            raise
        finally:
            self._desk.shut()
            stage.shut()

    def _drive(
        self, stage: RemoteExchange, driver: DrivingRole, on_interrupt: Callable[[], None] | None
    ) -> Outcome:
        """Walk through the protocol, close the stage everywhere and add up all counts."""
        node = stage.nodes[stage.driver_address.party]
        driver.watcher = getattr(stage.observer, "step", None)
        work = node.submit(driver.drive(stage.door(stage.driver_address)))
        value = self._result(work, on_interrupt)
        seconds = [stage.phases()]
        for site, tally in self._closed(stage).items():
            stage.add(site, tally)
            seconds.append(tally.seconds)
        session = stage.session
        return Outcome(
            value, session.transcript, session.ledger, sum_timings(seconds) | stage.clock()
        )

    def _attend(self, stage: RemoteExchange) -> Outcome:
        """Answer until the driver closes the stage, falls silent, or ends the run."""
        state, start = self._state, time.monotonic()
        with state.changed:
            while not stage.closed:
                self._courier.check_on()
                silent = state.silent_seconds(stage.driver_site, start)
                if silent > self._patience.idle_seconds:
                    raise SiteUnreachable(
                        stage.driver_site, f"nothing was heard from it for {silent:.0f} seconds"
                    )
                state.changed.wait(_TICK_SECONDS)
        stage.own_view()
        session = stage.session
        return Outcome(None, session.transcript, session.ledger, stage.phases() | stage.clock())

    def _result(self, work: Future[Any], on_interrupt: Callable[[], None] | None) -> Any:
        while True:
            try:
                return work.result(timeout=_TICK_SECONDS)
            except TimeoutError:
                if work.done():
                    raise
                self._courier.check_on()
            except KeyboardInterrupt:
                if on_interrupt is None:
                    raise
                on_interrupt()
                on_interrupt = None

    def _closed(self, stage: RemoteExchange) -> dict[str, Counts]:
        """Close a stage at all other sites at once."""
        deadline = time.monotonic() + stage.limit_seconds
        work = {
            site: in_thread(f"close {site}", self._courier.close, site, stage.number, deadline)
            for site in self._courier.others
        }
        tallies = {}
        for site, future in work.items():
            reply = future.result()
            if isinstance(reply, Fault):
                raise self._failed(site, reply)
            tallies[site] = reply
        return tallies

    def _failed(self, site: str, fault: Fault) -> FedsiftError:
        """The failure of a whole site, as one of its parties."""
        if self._stage is None and fault.code == Disagreement.code:
            return Disagreement(printable(fault.text))
        party = ", ".join(self._courier.parties_at(site)) or site
        part = f"its part of stage {self._stages}" if self._stage else "the start of the run"
        round_number = self._stage.round_number if self._stage else 0
        if fault.code == RunEnded.code:
            return PartyFailed(
                party, part, round_number, printable(fault.text), cause_code=fault.code
            )
        return failure(fault, party, part, round_number)

    def _reason(self) -> FedsiftError | None:
        """Why another site ended the run; to the driver it is that site's failure."""
        # An engine that loses a site ends the job, but does not say which site it was. Looking for
        # it takes a moment, in which the site that ended the run may say so itself.
        lost = self._courier.missing() if self._state.ending is None else []
        ending = self._state.ending
        if ending is None and lost:
            fault = Fault(SiteUnreachable.code, "the site was lost")
            self._state.end(lost[0], fault)  # whoever asks here is told whose end it was
            return self._failed(lost[0], fault)
        if ending is None:
            return aborted() if self._line.aborted else None
        if ending.site == self._line.site:
            return None
        driven_elsewhere = self._stage is not None and self.driving is None
        if not driven_elsewhere or ending.fault.code == PolicyViolation.code:
            return self._failed(ending.site, ending.fault)
        return RunEnded(
            f"Site {ending.site!r} ended the run: {printable(ending.fault.text)}",
            "All sites must play to the end.",
            f"Look at the log of {ending.site!r}, fix the cause there, and run the job again.",
        )

    def _give_up(self, error: BaseException) -> None:
        """Tell the others, unless the run has ended already."""
        if self._state.ending is None:
            fault = fault_of(error, abroad=True)
            if isinstance(error, KeyboardInterrupt):
                fault = Fault(RunEnded.code, "the run was interrupted")
            self._courier.cancel(fault)
            self._state.end(self._line.site, fault)
