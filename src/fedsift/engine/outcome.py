# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a finished run gives back, and how its seconds are added up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fedsift.protocol.ledger import Ledger
from fedsift.protocol.role import Role
from fedsift.protocol.transcript import Transcript


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
