# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Kernels that only count, for predictions of cost: they replace the real ones within a block.

Nothing outside :mod:`fedsift.costs` opens such a block, and nothing inside one is ever sent.
Names of encryption schemes are checked here too, before any kernel is chosen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from fedsift.errors import ParameterError


class Counter(Protocol):
    """What counts work, and makes kernels that count theirs."""

    def kernel(self, name: str, *arguments: Any) -> Any:
        """The kernel that takes the place of what the function ``name`` makes."""
        ...

    def do(self, phase: str, unit: str, count: float = 1) -> None:
        """Count work of one kind."""
        ...


_counter: ContextVar[Counter | None] = ContextVar("counter", default=None)


@contextmanager
def counting_with(counter: Counter) -> Iterator[None]:
    """Let kernels count instead of working, in this thread and within this block."""
    token = _counter.set(counter)
    try:
        yield
    finally:
        _counter.reset(token)


def counting_kernel(name: str, *arguments: Any) -> Any:
    """The kernel of whoever counts; None in every real run."""
    counter = _counter.get()
    return None if counter is None else counter.kernel(name, *arguments)


def count_work(phase: str, unit: str, count: float = 1) -> None:
    """Count work of one kind, if somebody counts."""
    counter = _counter.get()
    if counter is not None:
        counter.do(phase, unit, count)


def check_scheme(scheme: str, known: Iterable[str]) -> None:
    """Refuse a scheme that is not among the known ones."""
    names = sorted(known)
    if scheme not in names:
        raise ParameterError(
            f"Unknown encryption scheme {scheme[:20]!r}.",
            f"Known: {', '.join(names)}.",
            "Choose one of them.",
        )


def check_ring_strength(scheme: str, security_bits: int) -> None:
    """Refuse more security than the parameters of a ring scheme offer."""
    if security_bits > 128:
        raise ParameterError(
            f"{scheme} here offers 128-bit security, {security_bits} was asked for.",
            "At most 128 bits are supported.",
            "Use he='paillier' with a larger key, or lower the demand.",
        )
