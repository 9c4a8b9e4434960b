# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a report says about a run of FedSDG-FS."""

from fedsift.methods.spec import ReportTexts
from fedsift.result import SelectionResult


def explain_score(result: SelectionResult) -> str:
    """What the score is, with gates or without."""
    if _eliminates(result):
        return (
            "what leaving the feature out cost its owner's trained network when its turn came, the "
            "cheapest first, with the owner's other features standing in for it"
        )
    return "the probability that the feature's gate is open after training"


def explain_no_errors(result: SelectionResult) -> str:
    """Why there are no standard errors."""
    if _eliminates(result):
        return "A network is trained once, and eliminated from once."
    return (
        "A network is trained once. How a gate moved on the way is known to the owner of the "
        "feature only; the probability itself says how sure the training was."
    )


def _eliminates(result: SelectionResult) -> bool:
    """Whether features were left out one after the other after a training without gates."""
    given = result.parameters
    return given.get("gates") == "none" and given.get("n_features_to_select") != "auto"


def explain_choice(result: SelectionResult) -> str:
    """How features were chosen where nobody has scores with names; empty otherwise."""
    given = result.parameters
    if given.get("protocol") != "blind":
        return ""
    if given.get("gates") == "none":
        return "A training without gates keeps all features."
    wanted = given.get("n_features_to_select")
    rules = {
        "best": "the smallest validation loss",
        "one-se": "the fewest open gates within one standard error of the smallest validation loss",
        "fewest": "the fewest open gates within two standard errors of the smallest validation "
        "loss",
    }
    rule = rules.get(str(given.get("choose")), "a good validation loss")
    what = (
        f"Selected were the features whose gates were open when the network had {rule}."
        if wanted == "auto"
        else f"Selected were the {wanted} features with the widest gates, from the state with "
        f"{rule}."
    )
    return (
        f"{what} There are no scores: the label holder knows gates of features without names, and "
        "owners know only which of their own were selected."
    )


TEXTS = ReportTexts(
    score=explain_score,
    no_errors=explain_no_errors,
    why=explain_choice,
    course="Gates close while the network trains, unless a feature is worth its price.",
)
