# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Run a method's own driver and roles to count what they send, without encryption and engine.

Messages go straight from role to role. Kernels compute in the clear on few rows and hand out
ciphertexts that have the number and size of real ones, but no content.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from fedsift.costs.columns import CountingEvaluator, CountingOwner
from fedsift.costs.counts import Counts, header_bytes
from fedsift.costs.products import (
    CountingColumnHolder,
    CountingProductCloud,
    CountingProductOwner,
)
from fedsift.crypto.counting import count_work, counting_with
from fedsift.crypto.products.plan import ProductPlan
from fedsift.protocol import Message, Role
from fedsift.protocol.codec import MAGIC, Done
from fedsift.protocol.message import sealed_parts
from fedsift.protocol.network import T
from fedsift.protocol.protocol import find_driver

R = TypeVar("R")

Nodes = Mapping[str, Sequence[Role]]
FullPlan = Callable[[ProductPlan], ProductPlan]

_COLUMNS: dict[str, Any] = {"own_columns": CountingOwner, "join_columns": CountingEvaluator}
_PRODUCTS: dict[str, Any] = {
    "own_products": CountingProductOwner,
    "hold_columns": CountingColumnHolder,
    "join_products": CountingProductCloud,
}


def count_run(nodes: Nodes, drive: str = "drive", full_plan: FullPlan | None = None) -> Counts:
    """Run a protocol and count; every role must be here.

    Parameters
    ----------
    nodes : mapping of party -> roles
    drive : str
        The driver's method that is run: all of the protocol, or a part of it.
    full_plan : callable, optional
        From a kernel's plan for the few rows that are there to the one for all rows.
    """
    party, driver = find_driver(nodes)
    counter = _Counter(nodes, full_plan)
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


class _Current(Counts):
    """Work goes to whoever counts at the moment: a kernel may outlive one count."""

    def do(self, phase: str, unit: str, count: float = 1) -> None:
        """Count work of one kind."""
        count_work(phase, unit, count)


_CURRENT = _Current()


class _Counter:
    """Roles of all parties, kernels that count, and the counts."""

    def __init__(self, nodes: Nodes, full_plan: FullPlan | None) -> None:
        self.roles = {
            (party, role.role_name): role for party, roles in nodes.items() for role in roles
        }
        self.counts = Counts()
        self._full_plan = full_plan

    def do(self, phase: str, unit: str, count: float = 1) -> None:
        """See :class:`fedsift.crypto.counting.Counter`."""
        self.counts.do(phase, unit, count)

    def kernel(self, name: str, *arguments: Any) -> Any:
        """See :class:`fedsift.crypto.counting.Counter`."""
        if name in _COLUMNS:
            return _COLUMNS[name](_CURRENT, *arguments)
        plan = next(one for one in arguments if isinstance(one, ProductPlan))
        (other,) = (one for one in arguments if one is not plan)
        assert self._full_plan is not None  # noqa: S101 - given for methods with products
        return _PRODUCTS[name](_CURRENT, other, plan, self._full_plan(plan))

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
