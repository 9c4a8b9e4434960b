# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Run a method's own driver and roles to count what they send, without encryption and engine.

Messages go straight from role to role. Kernels compute in the clear on few rows and hand out
ciphertexts that have the number and size of real ones, but no content.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedsift.costs.columns import CountingEvaluator, CountingOwner
from fedsift.costs.counts import Counts, header_bytes
from fedsift.costs.products import (
    CountingColumnHolder,
    CountingProductCloud,
    CountingProductOwner,
)
from fedsift.crypto.identity import Identity
from fedsift.crypto.kernels import count_work, counting_with
from fedsift.crypto.products.plan import ProductPlan
from fedsift.data import Federation, PartyTable, Target
from fedsift.data.federation import is_remote
from fedsift.data.table import Column
from fedsift.protocol import Message, Role
from fedsift.protocol.message import MAGIC, Done, sealed_parts
from fedsift.protocol.policy import Policy, RemotePolicy
from fedsift.protocol.role import T, find_driver

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
        """See :class:`fedsift.crypto.kernels.Counter`."""
        self.counts.do(phase, unit, count)

    def kernel(self, name: str, *arguments: Any) -> Any:
        """See :class:`fedsift.crypto.kernels.Counter`."""
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
    """A role's network whose messages arrive at once; see `fedsift.protocol.role.Network`."""

    def __init__(self, counter: _Counter, party: str) -> None:
        self._counter = counter
        self.party = party
        self.identity: Identity | None = None
        self.policy: Policy = RemotePolicy()  # the run itself keeps to the limits

    def members(self, role: str) -> tuple[str, ...]:
        """Parties that have a role, in party order."""
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


Points = Callable[[Column], Sequence[float] | None]
"""Numbers that a column's values are taken from; None for any."""


@dataclass(frozen=True, eq=False, repr=False)
class SampleTable(PartyTable):
    """Columns of a few rows that say they are as long as those they stand for."""

    stands_for: int = 0

    @property
    def n_rows(self) -> int:
        """Rows of the table that this one stands for."""
        return self.stands_for

    def numeric_matrix(self) -> NDArray[np.float64]:
        """All columns as float64, with the few rows that are there."""
        return np.column_stack([column.as_floats() for column in self.columns])


def sample_federation(
    federation: Federation,
    n_rows: int,
    points: Points | None = None,
    stands_for: int | None = None,
) -> Federation:
    """Made-up tables of at most so many rows, or that say they have ``stands_for`` rows."""
    rng = np.random.default_rng(0)
    tables: dict[str, PartyTable] = {}
    for party, table in federation.tables.items():
        real = federation.n_rows if federation.setting == "vertical" else table.n_rows
        few = min(
            n_rows, real or n_rows
        )  # a table elsewhere may not have said how many rows it has
        columns = tuple(_made_up(column, few, rng, points) for column in _columns(table))
        tables[party] = SampleTable(party, columns, stands_for=stands_for or few)
    target, fewest = federation.target, min(n_rows, federation.n_rows or n_rows)
    return replace(
        federation,
        tables=tables,
        target=None if target is None else _labels(target, fewest, rng),
        targets={
            party: None if own is None else _labels(own, tables[party].n_rows, rng)
            for party, own in federation.targets.items()
        },
        row_order={party: np.arange(table.n_rows) for party, table in tables.items()},
    )


def _columns(table: PartyTable) -> Sequence[Column]:
    """Columns as far as they are known here: of a table elsewhere, their names."""
    if not is_remote(table):
        return table.columns
    return [Column(name, "numeric", np.zeros(1)) for name in table.feature_names]


def _made_up(
    column: Column, n_rows: int, rng: np.random.Generator, points: Points | None
) -> Column:
    """A column of the same kind, with the same categories, gaps and sign."""
    values: NDArray[Any]
    if column.kind == "categorical":
        values = np.arange(n_rows) % max(1, len(column.categories))
    else:
        wanted = None if points is None else points(column)
        lowest = 0.0 if bool((column.values >= 0).all()) else -1.0
        values = np.linspace(lowest, 1.0, n_rows) if wanted is None else np.resize(wanted, n_rows)
    values = rng.permutation(values)
    if column.missing.any():
        values[: -(-n_rows // 10)] = -1 if column.kind == "categorical" else np.nan
    return Column(column.name, column.kind, values, column.categories)


def _labels(target: Target, n_rows: int, rng: np.random.Generator) -> Target:
    if target.kind == "numbers":
        return Target("numbers", values=rng.normal(size=n_rows))
    codes = rng.permutation(np.arange(n_rows) % len(target.classes))
    return Target("classes", codes=codes, classes=target.classes)
