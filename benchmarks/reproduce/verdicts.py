# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""From a printed number and ours to a verdict: rules, written down once, no exceptions by cell."""

import math
from dataclasses import dataclass
from typing import Any

REPRODUCED, NOT_REPRODUCED, NOT_TESTABLE = "reproduced", "not reproduced", "not testable"

TOLERANCE = {"percent": 2.0, "fraction": 0.02, "share": 0.05}
"""Differences that other rows, splits and starts explain, however many runs there are."""

ERRORS = 2.0
"""Standard errors of the difference that are within chance."""

VAGUE = {"percent": 10.0, "fraction": 0.1, "share": 1.0}
"""Where chance alone explains more than this, agreement means nothing."""

UNREADABLE = "The cell is not readable in the text of the paper at hand."
NOT_MEASURED = "A name or a description: there is nothing to measure."
TOO_FEW = (
    "Within chance, but chance is more than "
    f"{VAGUE['percent']:.0f} points here: too few test rows to tell."
)
NOT_RUN = (
    "Not run for this version: `python -m benchmarks.reproduce` makes the runs that are missing."
)
NO_STATEMENT = "A figure without a readable number, to which no statement in the text refers."

RULES = (
    "Numbers: reproduced if ours differs by at most "
    f"{ERRORS:.0f} standard errors of the difference, or by at most {TOLERANCE['percent']:.0f} points "
    f"(accuracies, NMI), {TOLERANCE['share']} (shares of features); not testable if it agrees only because "
    f"two standard errors are more than {VAGUE['percent']:.0f} points. Sizes of data and models: reproduced "
    "if equal. Costs: reproduced if ours are not higher. Statements: reproduced if they hold in our "
    "runs by the criterion shown beside them. Standard errors are in parentheses; where the paper "
    "prints a standard deviation, its own error counts too. Where the paper's data could not be "
    "obtained, ours is from a stand-in and the cell is not testable."
)


@dataclass(frozen=True)
class Judgement:
    """One cell as the page shows it."""

    paper: str
    ours: str
    difference: str
    verdict: str
    because: str = ""


def judge(item: dict[str, Any], printed: Any, answer: dict[str, Any] | None) -> Judgement:
    """A verdict; ``answer`` is what our runs say, or None if there is nothing."""
    kind = item["kind"]
    shown = text_of(item, printed)
    if isinstance(printed, str):
        ours = "" if answer is None else ours_of(kind, answer)
        because = {"?": UNREADABLE, "": NO_STATEMENT}.get(printed, NOT_MEASURED)
        return Judgement(shown, ours, "", NOT_TESTABLE, because)
    if answer is None:
        return Judgement(shown, "", "", NOT_TESTABLE)
    if answer.get("stand_in"):
        # Other data than the paper's: worth showing, but no test of its number.
        return Judgement(shown, ours_of(kind, answer), "", NOT_TESTABLE)
    if "holds" in answer:
        verdict = REPRODUCED if answer["holds"] else NOT_REPRODUCED
        return Judgement(shown, answer["shown"], "", verdict)
    ours = float(answer["ours"])
    if kind == "count":
        difference = ours - printed
        good = difference == 0
    elif kind == "cost":
        difference = ours - evaluate(printed, item["sizes"])
        good = difference <= 0
    else:
        low, high, error = ends_of(item, printed)
        difference = ours - min(max(ours, low), high)
        allowed = ERRORS * math.hypot(error, answer.get("error") or 0.0)
        good = abs(difference) <= max(TOLERANCE[kind], allowed) + 1e-9
        if good and allowed > VAGUE[kind]:
            ours = ours_of(kind, answer)
            return Judgement(shown, ours, signed(kind, difference), NOT_TESTABLE, TOO_FEW)
    verdict = REPRODUCED if good else NOT_REPRODUCED
    return Judgement(shown, ours_of(kind, answer), signed(kind, difference), verdict)


def ends_of(item: dict[str, Any], printed: Any) -> tuple[float, float, float]:
    """Lower and upper end of what is printed, and its standard error."""
    if not isinstance(printed, list):
        return printed, printed, 0.0
    if item.get("cells") == "range":
        return printed[0], printed[1], 0.0
    return printed[0], printed[0], printed[1] / math.sqrt(item["runs"])


def evaluate(terms: list[Any], sizes: dict[str, int]) -> int:
    """A cost for given sizes: factors times letters, added up."""
    return sum(factor * math.prod(sizes[letter] for letter in letters) for factor, letters in terms)


def text_of(item: dict[str, Any], printed: Any) -> str:
    kind = item["kind"]
    if printed is True:
        return "yes"
    if printed == "":
        return "no statement"
    if printed == "?":
        return "unreadable"
    if isinstance(printed, str):
        return printed
    if kind == "cost":
        formula = " + ".join(
            " ".join([str(factor)] * (factor != 1 or not letters) + list(letters))
            for factor, letters in printed
        )
        return f"{formula} = {evaluate(printed, item['sizes']):,}"
    if isinstance(printed, list):
        low, high = printed
        if item.get("cells") == "range":
            return (
                number(kind, low) if low == high else f"{number(kind, low)} to {number(kind, high)}"
            )
        return f"{number(kind, low)} ± {number(kind, high)}"
    return number(kind, printed)


def number(kind: str, value: float) -> str:
    """As many digits as the kind of number deserves."""
    if kind in ("count", "cost"):
        return f"{value:,.0f}"
    return f"{value:.1f}" if kind == "percent" else f"{value:.3f}".rstrip("0").rstrip(".")


def signed(kind: str, value: float) -> str:
    if kind in ("count", "cost"):
        return f"{value:+,.0f}"
    return f"{value:+.1f}" if kind == "percent" else f"{value:+.3f}"


def ours_of(kind: str, answer: dict[str, Any], name: str = "ours") -> str:
    """Our number with its standard error."""
    if "holds" in answer:
        return str(answer["shown"])
    text = number(kind, float(answer[name]))
    error = answer.get("error" if name == "ours" else f"{name}_error")
    return text if error is None else f"{text} ({number(kind, error)})"
