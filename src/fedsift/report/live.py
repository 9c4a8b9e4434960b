# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a page shows while a job runs: progress, gates or ranking, traffic, and who learned what.

A :class:`LiveView` is an observer of the run. It only counts; pages are made when somebody asks for
one, on the thread of whoever asks. It holds names, counts and the driving party's own steps, never
values of rows, keys or ciphertexts.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from html import escape
from importlib import resources
from typing import Any

import msgspec

from fedsift.report import blocks, course, curves
from fedsift.report.view import CostRow, clean, cost_line, size
from fedsift.result import Disclosure, SelectionResult
from fedsift.runtime.session import Progress

MOST_STEPS = 500
MOST_ROWS = 300
_FOOTER = (
    "Served by fedsift on this machine only, as long as the job runs. It holds names and counts; "
    "no rows of anybody's data."
)


class LiveView:
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
        self._latest = ""
        self._messages, self._n_bytes, self._round = 0, 0, 0
        self._by_message: dict[str, int] = {}
        self._by_party: dict[str, int] = {}
        self._ledger: dict[Disclosure, list[int]] = {}
        self._steps: list[dict[str, Any]] = []
        self._result: SelectionResult | None = None

    # What the run tells

    def __call__(self, step: Progress) -> None:
        """Count one message; called from the threads of all parties."""
        with self._lock:
            self._messages += 1
            self._n_bytes += step.n_bytes
            self._round = step.round_number
            self._latest = f"{step.message}, {step.sender} to {step.receiver}"
            for amounts, name in ((self._by_message, step.message), (self._by_party, step.sender)):
                amounts[name] = amounts.get(name, 0) + step.n_bytes
            if step.learned is not None:
                row = msgspec.structs.replace(step.learned, times=1, n_bytes=0)
                counts = self._ledger.setdefault(row, [0, 0])
                counts[0] += 1
                counts[1] += step.n_bytes

    def epoch(self, entry: Mapping[str, Any]) -> None:
        """Keep the entry of an epoch: open gates and losses."""
        self.step(entry)

    def step(self, entry: Mapping[str, Any]) -> None:
        """Keep what the driving party reports of its own course; at most so many entries."""
        with self._lock:
            self._steps.append(dict(entry))
            if len(self._steps) > MOST_STEPS:
                # Every other one: the curve stays whole, and coarser.
                self._steps = [*self._steps[:-1:2], self._steps[-1]]

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
            seconds = time.monotonic() - self._start
            facts = {
                "status": self._status,
                "seconds": f"{seconds:.0f}",
                **self._facts,
                **(
                    {
                        "round": f"{self._round:,}",
                        "messages": f"{self._messages:,}",
                        "sent": size(self._n_bytes),
                        "latest": clean(self._latest),
                    }
                    if self._messages
                    else {}
                ),
            }
            steps, result, ended = list(self._steps), self._result, self._ended
            messages, parties = dict(self._by_message), dict(self._by_party)
            ledger = [
                msgspec.structs.replace(row, times=times, n_bytes=n_bytes)
                for row, (times, n_bytes) in self._ledger.items()
            ]
        if result is not None:
            ledger = list(result.disclosures)
            messages, parties = result.traffic.by_message, result.traffic.by_party
        return {
            "ended": ended,
            "parts": {
                "progress": _progress(facts, steps),
                "steps": _steps(steps, result),
                "traffic": _traffic(messages, parties, result),
                "ledger": _ledger(ledger),
            },
        }


def _progress(facts: Mapping[str, str], steps: list[dict[str, Any]]) -> str:
    shown = blocks.facts(facts.items())
    last = steps[-1] if steps else {}
    done, most = last.get("epoch"), last.get("max_epochs")
    if isinstance(done, int) and isinstance(most, int) and most > 0:
        label = f"Epoch {done + 1} of {most}"
        shown += (
            f'<p><label>{label} <progress max="{most}" value="{done + 1}"></progress></label></p>'
        )
    return shown


def _steps(steps: list[dict[str, Any]], result: SelectionResult | None) -> str:
    """Gates, selected features or swarms so far; the ranking once the job is done."""
    if result is not None:
        chosen = course.ranking_chart(result) + course.participants_chart(result)
        content = f"<p>{escape(clean(result.headline()))}</p>{chosen}"
        return blocks.section("Result", "", content)
    # A result that holds nothing but the steps draws the same charts as the final report.
    method = "fpso" if any("accuracy" in entry for entry in steps) else "running"
    so_far = SelectionResult(method, "vertical", {}, history=tuple(steps))
    shown = course.course_parts(so_far)
    order = curves.selection_order(so_far)
    if not shown:
        return ""
    title = "Ranking so far" if order else "How it is going"
    return blocks.section(title, "", blocks.grid(shown))


def _traffic(
    messages: Mapping[str, int], parties: Mapping[str, int], result: SelectionResult | None
) -> str:
    if not messages:
        return ""
    parts = [
        blocks.bars("Bytes by message", _amounts(messages)),
        blocks.bars("Bytes sent by party", _amounts(parties)),
    ]
    lead = "" if result is None else cost_line(result)
    return blocks.section("Traffic", lead, blocks.grid(parts))


def _amounts(amounts: Mapping[str, int]) -> list[CostRow]:
    total = sum(amounts.values()) or 1
    ordered = sorted(amounts.items(), key=lambda item: -item[1])
    return [CostRow(clean(name), size(n), n / total) for name, n in ordered]


def _ledger(rows: list[Disclosure]) -> str:
    lead = "Rows come as messages arrive."
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
