# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Run a method's own driver and roles to count what they send, without encryption and engine.

Messages go straight from role to role. Kernels compute in the clear on few rows and hand out
ciphertexts that have the number and size of real ones, but no content.
"""

from __future__ import annotations

import warnings
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from fedsift.costs.columns import CountingEvaluator, CountingOwner
from fedsift.costs.counts import Counts, header_bytes
from fedsift.crypto.columns.api import ColumnSpec, IntArray
from fedsift.crypto.counting import counting_with
from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.protocol import Message, Role
from fedsift.protocol.codec import MAGIC, Done
from fedsift.protocol.message import sealed_parts
from fedsift.protocol.network import T
from fedsift.protocol.protocol import find_driver

R = TypeVar("R")

Nodes = Mapping[str, Sequence[Role]]


def count_run(nodes: Nodes, drive: str = "drive") -> Counts:
    """Run a protocol and count; every role must be here.

    ``drive`` names the driver's method that is run: all of the protocol, or a part of it.
    """
    party, driver = find_driver(nodes)
    counter = _Counter(nodes)
    with counting_with(counter), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # remarks on made-up rows
        _finish(getattr(driver, drive)(_CountingNetwork(counter, party)))
    return counter.counts


def extrapolate(one: Counts, two: Counts, times: int) -> Counts:
    """Counts of so many rounds from those of one round and of two."""
    counts = Counts()
    for part, share in ((one, 2 - times), (two, times - 1)):
        counts.add(part, share)
    return counts


def _finish(coroutine: Coroutine[Any, Any, R]) -> R:
    """The result of a coroutine in which nothing ever waits."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: R = end.value
        return result
    coroutine.close()
    raise AssertionError("a role waited for something other than a message")


class _Counter:
    """Roles of all parties, kernels that count, and the counts."""

    def __init__(self, nodes: Nodes) -> None:
        self.roles = {
            (party, role.role_name): role for party, roles in nodes.items() for role in roles
        }
        self.counts = Counts()
        self.do = self.counts.do

    def own_columns(
        self, scheme: str, columns: IntArray, spec: ColumnSpec, security_bits: int
    ) -> CountingOwner:
        """See :func:`fedsift.crypto.columns.api.own_columns`."""
        return CountingOwner(self.counts, scheme, columns, spec, security_bits)

    def join_columns(
        self,
        keys: PublicKeys,  # noqa: ARG002 - there are none
        columns: Ciphertexts,
        spec: ColumnSpec,
    ) -> CountingEvaluator:
        """See :func:`fedsift.crypto.columns.api.join_columns`."""
        return CountingEvaluator(columns, spec)

    def add(self, message: Message) -> None:
        """Count a message between two parties."""
        self.counts.messages += 1
        self.counts.n_bytes += encoded_bytes(message)
        self.counts.ciphertexts += sealed_parts(message)[0]


class _CountingNetwork:
    """A role's network whose messages arrive at once; see `fedsift.protocol.network.Network`."""

    def __init__(self, counter: _Counter, party: str) -> None:
        self._counter = counter
        self.party = party

    def members(self, role: str) -> tuple[str, ...]:
        """Parties that play a role, in party order."""
        return tuple(party for party, name in self._counter.roles if name == role)

    async def ask(
        self,
        role: str,
        message: Message | Mapping[str, Message],
        reply: type[T],  # noqa: ARG002 - roles of the same version answer as they should
        *,
        timeout_seconds: float | None = None,  # noqa: ARG002
    ) -> list[T]:
        """Ask one after the other, as one round."""
        counter = self._counter
        counter.counts.rounds += 1
        answers: list[Any] = []
        for party in self.members(role):
            if not isinstance(message, Message) and party not in message:
                continue
            sent = message if isinstance(message, Message) else message[party]
            receiver = counter.roles[party, role]
            answer = await receiver.handle(sent, _CountingNetwork(counter, party))
            counter.counts.calls += 1
            if party != self.party:
                counter.add(sent)
                counter.add(answer)
            answers.append(answer)
        return answers

    async def tell(
        self,
        role: str,
        message: Message | Mapping[str, Message],
        *,
        timeout_seconds: float | None = None,
    ) -> None:
        """Send without expecting more than a confirmation."""
        await self.ask(role, message, Done, timeout_seconds=timeout_seconds)

    def account(self) -> dict[str, Any]:
        """Nothing is kept."""
        return {}

    def go_on(self, account: Mapping[str, Any]) -> None:
        """Nothing was kept."""


def encoded_bytes(message: Message) -> int:
    """Length of a message as it would travel, with the ciphertexts that it only claims to have."""
    claimed = 0

    def leave_out(blob: Any) -> None:
        nonlocal claimed
        claimed += header_bytes(len(blob)) + len(blob) - 1  # None takes one byte

    length = len(MAGIC) + len(msgspec.msgpack.encode(message, enc_hook=leave_out))
    return length + claimed
