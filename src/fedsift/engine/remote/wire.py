# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What sites say to each other to play a protocol together; travels inside envelopes only."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from fedsift.errors import BadFrame
from fedsift.protocol.transcript import Entry
from fedsift.result import Disclosure


class Note(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag=True, tag_field="is"):
    """Base of everything below."""


class Call(Note, frozen=True):
    """A request from one role to another; ``hold`` is how long to wait before *still busy*."""

    stage: int
    protocol: str
    number: int
    sender: str
    sender_role: str
    receiver: str
    receiver_role: str
    round_number: int
    hold: float
    frame: bytes


class Poll(Note, frozen=True):
    """Whether the answer to a call is ready."""

    number: int
    hold: float


class Fetch(Note, frozen=True):
    """Send the answer that was said to be ready."""

    number: int


class Close(Note, frozen=True):
    """The driver has finished a stage: tell your counts and go on."""

    stage: int
    hold: float


class Cancel(Note, frozen=True):
    """The run is over, for this reason."""

    code: str
    text: str


class Beat(Note, frozen=True):
    """A sign of life."""


class Answer(Note, frozen=True):
    """The answer to a call."""

    frame: bytes


class Ready(Note, frozen=True):
    """The answer is there, and large: fetch it with enough time."""

    n_bytes: int


class Busy(Note, frozen=True):
    """Still computing, or not there yet."""


class Noted(Note, frozen=True):
    """Received."""


class Refusal(Note, frozen=True):
    """The note made no sense here."""

    code: str
    text: str


class Over(Note, frozen=True):
    """The run has ended; which site ended it, and why."""

    site: str
    code: str
    text: str


class Count(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
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
    def of(cls, entry: Entry) -> Count:
        """Without the frame itself."""
        return cls(*(getattr(entry, name) for name in cls.__struct_fields__))

    def entry(self) -> Entry:
        """As a line of a transcript."""
        return Entry(*msgspec.structs.astuple(self))


class Counts(Note, frozen=True):
    """Counts of everything a site asked others in a stage, and its seconds by phase."""

    rounds: int
    counts: tuple[Count, ...]
    disclosures: tuple[Disclosure, ...]
    seconds: dict[str, float]


Question = Call | Poll | Fetch | Close | Cancel | Beat
Reply = Answer | Ready | Busy | Noted | Refusal | Over | Counts
N = TypeVar("N", bound=Note)

_questions: msgspec.msgpack.Decoder[Question] = msgspec.msgpack.Decoder(Question)
_replies: msgspec.msgpack.Decoder[Reply] = msgspec.msgpack.Decoder(Reply)


def pack(note: Note) -> bytes:
    """A note as bytes."""
    return msgspec.msgpack.encode(note)


def read_question(raw: bytes) -> Question:
    """What another site asks."""
    return _read(_questions, raw)


def read_reply(raw: bytes) -> Reply:
    """What another site answers."""
    return _read(_replies, raw)


def _read(decoder: msgspec.msgpack.Decoder[N], raw: bytes) -> N:
    try:
        return decoder.decode(raw)
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError):
        # The decoder's text may quote the payload, so it stays out of the error.
        raise BadFrame(
            f"{len(raw)} bytes arrived that are no note between sites.",
            "Notes of the agreed version of the relay are needed.",
            "Check that all sites run the same version of fedsift.",
        ) from None
