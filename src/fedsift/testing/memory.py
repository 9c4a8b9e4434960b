# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A hub in this process: it connects threads, to try a job of several sites on one machine.

Everything passes through one function that may be replaced, so that it can be seen what a hub
learns, and what happens if it changes, drops, repeats, turns around or delays what it carries.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from fedsift.engine.local import in_thread
from fedsift.engine.remote.secure_transport import Handler
from fedsift.errors import FedsiftError, SiteUnreachable


@dataclass(frozen=True)
class Packet:
    """What a hub forwards."""

    sender: str
    receiver: str
    content: bytes = field(repr=False)


Forward = Callable[[Packet, Callable[[Packet], bytes]], bytes]
"""Takes a packet and the function that delivers one; returns the reply for the sender."""


class PacketLost(Exception):
    """Raised by a hub that loses a packet or its reply."""


class MemoryHub:
    """Connects sites that are threads of one process.

    Parameters
    ----------
    forward : callable, optional
        Replaces the honest delivery.
    """

    def __init__(self, forward: Forward | None = None) -> None:
        self.forward: Forward = forward or (lambda packet, deliver: deliver(packet))
        self.aborted = threading.Event()
        self._handlers: dict[str, Handler] = {}

    def transport(self, site: str) -> MemoryTransport:
        """Make the transport of one site."""
        return MemoryTransport(self, site)

    def connect(self, site: str, handler: Handler | None) -> None:
        """Let a site answer, or not any more."""
        if handler is None:
            self._handlers.pop(site, None)
        else:
            self._handlers[site] = handler

    def deliver(self, packet: Packet) -> bytes:
        """Hand a packet to its receiver, whoever wrote the sender's name on it."""
        handler = self._handlers.get(packet.receiver)
        if handler is None:
            raise SiteUnreachable(packet.receiver, "it has not joined")
        return handler(packet.sender, packet.content)


class MemoryTransport:
    """See :class:`fedsift.engine.remote.secure_transport.Transport`."""

    def __init__(self, hub: MemoryHub, site: str) -> None:
        self._hub = hub
        self.site = site

    @property
    def aborted(self) -> bool:
        """Whether the hub has aborted the job."""
        return self._hub.aborted.is_set()

    def request(self, site: str, content: bytes, timeout_seconds: float) -> bytes:
        """Send to a site and wait for its reply."""
        packet = Packet(self.site, site, content)
        future = in_thread("hub", self._hub.forward, packet, self._hub.deliver)
        try:
            return future.result(timeout=timeout_seconds)
        except SiteUnreachable:
            raise
        except (TimeoutError, PacketLost):
            raise SiteUnreachable(site, "no answer in time") from None
        except FedsiftError as error:
            raise SiteUnreachable(site, f"it refused ({error.code})", refused=error.code) from None

    def serve(self, handler: Handler | None) -> None:
        """Answer what arrives from now on."""
        self._hub.connect(self.site, handler)
