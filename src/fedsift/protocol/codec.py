# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Messages to bytes and back: MessagePack, an allow-list, a size limit, no pickle.

A frame is four bytes of magic and version followed by one tagged message. Whatever else arrives
raises :class:`~fedsift.errors.BadFrame` and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Union

import msgspec

from fedsift.errors import BadFrame
from fedsift.protocol.message import Message

MAGIC = b"fsm\x01"
MAX_FRAME_BYTES = 512 * 1024 * 1024
_ADVICE = "Check that all parties run the same version of fedsift and the same job."


class Fault(Message, frozen=True):
    """A party could not answer: an error code and a text without data values."""

    code: str
    text: str


class Done(Message, frozen=True):
    """A party has taken note of a message that needs no answer."""


class Codec:
    """Encodes and decodes the messages of one protocol."""

    def __init__(
        self, messages: Iterable[type[Message]], *, max_frame_bytes: int = MAX_FRAME_BYTES
    ) -> None:
        known: tuple[type[Message], ...] = (*messages, Fault, Done)
        self._types = {cls.__name__: cls for cls in known}
        self._max_frame_bytes = max_frame_bytes
        self._encoder = msgspec.msgpack.Encoder()
        self._decoders: dict[tuple[type[Message], ...], msgspec.msgpack.Decoder[Any]] = {}

    def encode(self, message: Message) -> bytes:
        """One frame; refuses messages that are not of this protocol or too large."""
        if self._types.get(type(message).__name__) is not type(message):
            raise BadFrame(
                f"{type(message).__name__} is not a message of this protocol.",
                f"Known: {', '.join(self._types)}.",
                "Add it to the protocol's messages.",
            )
        frame = MAGIC + self._encoder.encode(message)
        self._check_size(len(frame))
        return frame

    def decode(self, frame: bytes, allowed: Iterable[type[Message]]) -> Message:
        """The message in a frame, if it is one of the allowed types."""
        self._check_size(len(frame))
        if frame[: len(MAGIC)] != MAGIC:
            raise BadFrame(
                "The frame does not start with fedsift's mark and version.",
                "Frames of format version 1 are needed.",
                _ADVICE,
            )
        types = tuple(allowed)
        try:
            decoded = self._decoder(types).decode(memoryview(frame)[len(MAGIC) :])
        except (msgspec.MsgspecError, ValueError, TypeError, RecursionError, OverflowError):
            # The decoder's text may quote the payload, so it stays out of the error.
            raise BadFrame(
                f"{len(frame)} bytes arrived that are no allowed message.",
                f"Allowed here: {', '.join(cls.__name__ for cls in types)}.",
                _ADVICE,
            ) from None
        assert isinstance(decoded, Message)  # noqa: S101 - the decoder knows only messages
        return decoded

    def _decoder(self, types: tuple[type[Message], ...]) -> msgspec.msgpack.Decoder[Any]:
        if types not in self._decoders:
            self._decoders[types] = msgspec.msgpack.Decoder(Union[types])  # noqa: UP007
        return self._decoders[types]

    def _check_size(self, n_bytes: int) -> None:
        if n_bytes > self._max_frame_bytes:
            raise BadFrame(
                f"A message of {n_bytes} bytes.",
                f"At most {self._max_frame_bytes} bytes are allowed.",
                "Raise the limit in the job's [runtime] table, or send less at once.",
            )
