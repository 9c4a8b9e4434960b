# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a report says about a filter's run."""

from fedsift.methods.spec import ReportTexts
from fedsift.result import SelectionResult

_SCORES = {
    "gini": "the label's Gini impurity that is left within the feature's bins; lower is better",
    "f": "the F statistic: variance that the label explains over variance that it does not",
    "mi": "the mutual information of the feature's bins with the label, in nats",
    "chi2": "the chi-squared statistic of the feature against the label",
    "iv": "the information value of the feature's bins",
    "variance": "the variance of the feature; no label is used",
}
_NO_ERRORS = {
    "chi2": "Only sums of the columns by class are known, and not how values vary around them.",
    "variance": "It would need fourth powers of the values, which no party reveals.",
}
_NOISE = "The counts carry noise, and an error of theirs would not be that of the rows."


def explain_score(result: SelectionResult) -> str:
    """What the chosen score is."""
    return _SCORES.get(str(result.parameters.get("score")), "")


def explain_no_errors(result: SelectionResult) -> str:
    """Why there are no standard errors."""
    privacy = result.parameters.get("privacy")
    if isinstance(privacy, dict) and "epsilon" in privacy:
        return _NOISE
    return _NO_ERRORS.get(str(result.parameters.get("score")), "")


TEXTS = ReportTexts(score=explain_score, no_errors=explain_no_errors)
