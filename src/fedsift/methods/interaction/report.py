# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a report says about a run of interaction-based selection."""

from fedsift.methods.spec import ReportTexts
from fedsift.result import SelectionResult


def explain_cut(result: SelectionResult) -> str:
    """Where the method stopped by itself."""
    reached = result.parameters.get("threshold")
    more = f", R = {reached:.4g}" if isinstance(reached, float) else ""
    return f"Features were taken while they beat what shuffled labels reach{more}."


TEXTS = ReportTexts(
    score="R: the feature's relevance, times what it adds or repeats of those selected before it",
    no_errors="R multiplies estimates of several rounds, of which only sums are opened.",
    tested="such a relevance of the feature alone, which is no test of interactions,",
    course="One feature after the other is selected, and the others are weighed again.",
    cut=explain_cut,
)
