# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Blocking work on a thread of its own that never keeps the process alive."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from typing import TypeVar, TypeVarTuple

R = TypeVar("R")
Ts = TypeVarTuple("Ts")


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
