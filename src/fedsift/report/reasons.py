# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Why something was selected, in a few sentences: what a score means and where the cut is."""

from __future__ import annotations

from fedsift.report import curves
from fedsift.report.view import clean
from fedsift.result import SelectionResult

_FILTERS = {
    "gini": "the label's Gini impurity that is left within the feature's bins; lower is better",
    "f": "the F statistic: variance that the label explains over variance that it does not",
    "mi": "the mutual information of the feature's bins with the label, in nats",
    "chi2": "the chi-squared statistic of the feature against the label",
    "iv": "the information value of the feature's bins",
    "variance": "the variance of the feature; no label is used",
}
_METHODS = {
    "interaction": "R: the feature's relevance, times what it adds or repeats of those selected "
    "before it",
    "fedsdg": "the probability that the feature's gate is open after training",
    "elimination": "what leaving the feature out cost its owner's trained network when its turn "
    "came, the cheapest first, with the owner's other features standing in for it",
    "dcfs": "the weight of the feature in projections that keep the structure of all parties' "
    "rows; no label is used",
}
_SAMPLE = "how much the score would vary from one sample of such rows to the next"
_BARS = {
    "from counts": f"± is one standard error: {_SAMPLE}, found by leaving out one row at a time.",
    "at most": f"± is the standard error: {_SAMPLE}. For the label holder's own features it comes "
    "from counts; of others only scores are known, and it is the largest that they admit.",
    "if normal": f"± is one standard error: {_SAMPLE}, if values are normal around their means.",
    "noise": "± is one standard deviation of the noise that all parties added; votes vary with the "
    "rows besides.",
}
# Why a method gives no standard errors, by method, and for filters by score.
_NO_ERRORS = {
    "interaction": "R multiplies estimates of several rounds, of which only sums are decrypted.",
    "fedsdg": "A network is trained once. How a gate moved on the way is known to the owner of the "
    "feature only; the probability itself says how sure the training was.",
    "elimination": "A network is trained once, and eliminated from once.",
    "dcfs": "Only the mean score over the parties is revealed, so their spread is unknown.",
    "chi2": "Only sums of the columns by class are known, and not how values vary around them.",
    "variance": "It would need fourth powers of the values, which no party reveals.",
    "noise": "The counts carry noise, and an error of theirs would not be that of the rows.",
}
_COMPARE = (
    "'fedsift compare' repeats the selection on parts of the rows and shows how stable it is."
)
_MOST_NAMES = 5


def meaning(result: SelectionResult) -> str:
    """What a score of this method is; empty if unknown."""
    if result.method == "filter":
        return _FILTERS.get(str(result.parameters.get("score")), "")
    return _METHODS.get(_way(result), "")


def _way(result: SelectionResult) -> str:
    """The method, or what it does in place of what it is known for."""
    gates, wanted = (result.parameters.get(key) for key in ("gates", "n_features_to_select"))
    if result.method == "fedsdg" and gates == "none" and wanted != "auto":
        return "elimination"
    return result.method


def why(result: SelectionResult) -> str:
    """What a score means, where the cut is, and how sure that is."""
    if result.method == "vfps":
        return _of_participants(result)
    if result.method == "fpso" and result.scores:
        return (
            "Every party divided its rows into blocks, and each block voted for the features that "
            "help a classifier most. A score is a feature's votes over all parties, with the noise "
            "that every party added to its own; those with most votes were kept."
        )
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


def bars(result: SelectionResult) -> str:
    """What a bar or a plus-minus of this result means, in one line."""
    usual = "± is one standard error."
    return _BARS.get(curves.errors_are(result), usual)


def uncertainty(result: SelectionResult) -> str:
    """How sure a ranking of features is, or why that is not known; empty without a ranking."""
    scored = curves.features(result)
    if "release" in _mapping(result.parameters.get("privacy")):
        return "Scores are withheld, and with them how near other features came."
    if not scored:
        return _of_subsets(result)
    parts = [_of_errors(result, scored) if any(o.standard_error for o in scored) else _no(result)]
    if any(margin is not None for margin in curves.margins(scored)):
        parts.append(
            "Margin: the distance of a score from the cutoff, as a fraction of the range of all "
            "scores."
        )
    return " ".join(parts)


def _of_errors(result: SelectionResult, scored: list[curves.Scored]) -> str:
    near = curves.close_calls(scored)
    if len({one.selected for one in scored}) < 2:
        return bars(result)
    if not near:
        return f"{bars(result)} No feature is that close to the cutoff."
    names = ", ".join(clean(one.label) for one in near[:_MOST_NAMES])
    more = f" and {len(near) - _MOST_NAMES} more" if len(near) > _MOST_NAMES else ""
    what = "noise" if curves.errors_are(result) == "noise" else "rows"
    return (
        f"{bars(result)} Close calls, within one standard error of the cutoff: different {what} "
        f"could change the decision on {names}{more}."
    )


def _no(result: SelectionResult) -> str:
    key = str(result.parameters.get("score")) if result.method == "filter" else _way(result)
    if result.method == "filter" and "epsilon" in _mapping(result.parameters.get("privacy")):
        key = "noise"
    reason = f" {_NO_ERRORS[key]}" if key in _NO_ERRORS else ""
    return f"There are no standard errors.{reason} {_COMPARE}"


def _of_subsets(result: SelectionResult) -> str:
    counts, n_subsets = curves.found_in(result)
    if not counts:
        return ""
    if result.parameters.get("mode") == "federated-fitness":
        what = f"the subsets of all {n_subsets} particles in the last step"
    else:
        what = f"the {n_subsets} best subsets of all parties and rounds"
    return (
        f"Found in: the share of {what} that held the feature. Nearly all: every search came to "
        "it. About half: others do as well in its place."
    )


def _mapping(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def worth(result: SelectionResult) -> str:
    """What a participant's number is called."""
    return "accuracy" if result.method == "fpso" else "importance"


def _cut(result: SelectionResult) -> str:
    if "release" in _mapping(result.parameters.get("privacy")):
        return (
            f"{result.n_selected} features were drawn one after the other, better ones with a "
            "higher chance; rank 1 was drawn first, and all that were not drawn share the last "
            "rank."
        )
    wanted = result.parameters.get("n_features_to_select")
    if wanted == "auto":
        if result.method == "interaction":
            reached = result.parameters.get("threshold")
            more = f", R = {reached:.4g}" if isinstance(reached, float) else ""
            return f"Features were taken while they beat what shuffled labels reach{more}."
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
