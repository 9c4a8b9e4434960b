# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A hub in this process: lines between threads, to try a script of several sites on one machine.

Everything passes through one function that may be replaced, so that it can be seen what a hub
learns, and what happens if it changes, drops, repeats, turns around or delays what it carries.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from fedsift.engine.remote.transport import Handler
from fedsift.engine.threads import in_thread
from fedsift.errors import FedsiftError, SiteUnreachable


@dataclass(frozen=True)
class Parcel:
    """What a hub holds in its hands."""

    sender: str
    receiver: str
    content: bytes = field(repr=False)


Carrier = Callable[[Parcel, Callable[[Parcel], bytes]], bytes]
"""Takes a parcel and the function that delivers one; returns the answer to give the sender."""


class Lost(Exception):
    """Raised by a carrier that does not deliver, or not bring back."""


class MemoryHub:
    """Connects sites that are threads of one process.

    Parameters
    ----------
    carry : callable, optional
        Replaces the honest delivery.
    """

    def __init__(self, carry: Carrier | None = None) -> None:
        self.carry: Carrier = carry or (lambda parcel, deliver: deliver(parcel))
        self.aborted = threading.Event()
        self._handlers: dict[str, Handler] = {}

    def line(self, site: str) -> MemoryTransport:
        """The line of one site."""
        return MemoryTransport(self, site)

    def connect(self, site: str, handler: Handler | None) -> None:
        """Let a site answer, or not any more."""
        if handler is None:
            self._handlers.pop(site, None)
        else:
            self._handlers[site] = handler

    def deliver(self, parcel: Parcel) -> bytes:
        """Hand a parcel to its receiver, whoever wrote the sender's name on it."""
        handler = self._handlers.get(parcel.receiver)
        if handler is None:
            raise SiteUnreachable(parcel.receiver, "it has not joined")
        return handler(parcel.sender, parcel.content)


class MemoryTransport:
    """See :class:`fedsift.engine.remote.transport.Transport`."""

    def __init__(self, hub: MemoryHub, site: str) -> None:
        self._hub = hub
        self.site = site

    @property
    def aborted(self) -> bool:
        """Whether the hub has given up the job."""
        return self._hub.aborted.is_set()

    def request(self, site: str, content: bytes, timeout_seconds: float) -> bytes:
        """Send to a site and wait for its answer."""
        parcel = Parcel(self.site, site, content)
        future = in_thread("hub", self._hub.carry, parcel, self._hub.deliver)
        try:
            return future.result(timeout=timeout_seconds)
        except SiteUnreachable:
            raise
        except (TimeoutError, Lost):
            raise SiteUnreachable(site, "no answer in time") from None
        except FedsiftError as error:
            raise SiteUnreachable(site, f"it refused ({error.code})", refused=error.code) from None

    def serve(self, handler: Handler | None) -> None:
        """Answer what arrives from now on."""
        self._hub.connect(self.site, handler)
