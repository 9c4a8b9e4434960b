# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What ``FedSDGSelector`` writes down of a run: bytes by epoch, ranks, parts of absent parties."""

from __future__ import annotations

from fedsift.engine.observer import Observer, Observers


class Meter(Observers):
    """Counts bytes and passes on what observers want to see."""

    def __init__(self, *observers: Observer) -> None:
        super().__init__(*observers)
        self._n_bytes = 0

    def message(self, progress):
        """Count one message."""
        self._n_bytes += progress.n_bytes
        super().message(progress)

    def epoch(self, entry):
        """Add the bytes so far to an epoch's entry."""
        entry["n_bytes"] = self._n_bytes
        super().epoch(entry)


def left_out(known):
    """The part of a party without selected features in a refitted model: nothing but names."""
    return {"columns": known["names"], "selected": []}


def ranking_of(scores):
    """Ranks over all parties, widest open gate first."""
    pairs = [(party, name) for party, values in scores.items() for name in values]
    ordered = sorted(pairs, key=lambda pair: -scores[pair[0]][pair[1]])
    ranks = {pair: position for position, pair in enumerate(ordered, start=1)}
    return {
        party: {name: ranks[party, name] for name in values} for party, values in scores.items()
    }
