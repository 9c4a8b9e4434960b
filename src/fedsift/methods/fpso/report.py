# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a report says about a run of FPSO-FS."""

from fedsift.methods.spec import ReportTexts
from fedsift.result import SelectionResult


def explain_selection(result: SelectionResult) -> str:
    """How the subset was found: by votes, or by a search."""
    if result.scores:
        return (
            "Every party divided its rows into blocks, and each block voted for the features that "
            "help a classifier most. A score is a feature's votes over all parties, with the noise "
            "that every party added to its own; those with most votes were kept."
        )
    return (
        "A swarm searched for the subset of features with which a classifier at every party "
        "is right most often, by cross-validation. Features have no scores of their own: they "
        "were judged together."
    )


def name_subsets(result: SelectionResult) -> str:
    """Which subsets are counted."""
    if result.parameters.get("mode") == "federated-fitness":
        return "the subsets of all {n_subsets} particles in the last step"
    return "the {n_subsets} best subsets of all parties and rounds"


TEXTS = ReportTexts(
    course="Every party's swarm searches on its own rows; rounds join what they found.",
    why=explain_selection,
    found_in=name_subsets,
    worth="accuracy",
    phases={"train": "searching", "evaluate": "trying subsets of others"},
)
