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
from fedsift.lab.compare.cells import Cell, Task, Workplace

_PATIENCE_SECONDS = 5.0

Done = Callable[[Task, Cell], None]


class Crew:
    """Carries out tasks in this process, or in several that live as long as the crew.

    Parameters
    ----------
    workplace : Workplace
    n_workers : int
        1 stays in this process.
    """

    def __init__(self, workplace: Workplace, n_workers: int = 1) -> None:
        self._workplace, self._n_workers = workplace, n_workers
        self._crew: dict[Connection, Any] = {}

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        for connection in self._crew:
            connection.close()
        for process in self._crew.values():
            process.terminate()
            process.join(_PATIENCE_SECONDS)
            if process.is_alive():
                process.kill()
                process.join(_PATIENCE_SECONDS)
        self._crew.clear()

    def work_through(self, tasks: Sequence[Task], done: Done) -> None:
        """Carry out tasks; ``done`` is called here with every task and its cell as they come."""
        if self._n_workers <= 1:
            for task in tasks:
                done(task, self._workplace.do(task))
            return
        while len(self._crew) < min(self._n_workers, len(tasks)):
            self._hire()
        waiting = iter(tasks)
        busy: dict[Connection, Task] = {}
        for connection in self._crew:
            _next(connection, waiting, busy)
        while busy:
            ready = wait(list(busy), timeout=_PATIENCE_SECONDS)
            for connection in [one for one in busy if one in ready]:
                try:
                    cell = connection.recv()
                except (EOFError, OSError):
                    raise _lost(self._crew[connection], busy[connection]) from None
                done(busy.pop(connection), cell)
                _next(connection, waiting, busy)

    def _hire(self) -> None:
        # Workers read this before they import numpy: one thread each.
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
            os.environ.setdefault(name, "1")
        # Fresh processes: a forked one would inherit locks of threads that it does not have.
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        process = context.Process(target=_serve, args=(there, self._workplace), daemon=True)
        process.start()
        there.close()
        self._crew[here] = process


def _next(connection: Connection, waiting: Iterator[Task], busy: dict[Connection, Task]) -> None:
    task = next(waiting, None)
    if task is not None:
        connection.send(task)
        busy[connection] = task


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
