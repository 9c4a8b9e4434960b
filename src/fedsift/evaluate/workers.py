# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Carrying out tasks in this process, or in several fresh ones."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

from fedsift.errors import RunEnded
from fedsift.evaluate.cells import Cell, Task, Workplace

_PATIENCE_SECONDS = 5.0

Done = Callable[[Task, Cell], None]


def work_through(workplace: Workplace, tasks: Sequence[Task], n_workers: int, done: Done) -> None:
    """Carry out tasks; ``done`` gets every cell as it comes.

    Parameters
    ----------
    workplace : Workplace
    tasks : sequence of Task
    n_workers : int
        1 stays in this process.
    done : callable
        Called here with the task and its cell.
    """
    if n_workers <= 1 or len(tasks) <= 1:
        for task in tasks:
            done(task, workplace.do(task))
        return
    # Workers read this before they import numpy: one thread each.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    # Fresh processes: a forked one would inherit locks of threads that it does not have.
    context = multiprocessing.get_context("spawn")
    crew: dict[Connection, Any] = {}
    try:
        for _ in range(min(n_workers, len(tasks))):
            here, there = context.Pipe()
            process = context.Process(target=_serve, args=(there, workplace), daemon=True)
            process.start()
            there.close()
            crew[here] = process
        _hand_out(crew, iter(tasks), done)
    finally:
        _send_home(crew)


def _hand_out(crew: dict[Connection, Any], waiting: Iterator[Task], done: Done) -> None:
    busy: dict[Connection, Task] = {}
    for connection in crew:
        _next(connection, waiting, busy)
    while busy:
        ready = wait(list(busy), timeout=_PATIENCE_SECONDS)
        for connection in [one for one in busy if one in ready]:
            try:
                cell = connection.recv()
            except (EOFError, OSError):
                raise _lost(crew[connection], busy[connection]) from None
            done(busy.pop(connection), cell)
            _next(connection, waiting, busy)


def _next(connection: Connection, waiting: Iterator[Task], busy: dict[Connection, Task]) -> None:
    task = next(waiting, None)
    if task is not None:
        connection.send(task)
        busy[connection] = task


def _send_home(crew: dict[Connection, Any]) -> None:
    for connection in crew:
        connection.close()
    for process in crew.values():
        process.terminate()
        process.join(_PATIENCE_SECONDS)
        if process.is_alive():
            process.kill()
            process.join(_PATIENCE_SECONDS)


def _lost(process: Any, task: Task) -> RunEnded:
    process.join(_PATIENCE_SECONDS)
    return RunEnded(
        f"A process of the comparison ended (code {process.exitcode}) at {task.row!r}, seed "
        f"{task.seed}, fold {task.fold}.",
        "All processes must live until their work is done; memory may have run out.",
        "Start it again with fewer workers: finished cells are used again.",
    )


def _serve(connection: Connection, workplace: Workplace) -> None:
    """Life of a worker: one task after the other until the line is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the main process's to handle
    while True:
        try:
            task = connection.recv()
        except (EOFError, OSError):
            return
        connection.send(workplace.do(task))
