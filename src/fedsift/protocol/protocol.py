# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A protocol as a whole: its roles, its messages and what it will disclose."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fedsift.errors import ParameterError
from fedsift.protocol.message import Declaration, Message
from fedsift.protocol.policy import PlannedDisclosure
from fedsift.protocol.role import DrivingRole, RemoteRole, Role


def messages_in(module: str) -> tuple[type[Message], ...]:
    """The messages that a module has declared so far, in its order."""
    known = [value for value in vars(sys.modules[module]).values() if isinstance(value, type)]
    own = (cls for cls in known if issubclass(cls, Message) and cls.__module__ == module)
    return tuple(cls for cls in own if hasattr(cls, "declaration"))


@dataclass(frozen=True)
class Protocol:
    """What the runtime needs to know to carry out a method.

    Parameters
    ----------
    name : str
        Method name as in job files.
    messages : tuple of Message types
        In the order they are first sent.
    roles : tuple of Role types
        The driving role first.
    """

    name: str
    messages: tuple[type[Message], ...]
    roles: tuple[type[Role], ...]

    def planned(
        self, used: Sequence[type[Message]], placement: Mapping[str, Sequence[str]]
    ) -> list[PlannedDisclosure]:
        """Who will learn what if the run uses these messages; ``placement`` maps party -> roles."""
        return [
            PlannedDisclosure(learner, d.receiver, about, d.about, d.kind, d.text, d.name)
            for d in (cls.declaration for cls in used)
            if d.reveals_something
            for about in _subjects(placement, d)
            for learner in _players(placement, d.receiver)
            if learner != about
        ]

    def sends(
        self, used: Sequence[type[Message]], placement: Mapping[str, Sequence[str]]
    ) -> list[tuple[str, Declaration]]:
        """(party, declaration) for every message used and every party whose data it is about."""
        return [
            (party, cls.declaration)
            for cls in used
            for party in _players(placement, cls.declaration.about)
        ]


def _subjects(placement: Mapping[str, Sequence[str]], declaration: Declaration) -> list[str]:
    """Whose data a message is about: each sender, or all parties of the declared role together."""
    players = _players(placement, declaration.about)
    return players if declaration.about == declaration.sender else [", ".join(players)]


def _players(placement: Mapping[str, Sequence[str]], role: str) -> list[str]:
    return [party for party, roles in placement.items() if role in roles]


def placement_of(nodes: Mapping[str, Sequence[Role]]) -> dict[str, tuple[str, ...]]:
    """Party -> names of its roles."""
    return {party: tuple(role.role_name for role in roles) for party, roles in nodes.items()}


def find_driver(nodes: Mapping[str, Sequence[Role]]) -> tuple[str, DrivingRole | RemoteRole]:
    """The one party and role that drive the protocol, here or at another site."""
    drivers = [
        (party, role)
        for party, roles in nodes.items()
        for role in roles
        if isinstance(role, DrivingRole) or (isinstance(role, RemoteRole) and role.driving)
    ]
    if len(drivers) != 1:
        raise ParameterError(
            f"{len(drivers)} driving roles were placed.",
            "A protocol has exactly one.",
            "Place the driving role at one party.",
        )
    return drivers[0]


def absent_parties(nodes: Mapping[str, Sequence[Role]]) -> tuple[str, ...]:
    """Parties whose roles run at another site."""
    return tuple(
        party
        for party, roles in nodes.items()
        if any(isinstance(role, RemoteRole) for role in roles)
    )
