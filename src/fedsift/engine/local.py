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
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, TypeVarTuple, Unpack

from threadpoolctl import threadpool_limits

from fedsift.crypto.identity import Identity
from fedsift.engine.observer import Outcome, sum_phases
from fedsift.engine.session import Address, Session, SessionOptions, to_fault
from fedsift.engine.timeouts import DEFAULT_TIMEOUTS
from fedsift.errors import (
    FedsiftError,
    ParameterError,
    PartyFailed,
    PolicyViolation,
    RunEnded,
    UndeclaredFlow,
)
from fedsift.protocol.commitments import Record
from fedsift.protocol.message import Done, Fault, Message
from fedsift.protocol.role import (
    Protocol,
    RemoteRole,
    Role,
    T,
    absent_parties,
    find_driver,
    placement_of,
)

R = TypeVar("R")


class LocalEngine:
    """Runs protocols with every party in this process."""

    home: tuple[str, ...] | None = None

    def identities(
        self,
        protocol: Protocol,  # noqa: ARG002
        parties: Iterable[str],  # noqa: ARG002
    ) -> Mapping[str, Identity]:
        """Prove whose keys are passed on: nothing is pinned among parties of one process."""
        return {}

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
        party, driver = find_driver(nodes)
        if isinstance(driver, RemoteRole) or absent_parties(nodes):
            raise ParameterError(
                f"The roles of {', '.join(absent_parties(nodes))} run elsewhere.",
                "A run in one process needs every role here.",
                "Give all parties' data, or run the job across the sites.",
            )
        session = Session(protocol, placement_of(nodes), **options)
        workers = {name: Node(name, roles) for name, roles in nodes.items()}
        exchange = Exchange(session, workers, timeout_seconds, self.identities(protocol, nodes))
        driver.watcher = getattr(options.get("observer"), "step", None)
        start = time.perf_counter()
        try:
            network = exchange.network(Address(party, driver.role_name))
            with one_thread_each():
                value = _wait(workers[party].submit(driver.drive(network)), on_interrupt)
        finally:
            for worker in workers.values():
                worker.close()
        timings = sum_phases(role for roles in nodes.values() for role in roles)
        timings |= {"wait": exchange.waited_by(party), "total": time.perf_counter() - start}
        return Outcome(value, session.transcript, session.ledger, timings)

    def close_record(
        self,
        coordinator: str,  # noqa: ARG002
        *,
        selected: Mapping[str, Collection[str]] | None = None,  # noqa: ARG002
        resumed: bool = False,  # noqa: ARG002
    ) -> Record | None:
        """Have nobody sign: a run in one process has no keys before its result is there."""
        return None


LOCAL_ENGINE = LocalEngine()
"""The engine of whoever was given none."""

run_local = LOCAL_ENGINE.run


def _wait(future: concurrent.futures.Future[R], on_interrupt: Callable[[], None] | None) -> R:
    try:
        return future.result()
    except KeyboardInterrupt:
        if on_interrupt is None:
            raise
        on_interrupt()
        return future.result()


_LONGEST_REASON = 600
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RoleRequest:
    """A frame on its way from one role to another."""

    frame: bytes
    sender: Address
    receiver: Address
    round_number: int


