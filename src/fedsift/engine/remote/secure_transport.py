# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A transport that a lying hub cannot read, forge, repeat, turn around or reorder.

Two sites start with a handshake: they show that they run the same job and the same version of the
protocol between sites, and agree on fresh keys, so that nothing recorded in an earlier session
opens in this one. Then every request and every reply is one envelope
(:mod:`fedsift.crypto.envelope`). Requests that are under way at the same time travel in lanes;
within a lane envelopes have a strict order.

A request that got no answer is sent again *unchanged*. The receiver keeps its last reply of every
lane and gives it again, so a request is carried out once however often it arrives.
"""

from __future__ import annotations

import hashlib
import struct
import threading
import time
import typing
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from fedsift.crypto.envelope import Envelopes, OrganisationKey, share_secret
from fedsift.crypto.identity import Identity
from fedsift.engine.timeouts import DEFAULT_TIMEOUTS
from fedsift.errors import BadEnvelope, Disagreement, RunEnded, SiteUnreachable
from fedsift.protocol.commitments import Signer
from fedsift.protocol.message import Fault

RELAY_VERSION = 3
"""Grows whenever sites of different versions could misunderstand each other."""

_HEAD = struct.Struct(">4s32sH")
_UNREADABLE = (msgspec.MsgspecError, ValueError, TypeError, RecursionError, OverflowError)
_HELLO, _DATA = b"fsh\x01", b"fsd\x01"
_NO_CONNECTION = bytes(32)
_MOST_LANES = 512
_MOST_CONNECTIONS = 16


class _Handshake(msgspec.Struct, frozen=True):
    """What two sites show each other first; unknown fields are left to later versions."""

    version: int
    fingerprint: str
    fresh: bytes


@dataclass
class _Lane:
    """One request at a time, in order; ``last`` and ``reply`` belong to the receiver."""

    number: int
    envelopes: Envelopes
    lock: threading.Lock = field(default_factory=threading.Lock)
    last: bytes = b""
    reply: bytes = field(default=b"", repr=False)


class _Connection:
    """All that one site asks another in this session: lanes, on keys made for it."""

    def __init__(self, name: bytes, make: Callable[[int], Envelopes]) -> None:
        self.name = name
        self.welcome = b""
        self._make = make
        self._lanes: dict[int, _Lane] = {}
        self._free: list[_Lane] = []
        self._lock = threading.Lock()

    def lane(self, number: int) -> _Lane:
        """Return the lane of that number, made when it is first used."""
        with self._lock:
            return self._lane(number)

    def take(self) -> _Lane:
        """Return a lane in which nothing is under way."""
        with self._lock:
            return self._free.pop() if self._free else self._lane(len(self._lanes))

    def give_back(self, lane: _Lane) -> None:
        """Let the lane be used again; one whose count was lost is never given back."""
        with self._lock:
            self._free.append(lane)

    def _lane(self, number: int) -> _Lane:
        if number >= _MOST_LANES:
            raise BadEnvelope(
                f"Lane {number} of a connection was used.",
                f"At most {_MOST_LANES} requests may be under way or lost.",
                "Check the connection between the sites.",
            )
        if number not in self._lanes:
            self._lanes[number] = _Lane(number, self._make(number))
        return self._lanes[number]


class SecureTransport:
    """Seals what goes over a transport and opens what comes from it.

    Parameters
    ----------
    transport : Transport
        Carries the envelopes; nothing it says is believed.
    key : OrganisationKey
        This site's own.
    pinned : mapping of str to bytes
        Public keys of the other sites.
    session : str
        Names the run, the same at all sites.
    fingerprint : str
        Digest of the job; sites with another one are refused.
    attempts : int
        How often a message is sent before its receiver counts as unreachable.
    """

    def __init__(
        self,
        transport: Transport,
        key: OrganisationKey,
        pinned: Mapping[str, bytes],
        *,
        session: str,
        fingerprint: str,
        attempts: int = DEFAULT_TIMEOUTS.attempts,
    ) -> None:
        self._transport = transport
        self._key = key
        self._pinned = dict(pinned)
        self._session = session
        self._fingerprint = fingerprint
        self._attempts = attempts
        self._handler: Handler | None = None
        self._connections: dict[str, _Connection] = {}
        self._heard: dict[str, OrderedDict[bytes, _Connection]] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<secure transport of {self.site!r}>"

    @property
    def site(self) -> str:
        """The name of this site."""
        return self._transport.site

    @property
    def aborted(self) -> bool:
        """Whether the job was aborted."""
        return self._transport.aborted

    @property
    def signer(self) -> Signer:
        """What signs this site's part of the run's record."""
        run = hashlib.sha256(f"{self._fingerprint} {self._session}".encode()).hexdigest()[:32]
        return Signer(run, self._key.signing)

    def share_secret(self, site: str) -> bytes:
        """Derive what only this site and another one know in this session."""
        return share_secret(self._key, self._pinned[site], self._session)

    def identify(self, party: str, places: Mapping[str, str], *scope: str) -> Identity:
        """Make the identity of a party here; ``places`` are the sites of all parties."""
        known = {**self._pinned, self.site: self._key.public}
        pinned = {other: known[site] for other, site in places.items() if site in known}
        job = (self._session, self._fingerprint)
        return Identity(party, self._key, pinned, (*job, *scope))

    def serve(self, handler: Handler | None) -> None:
        """Answer what other sites really sent; anything else is refused and reaches nobody."""
        self._handler = handler
        self._transport.serve(None if handler is None else self._answer)

    def connect(self, site: str, timeout_seconds: float) -> None:
        """Check that a site runs the same job, and agree on keys for what it will be asked."""
        mine = OrganisationKey.generate()
        hello = self._envelopes(site, "hello").seal(site, "request", self._handshake(mine))
        sent = _HEAD.pack(_HELLO, _NO_CONNECTION, 0) + hello
        try:
            reply = self._transport.request(site, sent, timeout_seconds)
        except SiteUnreachable as error:
            if error.refused == BadEnvelope.code:
                raise _unknown_key(site) from error
            raise
        opened = self._envelopes(site, f"welcome {mine.public.hex()}").open(site, "reply", reply)
        theirs = self._agreed(site, opened)
        self._connections[site] = self._make_connection(site, mine, mine.public, theirs)

    def request(self, site: str, content: bytes, timeout_seconds: float) -> bytes:
        """Ask a site that was connected; the limit is that of one attempt."""
        connection = self._connections.get(site)
        if connection is None:
            raise SiteUnreachable(site, "it was not connected")
        lane = connection.take()
        envelope = lane.envelopes.seal(site, "request", content)
        sent = _HEAD.pack(_DATA, connection.name, lane.number) + envelope
        problem: SiteUnreachable | BadEnvelope = SiteUnreachable(site, "nothing was sent")
        for attempt in range(self._attempts):
            if attempt and self.aborted:
                raise aborted()
            try:
                reply = self._transport.request(site, sent, timeout_seconds)
                opened = lane.envelopes.open(site, "reply", reply)
            except (SiteUnreachable, BadEnvelope) as error:
                problem = error
            else:
                connection.give_back(lane)
                return opened
        raise problem

    def _answer(self, sender: str, content: bytes) -> bytes:
        if sender not in self._pinned or len(content) < _HEAD.size:
            raise _refused(sender)
        magic, name, number = _HEAD.unpack(content[: _HEAD.size])
        envelope = content[_HEAD.size :]
        if magic == _HELLO:
            return self._welcome(sender, envelope)
        with self._lock:
            connection = self._heard.get(sender, OrderedDict()).get(name)
        handler = self._handler
        if magic != _DATA or connection is None or handler is None:
            raise _refused(sender)
        lane = connection.lane(number)
        digest = hashlib.sha256(envelope).digest()
        with lane.lock:
            if digest != lane.last:
                opened = lane.envelopes.open(sender, "request", envelope)
                lane.reply = lane.envelopes.seal(sender, "reply", handler(sender, opened))
                lane.last = digest
            return lane.reply

    def _welcome(self, sender: str, envelope: bytes) -> bytes:
        """Answer a handshake; one recorded earlier only makes a connection that stays silent."""
        opened = self._envelopes(sender, "hello").open(sender, "request", envelope)
        mine = OrganisationKey.generate()
        try:
            theirs = self._agreed(sender, opened)
        except Disagreement:
            # The other site finds out from the answer; without a connection it cannot ask anything.
            return self._sealed_welcome(sender, mine, _fresh_of(opened))
        with self._lock:
            known = self._heard.setdefault(sender, OrderedDict())
            if theirs not in known:
                made = known[theirs] = self._make_connection(sender, mine, theirs, theirs)
                made.welcome = self._sealed_welcome(sender, mine, theirs)
            if len(known) > _MOST_CONNECTIONS:
                known.popitem(last=False)
            return known[theirs].welcome

    def _sealed_welcome(self, sender: str, mine: OrganisationKey, theirs: bytes) -> bytes:
        envelopes = self._envelopes(sender, f"welcome {theirs.hex()}")
        return envelopes.seal(sender, "reply", self._handshake(mine))

    def _handshake(self, mine: OrganisationKey) -> bytes:
        return msgspec.msgpack.encode(_Handshake(RELAY_VERSION, self._fingerprint, mine.public))

    def _agreed(self, site: str, opened: bytes) -> bytes:
        """Return the fresh key in a handshake, if the sites agree on version and job."""
        try:
            handshake = msgspec.msgpack.decode(opened, type=_Handshake)
        except _UNREADABLE:
            raise _other_version(site, "another") from None
        if handshake.version != RELAY_VERSION:
            raise _other_version(site, str(handshake.version))
        if handshake.fingerprint != self._fingerprint:
            raise Disagreement(
                f"Site {site!r} runs another job than this site ({self.site!r}).",
                "All sites must run the same job.",
                "Submit the job again; if this happens again, someone on the way changes it.",
            )
        return handshake.fresh

    def _make_connection(
        self, peer: str, mine: OrganisationKey, name: bytes, theirs: bytes
    ) -> _Connection:
        second = theirs if name == mine.public else mine.public
        secret = {peer: mine.agree(theirs)}

        def make(lane: int) -> Envelopes:
            topic = f"talk {name.hex()} {second.hex()} lane {lane}"
            return self._envelopes(peer, topic, secret)

        return _Connection(name, make)

    def _envelopes(
        self, peer: str, topic: str, fresh: Mapping[str, bytes] | None = None
    ) -> Envelopes:
        pinned = {peer: self._pinned[peer]} if peer in self._pinned else {}
        return Envelopes(self.site, self._key, pinned, f"{self._session} {topic}", fresh)


def aborted() -> RunEnded:
    """Make the error of a job that was aborted."""
    return RunEnded(
        "The run was stopped: what carries the messages has ended the job.",
        "All sites must be up for the whole length of a job.",
        "Look at the hub's log for the site that was lost, then run the job again.",
    )


def _fresh_of(opened: bytes) -> bytes:
    """Return the fresh key of a handshake that cannot be agreed with."""
    try:
        return msgspec.msgpack.decode(opened, type=_Handshake).fresh
    except _UNREADABLE:
        return _NO_CONNECTION


def _refused(sender: str) -> BadEnvelope:
    return BadEnvelope(
        f"Something that claims to come from {sender!r} was refused: it belongs to no connection.",
        "Sites connect before they ask anything.",
        "Check the pinned keys; if they are right, somebody on the way is tampering.",
    )


def _unknown_key(site: str) -> BadEnvelope:
    return BadEnvelope(
        f"Site {site!r} could not open what this site sealed for it.",
        "Each of two sites must have pinned the other's public key.",
        f"Compare the pinned keys with {site!r} by a way you trust.",
    )


def _other_version(site: str, version: str) -> Disagreement:
    return Disagreement(
        f"Site {site!r} uses version {version} of the protocol between sites.",
        f"Version {RELAY_VERSION} is needed, as at this site.",
        "Install the same version of fedsift at all sites.",
    )


Handler = Callable[[str, bytes], bytes]
"""Answers (claimed sender, content); what it raises goes back as a refusal with a code only."""


class Transport(typing.Protocol):
    """One site's connection to the others."""

    @property
    def site(self) -> str:
        """The name of this site."""
        ...

    @property
    def aborted(self) -> bool:
        """Whether the job was aborted."""
        ...

    def request(self, site: str, content: bytes, timeout_seconds: float) -> bytes:
        """Send to a site and wait for its reply; may be called from several threads at once.

        Raises :class:`~fedsift.errors.SiteUnreachable` if none comes in time or if it is refused.
        """
        ...

    def serve(self, handler: Handler | None) -> None:
        """Answer what arrives from now on; None stops that. Before, everything is refused."""
        ...


@dataclass(frozen=True)
class Ending:
    """Why a run is over, and which site said so."""

    site: str
    fault: Fault


class RunState:
    """Shared by the client, the server and the engine of a site.

    ``changed`` is the lock of everything that can end a wait; whoever changes something notifies.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self._ending: Ending | None = None
        self._heard: dict[str, float] = {}

    @property
    def ending(self) -> Ending | None:
        """How the run was ended before its time, if it was."""
        return self._ending

    def end(self, site: str, fault: Fault) -> None:
        """End the run; the first reason counts."""
        with self.changed:
            if self._ending is None:
                self._ending = Ending(site, fault)
            self.changed.notify_all()

    def heard(self, site: str) -> None:
        """Note a sign of life of a site."""
        self._heard[site] = time.monotonic()

    def silent_seconds(self, site: str, since: float) -> float:
        """Return how long a site was silent, counted from ``since`` at the earliest."""
        return time.monotonic() - max(since, self._heard.get(site, since))
