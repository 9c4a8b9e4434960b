# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Which epoch of a training to go back to: few features, and almost the best validation score.

The choice is the epoch with the fewest open gates among those within one standard error of the best
validation score. Best and standard error change as training goes on, but an epoch that another one
beats in both respects will never be chosen, so only the others need to be remembered.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Epoch:
    """What counts of one epoch.

    Parameters
    ----------
    number : int
    n_open : int
        Open feature gates of all parties.
    score : float
        Validation score, larger is better.
    standard_error : float
        Of that score.
    """

    number: int
    n_open: int
    score: float
    standard_error: float


@dataclass
class Checkpoints:
    """Epochs worth remembering.

    Parameters
    ----------
    first : int
        Earlier epochs are not eligible: gates need time to close.
    least_open : int
        Epochs with fewer open gates are not eligible.

    Examples
    --------
    >>> points = Checkpoints(first=0)
    >>> for epoch in (Epoch(0, 50, 0.80, 0.01), Epoch(1, 9, 0.79, 0.01), Epoch(2, 9, 0.70, 0.01)):
    ...     _ = points.add(epoch)
    >>> points.kept_numbers, points.choice().number
    ((0, 1), 1)
    """

    first: int = 0
    least_open: int = 1
    kept: list[Epoch] = field(default_factory=list)
    last_change: int = 0
    fallback: Epoch | None = None

    @property
    def kept_numbers(self) -> tuple[int, ...]:
        """Epochs whose networks must not be thrown away."""
        numbers = [epoch.number for epoch in self.kept]
        return tuple(numbers if self.kept or self.fallback is None else [self.fallback.number])

    def add(self, new: Epoch) -> bool:
        """Take note of an epoch; says whether it is worth keeping."""
        if new.number < self.first or new.n_open < self.least_open:
            # Something must be there even if no epoch ever becomes eligible.
            if self.fallback is None or self._place(new) >= self._place(self.fallback):
                self.fallback = new
            return new.number in self.kept_numbers
        if any(old.n_open <= new.n_open and old.score >= new.score for old in self.kept):
            return False
        self.kept = [
            old for old in self.kept if not (new.n_open <= old.n_open and new.score >= old.score)
        ]
        self.kept.append(new)
        self.last_change = new.number
        return True

    def _place(self, epoch: Epoch) -> tuple[bool, int]:
        """Second best: the latest epoch with enough open gates, else the one with most."""
        enough = epoch.n_open >= self.least_open
        return enough, 0 if enough else epoch.n_open

    def choice(self) -> Epoch:
        """The epoch to go back to."""
        if not self.kept:
            assert self.fallback is not None  # noqa: S101 - called after at least one epoch
            return self.fallback
        best = max(self.kept, key=lambda epoch: epoch.score)
        near = [e for e in self.kept if e.score >= best.score - best.standard_error]
        return min(near, key=lambda epoch: (epoch.n_open, -epoch.score))

    def to_plain(self) -> dict[str, Any]:
        """Plain values, to continue from later."""
        return asdict(self)

    @classmethod
    def from_plain(cls, values: dict[str, Any]) -> Checkpoints:
        """Read back what :meth:`to_plain` gave."""
        fallback = values["fallback"]
        return cls(
            values["first"],
            values["least_open"],
            [Epoch(**kept) for kept in values["kept"]],
            values["last_change"],
            None if fallback is None else Epoch(**fallback),
        )
