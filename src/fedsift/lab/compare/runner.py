# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Which cells a comparison needs, in which order, and what to do about alarms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

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
from fedsift.lab.compare.journal import Journal
from fedsift.lab.compare.leak_check import ROUNDS, shuffles_of
from fedsift.lab.compare.shuffles import leak_checks
from fedsift.lab.compare.workers import Crew
from fedsift.lab.pooled import has_counterpart

ALL_ROW = "all features"
LOCAL_ROW = "local only"
Echo = Callable[[str], None]


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
    reached = first.get("accuracy", first.get("r2"))
    return what if reached is None else f"{what}: {reached:.3f}"
