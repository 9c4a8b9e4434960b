# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What moves bytes from site to site through a hub.

A transport knows nothing of parties, protocols or secrets: it moves opaque bytes and may lose them.
What connects organisations supplies one; :mod:`fedsift.engine.remote.secure_transport` makes it
trustworthy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

Handler = Callable[[str, bytes], bytes]
"""Answers (claimed sender, content); what it raises goes back as a refusal with a code only."""


class Transport(Protocol):
    """One site's connection to the others."""

    @property
    def site(self) -> str:
        """The name of this site."""
        ...

    @property
    def aborted(self) -> bool:
        """Whether the job was aborted."""
        ...

    def request(self, site: str, content: bytes, timeout_seconds: float) -> bytes:
        """Send to a site and wait for its reply; may be called from several threads at once.

        Raises :class:`~fedsift.errors.SiteUnreachable` if none comes in time or if it is refused.
        """
        ...

    def serve(self, handler: Handler | None) -> None:
        """Answer what arrives from now on; None stops that. Before, everything is refused."""
        ...
