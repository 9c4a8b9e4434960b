# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Why something was selected, and how a run got there: sentences, then charts."""

from __future__ import annotations

from collections.abc import Mapping

from fedsift.methods.registry import report_texts
from fedsift.methods.spec import ReportTexts, Text
from fedsift.report import blocks, charts, curves
from fedsift.report.charts import Dot
from fedsift.report.view import clean, number
from fedsift.result import SURVIVAL_TIMES, SelectionResult

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
_OF_TIMES = (
    "Labels are survival times, and scores are of their martingale residuals. How well the "
    "selected features order rows by time (the concordance index) is not known: that takes "
    "predictions for rows, which no party reveals in a selection. 'fedsift compare' shows it."
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
    what = write(texts.score, result)
    usual = f"The score is {what}. {_cut(result)}" if what else _cut(result)
    said = write(texts.why, result) or usual
    return f"{said} {_OF_TIMES}" if result.shape.get("labels") == SURVIVAL_TIMES else said


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
    if any(result.p_values.values()):
        parts.append(
            f"P-value: how likely {texts_of(result).tested} is for a feature that tells nothing. "
            "Q-value: the expected share of such features among all that are as significant or "
            "more."
        )
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
    if wanted == "fdr":
        most = result.parameters.get("fdr", 0)
        return (
            f"All features with a q-value of at most {most:g} were kept: the expected "
            "share of features among them that tell nothing is at most that."
        )
    return f"The {result.n_selected} best features were kept; rank 1 is the best of all."


_MOST_GROUPS = 300
_NAMES = {
    "open_features": "open gates of features",
    "open_embeddings": "open gates of embeddings",
    "training_loss": "training",
    "validation_loss": "validation",
    "validation_score": "validation score",
    curves.JOINT: "all parties together",
}


def ranking_chart(result: SelectionResult) -> str:
    """Scores of the best features, by party."""
    scored = curves.features(result)
    title, x = "Best features", "score"
    if not scored:
        scored = curves.found(result)
        title, x = "How often features were found", "share of subsets"
    if not scored:
        return ""
    # A few of those that just missed the cut tell how clear it is.
    n_shown = max(place for place, one in enumerate(scored) if one.selected or not place) + 6
    several = len({one.party for one in scored}) > 1
    dots = [
        Dot(
            clean(one.name),
            one.score,
            one.standard_error,
            clean(one.party) if several else "",
            not one.selected,
        )
        for one in scored[:n_shown]
    ]
    note = "Hollow: not selected." if any(dot.hollow for dot in dots) else ""
    return charts.dots(title, dots, x=x, note=note)


def participants_chart(result: SelectionResult) -> str:
    """What every participant is worth, with standard errors where there are any."""
    dots = [
        Dot(clean(one.name), one.score, one.standard_error, hollow=not one.selected)
        for one in curves.participants(result)
    ]
    errors = any(dot.error is not None for dot in dots)
    note = (
        "Lines are one standard error to each side. All of them come from the same rows, so that "
        "differences may be surer than they look."
        if errors
        else ""
    )
    return charts.dots(
        f"{worth(result).capitalize()} of participants",
        dots,
        x=worth(result),
        note=note,
    )


def course(result: SelectionResult) -> str:
    """The section; empty for a result that tells nothing about its course."""
    shown = course_parts(result)
    if not shown:
        return ""
    return blocks.section("How it got there", _lead(result), blocks.grid(shown))


def course_parts(result: SelectionResult) -> list[str]:
    """Charts and tables of it."""
    parts = [
        *_training(result),
        *_swarm(result),
        _accuracy_by_size(result),
        _frontier(result),
        *_additions(result),
        *_interaction(result),
        *_groups(result),
        _scree(result),
        _rounds(result),
    ]
    return [part for part in parts if part]


def _lead(result: SelectionResult) -> str:
    usual = "Scores of all features, and what was sent in each round."
    own = texts_of(result).course
    return own or (usual if result.scores else "What was sent in each round.")


def _training(result: SelectionResult) -> list[str]:
    found = curves.training(result)
    gates = _named(found, ("open_features", "open_embeddings"))
    losses = _named(found, ("training_loss", "validation_loss"))
    score = _named(found, ("validation_score",))
    chosen = result.parameters.get("chosen_epoch")
    # Epochs are counted from 0 in the file and from 1 on paper.
    cut = float(chosen) + 1 if isinstance(chosen, int) else None
    note = "" if cut is None else "The dotted line is the epoch whose gates were taken."
    return [
        charts.lines("Open gates", gates, x="epoch", y="open gates", cut=cut, note=note),
        charts.lines("Loss", losses, x="epoch", y="loss", cut=cut),
        charts.lines("Validation score", score, x="epoch", y="score", cut=cut),
    ]


def _swarm(result: SelectionResult) -> list[str]:
    return [
        charts.lines(
            "Convergence of the swarms",
            _renamed(curves.swarm(result)),
            x="step",
            y="accuracy of the best subset",
        ),
        charts.lines(
            "Size of the best subset",
            _renamed(curves.swarm_sizes(result)),
            x="step",
            y="features",
        ),
    ]


def _accuracy_by_size(result: SelectionResult) -> str:
    return charts.lines(
        "Accuracy against number of features",
        _renamed(curves.accuracy_by_size(result)),
        x="features",
        y="accuracy",
        note="The best that was reached with each number of features on the way.",
    )


def _frontier(result: SelectionResult) -> str:
    points = curves.frontier(result)
    return charts.lines(
        "Loss against number of features",
        {"smallest loss": points} if points else {},
        x="features",
        y="validation loss",
        cut=float(result.n_selected),
        note="The smallest loss on validation rows with each number of open gates; numbers that do "
        "worse than a smaller one are left out. The dotted line is the selection.",
    )


def _additions(result: SelectionResult) -> list[str]:
    """How far the selection explains the label, feature by feature, and how sure each one is."""
    added = curves.additions(result)
    if not added:
        return []
    points = [(float(i), 100 * one.explained) for i, one in enumerate(added, start=1)]
    n_kept = sum(one.kept for one in added)
    note = "Share of the variance of the label that the columns together explain on these rows."
    if n_kept:
        note += " Left of the dotted line: what was there from the start."
    chart = charts.lines(
        "What the selection explains",
        {"explained": ((0.0, 0.0), *points)},
        x="columns",
        y="explained, in percent",
        cut=n_kept + 0.5 if n_kept else None,
        note=note,
    )
    header = ("", "feature", "adds", "p-value", "q-value", "as good by chance", "most alike")
    rows = [
        (
            "had" if one.kept else "added",
            clean(one.label),
            f"{100 * one.adds:.1f} %",
            number(one.p_value),
            number(one.q_value),
            "-" if one.chance is None else f"{100 * one.chance:.0f} %",
            f"{clean(one.redundant_with)} ({one.redundancy:.2f})" if one.redundant_with else "-",
        )
        for one in added
    ]
    made = blocks.table(header, rows, numeric=(2, 3, 4, 5))
    return [chart, f"<div><h3>What each column adds</h3>{made}</div>"]


def _interaction(result: SelectionResult) -> list[str]:
    parts = []
    order = curves.selection_order(result)
    if order:
        header = ("step", "selected", "R", "relevance")
        rows = [
            (str(i + 1), clean(name), number(score), "-" if alone is None else number(alone))
            for i, (name, score, alone) in enumerate(order)
        ]
        made = blocks.table(header, rows, numeric=(0, 2, 3))
        parts.append(f"<div><h3>Order of selection</h3>{made}</div>")
    matrix = curves.interaction(result)
    if matrix is not None:
        parts.append(
            charts.heat_map(
                "Interaction of features (rows) with selected ones (columns)",
                [clean(name) for name in matrix.rows],
                [clean(name) for name in matrix.columns],
                matrix.values,
                note="Above 1: says more together. Below 1: repeats what is selected already.",
            )
        )
    return parts


def _groups(result: SelectionResult) -> list[str]:
    tested = curves.groups(result)
    if not tested:
        return []
    parts = []
    matrix = curves.redundancy(result)
    if matrix is not None:
        names = [clean(name) for name in matrix.rows]
        parts.append(
            charts.heat_map(
                "Redundancy of participants",
                names,
                names,
                matrix.values,
                note="How much of what one adds is lost when the other is there too, in nats: "
                "copies of each other come out high. From the groups that were tested.",
            )
        )
    header = ("group", "step", "mutual information", "standard error")
    rows = [
        (
            clean(", ".join(group.members)),
            clean(group.step),
            number(group.value),
            "-" if group.standard_error is None else f"± {group.standard_error:.2g}",
        )
        for group in tested[:_MOST_GROUPS]
    ]
    made = blocks.table(header, rows, numeric=(2, 3), kind="cards")
    title = f"{len(tested)} tested groups" if len(tested) > 1 else "1 tested group"
    parts.append(f"<div><h3>{title}</h3>{made}</div>")
    return parts


def _scree(result: SelectionResult) -> str:
    """Score by rank: a clear cut shows as a step."""
    scored = curves.features(result)
    if len(scored) < 2:
        return ""
    points = [(float(i + 1), one.score) for i, one in enumerate(scored)]
    n_selected = sum(one.selected for one in scored)
    first = all(one.selected for one in scored[:n_selected])
    cut = n_selected + 0.5 if first and n_selected < len(scored) else None
    note = "" if cut is None else "The dotted line is the cutoff: selected features are left of it."
    return charts.lines("Score by rank", {"score": points}, x="rank", y="score", cut=cut, note=note)


def _rounds(result: SelectionResult) -> str:
    points = curves.bytes_by_round(result)
    if len(points) < 2:
        return ""
    title = "Bytes by round of the method"
    return charts.lines(title, {"bytes": points}, x="round", y="bytes")


def _named(found: Mapping[str, curves.Curve], keys: tuple[str, ...]) -> dict[str, curves.Curve]:
    return {_NAMES[key]: found[key] for key in keys if key in found}


def _renamed(found: Mapping[str, curves.Curve]) -> dict[str, curves.Curve]:
    return {_NAMES.get(name, clean(name)): points for name, points in found.items()}
