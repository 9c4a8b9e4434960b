# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""How somebody follows a run: an observer is told of messages, epochs and steps as they happen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fedsift.result import Disclosure


@dataclass(frozen=True)
class Progress:
    """What an observer is told after each message: counts and the ledger's row, never content."""

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
