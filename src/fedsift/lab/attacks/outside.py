# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What messages that are declared to reveal nothing show on the outside.

Open values as they are; of ciphertexts, keys and masked numbers their sizes. Two runs that differ
in private data only must not differ in any of it, except by what is declared to the same receiver.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.lab.attacks.recording import Stage
from fedsift.protocol import Codec
from fedsift.protocol.message import MaskedArray, Message, PublicArray

Where = tuple[str, str, str, str]
"""Sender, receiver, message, and the field; the field ``#`` stands for the message itself."""


def outside_of(value: Any) -> Any:
    """What anybody can tell of a field's content."""
    if isinstance(value, Ciphertexts):
        return value.scheme, tuple(map(len, value.blobs))
    if isinstance(value, PublicKeys):
        return value.scheme, value.numbers, tuple(map(len, value.blobs))
    if isinstance(value, MaskedArray):
        return value.dtype, value.shape
    if isinstance(value, PublicArray):
        return value.dtype, value.array().tolist()
    if isinstance(value, dict):
        return {key: outside_of(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(map(outside_of, value))
    return value


def seen_outside(stages: Iterable[Stage]) -> dict[Where, list[Any]]:
    """The outside of every message that reveals nothing, in the order of the run."""
    seen: dict[Where, list[Any]] = {}
    for stage in stages:
        codec = Codec(stage.protocol.messages)
        known: dict[str, type[Message]] = {cls.__name__: cls for cls in stage.protocol.messages}
        for entry in stage.outcome.transcript.entries:
            cls = known.get(entry.message)
            if cls is None or cls.declaration.reveals_something or entry.frame is None:
                continue  # one without a class is an empty answer
            message = codec.decode(entry.frame, [cls])
            where = entry.sender, entry.receiver, entry.message
            seen.setdefault((*where, "#"), []).append(None)
            for name in cls.__struct_fields__:
                seen.setdefault((*where, name), []).append(outside_of(getattr(message, name)))
    return seen
