# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What plays a protocol: every party in this process, or one site together with other sites.

A job is a script: an ordinary function that plays one protocol after the other. Every site runs the
same script with the same arguments, except for its own data; where a party lives elsewhere, its
node holds :class:`~fedsift.protocol.remote_role.RemoteRole` roles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol as Interface

from fedsift.engine.exchange import DEFAULT_TIMEOUT_SECONDS
from fedsift.engine.local import run_local
from fedsift.engine.observer import Observer
from fedsift.engine.outcome import Outcome
from fedsift.protocol.message import Message
from fedsift.protocol.policy import Policy
from fedsift.protocol.protocol import Protocol
from fedsift.protocol.role import Role


class Engine(Interface):
    """Plays protocols, one after the other."""

    @property
    def home(self) -> tuple[str, ...] | None:
        """Parties that live here; None if all of them do."""
        ...

    def run(
        self,
        protocol: Protocol,
        nodes: Mapping[str, Sequence[Role]],
        *,
        planned: Sequence[type[Message]] | None = None,
        policies: Mapping[str, Policy] | None = None,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
        protected: bool = True,
        observer: Observer | None = None,
        on_interrupt: Callable[[], None] | None = None,
        keep_frames: bool = False,
    ) -> Outcome:
        """Play one protocol to its end.

        At the site of the driving role the outcome holds what the driver learned and the counts of
        all parties. At every other site the value is None and the counts are what that site saw.
        Messages that are not ``planned`` are refused; without a plan the whole protocol may pass.
        """
        ...


class LocalEngine:
    """Every party lives in this process."""

    home: tuple[str, ...] | None = None

    def run(
        self,
        protocol: Protocol,
        nodes: Mapping[str, Sequence[Role]],
        *,
        planned: Sequence[type[Message]] | None = None,
        policies: Mapping[str, Policy] | None = None,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
        protected: bool = True,
        observer: Observer | None = None,
        on_interrupt: Callable[[], None] | None = None,
        keep_frames: bool = False,
    ) -> Outcome:
        """See :class:`Engine`."""
        return run_local(
            protocol,
            nodes,
            planned=planned,
            policies=policies,
            timeout_seconds=timeout_seconds,
            protected=protected,
            observer=observer,
            on_interrupt=on_interrupt,
            keep_frames=keep_frames,
        )


LOCAL_ENGINE = LocalEngine()
"""For whoever was given no player."""
