# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""``--live``: a local page that shows a job while it runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from fedsift.cli.common import one_line

if TYPE_CHECKING:
    from fedsift.config.job import Job
    from fedsift.deploy.submit import JobState
    from fedsift.engine.observer import Observer
    from fedsift.report.live import LiveView
    from fedsift.result import SelectionResult

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
