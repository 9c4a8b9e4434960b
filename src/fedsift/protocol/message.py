# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Typed messages that declare where they may go and what they tell the receiver.

    @message(flow="feature holder -> label holder", reveals="scores: ...", key="label holder")
    class SealedScores(Message):
        scores: Ciphertexts

``reveals`` starts with a short kind that a policy can name, then says in words what the receiver
learns; ``nothing`` is the kind of messages that tell it nothing new. The ledger, the plan, the
policy check and the *who learns what* tables all come from these declarations.

A field is a ciphertext, a masked share or an openly declared value. Raw arrays and bytes are
refused when the class is defined, so a secret cannot reach the wire by accident.

On the wire a message is MessagePack. A frame is four bytes of magic and version followed by one
tagged message of an allow-list, up to a limit of size. Whatever else arrives raises
:class:`~fedsift.errors.BadFrame` and nothing else.
"""

from __future__ import annotations

import math
import re
import typing
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import UnionType
from typing import Any, ClassVar, Union

import msgspec
import numpy as np
import numpy.typing as npt

from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.errors import BadFrame

NOTHING = "nothing"
_DTYPES = {"<i8": 8, "<u8": 8, "<f8": 8, "|b1": 1}
_LONGEST = 1 << 31
_OPEN_TYPES = (int, float, bool, str, type(None))


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag=True, tag_field="is"):
    """Base of every message; subclasses are tagged with their class name on the wire."""

    declaration: ClassVar[Declaration]


@dataclass(frozen=True)
class Declaration:
    """What a message class promises."""

    name: str
    sender: str
    receiver: str
    kind: str
    text: str
    key: str | None
    optional: bool
    about: str

    @property
    def reveals_something(self) -> bool:
        """Whether the receiver learns anything about the sender's data."""
        return self.kind != NOTHING


class _ArrayStruct(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Numbers with a checked shape; dtype and size are validated before anything is read."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes

    def __post_init__(self) -> None:
        # Also of an array without numbers: NumPy refuses a length that no memory could hold.
        sizes_fit = all(0 <= size <= _LONGEST for size in self.shape)
        if self.dtype not in _DTYPES or len(self.shape) > 3 or not sizes_fit:
            raise ValueError("array of an unknown type or shape")
        if math.prod(self.shape) * _DTYPES[self.dtype] != len(self.data):
            raise ValueError("array data does not fill its shape")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.shape} {self.dtype}>"

    @classmethod
    def of(cls, values: npt.ArrayLike) -> typing.Self:
        """Wrap integers, floats or booleans."""
        array = np.asarray(values)
        kind = {"i": "<i8", "u": "<u8", "f": "<f8", "b": "|b1"}[array.dtype.kind]
        return cls(kind, tuple(array.shape), np.ascontiguousarray(array, dtype=kind).tobytes())

    def array(self, *, shape: tuple[int, ...] | None = None) -> npt.NDArray[Any]:
        """The numbers; refuses NaN, infinities and any other shape than the wanted one."""
        if shape is not None and self.shape != shape:
            raise BadFrame(
                f"An array of shape {self.shape} arrived.",
                f"Shape {shape} was agreed.",
                "Check that all parties run the same job on aligned rows.",
            )
        values = np.frombuffer(self.data, dtype=self.dtype).reshape(self.shape)
        if self.dtype == "<f8" and not np.isfinite(values).all():
            raise BadFrame(
                "An array with NaN or infinite numbers arrived.",
                "Messages carry finite numbers only.",
                "Check the sending party's data.",
            )
        return values


class PublicArray(_ArrayStruct, frozen=True, forbid_unknown_fields=True):
    """Numbers that are openly disclosed to the receiver; the message says which and why."""


class MaskedArray(_ArrayStruct, frozen=True, forbid_unknown_fields=True):
    """Numbers under one-time masks; a single one of them tells nothing."""


_SEALED_TYPES = (Ciphertexts, PublicKeys, PublicArray, MaskedArray)


def message(
    *,
    flow: str,
    reveals: str,
    key: str | None = None,
    optional: bool = False,
    about: str | None = None,
) -> Callable[[type[Message]], type[Message]]:
    """Declare flow and disclosure of a :class:`Message` subclass.

    Parameters
    ----------
    flow : str
        ``"sender role -> receiver role"``.
    reveals : str
        ``"nothing: why"`` or ``"kind: what the receiver learns"``.
    key : str, optional
        Role whose secret key opens the ciphertexts of this message.
    optional : bool
        The protocol works without it; it is sent only if the sender's policy names its kind.
    about : str, optional
        Role whose data is disclosed, if that is not the sender (a coordinator publishing totals);
        then every party with that role must allow it.
    """
    flow_match = re.fullmatch(r"([a-z ]+?) -> ([a-z ]+)", flow)
    reveal_match = re.fullmatch(r"([a-z-]+): (.+)", reveals)
    if flow_match is None or reveal_match is None:
        raise TypeError("declare flow='a -> b' and reveals='kind: what is learned'")

    def declare(cls: type[Message]) -> type[Message]:
        for field, hint in typing.get_type_hints(cls).items():
            if field in cls.__struct_fields__:
                _check_field(cls.__name__, field, hint)
        cls.declaration = Declaration(
            name=cls.__name__,
            sender=flow_match[1],
            receiver=flow_match[2],
            kind=reveal_match[1],
            text=reveal_match[2],
            key=key,
            optional=optional,
            about=about or flow_match[1],
        )
        return cls

    return declare


def _check_field(owner: str, field: str, hint: Any) -> None:
    """Refuse field types that could carry raw data."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (tuple, dict, typing.Union, UnionType):
        for argument in arguments:
            if argument is not Ellipsis:
                _check_field(owner, field, argument)
    elif hint not in _OPEN_TYPES and hint not in _SEALED_TYPES:
        raise TypeError(
            f"{owner}.{field} has type {hint!r}: a field is a ciphertext, a masked array, a public "
            "array or a plain declared value"
        )


def sealed_parts(value: Any) -> tuple[int, set[str]]:
    """Number of ciphertexts in a message, and the forms its content has."""
    if isinstance(value, Ciphertexts):
        return len(value.blobs), {"plain" if value.scheme == "plain" else "encrypted"}
    if isinstance(value, MaskedArray):
        return 0, {"masked"}
    if isinstance(value, PublicArray):
        return 0, {"open"}
    if isinstance(value, PublicKeys):
        return 0, {"keys"}
    items: list[Any] = []
    if isinstance(value, Message):
        items = [getattr(value, name) for name in value.__struct_fields__]
    elif isinstance(value, (tuple, list)):
        items = list(value)
    elif isinstance(value, dict):
        items = list(value.values())
    n_ciphertexts, forms = 0, set()
    for item in items:
        count, more = sealed_parts(item)
        n_ciphertexts += count
        forms |= more
    return n_ciphertexts, forms


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
