# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What sites send each other to run a protocol together; it travels inside envelopes only."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from fedsift.errors import BadFrame
from fedsift.protocol.transcript import Entry
from fedsift.result import Disclosure, SignedChain


class SiteMessage(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag=True, tag_field="is"
):
    """Base of everything that one site sends to another."""


class RoleCall(SiteMessage, frozen=True):
    """A request from one role to another; ``hold`` is how long to wait before *still busy*."""

    exchange: int
    protocol: str
    number: int
    sender: str
    sender_role: str
    receiver: str
    receiver_role: str
    round_number: int
    hold: float
    frame: bytes


class PollReply(SiteMessage, frozen=True):
    """Asks whether the reply to a call is ready."""

    number: int
    hold: float


class FetchReply(SiteMessage, frozen=True):
    """Asks for the reply that was announced as ready."""

    number: int


class CloseExchange(SiteMessage, frozen=True):
    """The driver has finished a protocol: send your counts and go on."""

    exchange: int
    hold: float


class CancelRun(SiteMessage, frozen=True):
    """The run is over, for this reason."""

    code: str
    text: str


class Heartbeat(SiteMessage, frozen=True):
    """A sign of life."""


class RoleReply(SiteMessage, frozen=True):
    """The reply to a call."""

    frame: bytes


class ReplyReady(SiteMessage, frozen=True):
    """The reply is there, and large: fetch it with enough time."""

    n_bytes: int


class StillBusy(SiteMessage, frozen=True):
    """The site still computes, or has not come this far."""


class Received(SiteMessage, frozen=True):
    """Confirms a message that needs no other reply."""


class Refused(SiteMessage, frozen=True):
    """The message made no sense here."""

    code: str
    text: str


class RunOver(SiteMessage, frozen=True):
    """The run has ended; which site ended it, and why."""

    site: str
    code: str
    text: str


class FrameCount(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """One frame that crossed between two parties: who, to whom, which message, how much."""

    round_number: int
    sender: str
    sender_role: str
    receiver: str
    receiver_role: str
    message: str
    n_bytes: int
    n_ciphertexts: int

    @classmethod
    def from_entry(cls, entry: Entry) -> FrameCount:
        """Count a frame without keeping it."""
        return cls(*(getattr(entry, name) for name in cls.__struct_fields__))

    def to_entry(self) -> Entry:
        """Make a line of a transcript."""
        return Entry(*msgspec.structs.astuple(self))


class SiteCounts(SiteMessage, frozen=True):
    """What a site asked others while a protocol ran, and its seconds by phase.

    ``chains`` are signed when the job ends, and empty before.
    """

    rounds: int
    counts: tuple[FrameCount, ...]
    disclosures: tuple[Disclosure, ...]
    seconds: dict[str, float]
    chains: tuple[SignedChain, ...] = ()


SiteRequest = RoleCall | PollReply | FetchReply | CloseExchange | CancelRun | Heartbeat
SiteReply = RoleReply | ReplyReady | StillBusy | Received | Refused | RunOver | SiteCounts
M = TypeVar("M", bound=SiteMessage)

_requests: msgspec.msgpack.Decoder[SiteRequest] = msgspec.msgpack.Decoder(SiteRequest)
_replies: msgspec.msgpack.Decoder[SiteReply] = msgspec.msgpack.Decoder(SiteReply)

encode = msgspec.msgpack.encode


def decode_request(raw: bytes) -> SiteRequest:
    """Read what another site asks."""
    return _decode(_requests, raw)


def decode_reply(raw: bytes) -> SiteReply:
    """Read what another site replies."""
    return _decode(_replies, raw)


def _decode(decoder: msgspec.msgpack.Decoder[M], raw: bytes) -> M:
    try:
        return decoder.decode(raw)
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError):
        # The decoder's text may quote the payload, so it stays out of the error.
        raise BadFrame(
            f"{len(raw)} bytes arrived that are no message between sites.",
            "Messages of the agreed version are needed.",
            "Check that all sites run the same version of fedsift.",
        ) from None
