# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What brings bytes from site to site through a hub, and how long to wait for it.

A line knows nothing of parties, protocols or secrets: it moves opaque bytes and may lose them. An
engine across organisations supplies one; :mod:`fedsift.engine.remote.secure_transport` makes it
trustworthy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

Handler = Callable[[str, bytes], bytes]
"""Answers (claimed sender, content); what it raises goes back as a refusal with a code only."""


class Transport(Protocol):
    """One site's connection to the others."""

    @property
    def site(self) -> str:
        """This site."""
        ...

    @property
    def aborted(self) -> bool:
        """Whether the engine has given up the job."""
        ...

    def request(self, site: str, content: bytes, timeout_seconds: float) -> bytes:
        """Send to a site and wait for its answer; may be called from several threads at once.

        Raises :class:`~fedsift.errors.SiteUnreachable` if none comes in time or if it is refused.
        """
        ...

    def serve(self, handler: Handler | None) -> None:
        """Answer what arrives from now on; None stops that. Before, everything is refused."""
        ...


@dataclass(frozen=True)
class Timeouts:
    """How long sites wait for each other.

    Parameters
    ----------
    exchange_seconds : float
        Longest way there and back of a small message. A site inside one long computation cannot
        even say that it is busy, so this must not be short.
    hold_seconds : float
        A site that still computes says so after this time.
    bytes_per_second : float
        Slowest connection; large messages get so much more time.
    attempts : int
        How often a message is sent before its receiver counts as unreachable.
    join_seconds : float
        How long the sites wait for the last one to arrive.
    idle_seconds : float
        A site ends its part when the leading site was silent for so long.
    """

    exchange_seconds: float = 60.0
    hold_seconds: float = 5.0
    bytes_per_second: float = 100_000.0
    attempts: int = 2
    join_seconds: float = 180.0
    idle_seconds: float = 600.0

    @classmethod
    def of(cls, idle_seconds: float, heartbeat_seconds: float) -> Timeouts:
        """From the two limits that an organisation sets for itself."""
        return cls(
            exchange_seconds=min(cls.exchange_seconds, idle_seconds / 4),
            hold_seconds=heartbeat_seconds,
            join_seconds=min(cls.join_seconds, idle_seconds),
            idle_seconds=idle_seconds,
        )

    @property
    def beat_seconds(self) -> float:
        """A site shows that it is alive this often: several times before others lose patience."""
        return self.idle_seconds / 5

    def trip(self, n_bytes: int, hold_seconds: float = 0.0) -> float:
        """Limit of one exchange."""
        return self.exchange_seconds + hold_seconds + n_bytes / self.bytes_per_second
