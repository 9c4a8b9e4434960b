# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a run with a ``release_epsilon`` tells about its budget: in plan, result and ledger."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from fedsift.errors import ParameterError
from fedsift.privacy.mechanisms import Accountant, check_budget
from fedsift.privacy.release import Release
from fedsift.result import Disclosure, SelectionResult

NEIGHBOURS = "data that differ in one row over all parties, its values and its label"

_NOISY_MESSAGES = ("NoisyCounts", "MaskedSums", "NoisyVotes")

_RELEASED = "selection"
"""Kind of the messages that tell what was chosen."""


def check_release(epsilon: float | None, delta: float, checkpoint: Any) -> None:
    """Refuse budgets that mean nothing, and runs that would spend them twice."""
    check_budget(epsilon, delta, "release_")
    if epsilon is not None and checkpoint is not None:
        raise ParameterError(
            "A checkpoint together with a release_epsilon.",
            "A resumed run would choose again, and spend the budget again.",
            "Leave the checkpoint out.",
        )


def refuse_checkpoints(steps: Iterable[Mapping[str, Any]], place: Any) -> None:
    """Refuse a chain with checkpoints if a step has a budget, before the first step runs."""
    for number, settings in enumerate(steps, start=1):
        spends = any(settings.get(name) is not None for name in ("epsilon", "release_epsilon"))
        if spends and place is not None:
            raise ParameterError(
                f"Checkpoints of a chain, and step {number} has a budget of privacy.",
                "If that step is interrupted, a resumed run would spend the budget again.",
                "Leave the checkpoint out.",
            )


def budget_text(epsilon: float, delta: float) -> str:
    """For plans and ledgers."""
    return f"epsilon {epsilon:g}" + (f", delta {delta:g}" if delta else "")


def release_notes(epsilon: float | None, delta: float, what: str = "scores") -> tuple[str, ...]:
    """For the plan."""
    if epsilon is None:
        return ()
    return (
        f"Differential privacy of the selection: it is drawn with {budget_text(epsilon, delta)} "
        f"for one row over all parties, its values and its label; {what}. What parties learn "
        "while the method runs is listed as without it.",
    )


def with_release(
    result: SelectionResult, budget: Release, account: Accountant, mechanism: str, **more: Any
) -> SelectionResult:
    """The result with what its selection has spent, in its parameters and ledger."""
    release = {
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "mechanism": mechanism,
        "neighbours": NEIGHBOURS,
        "spent": round(account.total, 9),
        **more,
    }
    privacy = {**result.parameters.get("privacy", {}), "release": release}
    return msgspec.structs.replace(
        result,
        parameters={**result.parameters, "privacy": privacy},
        disclosures=with_release_prices(result.disclosures, privacy),
    )


def with_release_prices(
    rows: Iterable[Disclosure], privacy: dict[str, Any]
) -> tuple[Disclosure, ...]:
    """Rows of a ledger; those that tell the selection say which budget they spent."""
    release = privacy.get("release")
    if not release:
        return tuple(rows)
    text = f"; drawn with noise, spent {budget_text(release['epsilon'], release['delta'])}"
    return tuple(
        msgspec.structs.replace(row, what=row.what + text) if row.kind == _RELEASED else row
        for row in rows
    )


def with_prices(
    rows: Iterable[Disclosure], parameters: Mapping[str, Any]
) -> tuple[Disclosure, ...]:
    """Rows of a ledger; those that carry noise say which budget they spent."""
    privacy = parameters.get("privacy", {})
    rows = with_release_prices(rows, privacy)
    if "epsilon" not in privacy:
        return rows
    budget = f"epsilon {privacy['epsilon']:g}"
    if privacy["delta"]:
        budget += f", delta {privacy['delta']:g}"
    return tuple(
        msgspec.structs.replace(row, what=f"{row.what}; with noise, spent {budget}")
        if row.message in _NOISY_MESSAGES
        else row
        for row in rows
    )
