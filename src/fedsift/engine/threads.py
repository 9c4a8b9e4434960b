# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Blocking work on a thread of its own that never keeps the process alive, and how many it uses."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, InvalidStateError
from typing import Any, TypeVar, TypeVarTuple

from threadpoolctl import threadpool_limits

R = TypeVar("R")
Ts = TypeVarTuple("Ts")


class _Limit:
    """The limit of this process, and how many runs want it."""

    lock = threading.Lock()
    n_runs = 0
    held: Any = None


@contextlib.contextmanager
def one_thread_each() -> Iterator[None]:
    """Let linear algebra use one thread meanwhile.

    Parties compute side by side already; more threads than cores only get in each other's way. And
    sums come out the same whatever the number of cores.
    """
    with _Limit.lock:
        if not _Limit.n_runs:
            _Limit.held = threadpool_limits(1, user_api="blas")
        _Limit.n_runs += 1
    try:
        yield
    finally:
        with _Limit.lock:
            _Limit.n_runs -= 1
            if not _Limit.n_runs:
                _Limit.held.restore_original_limits()


def in_thread(name: str, work: Callable[[*Ts], R], *arguments: *Ts) -> Future[R]:
    """Start ``work`` on a daemon thread; a cancelled future drops what it comes to."""
    future: Future[R] = Future()

    def run() -> None:
        try:
            result = work(*arguments)
        except BaseException as error:
            with contextlib.suppress(InvalidStateError):
                future.set_exception(error)
        else:
            with contextlib.suppress(InvalidStateError):
                future.set_result(result)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
