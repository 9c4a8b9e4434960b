# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""One site of several: it runs its own roles and reaches the others over a secure transport.

Every site runs the same job and so the same protocols in the same order; each is an *exchange*. The
site of the driving role drives it and then closes it everywhere; until then every other site
answers. A site that still computes says so, which tells a slow site from a dead one. A site that
fails cancels the run everywhere; one that hears nothing from the driver for too long ends its part
by itself. Nothing waits without a limit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Self, Unpack

from fedsift.engine.local import one_thread_each, printable, to_error
from fedsift.engine.observer import Outcome, sum_timings
from fedsift.engine.remote.client import SiteClient
from fedsift.engine.remote.exchange import RemoteExchange
from fedsift.engine.remote.secure_transport import RunState, SecureTransport, aborted
from fedsift.engine.remote.server import SiteServer
from fedsift.engine.remote.wire import SiteCounts
from fedsift.engine.session import SessionOptions, to_fault
from fedsift.engine.timeouts import DEFAULT_TIMEOUTS, Timeouts
from fedsift.errors import (
    Disagreement,
    FedsiftError,
    PartyFailed,
    PolicyViolation,
    RunEnded,
    SiteUnreachable,
)
from fedsift.protocol.commitments import Record, mark_resumed, mark_selected
from fedsift.protocol.message import Fault
from fedsift.protocol.role import DrivingRole, Network, Protocol, RemoteRole, Role
from fedsift.result import SignedChain


