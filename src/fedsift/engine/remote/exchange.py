# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""One protocol at one site: roles here are asked directly, the others over the transport."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Unpack

from fedsift.engine.local import Exchange, Node, RoleRequest, in_thread
from fedsift.engine.observer import Outcome, sum_phases
from fedsift.engine.remote.client import SiteClient
from fedsift.engine.remote.wire import FrameCount, RoleCall, SiteCounts
from fedsift.engine.session import Address, Session, SessionOptions
from fedsift.errors import BadFrame, KeySwapped, ParameterError, UndeclaredFlow
from fedsift.protocol.message import Done, Fault, Message
from fedsift.protocol.role import Protocol, RemoteRole, Role, find_driver, placement_of
from fedsift.result import SignedChain


class RemoteExchange(Exchange):
    """This site's part in one protocol.

    Its session counts what the roles here ask others. ``served`` counts what others asked of them;
    the askers count that too, so it is for this site's own view only.
    """

    crosses_organisations: ClassVar[bool] = True

    def __init__(
        self,
        number: int,
        protocol: Protocol,
        nodes: Mapping[str, Sequence[Role]],
        client: SiteClient,
        timeout_seconds: float,
        sign: Callable[[], tuple[SignedChain, ...]] | None = None,
        **options: Unpack[SessionOptions],
    ) -> None:
        self.number = number
        self.closed = False
        self.chains: tuple[SignedChain, ...] = ()
        self._sign = sign
        self.latest_round = 0
        self._client = client
        self._home = {
            party: roles for party, roles in nodes.items() if client.site_of(party) == client.site
        }
        _check_places(nodes, self._home)
        party, self.driver = find_driver(nodes)
        self.driver_address = Address(party, self.driver.role_name)
        self.driver_site = client.site_of(party)
        placement = placement_of(nodes)
        options["shared_secret"] = self._share_secret
        session = Session(protocol, placement, **options)
        options["planned"] = options["policies"] = None
        self.served = Session(protocol, placement, **options)
        # What was asked here and what was asked of others is one record, in order.
        self.served.transcript.lines = session.transcript.lines
        self._start = time.perf_counter()
        workers = {name: Node(name, roles) for name, roles in self._home.items()}
        scope = (str(number), protocol.name)
        identities = {name: client.identify(name, *scope) for name in self._home}
        self.tampering: KeySwapped | None = None
        super().__init__(session, workers, timeout_seconds, identities)

    @property
    def round_number(self) -> int:
        """The round as far as it is known here."""
        return max(self.latest_round, self.session.transcript.driven)

    def _share_secret(self, sender: str, receiver: str) -> bytes:
        """Return what the sites of two parties know, and nobody else."""
        sites = {self._client.site_of(sender), self._client.site_of(receiver)} - {self._client.site}
        return self._client.share_secret(sites.pop() if sites else self._client.site)

    async def deliver(self, request: RoleRequest, limit_seconds: float) -> bytes:
        """Bring a request to its role, here or at another site, and return its reply."""
        party = request.receiver.party
        if party in self.nodes:
            return await super().deliver(request, limit_seconds)
        call = RoleCall(
            self.number,
            self.session.protocol.name,
            self._client.next_number(),
            request.sender.party,
            request.sender.role,
            party,
            request.receiver.role,
            request.round_number,
            0.0,
            request.frame,
        )
        site, given_up = self._client.site_of(party), threading.Event()
        deadline = time.monotonic() + limit_seconds
        work = in_thread(f"to {party}", self._client.call, site, call, deadline, given_up)
        try:
            answer = await asyncio.wrap_future(work)
        finally:
            given_up.set()
        return self.session.codec.encode(answer) if isinstance(answer, Fault) else answer

    def record_served(
        self, frame: bytes, message: Message, round_number: int, sender: Address, receiver: Address
    ) -> None:
        """Count what came from and goes to other sites."""
        self.latest_round = max(self.latest_round, round_number)
        if not {sender.party, receiver.party} <= set(self.nodes):
            self.served.record(frame, message, round_number, sender, receiver)

    def note_failure(self, error: Exception) -> None:
        """Keep the error of a swapped key: this site ends the run itself, whatever others do."""
        if isinstance(error, KeySwapped):
            self.tampering = error

    def to_request(self, site: str, call: RoleCall) -> RoleRequest:
        """Read what a call of another site asks, if that site may ask it."""
        sender = Address(call.sender, call.sender_role)
        receiver = Address(call.receiver, call.receiver_role)
        placement = self.session.placement
        placed = all(a.role in placement.get(a.party, ()) for a in (sender, receiver))
        if (
            not placed
            or receiver.party not in self.nodes
            or self._client.site_of(sender.party) != site
            or call.protocol != self.session.protocol.name
        ):
            raise UndeclaredFlow(
                f"Site {site!r} sent a request that does not fit the protocol that runs.",
                "Roles ask from the site they were placed at, in the protocol that runs.",
                "Check that all sites run the same version of fedsift.",
            )
        return RoleRequest(call.frame, sender, receiver, call.round_number)

    def count_asked(self) -> SiteCounts:
        """Count what this site asked others."""
        transcript = self.session.transcript
        return SiteCounts(
            transcript.rounds,
            tuple(FrameCount.from_entry(entry) for entry in transcript.entries),
            self.session.ledger.rows(),
            self.sum_phases(),
            self.sign_chains(),
        )

    def sign_chains(self) -> tuple[SignedChain, ...]:
        """Sign what the parties here sent and received in the whole job, if it ends now."""
        return () if self._sign is None else self._sign()

    def add_counts(self, site: str, counts: SiteCounts) -> None:
        """At the driver: add another site's counts, if they can be its own."""
        placement = self.session.placement
        names = {cls.__name__ for cls in self.session.protocol.messages} | {
            Done.__name__,
            Fault.__name__,
        }
        for count in counts.counts:
            known = count.sender in placement and count.receiver in placement
            here = known and site in map(self._client.site_of, (count.sender, count.receiver))
            if not here or count.message not in names:
                raise BadFrame(
                    f"Site {site!r} counted messages that it cannot have sent.",
                    "A site counts what its own parties asked.",
                    "Check that all sites run the same version of fedsift.",
                )
        if any(self._client.site_of(chain.party) != site for chain in counts.chains):
            raise BadFrame(
                f"Site {site!r} signed for a party of another site.",
                "A site signs what its own parties sent and received.",
                "Check that all sites run the same version of fedsift.",
            )
        self.chains += counts.chains
        self.session.transcript.merge(counts.rounds, (one.to_entry() for one in counts.counts))
        self.session.ledger.merge(counts.disclosures)

    def add_served(self) -> None:
        """At the other sites: add what others asked to what was asked here."""
        self.session.transcript.merge(0, self.served.transcript.entries)
        self.session.ledger.merge(self.served.ledger.rows())

    def sum_phases(self) -> dict[str, float]:
        """Add up the seconds of the parties here by phase."""
        return sum_phases(role for roles in self._home.values() for role in roles)

    def make_outcome(self, value: Any, timings: dict[str, float]) -> Outcome:
        """Make what the run returns, with the seconds that parties here waited and in all."""
        driving = self.driver_address.party
        waiting = [driving] if driving in self._home else self._home
        timings["wait"] = sum(map(self.waited_by, waiting))
        timings["total"] = time.perf_counter() - self._start
        return Outcome(value, self.session.transcript, self.session.ledger, timings)

    def close(self) -> None:
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
                    f"{'missing' if party in home else 'placed'} at this site.",
                    "A site runs exactly the roles of its own parties.",
                    "Check the placement of roles.",
                )
