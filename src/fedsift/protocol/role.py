# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A role is one part in a protocol: state plus one handler per message it answers."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, TypeVar

from fedsift.errors import UndeclaredFlow
from fedsift.protocol.codec import Done
from fedsift.protocol.message import Message
from fedsift.protocol.network import Network

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
