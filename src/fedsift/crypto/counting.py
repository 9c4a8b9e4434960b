# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Kernels that only count, for predictions of cost: they replace the real ones within a block.

Nothing outside :mod:`fedsift.costs` opens such a block, and nothing inside one is ever sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from fedsift.crypto.wire import Ciphertexts, PublicKeys


class Kernels(Protocol):
    """What takes the place of the kernels' factories."""

    def own_columns(self, scheme: str, columns: Any, spec: Any, security_bits: int) -> Any:
        """See :func:`fedsift.crypto.columns.api.own_columns`."""
        ...

    def join_columns(self, keys: PublicKeys, columns: Ciphertexts, spec: Any) -> Any:
        """See :func:`fedsift.crypto.columns.api.join_columns`."""
        ...

    def do(self, phase: str, unit: str, count: float = 1) -> None:
        """Count work of one kind."""
        ...


_counting: ContextVar[Kernels | None] = ContextVar("counting kernels", default=None)


def counting_kernels() -> Kernels | None:
    """What counts here; None in every real run."""
    return _counting.get()


@contextmanager
def counting_with(kernels: Kernels) -> Iterator[None]:
    """Let kernels count instead of working, in this thread and within this block."""
    token = _counting.set(kernels)
    try:
        yield
    finally:
        _counting.reset(token)


def count_work(phase: str, unit: str, count: float = 1) -> None:
    """Count work of one kind, if somebody counts."""
    kernels = _counting.get()
    if kernels is not None:
        kernels.do(phase, unit, count)
