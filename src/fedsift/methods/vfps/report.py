# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a report says about a run of VF-PS."""

from fedsift.methods.spec import ReportTexts
from fedsift.result import SelectionResult

_IMPORTANCE = {
    "greedy": "what the selected group loses without the participant, or would gain with it",
    "shapley": "the participant's mean marginal score over random orders",
}
_ADDS = {
    "greedy": "what the participant added to those selected before, or would add to the selected",
    "submodular": "how much likelier the participant made, or would make, the labels of rows among "
    "their nearest neighbours",
    "shapley": "the participant's mean gain over random orders",
    "individual": "what the participant adds by itself",
}
_USUAL = "the mean score of the tested groups that the participant was in"


def explain_importance(result: SelectionResult) -> str:
    """What a participant's number is, by the strategy of the search."""
    given = result.parameters
    known = _ADDS if given.get("design") == "scores" else _IMPORTANCE
    what = known.get(str(given.get("strategy", "")), _USUAL)
    if given.get("keep_own") and given.get("design") == "scores":
        what += "; the label holder's own columns are given, and its own number is what they tell"
    return (
        f"A group's score is the mutual information of its columns with the label. The importance "
        f"is {what}; its standard error comes from the rows that were asked about."
        f"{_per_price(result)}"
    )


def _per_price(result: SelectionResult) -> str:
    """Importances divided by prices, if there are any."""
    prices = result.parameters.get("prices") or {}
    shares = [f"{name} {result.participants[name] / price:.3g}" for name, price in prices.items()]
    return f" Gain per price: {', '.join(shares)}." if shares else ""


TEXTS = ReportTexts(
    why=explain_importance,
    course="Groups of participants are tested; what they say together decides.",
)
