# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Who follows a run, what an observer sees on the way, and what a run comes to in the end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from fedsift.protocol.role import Role
from fedsift.protocol.transcript import Ledger, Transcript
from fedsift.result import Disclosure, Traffic, TrafficRow


@dataclass(frozen=True)
class Progress:
    """What an observer sees after each message: counts and the ledger's row, never content."""

    round_number: int
    sender: str
    receiver: str
    message: str
    n_bytes: int
    learned: Disclosure | None = None


class Observer:
    """Follows a run; override what is of interest, the rest does nothing.

    Methods are called from the threads of all parties. An error that they raise ends the run.
    """

    def message(self, progress: Progress) -> None:
        """Take note of a message that has passed."""

    def epoch(self, entry: Mapping[str, Any]) -> None:
        """Take note of a finished epoch of a training."""

    def step(self, entry: Mapping[str, Any]) -> None:
        """Take note of what the driving party reports of its own progress."""

    def begin(self, number: int, n_steps: int, method: str) -> None:
        """Take note that a step of a chain begins."""


class Observers(Observer):
    """Passes everything on to several observers."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def message(self, progress: Progress) -> None:
        """Pass on a message."""
        for one in self._observers:
            one.message(progress)

    def epoch(self, entry: Mapping[str, Any]) -> None:
        """Pass on an epoch."""
        for one in self._observers:
            one.epoch(entry)

    def step(self, entry: Mapping[str, Any]) -> None:
        """Pass on a step."""
        for one in self._observers:
            one.step(entry)

    def begin(self, number: int, n_steps: int, method: str) -> None:
        """Pass on the beginning of a step of a chain."""
        for one in self._observers:
            one.begin(number, n_steps, method)


class _EveryMessage(Observer):
    """Calls a function after every message."""

    def __init__(self, function: Callable[[Progress], Any]) -> None:
        self._function = function

    def message(self, progress: Progress) -> None:
        """Pass the message's counts on."""
        self._function(progress)


Watching = Observer | Callable[[Progress], Any] | None
"""What users may give: an observer, a function that is called after every message, or nothing."""


def as_observer(given: Watching) -> Observer:
    """Make an observer of what a user gave."""
    if given is None:
        return Observer()
    return given if isinstance(given, Observer) else _EveryMessage(given)


@dataclass(frozen=True)
class Outcome:
    """What a finished run gives back."""

    value: Any
    transcript: Transcript
    ledger: Ledger
    timings: dict[str, float]


def sum_phases(roles: Iterable[Role]) -> dict[str, float]:
    """Add up the seconds of several roles by phase."""
    return sum_timings(role.clock.seconds for role in roles)


def sum_timings(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Add up the seconds of several parties by phase."""
    phases: dict[str, float] = {}
    for part in parts:
        for phase, seconds in part.items():
            phases[phase] = phases.get(phase, 0.0) + seconds
    return phases


def merge_traffic(parts: list[Traffic]) -> Traffic:
    """Traffic of all phases; rows of the same message between the same parties are one."""
    rows: dict[tuple[str, str, str], list[int]] = {}
    for traffic in parts:
        for row in traffic.rows:
            counts = rows.setdefault((row.message, row.sender, row.receiver), [0, 0, 0])
            for place, count in enumerate((row.messages, row.n_bytes, row.ciphertexts)):
                counts[place] += count
    return Traffic(
        rounds=sum(traffic.rounds for traffic in parts),
        messages=sum(traffic.messages for traffic in parts),
        n_bytes=sum(traffic.n_bytes for traffic in parts),
        ciphertexts=sum(traffic.ciphertexts for traffic in parts),
        rows=tuple(TrafficRow(*key, *counts) for key, counts in rows.items()),
        lines=tuple(line for traffic in parts for line in traffic.lines),
    )


MOST_STEPS = 500


class ProgressSnapshot(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A run at one moment.

    Attributes
    ----------
    site : str
        The site that observed this; empty where all parties are observed.
    number : int
        How many things had happened; later snapshots of the same run have a larger one.
    round_number, messages, n_bytes : int
        Counts so far.
    latest : str
        The last message, and who sent it to whom.
    by_message, by_party : dict of str to int
        Bytes by type of message, and by who sent them.
    disclosures : tuple of Disclosure
        The ledger so far.
    steps : tuple of dict
        What the driving party reports of its own course, in a chained job of the current step.
    part : str
        Which step of a chained job runs.
    """

    site: str = ""
    number: int = 0
    round_number: int = 0
    messages: int = 0
    n_bytes: int = 0
    latest: str = ""
    by_message: dict[str, int] = {}
    by_party: dict[str, int] = {}
    disclosures: tuple[Disclosure, ...] = ()
    steps: tuple[dict[str, Any], ...] = ()
    part: str = ""


class ProgressTracker(Observer):
    """An observer of a run that can be asked for a snapshot at any time, from any thread."""

    def __init__(self, site: str = "") -> None:
        self._site = site
        self._lock = threading.Lock()
        self._number = 0
        self._round, self._messages, self._n_bytes = 0, 0, 0
        self._latest = ""
        self._by_message: dict[str, int] = {}
        self._by_party: dict[str, int] = {}
        self._ledger: dict[Disclosure, list[int]] = {}
        self._steps: list[dict[str, Any]] = []
        self._part = ""

    def message(self, progress: Progress) -> None:
        """Count one message; called from the threads of all parties."""
        with self._lock:
            self._number += 1
            self._messages += 1
            self._n_bytes += progress.n_bytes
            self._round = progress.round_number
            self._latest = f"{progress.message}, {progress.sender} to {progress.receiver}"
            counted = (self._by_message, progress.message), (self._by_party, progress.sender)
            for amounts, name in counted:
                amounts[name] = amounts.get(name, 0) + progress.n_bytes
            if progress.learned is not None:
                row = msgspec.structs.replace(progress.learned, times=1, n_bytes=0)
                counts = self._ledger.setdefault(row, [0, 0])
                counts[0] += 1
                counts[1] += progress.n_bytes

    def epoch(self, entry: Mapping[str, Any]) -> None:
        """Keep the entry of an epoch: open gates and losses."""
        self.step(entry)

    def step(self, entry: Mapping[str, Any]) -> None:
        """Keep what the driving party reports of its own course; at most so many entries."""
        with self._lock:
            self._number += 1
            self._steps.append(dict(entry))
            if len(self._steps) > MOST_STEPS:
                # Every other one: the curve stays whole, and coarser.
                self._steps = [*self._steps[:-1:2], self._steps[-1]]

    def begin(self, number: int, n_steps: int, method: str) -> None:
        """Start anew for a step of a chained job; it has a course of its own."""
        with self._lock:
            self._number += 1
            self._part = f"{number} of {n_steps}, {method}"
            self._steps = []

    def snapshot(self) -> ProgressSnapshot:
        """Return the run as it is now."""
        with self._lock:
            return ProgressSnapshot(
                self._site,
                self._number,
                self._round,
                self._messages,
                self._n_bytes,
                self._latest,
                dict(self._by_message),
                dict(self._by_party),
                tuple(
                    msgspec.structs.replace(row, times=times, n_bytes=n_bytes)
                    for row, (times, n_bytes) in self._ledger.items()
                ),
                tuple(self._steps),
                self._part,
            )
