# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Every frame that went over the wire: who, to whom, which message, how many bytes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from fedsift.protocol.codec import Codec
from fedsift.protocol.message import Message
from fedsift.result import Traffic, TrafficRow


@dataclass(frozen=True)
class Entry:
    """One frame."""

    round_number: int
    sender: str
    sender_role: str
    receiver: str
    receiver_role: str
    message: str
    n_bytes: int
    n_ciphertexts: int
    frame: bytes | None = field(default=None, repr=False)


class Transcript:
    """Counts on the encoded bytes; keeps the frames themselves only when asked to."""

    def __init__(self, *, keep_frames: bool = False) -> None:
        self.entries: list[Entry] = []
        self.rounds = 0
        self.keep_frames = keep_frames
        self._lock = threading.Lock()

    def next_round(self) -> int:
        """Number of the request that starts now."""
        with self._lock:
            self.rounds += 1
            return self.rounds

    def add(self, entry: Entry) -> None:
        """Record one frame."""
        with self._lock:
            self.entries.append(entry)

    def traffic(self) -> Traffic:
        """Totals, and rows by message type, sender and receiver."""
        rows: dict[tuple[str, str, str], list[int]] = {}
        for entry in self.entries:
            counts = rows.setdefault((entry.message, entry.sender, entry.receiver), [0, 0, 0])
            counts[0] += 1
            counts[1] += entry.n_bytes
            counts[2] += entry.n_ciphertexts
        return Traffic(
            rounds=self.rounds,
            messages=len(self.entries),
            n_bytes=sum(entry.n_bytes for entry in self.entries),
            ciphertexts=sum(entry.n_ciphertexts for entry in self.entries),
            rows=tuple(TrafficRow(*key, *counts) for key, counts in rows.items()),
        )

    def view(self, party: str) -> tuple[Entry, ...]:
        """What a party received."""
        return tuple(entry for entry in self.entries if entry.receiver == party)

    def messages(self, party: str, codec: Codec, types: list[type[Message]]) -> Iterator[Message]:
        """Decode what a party received from the kept frames, as that party would."""
        for entry in self.view(party):
            if entry.frame is not None and entry.message in {cls.__name__ for cls in types}:
                yield codec.decode(entry.frame, types)
