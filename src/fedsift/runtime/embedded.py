# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""All parties in this process: one thread and one event loop each, bytes in between.

Parties share no objects. Every payload goes through the codec exactly as it would over a network,
so what works here cannot fail to serialise later, and a party that is busy or stuck does not stop
the others from noticing.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from fedsift.errors import (
    FedsiftError,
    ParameterError,
    PartyFailed,
    PolicyViolation,
    UndeclaredFlow,
)
from fedsift.protocol.absent import Absent
from fedsift.protocol.codec import MAX_FRAME_BYTES, Done, Fault
from fedsift.protocol.ledger import Ledger
from fedsift.protocol.message import Message
from fedsift.protocol.network import T
from fedsift.protocol.policy import Policy
from fedsift.protocol.protocol import Protocol, absent_parties, find_driver, placement_of
from fedsift.protocol.role import Role
from fedsift.protocol.transcript import Transcript
from fedsift.runtime.session import Address, Observer, Session, fault_of

DEFAULT_TIMEOUT_SECONDS = 900.0
R = TypeVar("R")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Outcome:
    """What a finished run gives back."""

    value: Any
    transcript: Transcript
    ledger: Ledger
    timings: dict[str, float]


class _Node:
    """One organisation: its roles, on a thread of its own."""

    def __init__(self, party: str, roles: Sequence[Role]) -> None:
        self.party = party
        self.roles = {role.role_name: role for role in roles}
        self.loop = asyncio.new_event_loop()
        # A daemon: a party stuck in a computation must not keep the process alive.
        self._thread = threading.Thread(target=self._run, name=f"party {party}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()

    def submit(self, work: Coroutine[Any, Any, R]) -> concurrent.futures.Future[R]:
        """Run a coroutine on this party's thread."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def close(self) -> None:
        """Stop the loop; a party still computing is left to its daemon thread."""
        self.submit(self._stop())
        self._thread.join(timeout=1.0)

    async def _stop(self) -> None:
        """Let cancelled requests unwind before the loop ends, so that nothing complains later."""
        tasks = asyncio.all_tasks(self.loop) - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.loop.call_soon(self.loop.stop)


class _EmbeddedNetwork:
    """The door of one role at one party."""

    def __init__(self, runtime: _Run, address: Address) -> None:
        self._runtime = runtime
        self._address = address
        self.party = address.party

    def members(self, role: str) -> tuple[str, ...]:
        return self._runtime.session.members(role)

    async def ask(
        self,
        role: str,
        message: Message | Mapping[str, Message],
        reply: type[T],
        *,
        timeout_seconds: float | None = None,
    ) -> list[T]:
        """See :class:`fedsift.protocol.network.Network`."""
        members = self.members(role)
        if isinstance(message, Message):
            message = dict.fromkeys(members, message)
        strangers = sorted(set(message) - set(members))
        if not members or strangers:
            raise UndeclaredFlow(
                f"Asked {strangers or 'nobody'} as {role!r}.",
                f"Parties with that role: {', '.join(members) or 'none'}.",
                "Check the placement of roles.",
            )
        round_number = self._runtime.session.transcript.next_round()
        calls = [
            self._runtime.call(
                self._address,
                Address(party, role),
                message[party],
                reply,
                round_number,
                timeout_seconds,
            )
            for party in members
            if party in message
        ]
        tasks = [asyncio.ensure_future(call) for call in calls]
        start = time.perf_counter()
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()
            self._runtime.waited(self._address, time.perf_counter() - start)

    async def tell(
        self,
        role: str,
        message: Message | Mapping[str, Message],
        *,
        timeout_seconds: float | None = None,
    ) -> None:
        """See :class:`fedsift.protocol.network.Network`."""
        await self.ask(role, message, Done, timeout_seconds=timeout_seconds)


class _Run:
    """The state of one run: nodes, session, time limits."""

    def __init__(
        self, session: Session, nodes: Mapping[str, _Node], timeout_seconds: float
    ) -> None:
        self.session = session
        self._nodes = nodes
        self._timeout_seconds = timeout_seconds
        self._wait_seconds: dict[Address, float] = {}

    def waited(self, address: Address, seconds: float) -> None:
        """Note how long a role waited for others."""
        self._wait_seconds[address] = self._wait_seconds.get(address, 0.0) + seconds

    def wait_of(self, party: str) -> float:
        """Seconds a party's roles waited for others."""
        return sum(s for address, s in self._wait_seconds.items() if address.party == party)

    def network(self, address: Address) -> _EmbeddedNetwork:
        """The door of one role."""
        return _EmbeddedNetwork(self, address)

    async def call(
        self,
        sender: Address,
        receiver: Address,
        message: Message,
        reply: type[T],
        round_number: int,
        timeout_seconds: float | None,
    ) -> T:
        """One request and its answer, through bytes, within the time limit."""
        frame = self.session.seal(message, sender, receiver)
        self.session.record(frame, message, round_number, sender, receiver)
        limit = self._timeout_seconds if timeout_seconds is None else timeout_seconds
        future = self._nodes[receiver.party].submit(self._serve(frame, sender, receiver))
        name = type(message).__name__
        try:
            answer = await asyncio.wait_for(asyncio.wrap_future(future), limit)
        except TimeoutError:
            reason = f"no answer within {limit:g} seconds"
            raise PartyFailed(receiver.party, name, round_number, reason) from None
        try:
            received = self.session.open(answer, sender, [reply])
        except FedsiftError as error:
            reason = f"its answer is not valid ({error.code})"
            raise PartyFailed(
                receiver.party, name, round_number, reason, cause_code=error.code
            ) from error
        self.session.record(answer, received, round_number, receiver, sender)
        if isinstance(received, Fault):
            raise self._failure(received, receiver, name, round_number)
        if not isinstance(received, reply):
            reason = f"it answered {type(received).__name__} instead of {reply.__name__}"
            raise PartyFailed(receiver.party, name, round_number, reason)
        return received

    async def _serve(self, frame: bytes, sender: Address, receiver: Address) -> bytes:
        """At the receiving party: decode, handle, encode; errors become faults."""
        try:
            role = self._nodes[receiver.party].roles[receiver.role]
            message = self.session.open(frame, receiver, self.session.inbound(receiver.role))
            answer = await role.handle(message, self.network(receiver))
            return self.session.seal(answer, receiver, sender)
        except Exception as error:
            _log.debug("party %s failed", receiver.party, exc_info=True)
            return self.session.codec.encode(fault_of(error))

    def _failure(self, fault: Fault, at: Address, name: str, round_number: int) -> FedsiftError:
        """A refusal by policy stays one; everything else is a failed party."""
        if fault.code == PolicyViolation.code:
            return PolicyViolation(fault.text)
        reason = f"{fault.code}: {fault.text}"
        return PartyFailed(at.party, name, round_number, reason, cause_code=fault.code)


def run_embedded(
    protocol: Protocol,
    nodes: Mapping[str, Sequence[Role]],
    *,
    policies: Mapping[str, Policy] | None = None,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    max_frame_bytes: int = MAX_FRAME_BYTES,
    keep_frames: bool = False,
    protected: bool = True,
    observer: Observer | None = None,
    on_interrupt: Callable[[], None] | None = None,
) -> Outcome:
    """Run a protocol with every party in this process.

    Parameters
    ----------
    nodes : mapping of party -> roles
        Exactly one of all roles is a driving one.
    timeout_seconds : float
        Limit of every single request.
    keep_frames : bool
        Keep all bytes in the transcript, for privacy tests and attacks.
    protected : bool
        False for ``security="plain"``, so that the ledger says so.
    on_interrupt : callable, optional
        Called at the first Ctrl-C, to ask the driving role for an early but orderly end. Without
        it, and at the second one, the run stops at once.
    """
    party, driver = find_driver(nodes)
    if isinstance(driver, Absent) or absent_parties(nodes):
        raise ParameterError(
            f"The roles of {', '.join(absent_parties(nodes))} are played elsewhere.",
            "A run in one process needs every role here.",
            "Give all parties' data, or run the job across the sites.",
        )
    session = Session(
        protocol,
        placement_of(nodes),
        policies=policies,
        max_frame_bytes=max_frame_bytes,
        keep_frames=keep_frames,
        protected=protected,
        observer=observer,
    )
    workers = {name: _Node(name, roles) for name, roles in nodes.items()}
    run = _Run(session, workers, timeout_seconds)
    start = time.perf_counter()
    try:
        net = run.network(Address(party, driver.role_name))
        value = _result(workers[party].submit(driver.drive(net)), on_interrupt)
    finally:
        for worker in workers.values():
            worker.close()
    timings = _timings(nodes, run.wait_of(party), time.perf_counter() - start)
    return Outcome(value, session.transcript, session.ledger, timings)


def _result(future: concurrent.futures.Future[R], on_interrupt: Callable[[], None] | None) -> R:
    try:
        return future.result()
    except KeyboardInterrupt:
        if on_interrupt is None:
            raise
        on_interrupt()
        return future.result()


def _timings(
    nodes: Mapping[str, Sequence[Role]], wait_seconds: float, total_seconds: float
) -> dict[str, float]:
    """Seconds by phase over all parties, plus the driver's waiting and the wall clock."""
    phases: dict[str, float] = {}
    for roles in nodes.values():
        for role in roles:
            for phase, seconds in role.clock.seconds.items():
                phases[phase] = phases.get(phase, 0.0) + seconds
    return {**phases, "wait": wait_seconds, "total": total_seconds}
