# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Tables and live progress for the terminal, and ``--live``: a page that shows a running job."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from fedsift.cli.common import one_line, shown

if TYPE_CHECKING:
    from fedsift.config.job import Job
    from fedsift.deploy.submit import JobState
    from fedsift.engine.observer import Observer
    from fedsift.report import ReportView
    from fedsift.report.live import LiveView
    from fedsift.result import SelectionResult


def table(title: str, *columns: str, numeric: Iterable[str] = ()) -> Table:
    """An empty table whose cells wrap instead of losing text."""
    made = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    for column in columns:
        justify: Any = "right" if column in numeric else "left"
        made.add_column(column, overflow="fold", justify=justify)
    return made


_TESTS = {"p-value": attrgetter("p_value"), "q-value": attrgetter("q_value")}
"""Columns that only some results have."""


def features_table(view: ReportView) -> Table:
    """Selected features of every party, best first; with p-values and q-values if there are any."""
    rows = [(row, part.party) for part in view.features for row in part.selected]
    tested = [one for one in _TESTS if any(_TESTS[one](row) != "-" for row, _ in rows)]
    numeric = ("rank", "score", *tested)
    made = table("Selected features", "rank", "party", "feature", *numeric[1:], numeric=numeric)
    for row, party in sorted(rows, key=lambda pair: _place(pair[0].rank)):
        cells = [row.rank, party, row.name, row.score, *(_TESTS[one](row) for one in tested)]
        made.add_row(*map(shown, cells))
    return made


def learned_table(title: str, rows: Iterable[Any]) -> Table:
    """Who learns what about whom; parties that learn the same share a line.

    ``rows`` are disclosures, planned or made: anything with learner, about, kind and what. Those of
    a chained job say in which steps.
    """
    learners: dict[tuple[str, str, str], list[str]] = {}
    steps: dict[tuple[str, str, str], set[int]] = {}
    for row in rows:
        _note(learners, (row.about, row.kind, row.what), row.learner)
        steps.setdefault((row.about, row.kind, row.what), set()).add(row.step)
    subjects: dict[tuple[str, str, str], list[str]] = {}
    for (about, kind, what), who in learners.items():
        _note(subjects, (", ".join(who), kind, what), about)
    chained = any(number for numbers in steps.values() for number in numbers)
    made = table(title, *(["steps"] if chained else []), "who", "about", "kind", "what")
    for (learned_by, kind, what), about_whom in subjects.items():
        cells = [learned_by, ", ".join(about_whom), kind, what]
        if chained:
            numbers = {number for about in about_whom for number in steps[about, kind, what]}
            cells.insert(0, ", ".join(str(n) if n else "start" for n in sorted(numbers)))
        made.add_row(*map(shown, cells))
    return made


def steps_table(result: SelectionResult) -> Table:
    """The steps of a chained job: what each one left, and what it cost."""
    from fedsift.report.view import size

    numeric = ("step", "features", "parties", "messages", "bytes")
    made = table("Steps", "step", "method", *numeric[1:], numeric=numeric)
    for number, step in enumerate(result.steps, start=1):
        left = sum(1 for names in step.selected.values() if names)
        made.add_row(
            str(number),
            shown(step.method),
            str(step.n_selected),
            str(left),
            str(step.traffic.messages),
            size(step.traffic.n_bytes),
        )
    return made


def _note(
    groups: dict[tuple[str, str, str], list[str]], key: tuple[str, str, str], name: str
) -> None:
    members = groups.setdefault(key, [])
    if name not in members:
        members.append(name)


@contextlib.contextmanager
def live_progress(console: Console, *, quiet: bool = False) -> Iterator[Observer | None]:
    """Show rounds, messages and bytes while a run goes on; never content."""
    if quiet or not console.is_terminal:
        yield None
        return
    from fedsift.cli.ticker import Ticker

    with console.status("Starting") as status:
        yield Ticker(status)


def _place(rank: str) -> int:
    return int(rank) if rank.isdigit() else 1 << 30


Live = Annotated[
    bool, typer.Option("--live", help="Show progress on a web page served on this machine.")
]


class Page:
    """What shows a run on a page; without a view it does nothing."""

    def __init__(self, view: LiveView | None = None) -> None:
        self._view = view
        self._submitted = False

    def beside(self, observer: Observer | None) -> Observer | None:
        """An observer that tells this page too."""
        if self._view is None or observer is None:
            return observer or self._view
        from fedsift.engine.observer import Observers

        return Observers(self._view, observer)

    def job_state(self, state: JobState) -> None:
        """Show how far a job in a federation is."""
        if self._view is not None:
            self._submitted = True
            facts: dict[str, object] = {"job": state.job_id, "state": state.status.lower()}
            if state.protocol_number:
                facts |= {"protocol": state.protocol_number, "round": state.round_number}
            facts["waiting for approval by"] = ", ".join(state.waiting) or "nobody"
            if state.finished:
                facts["done"] = ", ".join(state.finished)
            self._view.tell(**facts)
            if state.progress is not None:
                self._view.show(state.progress)

    def finish(self, result: SelectionResult) -> None:
        """Show the result."""
        if self._view is not None:
            if self._submitted:
                # FLARE's own word comes some seconds later.
                self._view.tell(state="done")
            self._view.finish("finished", result)


@contextlib.contextmanager
def live_page(job: Job, *, wanted: bool) -> Iterator[Page]:
    """Serve a page until the job has ended, and say where it is."""
    if not wanted:
        yield Page()
        return
    from fedsift.report.live import LiveView
    from fedsift.report.live_server import LiveServer

    view = LiveView(f"fedsift: {job.method}, {job.path.name}")
    with LiveServer(view) as server:
        typer.echo(one_line(f"Live view: {server.url}"), err=True)
        try:
            yield Page(view)
        except KeyboardInterrupt:
            view.finish("interrupted")
            raise
        except BaseException:
            # What went wrong is said in the terminal, where only its user reads it.
            view.finish("failed: see the terminal")
            raise
