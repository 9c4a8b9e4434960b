# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a page shows while a job runs: progress, gates or ranking, traffic, and who learned what.

A :class:`LiveView` is an observer of the run, or shows snapshots of a run elsewhere. It only
counts;
pages are made when somebody asks for one, on the thread of whoever asks. It holds names, counts and
the driving party's own steps, never values of rows, keys or ciphertexts.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from typing import Any

from fedsift.engine.observer import Observer, Progress, ProgressSnapshot, ProgressTracker
from fedsift.report import blocks, course, curves
from fedsift.report.view import CostRow, clean, cost_line, size
from fedsift.result import Disclosure, SelectionResult

MOST_ROWS = 300
Steps = Sequence[Mapping[str, Any]]
_FOOTER = (
    "Served by fedsift on this machine only, as long as the job runs. It holds names and counts; "
    "no rows of any party's data."
)


class LiveView(Observer):
    """An observer whose state can be looked at from other threads.

    Parameters
    ----------
    title : str
        What is running.
    """

    def __init__(self, title: str) -> None:
        self._title = clean(title)
        self._lock = threading.Lock()
        self._start = time.monotonic()
        self._status, self._ended = "running", False
        self._facts: dict[str, str] = {}
        self._tracker = ProgressTracker()
        self._snapshot: ProgressSnapshot | None = None
        self._result: SelectionResult | None = None

    # What the run tells

    def message(self, progress: Progress) -> None:
        """Count one message; called from the threads of all parties."""
        self._tracker.message(progress)

    def epoch(self, entry: Mapping[str, Any]) -> None:
        """Keep the entry of an epoch: open gates and losses."""
        self._tracker.epoch(entry)

    def step(self, entry: Mapping[str, Any]) -> None:
        """Keep what the driving party reports of its own course."""
        self._tracker.step(entry)

    def begin(self, number: int, n_steps: int, method: str) -> None:
        """A step of a chained job begins."""
        self._tracker.begin(number, n_steps, method)

    def show(self, snapshot: ProgressSnapshot) -> None:
        """Show a snapshot of a run that is observed elsewhere."""
        with self._lock:
            self._snapshot = snapshot

    def tell(self, **facts: object) -> None:
        """Show facts that somebody else knows, such as the state of a job in a federation."""
        with self._lock:
            self._facts |= {name: clean(value) for name, value in facts.items()}

    def finish(self, status: str, result: SelectionResult | None = None) -> None:
        """Say how the job ended; with a result its ranking and ledger are shown."""
        with self._lock:
            self._status, self._ended, self._result = clean(status), True, result

    # What a page shows

    def page(self) -> str:
        """The whole page as it is now."""
        state = self.state()
        body = "".join(
            f'<div id="{name}">{content}</div>' for name, content in state["parts"].items()
        )
        script = resources.files("fedsift.report").joinpath("live.js").read_text(encoding="utf-8")
        return blocks.document(
            self._title,
            "Live view of a running job",
            f'<div role="status" id="connection"></div>{body}',
            footer=_FOOTER,
            script=script,
            live=True,
        )

    def state(self) -> dict[str, Any]:
        """Parts of the page by name, and whether anything more will come."""
        with self._lock:
            snapshot = self._snapshot or self._tracker.snapshot()
            result, ended = self._result, self._ended
            facts = {
                "status": self._status,
                "seconds": f"{time.monotonic() - self._start:.0f}",
                **self._facts,
            }
        if snapshot.part:
            facts["step"] = clean(snapshot.part)
        if snapshot.messages:
            facts |= {
                "round": f"{snapshot.round_number:,}",
                "messages": f"{snapshot.messages:,}",
                "sent": size(snapshot.n_bytes),
                "latest": clean(snapshot.latest),
            }
        teller = clean(snapshot.site)
        ledger, messages, parties = snapshot.disclosures, snapshot.by_message, snapshot.by_party
        if result is not None:
            ledger = result.disclosures
            messages, parties = result.traffic.by_message, result.traffic.by_party
            teller = ""
        return {
            "ended": ended,
            "parts": {
                "progress": _progress(facts, snapshot.steps),
                "steps": _steps(snapshot.steps, result),
                "traffic": _traffic(messages, parties, _cost(result, teller)),
                "ledger": _ledger(ledger, teller),
            },
        }


def _progress(facts: Mapping[str, str], steps: Steps) -> str:
    shown = blocks.facts(facts.items())
    last = steps[-1] if steps else {}
    done, most = last.get("epoch"), last.get("max_epochs")
    if isinstance(done, int) and isinstance(most, int) and most > 0:
        label = f"Epoch {done + 1} of {most}"
        shown += (
            f'<p><label>{label} <progress max="{most}" value="{done + 1}"></progress></label></p>'
        )
    return shown


def _steps(steps: Steps, result: SelectionResult | None) -> str:
    """Gates, selected features or swarms so far; the ranking once the job is done."""
    if result is not None:
        chosen = course.ranking_chart(result) + course.participants_chart(result)
        content = f"<p>{escape(clean(result.headline()))}</p>{chosen}"
        return blocks.section("Result", "", content)
    # A result that holds nothing but the steps draws the same charts as the final report.
    so_far = SelectionResult("running", "vertical", {}, history=tuple(map(dict, steps)))
    shown = course.course_parts(so_far)
    order = curves.selection_order(so_far)
    if not shown:
        return ""
    title = "Ranking so far" if order else "How it is going"
    return blocks.section(title, "", blocks.grid(shown))


def _cost(result: SelectionResult | None, teller: str) -> str:
    if result is not None:
        return cost_line(result)
    seen = "What {} sent and received; what others send each other is added at the end."
    return seen.format(teller) if teller else ""


def _traffic(messages: Mapping[str, int], parties: Mapping[str, int], lead: str) -> str:
    if not messages:
        return ""
    parts = [
        blocks.bars("Bytes by message", _amounts(messages)),
        blocks.bars("Bytes sent by party", _amounts(parties)),
    ]
    return blocks.section("Traffic", lead, blocks.grid(parts))


def _amounts(amounts: Mapping[str, int]) -> list[CostRow]:
    total = sum(amounts.values()) or 1
    ordered = sorted(amounts.items(), key=lambda item: -item[1])
    return [CostRow(clean(name), size(n), n / total) for name, n in ordered]


def _ledger(rows: Sequence[Disclosure], teller: str) -> str:
    lead = f"Rows come as messages arrive{f' at {teller}' if teller else ''}."
    if not rows:
        return blocks.section("Who learned what", lead, "<p>Nobody learned anything yet.</p>")
    cells = [
        (
            clean(row.learner),
            clean(row.about),
            f"{clean(row.kind)}: {clean(row.what)}",
            clean(row.form),
            clean(row.message),
            f"{row.times:,}",
            size(row.n_bytes),
        )
        for row in rows[:MOST_ROWS]
    ]
    header = ("who", "about", "learned", "form", "message", "times", "size")
    made = blocks.table(header, cells, numeric=(5, 6), kind="cards")
    more = len(rows) - len(cells)
    return blocks.section(
        "Who learned what", lead, made + (f"<p>and {more:,} more</p>" if more else "")
    )
