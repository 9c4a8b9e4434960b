# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""One line in the terminal that shows how far a run is."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from rich.status import Status

from fedsift.cli.common import shown
from fedsift.engine.observer import Observer, Progress
from fedsift.report.view import size

_BAR_WIDTH = 20


class Ticker(Observer):
    """An observer that rewrites one line; parties report from threads of their own."""

    def __init__(self, status: Status) -> None:
        self._status = status
        self._lock = threading.Lock()
        self._n_bytes = 0
        self._epoch = ""

    def epoch(self, entry: Mapping[str, Any]) -> None:
        """Put open gates and loss of a training in front of the line."""
        share = (entry["epoch"] + 1) / entry["max_epochs"]
        bar = "#" * round(share * _BAR_WIDTH)
        with self._lock:
            self._epoch = (
                f"epoch {entry['epoch'] + 1} of {entry['max_epochs']} |{bar:<{_BAR_WIDTH}}| "
                f"{entry['open_features']} open gates, loss {entry['validation_loss']:.4f}; "
            )

    def message(self, progress: Progress) -> None:
        """Count a message and show it."""
        with self._lock:
            self._n_bytes += progress.n_bytes
            self._status.update(
                f"{self._epoch}round {progress.round_number}: {shown(progress.message)}, "
                f"{shown(progress.sender)} -> {shown(progress.receiver)}, "
                f"{size(progress.n_bytes)} ({size(self._n_bytes)} so far)"
            )
