# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""All parties in this process: one thread and one event loop each, bytes in between.

Parties share no objects. Every payload goes through the codec exactly as it would over a network,
so what works here cannot fail to serialise later, and a party that is busy or stuck does not stop
the others from noticing.
"""

from __future__ import annotations

import concurrent.futures
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from fedsift.engine.exchange import DEFAULT_TIMEOUT_SECONDS, Exchange
from fedsift.engine.node import Node
from fedsift.engine.outcome import Outcome, phase_seconds
from fedsift.engine.session import Address, Observer, Session
from fedsift.engine.threads import one_thread_each
from fedsift.errors import ParameterError
from fedsift.protocol.codec import MAX_FRAME_BYTES
from fedsift.protocol.policy import Policy
from fedsift.protocol.protocol import Protocol, absent_parties, find_driver, placement_of
from fedsift.protocol.remote_role import RemoteRole
from fedsift.protocol.role import Role

R = TypeVar("R")


def run_local(
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
    if isinstance(driver, RemoteRole) or absent_parties(nodes):
        raise ParameterError(
            f"The roles of {', '.join(absent_parties(nodes))} run at another site.",
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
    workers = {name: Node(name, roles) for name, roles in nodes.items()}
    exchange = Exchange(session, workers, timeout_seconds)
    driver.watcher = getattr(observer, "step", None)
    start = time.perf_counter()
    try:
        door = exchange.door(Address(party, driver.role_name))
        with one_thread_each():
            value = _result(workers[party].submit(driver.drive(door)), on_interrupt)
    finally:
        for worker in workers.values():
            worker.close()
    timings = phase_seconds(role for roles in nodes.values() for role in roles)
    timings |= {"wait": exchange.wait_of(party), "total": time.perf_counter() - start}
    return Outcome(value, session.transcript, session.ledger, timings)


def _result(future: concurrent.futures.Future[R], on_interrupt: Callable[[], None] | None) -> R:
    try:
        return future.result()
    except KeyboardInterrupt:
        if on_interrupt is None:
            raise
        on_interrupt()
        return future.result()
