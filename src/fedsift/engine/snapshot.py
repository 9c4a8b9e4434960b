# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""How far a run is: what somebody who watches it sees, counted as messages pass.

A snapshot holds names, counts, rows of the ledger and the driving party's own steps: nothing that
the result does not say at the end, and never values of rows, keys or ciphertexts.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import msgspec

from fedsift.engine.observer import Observer, Progress
from fedsift.result import Disclosure

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
