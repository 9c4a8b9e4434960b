# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Why something was selected, in a few sentences: what a score means and where the cut is."""

from __future__ import annotations

from fedsift.methods.registry import report_texts
from fedsift.methods.spec import ReportTexts, Text
from fedsift.report import curves
from fedsift.report.view import clean
from fedsift.result import SelectionResult

_SAMPLE = "how much the score would vary from one sample of such rows to the next"
_BARS = {
    "from counts": f"± is one standard error: {_SAMPLE}, found by leaving out one row at a time.",
    "at most": f"± is the standard error: {_SAMPLE}. For the label holder's own features it comes "
    "from counts; of others only scores are known, and it is the largest that they admit.",
    "if normal": f"± is one standard error: {_SAMPLE}, if values are normal around their means.",
    "noise": "± is one standard deviation of the noise that all parties added; votes vary with the "
    "rows besides.",
}
_COMPARE = (
    "'fedsift compare' repeats the selection on parts of the rows and shows how stable it is."
)
_MOST_NAMES = 5


def texts_of(result: SelectionResult) -> ReportTexts:
    """What the result's method has to say; usual texts if it is not installed here."""
    return report_texts(result.method)


def write(text: Text, result: SelectionResult) -> str:
    """A text for this result."""
    return text if isinstance(text, str) else text(result)


def why(result: SelectionResult) -> str:
    """What a score means, where the cut is, and how sure that is."""
    texts = texts_of(result)
    own = write(texts.why, result)
    if own:
        return own
    what = write(texts.score, result)
    return f"The score is {what}. {_cut(result)}" if what else _cut(result)


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
    reason = write(texts_of(result).no_errors, result)
    return " ".join(part for part in ("There are no standard errors.", reason, _COMPARE) if part)


def _of_subsets(result: SelectionResult) -> str:
    counts, n_subsets = curves.found_in(result)
    if not counts:
        return ""
    what = write(texts_of(result).found_in, result).format(n_subsets=n_subsets)
    return (
        f"Found in: the share of {what} that held the feature. Nearly all: every search came to "
        "it. About half: others do as well in its place."
    )


def _mapping(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def worth(result: SelectionResult) -> str:
    """What a participant's number is called."""
    return texts_of(result).worth


def _cut(result: SelectionResult) -> str:
    if "release" in _mapping(result.parameters.get("privacy")):
        return (
            f"{result.n_selected} features were drawn one after the other, better ones with a "
            "higher chance; rank 1 was drawn first, and all that were not drawn share the last "
            "rank."
        )
    wanted = result.parameters.get("n_features_to_select")
    if wanted == "auto":
        return write(texts_of(result).cut, result)
    return f"The {result.n_selected} best features were kept; rank 1 is the best of all."
