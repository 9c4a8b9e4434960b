# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a report says about a run of VF-PS."""

from fedsift.methods.spec import ReportTexts
from fedsift.result import SelectionResult

_IMPORTANCE = {
    "greedy": "what the selected group loses without the participant, or would gain with it",
    "shapley": "the participant's mean marginal score over random orders",
}
_USUAL = "the mean score of the tested groups that the participant was in"


def explain_importance(result: SelectionResult) -> str:
    """What a participant's number is, by the strategy of the search."""
    what = _IMPORTANCE.get(str(result.parameters.get("strategy", "")), _USUAL)
    return (
        f"A group's score is the mutual information of its columns with the label. The importance "
        f"is {what}; its standard error comes from the rows that were asked about."
    )


TEXTS = ReportTexts(
    why=explain_importance,
    course="Groups of participants are tested; what they say together decides.",
)
