# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A role is one part in a protocol: state, one handler per message it answers, and a network.

A protocol is all roles and messages of a method, and what it will disclose.
"""

from __future__ import annotations

import sys
import time
import typing
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from fedsift.crypto.identity import Identity
from fedsift.errors import CryptoError, ParameterError, PartyFailed, ProtocolError, UndeclaredFlow
from fedsift.protocol.message import Declaration, Done, Message
from fedsift.protocol.policy import PlannedDisclosure, Policy

T = TypeVar("T", bound=Message)


class Network(typing.Protocol):
    """What one role sees of the others: it asks and tells them."""

    party: str
    """The organisation this role belongs to."""

    identity: Identity | None
    """Proves whose keys are passed on; None in one process, where nothing is pinned."""
    policy: Policy
    """That of this organisation, for limits on what messages may ask for."""

    def members(self, role: str) -> tuple[str, ...]:
        """Parties with a role, in party order."""
        ...

    async def ask(
        self,
        role: str,
        message: Message | Mapping[str, Message],
        reply: type[T],
        *,
        timeout_seconds: float | None = None,
    ) -> list[T]:
        """Send to every member of a role at once and return the replies in party order.

        ``message`` is one for all, or one per party (parties left out are not asked). Raises one
        :class:`~fedsift.errors.PartyFailed` that names the party, the message and the round.
        """
        ...

    async def tell(
        self,
        role: str,
        message: Message | Mapping[str, Message],
        *,
        timeout_seconds: float | None = None,
    ) -> None:
        """Send without expecting more than a confirmation."""
        ...

    def account(self) -> dict[str, Any]:
        """Traffic and disclosures that this site has counted so far; plain values, no content.

        Empty at a role that has the driver beside it, whose account has everything.
        """
        ...

    def go_on(self, account: Mapping[str, Any]) -> None:
        """Count on from the account of an interrupted run."""
        ...


@contextmanager
def errors_belong_to(party: str, message: str, round_number: int) -> Iterator[None]:
    """Turn errors found while reading a party's answer into that party's failure."""
    try:
        yield
    except PartyFailed:
        raise
    except (CryptoError, ProtocolError) as error:
        reason = f"its answer is not valid ({error})"
        raise PartyFailed(party, message, round_number, reason, cause_code=error.code) from error


Handler = Callable[[Any, Any, Network], Awaitable[Message | None]]
H = TypeVar("H", bound=Callable[..., Awaitable[Message | None]])


def handles(message_type: type[Message]) -> Callable[[H], H]:
    """Mark a coroutine method as the answer to one message type."""

    def mark(function: H) -> H:
        function.__handles__ = message_type  # type: ignore[attr-defined]
        return function

    return mark


class Clock:
    """Seconds by phase (encrypt, evaluate, decrypt, train, wait)."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        """Add the time spent inside to a phase."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[phase] += time.perf_counter() - start


class Role:
    """Base of all roles. Subclasses name themselves as the paper does: ``name="label holder"``."""

    role_name: str = ""
    handlers: ClassVar[dict[type[Message], Handler]] = {}

    def __init_subclass__(cls, *, name: str | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if name is not None:
            cls.role_name = name
        own = (value for value in vars(cls).values() if hasattr(value, "__handles__"))
        cls.handlers = {**cls.handlers, **{f.__handles__: f for f in own}}

    @property
    def clock(self) -> Clock:
        """This role's stopwatch."""
        if not hasattr(self, "_clock"):
            self._clock = Clock()
        return self._clock

    async def handle(self, message: Message, net: Network) -> Message:
        """Answer one message, or refuse what this role has no handler for."""
        handler = self.handlers.get(type(message))
        if handler is None:
            raise UndeclaredFlow(
                f"The role {self.role_name!r} got {type(message).__name__}.",
                f"It answers {', '.join(cls.__name__ for cls in self.handlers) or 'nothing'}.",
                "Check that all parties run the same job.",
            )
        return await handler(self, message, net) or Done()

    def facts(self) -> dict[str, Any]:
        """What this party may keep of the run for itself; read locally, never sent."""
        return {}


class DrivingRole(Role, ABC):
    """The role that walks through the protocol, top to bottom."""

    watcher: Callable[[Mapping[str, Any]], None] | None = None
    """Set by a runtime whose observer wants to see steps."""

    def note(self, **entry: Any) -> None:
        """Show whoever watches at this very party how far the run is; nothing is sent."""
        if self.watcher is not None:
            self.watcher(entry)

    @abstractmethod
    async def drive(self, net: Network) -> Any:
        """Run the protocol and return what the driving party learned."""


class RemoteRole(Role):
    """A role that runs at another site: it has a name and a place, and nothing behind them.

    Parameters
    ----------
    role_type : Role type
        Class of the role.

    Examples
    --------
    >>> class Participant(Role, name="participant"):
    ...     pass
    >>> remote = RemoteRole(Participant)
    >>> remote.role_name, remote.driving
    ('participant', False)
    """

    def __init__(self, role_type: type[Role]) -> None:
        self.role_name = role_type.role_name
        self.driving = issubclass(role_type, DrivingRole)

    def __repr__(self) -> str:
        return f"<{self.role_name} at another site>"


def make_role(kind: type[Role], *arguments: Any) -> Role:
    """A role, or its stand-in if a table or target among the arguments is at another site."""
    remote = any(getattr(one, "at_another_site", False) for one in arguments)
    return RemoteRole(kind) if remote else kind(*arguments)


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
