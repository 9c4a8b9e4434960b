# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Every frame that went over the wire, and what its receiver learned."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from fedsift.protocol.message import Codec, Message, sealed_parts
from fedsift.result import Disclosure, Traffic, TrafficRow


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


def places(names: Sequence[str], rank: Mapping[str, int]) -> tuple[tuple[int, str], ...]:
    """Sorting key of names: as ranked, the others after them by alphabet."""
    return tuple((rank.get(name, len(rank)), name) for name in names)


class Transcript:
    """Counts on the encoded bytes; keeps the frames themselves only when asked to.

    ``order`` names messages and parties in the order that rows are listed in, so that two runs
    of the same job give the same rows whatever was quicker on the way.
    """

    def __init__(self, *, keep_frames: bool = False, order: Sequence[str] = ()) -> None:
        self.entries: list[Entry] = []
        self.rounds = 0
        self.keep_frames = keep_frames
        self.driven = 0
        self.lines: list[str] = []
        self._rank = {name: position for position, name in enumerate(order)}
        self._lock = threading.Lock()

    def next_round(self, within: int | None = None) -> int:
        """Count a request that starts now, and number it.

        The driver's requests are numbered one after the other; what a role asks while it answers
        belongs to the round ``within``.
        """
        with self._lock:
            self.rounds += 1
            if within is not None:
                return within
            self.driven += 1
            return self.driven

    def add(self, entry: Entry, line: str) -> None:
        """Record one frame, and the line that commits to it."""
        with self._lock:
            self.entries.append(entry)
            self.lines.append(line)

    def merge(self, rounds: int, entries: Iterable[Entry]) -> None:
        """Add what another site counted."""
        with self._lock:
            self.rounds += rounds
            self.entries.extend(entries)

    def to_plain(self) -> dict[str, Any]:
        """Counts without frames, for a checkpoint: names once, numbers as an array."""
        with self._lock:
            rounds, entries = self.rounds, list(self.entries)
        kinds: dict[tuple[str, ...], int] = {}
        numbers = np.empty((len(entries), 4), dtype=np.int64)
        for line, e in zip(numbers, entries, strict=True):
            names = (e.sender, e.sender_role, e.receiver, e.receiver_role, e.message)
            kind = kinds.setdefault(names, len(kinds))
            line[:] = e.round_number, kind, e.n_bytes, e.n_ciphertexts
        return {"rounds": rounds, "kinds": [list(names) for names in kinds], "numbers": numbers}

    def go_on(self, saved: Mapping[str, Any]) -> None:
        """Count on from what :meth:`to_plain` gave in an interrupted run."""
        kinds = saved["kinds"]
        entries = [
            Entry(n, *kinds[kind], *counts) for n, kind, *counts in saved["numbers"].tolist()
        ]
        self.merge(saved["rounds"], entries)
        with self._lock:
            self.driven = max([self.driven, *(entry.round_number for entry in entries)])

    def ordered(self) -> list[Entry]:
        """All entries by round, message, sender and receiver."""

        def place(entry: Entry) -> tuple[int, tuple[tuple[int, str], ...]]:
            names = (entry.message, entry.sender, entry.receiver)
            return entry.round_number, places(names, self._rank)

        with self._lock:
            return sorted(self.entries, key=place)

    def traffic(self) -> Traffic:
        """Totals, and rows by message type, sender and receiver."""
        rows: dict[tuple[str, str, str], list[int]] = {}
        for entry in self.ordered():
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
            lines=tuple(self.lines),
        )

    def view(self, party: str) -> tuple[Entry, ...]:
        """What a party received."""
        return tuple(entry for entry in self.entries if entry.receiver == party)

    def messages(self, party: str, codec: Codec, types: list[type[Message]]) -> Iterator[Message]:
        """Decode what a party received from the kept frames, as that party would."""
        for entry in self.view(party):
            if entry.frame is not None and entry.message in {cls.__name__ for cls in types}:
                yield codec.decode(entry.frame, types)


_FORMS = {
    "encrypted": "encrypted, decrypted by the learner",
    "plain": "PLAIN (protection is off)",
    "masked": "masked, only the sum opens",
    "open": "open numbers",
}


class Ledger:
    """Adds up disclosures: one row per learner, subject, kind and message type.

    ``protected=False`` is a run with ``security="plain"``: nothing in it was hidden. ``order``
    names messages and parties in the order that rows are listed in.
    """

    def __init__(self, *, protected: bool = True, order: Sequence[str] = ()) -> None:
        self._protected = protected
        self._rank = {name: position for position, name in enumerate(order)}
        self._rows: dict[Disclosure, list[int]] = {}
        self._lock = threading.Lock()

    def add(
        self,
        message: Message,
        *,
        about: tuple[str, str],
        receiver: tuple[str, str],
        key_owner: str,
        n_bytes: int,
    ) -> Disclosure | None:
        """Note one delivered message and give its row; one that reveals nothing has none."""
        declaration = message.declaration
        if not declaration.reveals_something:
            return None
        row = Disclosure(
            *receiver,
            *about,
            declaration.kind,
            declaration.text,
            self._form(message, receiver[0], key_owner),
            key_owner,
            declaration.name,
        )
        self._count(row, 1, n_bytes)
        return msgspec.structs.replace(row, n_bytes=n_bytes)

    def merge(self, rows: Iterable[Disclosure]) -> None:
        """Add what another site noted."""
        for row in rows:
            bare = msgspec.structs.replace(row, times=1, n_bytes=0)
            self._count(bare, row.times, row.n_bytes)

    def _count(self, row: Disclosure, times: int, n_bytes: int) -> None:
        with self._lock:
            counts = self._rows.setdefault(row, [0, 0])
            counts[0] += times
            counts[1] += n_bytes

    def _form(self, message: Message, learner: str, key_owner: str) -> str:
        if not self._protected:
            return _FORMS["plain"]
        return form_of(message, opened=learner == key_owner)

    def rows(self) -> tuple[Disclosure, ...]:
        """The ledger so far, by message, subject and learner."""

        def place(row: Disclosure) -> tuple[tuple[int, str], ...]:
            return places((row.message, row.about, row.learner, row.form), self._rank)

        with self._lock:
            found = [
                msgspec.structs.replace(row, times=times, n_bytes=n_bytes)
                for row, (times, n_bytes) in self._rows.items()
            ]
        return tuple(sorted(found, key=place))


def form_of(message: Message, *, opened: bool) -> str:
    """How the disclosed content travelled, read off the message and never declared by hand.

    ``opened`` says whether the receiver owns the key of the message's ciphertexts; to anybody else
    only the open fields tell something.
    """
    _, forms = sealed_parts(message)
    if "plain" in forms:
        return _FORMS["plain"]
    if "encrypted" in forms and opened:
        return _FORMS["encrypted"]
    return _FORMS["masked"] if "masked" in forms else _FORMS["open"]
