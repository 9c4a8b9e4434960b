# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a result and a report say about a run of stepwise selection."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fedsift.methods.spec import ReportTexts
from fedsift.methods.stepwise.messages import ALL
from fedsift.result import SelectionResult


def name_steps(
    steps: Iterable[Mapping[str, Any]], names: Mapping[str, Sequence[str]]
) -> list[dict[str, Any]]:
    """Steps of a search with parties and names of features in place of numbers."""
    named = []
    for step in steps:
        party, number = step["feature"]
        entry = {**step, "feature": names[party][number]}
        if party != ALL:
            entry["party"] = party
        if "redundant_with" in step:
            other, place = step["redundant_with"]
            name = names[other][place]
            entry["redundant_with"] = f"{other}: {name}" if "party" in entry else name
        named.append(entry)
    return named


def explain_cut(result: SelectionResult) -> str:
    """Where the method stopped by itself."""
    n_shuffles = result.parameters.get("n_shuffles")
    if not n_shuffles:
        return (
            "Features were added while the best one was significant at 5 % after correction for "
            "the number of candidates."
        )
    return (
        f"Features were added while the best one explained more than the best one of {n_shuffles} "
        "shuffled copies of the label, but for one in twenty."
    )


TEXTS = ReportTexts(
    score="the partial F statistic: what the feature explains beyond those selected before it, "
    "over what is left; of features that are not selected, at the end. With ``mrmr``, the mutual "
    "information with the label less the mean of those with features selected before",
    no_errors="Every feature has a p-value instead.",
    course="One feature after the other is added, by what it explains beyond those before it. The "
    "gain of a participant is what all its columns together add to those that were there from the "
    "start, as a share of the variance of the label.",
    cut=explain_cut,
    worth="gain",
)
