# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A progress bar for methods that train: epochs, open gates, loss, bytes; never content."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from fedsift.engine.observer import Observer


class EpochBar(Observer):
    """A bar that moves once per epoch; an observer of a training.

    Parameters
    ----------
    max_epochs : int
    console : Console, optional
        Standard error if missing.
    """

    def __init__(self, max_epochs: int, console: Console | None = None) -> None:
        self._progress = Progress(
            TextColumn("epoch {task.completed:.0f} of {task.total:.0f}"),
            BarColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=console or Console(stderr=True),
        )
        self._task = self._progress.add_task("starting", total=max_epochs)
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def epoch(self, entry: Mapping[str, Any]) -> None:
        """Take note of an epoch; called from the label holder's thread."""
        with self._lock:
            text = f"{entry['open_features']} open gates, loss {entry['validation_loss']:.4f}"
            if entry.get("refit"):
                text += " (refit)"
            self._progress.update(self._task, completed=entry["epoch"] + 1, description=text)
