# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""One protocol in play at one site: roles here are asked directly, the others over the line."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping, Sequence
from typing import ClassVar

from fedsift.engine.exchange import Exchange, Request
from fedsift.engine.node import Node
from fedsift.engine.outcome import phase_seconds
from fedsift.engine.remote.client import SiteClient
from fedsift.engine.remote.wire import Call, Count, Counts
from fedsift.engine.session import Address, Observer, Session
from fedsift.engine.threads import in_thread
from fedsift.errors import BadFrame, ParameterError, UndeclaredFlow
from fedsift.protocol.codec import Done, Fault
from fedsift.protocol.message import Message
from fedsift.protocol.policy import Policy
from fedsift.protocol.protocol import Protocol, find_driver, placement_of
from fedsift.protocol.remote_role import RemoteRole
from fedsift.protocol.role import Role


class RemoteExchange(Exchange):
    """The part that this site plays in one protocol.

    Its session counts what the roles here ask others. ``served`` counts what others asked of them;
    the askers count that too, so it is for this site's own view only.
    """

    abroad: ClassVar[bool] = True

    def __init__(
        self,
        number: int,
        protocol: Protocol,
        nodes: Mapping[str, Sequence[Role]],
        courier: SiteClient,
        *,
        policies: Mapping[str, Policy] | None,
        timeout_seconds: float,
        keep_frames: bool,
        protected: bool,
        observer: Observer | None,
    ) -> None:
        self.number = number
        self.observer = observer
        self.closed = False
        self.latest_round = 0
        self._courier = courier
        self._home = {
            party: roles for party, roles in nodes.items() if courier.site_of(party) == courier.site
        }
        _check_places(nodes, self._home)
        party, self.driver = find_driver(nodes)
        self.driver_address = Address(party, self.driver.role_name)
        self.driver_site = courier.site_of(party)
        placement = placement_of(nodes)
        self.served = Session(
            protocol, placement, keep_frames=keep_frames, protected=protected, observer=observer
        )
        session = Session(
            protocol,
            placement,
            policies=policies,
            keep_frames=keep_frames,
            protected=protected,
            observer=observer,
        )
        self._start = time.perf_counter()
        workers = {name: Node(name, roles) for name, roles in self._home.items()}
        super().__init__(session, workers, timeout_seconds)

    @property
    def limit_seconds(self) -> float:
        """Limit of every request."""
        return self._timeout_seconds

    @property
    def round_number(self) -> int:
        """The round as far as it is known here."""
        return max(self.latest_round, self.session.transcript.driven)

    async def deliver(self, request: Request, limit_seconds: float) -> bytes:
        """Bring a request to its role, here or at another site, and bring back the answer."""
        party = request.receiver.party
        if party in self.nodes:
            return await super().deliver(request, limit_seconds)
        call = Call(
            self.number,
            self.session.protocol.name,
            self._courier.next_number(),
            request.sender.party,
            request.sender.role,
            party,
            request.receiver.role,
            request.round_number,
            0.0,
            request.frame,
        )
        site, given_up = self._courier.site_of(party), threading.Event()
        deadline = time.monotonic() + limit_seconds
        work = in_thread(f"to {party}", self._courier.ask, site, call, deadline, given_up)
        try:
            answer = await asyncio.wrap_future(work)
        finally:
            given_up.set()
        return self.session.codec.encode(answer) if isinstance(answer, Fault) else answer

    def saw(
        self, frame: bytes, message: Message, round_number: int, sender: Address, receiver: Address
    ) -> None:
        """Count what came from and goes to other sites."""
        self.latest_round = max(self.latest_round, round_number)
        if not {sender.party, receiver.party} <= set(self.nodes):
            self.served.record(frame, message, round_number, sender, receiver)

    def request_of(self, site: str, call: Call) -> Request:
        """What a call of another site asks, if that site may ask it."""
        sender = Address(call.sender, call.sender_role)
        receiver = Address(call.receiver, call.receiver_role)
        placement = self.session.placement
        played = all(a.role in placement.get(a.party, ()) for a in (sender, receiver))
        if (
            not played
            or receiver.party not in self.nodes
            or self._courier.site_of(sender.party) != site
            or call.protocol != self.session.protocol.name
        ):
            raise UndeclaredFlow(
                f"Site {site!r} sent a request that does not fit the stage in play.",
                "Roles ask from the site they were placed at, in the protocol that is running.",
                "Check that all sites run the same version of fedsift.",
            )
        return Request(call.frame, sender, receiver, call.round_number)

    def tally(self) -> Counts:
        """Counts of what this site asked others."""
        transcript = self.session.transcript
        return Counts(
            transcript.rounds,
            tuple(Count.of(entry) for entry in transcript.entries),
            self.session.ledger.rows(),
            self.phases(),
        )

    def add(self, site: str, tally: Counts) -> None:
        """At the driver: add another site's counts, if they can be its own."""
        placement = self.session.placement
        names = {cls.__name__ for cls in self.session.protocol.messages} | {
            Done.__name__,
            Fault.__name__,
        }
        for count in tally.counts:
            known = count.sender in placement and count.receiver in placement
            here = known and site in map(self._courier.site_of, (count.sender, count.receiver))
            if not here or count.message not in names:
                raise BadFrame(
                    f"Site {site!r} counted messages that it cannot have sent.",
                    "A site counts what its own parties asked.",
                    "Check that all sites run the same version of fedsift.",
                )
        self.session.transcript.merge(tally.rounds, (count.entry() for count in tally.counts))
        self.session.ledger.merge(tally.disclosures)

    def own_view(self) -> None:
        """At the other sites: add what others asked to what was asked here."""
        self.session.transcript.merge(0, self.served.transcript.entries)
        self.session.ledger.merge(self.served.ledger.rows())

    def phases(self) -> dict[str, float]:
        """Seconds by phase of the parties here."""
        return phase_seconds(role for roles in self._home.values() for role in roles)

    def clock(self) -> dict[str, float]:
        """Seconds that the parties here waited, and the wall clock."""
        waited = sum(self.wait_of(party) for party in self._home)
        if self.driver_address.party in self._home:
            waited = self.wait_of(self.driver_address.party)
        return {"wait": waited, "total": time.perf_counter() - self._start}

    def shut(self) -> None:
        """Stop the parties here."""
        for node in self.nodes.values():
            node.close()


def _check_places(nodes: Mapping[str, Sequence[Role]], home: Mapping[str, Sequence[Role]]) -> None:
    """Roles are real exactly where their party lives."""
    for party, roles in nodes.items():
        for role in roles:
            if isinstance(role, RemoteRole) == (party in home):
                raise ParameterError(
                    f"The role {role.role_name!r} of party {party!r} is "
                    f"{'missing' if party in home else 'played'} at this site.",
                    "A site runs exactly the roles of its own parties.",
                    "Check the placement of roles.",
                )
