# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A comparison under way: which cells it needs, who works on them, and what is finished.

Cells come in an order of their own, with fresh shuffles after alarms. They are worked out in this
process or in several fresh ones, and noted line by line in a file, so that an interrupted
comparison goes on.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import msgspec

from fedsift.errors import RunEnded
from fedsift.lab.compare.cells import (
    ALL,
    LOCAL,
    METHOD,
    POOLED,
    RANDOM,
    Cell,
    Task,
    Workplace,
)
from fedsift.lab.compare.measures import ROUNDS, leak_checks, shuffles_of
from fedsift.lab.pooled import has_counterpart

ALL_ROW = "all features"
LOCAL_ROW = "local only"
_PATIENCE_SECONDS = 5.0

Echo = Callable[[str], None]
Done = Callable[[Task, Cell], None]


class _Line(msgspec.Struct, frozen=True):
    key: str
    cell: Cell


class Journal:
    """Cells by their key; without a path nothing is kept.

    Parameters
    ----------
    path : Path or None
        Written to line by line and read at the start; a line that was cut off does not count.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self.known: dict[str, Cell] = {}
        if path is None or not path.is_file():
            return
        for line in path.read_bytes().splitlines():
            with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
                entry = msgspec.json.decode(line, type=_Line)
                self.known[entry.key] = entry.cell

    def add(self, key: str, cell: Cell) -> None:
        """Note a cell; where nothing can be written, the comparison goes on without."""
        self.known[key] = cell
        if self._path is None or cell.failed:
            return
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("ab") as file:
                # Begins with a line end: after a line that was cut off, the next one is whole.
                file.write(b"\n" + msgspec.json.encode(_Line(key, cell)))

    def remove(self) -> None:
        """The comparison is complete."""
        if self._path is not None:
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)


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


@dataclass
class Run:
    """A comparison under way.

    Parameters
    ----------
    workplace : Workplace
    seeds : tuple of int
    permutations : int
        Shuffles of the labels per split.
    verify : bool
        Run plain methods once more with encryption on the first split.
    n_workers : int
    journal : Journal
    echo : callable
        Gets one line per cell.
    """

    workplace: Workplace
    seeds: tuple[int, ...]
    permutations: int
    verify: bool
    n_workers: int
    journal: Journal
    echo: Echo
    cells: list[Cell] = field(default_factory=list)
    interrupted: bool = False
    reused: int = 0

    def go(self) -> None:
        """Do everything; Ctrl-C ends early and leaves what is finished."""
        try:
            with Crew(self.workplace, self.n_workers) as crew:
                self._work(crew, list(self._first()))
                self._work(crew, [*self._verifications(), *self._random()])
                for number in range(1, ROUNDS):
                    self._work(crew, list(self._after_alarms(number)))
        except KeyboardInterrupt:
            self.interrupted = True

    def _splits(self) -> Iterator[tuple[int, int]]:
        for seed in self.seeds:
            for fold in range(self.workplace.folds):
                yield seed, fold

    def _verifications(self) -> Iterator[Task]:
        """The longest tasks; an interrupted comparison has its scores before them."""
        for case, contestants in enumerate(self.workplace.contestants):
            for number, contestant in enumerate(contestants):
                plain = contestant.security(self.workplace.security) == "plain"
                if self.verify and plain and contestant.kind == METHOD:
                    yield Task(
                        case, self.seeds[0], 0, METHOD, contestant.label, number, secure=True
                    )

    def _first(self) -> Iterator[Task]:
        for seed, fold in self._splits():
            for case in range(len(self.workplace.cases)):
                yield from self._of_split(case, seed, fold)

    def _of_split(self, case: int, seed: int, fold: int) -> Iterator[Task]:
        labelled = self.workplace.cases[case].pooled.target is not None
        shuffles = range(self.permutations + 1) if labelled else range(1)
        for number, contestant in enumerate(self.workplace.contestants[case]):
            for shuffle in shuffles:
                yield Task(case, seed, fold, contestant.kind, contestant.label, number, shuffle)
            if contestant.kind == METHOD and has_counterpart(
                contestant.name, contestant.parameters
            ):
                yield Task(case, seed, fold, POOLED, pooled_row(contestant.label), number)
        if not labelled:
            return
        for shuffle in shuffles:
            yield Task(case, seed, fold, ALL, ALL_ROW, permutation=shuffle)
        for row, party in local_rows(self.workplace, case):
            yield Task(case, seed, fold, LOCAL, row, amount=party)

    def _random(self) -> Iterator[Task]:
        for case, data in enumerate(self.workplace.cases):
            if data.pooled.target is None:
                continue
            own = [c for c in self.cells if c.data == data.name]
            for row, sizes in random_rows(own).items():
                for (seed, fold), size in sizes.items():
                    yield Task(case, seed, fold, RANDOM, row, amount=size)

    def _after_alarms(self, number: int) -> Iterator[Task]:
        """Fresh shuffles for rows that were not chance in the round before."""
        for case, data in enumerate(self.workplace.cases):
            own = [c for c in self.cells if c.data == data.name]
            for row in dict.fromkeys(c.row for c in own):
                checks = leak_checks([c for c in own if c.row == row], self.permutations)
                if all(check.passed for check in checks.values()):
                    continue
                self.echo(f"{data.name}, {row}: an alarm, checked again with fresh shuffles")
                kind = next(c.kind for c in own if c.row == row)
                for seed, fold in self._splits():
                    for shuffle in shuffles_of(number, self.permutations):
                        yield Task(case, seed, fold, kind, row, self._number(case, row), shuffle)

    def _number(self, case: int, row: str) -> int | None:
        for number, contestant in enumerate(self.workplace.contestants[case]):
            if contestant.label == row:
                return number
        return None

    def _work(self, crew: Crew, tasks: list[Task]) -> None:
        keys = {task: self.workplace.key(task) for task in tasks}
        known = [task for task in tasks if keys[task] in self.journal.known]
        self.cells += [self.journal.known[keys[task]] for task in known]
        self.reused += len(known)
        if known:
            self.echo(f"{len(known)} finished cells of an interrupted comparison are used again")
        left = [task for task in tasks if keys[task] not in self.journal.known]

        def done(task: Task, cell: Cell) -> None:
            self.cells.append(cell)
            self.journal.add(keys[task], cell)
            self.echo(f"{len(self.cells)} done: {line_of(cell)}")

        crew.work_through(left, done)


def pooled_row(label: str) -> str:
    """Row of a method's counterpart on open data."""
    return f"pooled: {label}"


