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
from typing import TypeVar, Unpack

from fedsift.engine.exchange import Exchange
from fedsift.engine.node import Node
from fedsift.engine.outcome import Outcome, sum_phases
from fedsift.engine.session import Address, Session, SessionOptions
from fedsift.engine.threads import one_thread_each
from fedsift.errors import ParameterError
from fedsift.protocol.protocol import Protocol, absent_parties, find_driver, placement_of
from fedsift.protocol.remote_role import RemoteRole
from fedsift.protocol.role import Role

R = TypeVar("R")


class LocalEngine:
    """Runs protocols with every party in this process."""

    home: tuple[str, ...] | None = None

    def run(
        self,
        protocol: Protocol,
        nodes: Mapping[str, Sequence[Role]],
        *,
        timeout_seconds: float | None = None,
        on_interrupt: Callable[[], None] | None = None,
        **options: Unpack[SessionOptions],
    ) -> Outcome:
        """Run one protocol to its end; see :meth:`fedsift.engine.api.Engine.run`."""
        party, driver = find_driver(nodes)
        if isinstance(driver, RemoteRole) or absent_parties(nodes):
            raise ParameterError(
                f"The roles of {', '.join(absent_parties(nodes))} run elsewhere.",
                "A run in one process needs every role here.",
                "Give all parties' data, or run the job across the sites.",
            )
        session = Session(protocol, placement_of(nodes), **options)
        workers = {name: Node(name, roles) for name, roles in nodes.items()}
        exchange = Exchange(session, workers, timeout_seconds)
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
