# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Whether a run across sites still goes on: who ended it, and who was heard when."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from fedsift.protocol.codec import Fault


@dataclass(frozen=True)
class Ending:
    """Why a run is over, and which site said so."""

    site: str
    fault: Fault


class RunState:
    """Shared by the client, the server and the engine of a site.

    ``changed`` is the lock of everything that can end a wait; whoever changes something notifies.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self._ending: Ending | None = None
        self._heard: dict[str, float] = {}

    @property
    def ending(self) -> Ending | None:
        """How the run was ended before its time, if it was."""
        return self._ending

    def end(self, site: str, fault: Fault) -> None:
        """End the run; the first reason counts."""
        with self.changed:
            if self._ending is None:
                self._ending = Ending(site, fault)
            self.changed.notify_all()

    def heard(self, site: str) -> None:
        """Note a sign of life of a site."""
        self._heard[site] = time.monotonic()

    def silent_seconds(self, site: str, since: float) -> float:
        """Return how long a site was silent, counted from ``since`` at the earliest."""
        return time.monotonic() - max(since, self._heard.get(site, since))
