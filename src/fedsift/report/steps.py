# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The steps of a chained job: what each one left to the next, and what it cost."""

from __future__ import annotations

from fedsift.report import blocks
from fedsift.report.view import clean, size
from fedsift.result import SelectionResult

HEADER = ("step", "method", "left after it", "features", "score", "messages", "sent", "told")
_LEAD = (
    "Every step saw only what the step before it left. Costs and disclosures on this page are "
    "those of the whole chain."
)


def rows(result: SelectionResult) -> list[tuple[str, ...]]:
    """One line per step; empty for a job without steps."""
    return [
        (
            str(number),
            clean(step.method),
            clean(_left(step)),
            str(step.n_selected),
            _score(step),
            f"{step.traffic.messages:,}",
            size(step.traffic.n_bytes),
            f"{sum(row.times for row in step.disclosures):,} disclosures",
        )
        for number, step in enumerate(result.steps, start=1)
    ]


def section(result: SelectionResult) -> str:
    """HTML of all steps, or nothing."""
    if not result.steps:
        return ""
    made = blocks.table(HEADER, rows(result), numeric=(0, 3, 4, 5, 6), kind="cards")
    return blocks.section("Steps of the chain", _LEAD, made)


def _left(step: SelectionResult) -> str:
    """Parties that have features, with the number of them."""
    counts = [f"{party} {len(names)}" for party, names in step.selected.items() if names]
    return ", ".join(counts) or "nothing"


def _score(step: SelectionResult) -> str:
    """Score of a model, on the rows that judged its training or on those held out."""
    score = step.parameters.get("score", step.parameters.get("validation_score"))
    return f"{score:.4f}" if isinstance(score, float) else "-"
