# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Who learned what: generated from the messages that were really sent."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

import msgspec

from fedsift.protocol.message import Message, sealed_parts
from fedsift.protocol.transcript import places
from fedsift.result import Disclosure

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
