# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Why something was selected, in a few sentences: what a score means and where the cut is."""

from __future__ import annotations

from fedsift.report.view import clean
from fedsift.result import SelectionResult

_FILTERS = {
    "gini": "the label's Gini impurity that is left within the feature's bins; lower is better",
    "f": "the F statistic: variance between classes over variance within them",
    "mi": "the mutual information of the feature's bins with the label, in nats",
    "chi2": "the chi-squared statistic of the feature against the label",
    "iv": "the information value of the feature's bins",
    "variance": "the variance of the feature; no label is used",
}
_METHODS = {
    "interaction": "R: the feature's relevance, times what it adds or repeats of those selected "
    "before it",
    "fedsdg": "the probability that the feature's gate is open after training",
    "dcfs": "the weight of the feature in projections that keep the structure of all parties' "
    "rows; no label is used",
}


def meaning(result: SelectionResult) -> str:
    """What a score of this method is; empty if unknown."""
    if result.method == "filter":
        return _FILTERS.get(str(result.parameters.get("score")), "")
    return _METHODS.get(result.method, "")


def why(result: SelectionResult) -> str:
    """What a score means, where the cut is, and how sure that is."""
    if result.method == "vfps":
        return _of_participants(result)
    if result.method == "fpso":
        return (
            "A swarm searched for the subset of features with which a classifier at every party "
            "is right most often, by cross-validation. Features have no scores of their own: they "
            "were judged together."
        )
    parts = []
    what = meaning(result)
    if what:
        parts.append(f"The score is {what}.")
    parts.append(_cut(result))
    return " ".join(parts)


def uncertainty(has_errors: bool) -> str:
    """What there is to judge by how sure a ranking is."""
    text = (
        "Margin: how far a score is from the other side of the cut, as a share of the range of all "
        "scores. A small one could fall the other way on other rows"
    )
    if has_errors:
        return f"{text}; compare it with the standard error."
    return (
        f"{text}. This method computes every score once, on all rows, and gives no standard "
        "errors: 'fedsift compare' repeats the selection on parts of the rows and tells how "
        "stable it is."
    )


def worth(result: SelectionResult) -> str:
    """What a participant's number is called."""
    return "accuracy" if result.method == "fpso" else "importance"


def _cut(result: SelectionResult) -> str:
    wanted = result.parameters.get("n_features_to_select")
    if wanted == "auto":
        if result.method == "interaction":
            return "Features were taken while they beat what shuffled labels reach."
        return "The method decided by itself how many to keep."
    return f"The {result.n_selected} best features were kept; rank 1 is the best of all."


def _of_participants(result: SelectionResult) -> str:
    strategy = clean(result.parameters.get("strategy", ""))
    words = {
        "greedy": "what the selected group loses without the participant, or would gain with it",
        "shapley": "the participant's mean marginal score over random orders",
    }
    what = words.get(strategy, "the mean score of the tested groups that the participant was in")
    return (
        f"A group's score is the mutual information of its columns with the label. The importance "
        f"is {what}; its standard error comes from the rows that were asked about."
    )