def local_rows(workplace: Workplace, case: int) -> list[tuple[str, int]]:
    """Rows of what parties can do alone, with the number of the party."""
    federation = workplace.cases[case].federation
    if federation.setting == "horizontal":
        return [(f"{LOCAL_ROW}: own rows", -1)]
    return [
        (f"{LOCAL_ROW}: {party}" + (" (labels)" if party == federation.label_holder else ""), i)
        for i, party in enumerate(federation.tables)
    ]


def random_rows(cells: list[Cell]) -> dict[str, dict[tuple[int, int], int]]:
    """Rows of random subsets: their sizes by split; methods of equal sizes share a row."""
    sizes: dict[str, dict[tuple[int, int], int]] = {}
    for cell in cells:
        if cell.kind == METHOD and not (cell.permutation or cell.verification or cell.failed):
            sizes.setdefault(cell.row, {})[cell.split] = round(cell.n_selected)
    rows: dict[str, dict[tuple[int, int], int]] = {}
    for label, by_split in sizes.items():
        distinct = set(by_split.values())
        name = f"random: {distinct.pop()} features" if len(distinct) == 1 else ""
        name = name or f"random: as many as {label}"
        rows.setdefault(name, {}).update(by_split)
    return rows


def random_row_of(label: str, cells: list[Cell]) -> str:
    """The random row that belongs to a method."""
    own = random_rows([cell for cell in cells if cell.row == label])
    return next(iter(own), "")


def line_of(cell: Cell) -> str:
    """A cell in a few words."""
    what = f"{cell.data}, {cell.row}, seed {cell.seed}, fold {cell.fold}"
    if cell.permutation:
        what += f", shuffle {cell.permutation}"
    if cell.verification:
        what += ", secure"
    if cell.failed:
        return f"{what}: {cell.failed}"
    first = next(iter(cell.scores.values()), {})
    reached = first.get("accuracy", first.get("concordance", first.get("r2")))
    return what if reached is None else f"{what}: {reached:.3f}"
