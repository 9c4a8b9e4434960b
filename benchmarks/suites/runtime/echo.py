# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A protocol that does nothing: one party sends bytes, another sends them back.

What it costs is what the runtime costs. It is no method: no job can name it, and only a site whose
own list of classes has been given :class:`benchmarks.suites.runtime.flare.EchoExecutor` plays it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

from fedsift.crypto.wire import Ciphertexts
from fedsift.errors import BadFrame
from fedsift.protocol import (
    DrivingRole,
    Message,
    Network,
    Protocol,
    RemoteRole,
    Role,
    handles,
    message,
)

CALLER, WALL = "caller", "wall"
Steps = Sequence[tuple[int, int]]
"""Pairs of a size in bytes and how many rounds of it are timed."""


@message(flow=f"{CALLER} -> {WALL}", reveals="nothing: random bytes")
class Shout(Message, frozen=True):
    """Bytes that mean nothing."""

    content: Ciphertexts


@message(flow=f"{WALL} -> {CALLER}", reveals="nothing: the bytes that were sent")
class Echo(Message, frozen=True):
    """The same bytes."""

    content: Ciphertexts


class Wall(Role, name=WALL):
    """Sends back what it gets."""

    @handles(Shout)
    async def answer(self, shout: Shout, net: Network) -> Echo:  # noqa: ARG002
        """Nothing is computed."""
        return Echo(shout.content)


class Caller(DrivingRole, name=CALLER):
    """Sends, waits, and takes the time.

    Parameters
    ----------
    steps : sequence of (size, rounds)
    """

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    async def drive(self, net: Network) -> list[dict[str, Any]]:
        """Return the seconds of every round; the first one of a size is not counted."""
        found = []
        for size, rounds in self._steps:
            content = Ciphertexts("random", (os.urandom(size),))
            seconds = []
            for _ in range(rounds + 1):
                start = time.perf_counter()
                answers = await net.ask(WALL, Shout(content), Echo)
                seconds.append(time.perf_counter() - start)
                if [answer.content for answer in answers] != [content]:
                    raise BadFrame(
                        f"Another echo than the {size} bytes that were sent.",
                        "A runtime must bring messages as they are.",
                        "Report this with the output of 'fedsift doctor'.",
                    )
            found.append({"size": size, "seconds": seconds[1:]})
        return found


PROTOCOL = Protocol("echo", (Shout, Echo), (Caller, Wall))


def build_nodes(
    caller: str, wall: str, steps: Steps, home: Sequence[str] | None = None
) -> dict[str, Sequence[Role]]:
    """Two parties; those that are not at home are played elsewhere."""
    roles: dict[str, Role] = {caller: Caller(steps), wall: Wall()}
    return {
        party: (role if home is None or party in home else RemoteRole(type(role)),)
        for party, role in roles.items()
    }
