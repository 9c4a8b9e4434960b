# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What an engine is: it runs protocols, with all parties in this process or with other sites.

A job is an ordinary function that runs one protocol after the other. Every site calls the same
function with the same arguments, except for its own data; for a party that lives elsewhere, it
places :class:`~fedsift.protocol.remote_role.RemoteRole` roles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol as Interface
from typing import Unpack

from fedsift.engine.outcome import Outcome
from fedsift.engine.session import SessionOptions
from fedsift.protocol.protocol import Protocol
from fedsift.protocol.role import Role


class Engine(Interface):
    """Runs protocols, one after the other."""

    @property
    def home(self) -> tuple[str, ...] | None:
        """Parties that live here; None if all of them do."""
        ...

    def run(
        self,
        protocol: Protocol,
        nodes: Mapping[str, Sequence[Role]],
        *,
        timeout_seconds: float | None = None,
        on_interrupt: Callable[[], None] | None = None,
        **options: Unpack[SessionOptions],
    ) -> Outcome:
        """Run one protocol to its end.

        At the site of the driving role the outcome holds what the driver learned and the counts of
        all parties. At every other site the value is None and the counts are what that site saw.

        Parameters
        ----------
        nodes : mapping of party -> roles
            Exactly one of all roles is a driving one.
        timeout_seconds : float, optional
            Limit of every single request; that of the engine's ``Timeouts`` if missing.
        on_interrupt : callable, optional
            Called at the first Ctrl-C, to ask the driving role for an early but orderly end.
            Without it, and at the second Ctrl-C, the run stops at once.
        **options
            Those of the session: see :class:`~fedsift.engine.session.SessionOptions`.
        """
        ...