class RoleNetwork:
    """How one role at one party reaches the others; see :class:`fedsift.protocol.role.Network`.

    ``within`` is the round of the request that the role is answering; what it asks meanwhile
    belongs to the same round.
    """

    def __init__(self, exchange: Exchange, address: Address, within: int | None = None) -> None:
        self._exchange = exchange
        self._address = address
        self._within = within
        self.party = address.party
        self.identity = exchange.identities.get(address.party)
        self.policy = exchange.session.policy_of(address.party)

    def members(self, role: str) -> tuple[str, ...]:
        """Parties that have a role, in party order."""
        return self._exchange.session.members(role)

    async def ask(
        self,
        role: str,
        message: Message | Mapping[str, Message],
        reply: type[T],
        *,
        timeout_seconds: float | None = None,
    ) -> list[T]:
        """Send to every member of a role at once; replies come in party order."""
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
        round_number = self._exchange.session.transcript.next_round(self._within)
        calls = [
            self._exchange.call(
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
            self._exchange.add_wait(self._address, time.perf_counter() - start)

    async def tell(
        self,
        role: str,
        message: Message | Mapping[str, Message],
        *,
        timeout_seconds: float | None = None,
    ) -> None:
        """Send without expecting more than a confirmation."""
        await self.ask(role, message, Done, timeout_seconds=timeout_seconds)

    def account(self) -> dict[str, Any]:
        """Traffic and disclosures so far; empty beside the driver, whose account has everything."""
        session = self._exchange.session
        driving = session.protocol.roles[0].role_name
        driver_is_here = set(session.members(driving)) & set(self._exchange.nodes)
        return {} if driver_is_here and self._address.role != driving else session.to_plain()

    def go_on(self, account: Mapping[str, Any]) -> None:
        """Count on from the account of an interrupted run."""
        if account:
            self._exchange.session.go_on(account)


class Exchange:
    """The state of one run in this process: session, nodes, time limits."""

    crosses_organisations: ClassVar[bool] = False
    """Whether replies may go to other organisations."""

    def __init__(
        self,
        session: Session,
        nodes: Mapping[str, Node],
        timeout_seconds: float | None,
        identities: Mapping[str, Identity] | None = None,
    ) -> None:
        self.session = session
        self.nodes = nodes
        self.identities = identities or {}
        self.limit_seconds = timeout_seconds or DEFAULT_TIMEOUTS.request_seconds
        self._wait_seconds: dict[Address, float] = {}

    def add_wait(self, address: Address, seconds: float) -> None:
        """Count how long a role waited for others."""
        self._wait_seconds[address] = self._wait_seconds.get(address, 0.0) + seconds

    def waited_by(self, party: str) -> float:
        """Return the seconds that a party's roles waited for others."""
        return sum(s for address, s in self._wait_seconds.items() if address.party == party)

    def network(self, address: Address, within: int | None = None) -> RoleNetwork:
        """Make the network that one role sees."""
        return RoleNetwork(self, address, within)

    async def call(
        self,
        sender: Address,
        receiver: Address,
        message: Message,
        reply: type[T],
        round_number: int,
        timeout_seconds: float | None,
    ) -> T:
        """Send one request and return its reply, through bytes, within the time limit."""
        frame = self.session.seal(message, sender, receiver)
        self.session.record(frame, message, round_number, sender, receiver)
        limit = self.limit_seconds if timeout_seconds is None else timeout_seconds
        name = type(message).__name__
        request = RoleRequest(frame, sender, receiver, round_number)
        try:
            answer = await asyncio.wait_for(self.deliver(request, limit), limit)
        except TimeoutError:
            reason = f"no answer within {limit:g} seconds"
            raise PartyFailed(receiver.party, name, round_number, reason) from None
        except (PartyFailed, PolicyViolation, RunEnded):
            raise
        except FedsiftError as error:
            reason = f"{error.code}: {error.found}"
            raise PartyFailed(
                receiver.party, name, round_number, reason, cause_code=error.code
            ) from error
        try:
            received = self.session.open(answer, sender, [reply])
            self.session.check_flow(received, receiver, sender)
        except FedsiftError as error:
            reason = f"its answer is not valid ({error.code})"
            raise PartyFailed(
                receiver.party, name, round_number, reason, cause_code=error.code
            ) from error
        self.session.record(answer, received, round_number, receiver, sender)
        if isinstance(received, Fault):
            raise to_error(received, receiver.party, name, round_number)
        if not isinstance(received, reply):
            reason = f"it answered {type(received).__name__} instead of {reply.__name__}"
            raise PartyFailed(receiver.party, name, round_number, reason)
        return received

    async def deliver(self, request: RoleRequest, limit_seconds: float) -> bytes:  # noqa: ARG002
        """Bring a request to a role in this process and return its reply."""
        node = self.nodes[request.receiver.party]
        return await asyncio.wrap_future(node.submit(self.serve(request)))

    async def serve(self, request: RoleRequest) -> bytes:
        """At the receiving party: decode, handle, encode; errors become faults."""
        session, sender, receiver = self.session, request.sender, request.receiver
        try:
            role = self.nodes[receiver.party].roles[receiver.role]
            message = session.open(request.frame, receiver, session.inbound(receiver.role))
            session.check_flow(message, sender, receiver)
            self.record_served(request.frame, message, request.round_number, sender, receiver)
            answer = await role.handle(message, self.network(receiver, request.round_number))
            frame = session.seal(answer, receiver, sender)
            self.record_served(frame, answer, request.round_number, receiver, sender)
            return frame
        except Exception as error:
            _log.debug("party %s failed", receiver.party, exc_info=True)
            self.note_failure(error)
            if self.crosses_organisations and isinstance(error, FedsiftError):
                _log.error("%s", error.one_line)  # others learn less
            return session.codec.encode(to_fault(error, for_others=self.crosses_organisations))

    def record_served(
        self, frame: bytes, message: Message, round_number: int, sender: Address, receiver: Address
    ) -> None:
        """Count a frame at the answering site; here the asking role has counted it already."""

    def note_failure(self, error: Exception) -> None:
        """Look at what a role here answered with an error; here the asking role ends the run."""


def to_error(fault: Fault, party: str, name: str, round_number: int) -> FedsiftError:
    """Make the error of a fault: that of a failed party, unless it is nobody's failure."""
    text = printable(fault.text)
    for kind in (PolicyViolation, RunEnded):
        if fault.code == kind.code:
            return kind(text)
    code = printable(fault.code)
    return PartyFailed(party, name, round_number, f"{code}: {text}", cause_code=code)


def printable(text: str) -> str:
    """Make another party's text fit for a screen: no control characters, not too long."""
    return "".join(one for one in text[:_LONGEST_REASON] if one.isprintable())


class Node:
    """One party: a busy or stuck one does not stop the others from noticing."""

    def __init__(self, party: str, roles: Sequence[Role]) -> None:
        self.party = party
        self.roles = {role.role_name: role for role in roles}
        self.loop = asyncio.new_event_loop()
        self._closing = self._ended = False
        self._lock = threading.Lock()
        # A daemon: a party stuck in a computation must not keep the process alive.
        self._thread = threading.Thread(target=self._run, name=f"party {party}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            while not self._ended:
                # What a role or an observer raises of these ends the loop as well as its task. The
                # loop has to run on, or those that wait for the task never hear of it.
                with contextlib.suppress(KeyboardInterrupt, SystemExit):
                    self.loop.run_forever()
        finally:
            self.loop.close()

    def submit(self, work: Coroutine[Any, Any, R]) -> concurrent.futures.Future[R]:
        """Run a coroutine on this party's thread; once the party is closed, cancel it at once.

        A role that was busy while a run ended may go on asking parties whose loops have stopped:
        what is given to these would never start.
        """
        with self._lock:
            if not self._closing:
                return asyncio.run_coroutine_threadsafe(work, self.loop)
        work.close()
        never: Future[R] = Future()
        never.cancel()
        return never

    def close(self) -> None:
        """Stop the loop; a party still computing is left to its daemon thread."""
        with self._lock:
            if not self._closing:
                self._closing = True
                asyncio.run_coroutine_threadsafe(self._stop(), self.loop)
        self._thread.join(timeout=DEFAULT_TIMEOUTS.thread_end_seconds)

    async def _stop(self) -> None:
        """Let cancelled requests unwind before the loop ends, so that nothing complains later."""
        tasks = asyncio.all_tasks(self.loop) - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.loop.call_soon(self._end)

    def _end(self) -> None:
        self._ended = True
        self.loop.stop()


Ts = TypeVarTuple("Ts")


class _Limit:
    """The limit of this process, and how many runs want it."""

    lock = threading.Lock()
    n_runs = 0
    held: Any = None


@contextlib.contextmanager
def one_thread_each() -> Iterator[None]:
    """Let linear algebra use one thread meanwhile.

    Parties compute side by side already; more threads than cores only get in each other's way. And
    sums come out the same whatever the number of cores.
    """
    with _Limit.lock:
        if not _Limit.n_runs:
            _Limit.held = threadpool_limits(1, user_api="blas")
        _Limit.n_runs += 1
    try:
        yield
    finally:
        with _Limit.lock:
            _Limit.n_runs -= 1
            if not _Limit.n_runs:
                _Limit.held.restore_original_limits()


def in_thread(name: str, work: Callable[[*Ts], R], *arguments: *Ts) -> Future[R]:
    """Start ``work`` on a daemon thread; a cancelled future drops what it comes to."""
    future: Future[R] = Future()

    def run() -> None:
        try:
            result = work(*arguments)
        except BaseException as error:
            with contextlib.suppress(InvalidStateError):
                future.set_exception(error)
        else:
            with contextlib.suppress(InvalidStateError):
                future.set_result(result)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
