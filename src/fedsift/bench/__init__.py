# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Benchmarks: cases with a claim, run in fresh processes, compared by counts before seconds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fedsift.bench import dcfs, fedsdg, filters, fpso, interaction, vfps
from fedsift.bench.store import compare, machine_facts
from fedsift.errors import ParameterError

SUITES: dict[str, Callable[[str, Callable[[str], None]], dict[str, Any]]] = {
    "dcfs": dcfs.run,
    "fedsdg": fedsdg.run,
    "filters": filters.run,
    "fpso": fpso.run,
    "interaction": interaction.run,
    "vfps": vfps.run,
}
PROFILES = ("smoke", "regular", "paper")

__all__ = ["PROFILES", "SUITES", "compare", "run_suite"]


def run_suite(suite: str, profile: str, echo: Callable[[str], None]) -> dict[str, Any]:
    """Run all cases of a suite; ``echo`` gets one line of text at a time."""
    if suite not in SUITES or profile not in PROFILES:
        raise ParameterError(
            f"No benchmark {suite!r} with profile {profile!r}.",
            f"Suites: {', '.join(SUITES)}. Profiles: {', '.join(PROFILES)}.",
            "Choose one of them.",
        )
    results = SUITES[suite](profile, echo)
    return {"suite": suite, "profile": profile, "machine": machine_facts(), **results}
