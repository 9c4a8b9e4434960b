# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Benchmarks: cases with a claim, run in fresh processes, compared by counts before seconds."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from fedsift.bench.store import compare, machine_facts
from fedsift.errors import ParameterError

Suite = Callable[[str, Callable[[str], None]], dict[str, Any]]


def _suite(name: str) -> Suite:
    """A suite that is imported when it runs: a worker of one need not wait for all others."""

    def run(profile: str, echo: Callable[[str], None]) -> dict[str, Any]:
        results: dict[str, Any] = importlib.import_module(f"{__name__}.{name}").run(profile, echo)
        return results

    return run


SUITES: dict[str, Suite] = {
    name: _suite(name)
    for name in (
        "costs",
        "dcfs",
        "dp",
        "fedsdg",
        "filters",
        "fpso",
        "interaction",
        "runtime",
        "vfps",
    )
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