class SiteEngine:
    """Runs this site's part in every protocol of a job; use it in a ``with`` statement.

    Parameters
    ----------
    members : mapping of party -> site
        Where every party of the job lives, the same at all sites.
    transport : SecureTransport
        Connects this site with the others.
    timeouts : Timeouts, optional
        How long to wait for them.
    """

    def __init__(
        self,
        members: Mapping[str, str],
        transport: SecureTransport,
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
    ) -> None:
        self._transport = transport
        self._timeouts = timeouts
        self._state = RunState()
        self._client = SiteClient(transport, members, timeouts, self._state)
        self._server = SiteServer(timeouts, self._state)
        self._n_exchanges = 0
        self._exchange: RemoteExchange | None = None
        self._lines: list[str] = []
        self._closing = False

    def __repr__(self) -> str:
        return f"<engine at {self._transport.site!r}>"

    @property
    def home(self) -> tuple[str, ...] | None:
        """Parties that live here."""
        return self._client.parties_at(self._transport.site)

    @property
    def driving(self) -> tuple[int, int] | None:
        """Number of the exchange that is, or was last, driven from here, and its round."""
        exchange = self._exchange
        if exchange is None or isinstance(exchange.driver, RemoteRole):
            return None
        return exchange.number, exchange.round_number

    def __enter__(self) -> Self:
        """Connect to the other sites and agree on the job; refuses those that run another one."""
        self._transport.serve(self._server.answer)
        try:
            self._client.connect_all()
        except RunEnded as error:
            raise self._reason() or error from None
        except BaseException as error:
            self._give_up(error)
            raise
        self._client.start_heartbeats()
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        # Requests are still served: the last reply may have been lost and be asked for again.
        self._client.stop_heartbeats()
        if error is not None:
            self._give_up(error)

    def run(
        self,
        protocol: Protocol,
        nodes: Mapping[str, Sequence[Role]],
        *,
        timeout_seconds: float | None = None,
        on_interrupt: Callable[[], None] | None = None,
        **options: Unpack[SessionOptions],
    ) -> Outcome:
        """Run one protocol to its end; see :meth:`fedsift.engine.session.Engine.run`."""
        self._n_exchanges += 1
        limit = timeout_seconds or self._timeouts.request_seconds
        sign = self._sign_chains if self._closing else None
        exchange = RemoteExchange(
            self._n_exchanges, protocol, nodes, self._client, limit, sign, **options
        )
        self._exchange = exchange
        self._server.open(exchange)
        try:
            with one_thread_each():
                if isinstance(exchange.driver, RemoteRole):
                    outcome = self._attend(exchange)
                else:
                    exchange.driver.watcher = getattr(options.get("observer"), "step", None)
                    outcome = self._drive(exchange, exchange.driver, on_interrupt)
            self._lines += exchange.session.transcript.lines
            return outcome
        except RunEnded as error:
            raise self._reason() or error from None
        except BaseException as error:
            self._give_up(error)
            raise
        finally:
            self._server.close()
            exchange.close()

    def close_record(
        self,
        coordinator: str,
        *,
        selected: Mapping[str, Collection[str]] | None = None,
        resumed: bool = False,
    ) -> Record | None:
        """Have all sites sign what their parties sent and received; see the interface."""
        self._closing = True
        if resumed:
            self._lines.append(mark_resumed("job", 0))
        self._lines += [mark_selected(party, names) for party, names in (selected or {}).items()]
        home = self.home or ()
        nodes: dict[str, Sequence[Role]] = {}
        for party in self._client.parties:
            kind = Keeper if party == coordinator else Signatory
            nodes[party] = (kind() if party in home else RemoteRole(kind),)
        self.run(CLOSING, nodes)
        exchange = self._exchange
        if coordinator not in home or exchange is None:
            return None
        return Record(self._transport.signer, coordinator, self._sign_chains() + exchange.chains)

    def _sign_chains(self) -> tuple[SignedChain, ...]:
        signer = self._transport.signer
        return tuple(signer.sign_messages(party, self._lines) for party in self.home or ())

    def _drive(
        self,
        exchange: RemoteExchange,
        driver: DrivingRole,
        on_interrupt: Callable[[], None] | None,
    ) -> Outcome:
        """Walk through the protocol, close it at all sites and add up all counts."""
        node = exchange.nodes[exchange.driver_address.party]
        work = node.submit(driver.drive(exchange.network(exchange.driver_address)))
        value = self._wait(work, on_interrupt)
        seconds = [exchange.sum_phases()]
        for site, counts in self._close_everywhere(exchange).items():
            exchange.add_counts(site, counts)
            seconds.append(counts.seconds)
        return exchange.make_outcome(value, sum_timings(seconds))

    def _attend(self, exchange: RemoteExchange) -> Outcome:
        """Answer until the driver closes the exchange, falls silent, or ends the run."""
        state, start = self._state, time.monotonic()
        with state.changed:
            while not exchange.closed:
                if exchange.tampering is not None:
                    raise exchange.tampering
                self._client.check_running()
                silent = state.silent_seconds(exchange.driver_site, start)
                if silent > self._timeouts.idle_seconds:
                    raise SiteUnreachable(
                        exchange.driver_site, f"nothing was heard from it for {silent:.0f} seconds"
                    )
                state.changed.wait(self._timeouts.abort_check_seconds)
        exchange.add_served()
        return exchange.make_outcome(None, exchange.sum_phases())

    def _wait(self, work: Future[Any], on_interrupt: Callable[[], None] | None) -> Any:
        while True:
            try:
                return work.result(timeout=self._timeouts.abort_check_seconds)
            except TimeoutError:
                if work.done():
                    raise
                self._client.check_running()
            except KeyboardInterrupt:
                if on_interrupt is None:
                    raise
                on_interrupt()
                on_interrupt = None

    def _close_everywhere(self, exchange: RemoteExchange) -> dict[str, SiteCounts]:
        """Close an exchange at all other sites at once."""
        deadline = time.monotonic() + exchange.limit_seconds
        work = self._client.ask_all(
            "close", lambda site: self._client.close(site, exchange.number, deadline)
        )
        closed = {}
        for site, future in work.items():
            reply = future.result()
            if isinstance(reply, Fault):
                raise self._failed(site, reply)
            closed[site] = reply
        return closed

    def _failed(self, site: str, fault: Fault) -> FedsiftError:
        """Make the error of a whole site that failed, as one of its parties."""
        if self._exchange is None and fault.code == Disagreement.code:
            return Disagreement(printable(fault.text))
        party = ", ".join(self._client.parties_at(site)) or site
        part, round_number = "the start of the run", 0
        if self._exchange is not None:
            part = f"its part of protocol {self._n_exchanges}"
            round_number = self._exchange.round_number
        if fault.code == RunEnded.code:
            return PartyFailed(
                party, part, round_number, printable(fault.text), cause_code=fault.code
            )
        return to_error(fault, party, part, round_number)

    def _reason(self) -> FedsiftError | None:
        """Find out why another site ended the run; to the driver it is that site's failure."""
        # When FLARE loses a site it ends the job, but does not say which site it was. Looking for
        # it takes a moment, in which the site that ended the run may say so itself.
        lost = self._client.find_missing() if self._state.ending is None else []
        ending = self._state.ending
        if ending is None and lost:
            fault = Fault(SiteUnreachable.code, "the site was lost")
            self._state.end(lost[0], fault)  # whoever asks here learns whose end it was
            return self._failed(lost[0], fault)
        if ending is None:
            return aborted() if self._transport.aborted else None
        if ending.site == self._transport.site:
            return None
        driven_elsewhere = self._exchange is not None and self.driving is None
        if not driven_elsewhere or ending.fault.code == PolicyViolation.code:
            return self._failed(ending.site, ending.fault)
        return RunEnded(
            f"Site {ending.site!r} ended the run: {printable(ending.fault.text)}",
            "All sites must run to the end.",
            f"Look at the log of {ending.site!r}, mend the cause there and run the job again.",
        )

    def _give_up(self, error: BaseException) -> None:
        """Tell the others, unless the run has ended already."""
        if self._state.ending is None:
            fault = to_fault(error, for_others=True)
            if isinstance(error, KeyboardInterrupt):
                fault = Fault(RunEnded.code, "the run was interrupted")
            self._client.cancel(fault)
            self._state.end(self._transport.site, fault)


class Keeper(DrivingRole, name="keeper"):
    """Writes the result."""

    async def drive(self, net: Network) -> None:
        """Send nothing: records are collected when the protocol is closed."""


class Signatory(Role, name="signatory"):
    """Signs."""


CLOSING = Protocol(name="closing", messages=(), roles=(Keeper, Signatory))
