# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Plots of a result for notebooks, by matplotlib: ``pip install 'fedsift[plots]'``.

Every function draws on the axes it is given, or on new ones, and returns them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedsift.errors import MissingPackage, ParameterError
from fedsift.report import course, curves
from fedsift.report.view import clean
from fedsift.result import SelectionResult

Axes = Any
"""``matplotlib.axes.Axes``; matplotlib is optional."""

_MOST_ROWS = 40


def ranking(result: SelectionResult, ax: Axes = None, *, most: int = _MOST_ROWS) -> Axes:
    """Scores of the best features, by party, with bars of one standard error where there are any.

    Hollow ones were not selected. A search gives no scores: in which share of its subsets a feature
    was is drawn instead.
    """
    scored = curves.features(result) or curves.found(result)
    _need(scored, result, "scores of features")
    axes = _axes(ax)
    parties = list(dict.fromkeys(one.party for one in scored))
    _dots(axes, scored[:most], parties)
    axes.set_xlabel("score" if curves.features(result) else "share of subsets")
    if len(parties) > 1:
        for number, party in enumerate(parties):
            axes.plot([], [], "o", color=f"C{number % 10}", label=clean(party))
        axes.legend()
    return axes


def participants(result: SelectionResult, ax: Axes = None) -> Axes:
    """What participants are worth, with standard errors where there are any."""
    scored = curves.participants(result)
    _need(scored, result, "participants")
    axes = _axes(ax)
    _dots(axes, scored[:_MOST_ROWS], [])
    axes.set_xlabel(course.worth(result))
    return axes


def gates(result: SelectionResult, ax: Axes = None) -> Axes:
    """Open gates by epoch."""
    found = curves.training(result)
    chosen = {
        name: found[key]
        for key, name in (("open_features", "features"), ("open_embeddings", "embeddings"))
        if key in found
    }
    return _lines(result, chosen, ax, "epoch", "open gates")


def losses(result: SelectionResult, ax: Axes = None) -> Axes:
    """Training and validation loss by epoch."""
    found = curves.training(result)
    chosen = {
        name: found[key]
        for key, name in (("training_loss", "training"), ("validation_loss", "validation"))
        if key in found
    }
    return _lines(result, chosen, ax, "epoch", "loss")


def convergence(result: SelectionResult, ax: Axes = None) -> Axes:
    """Accuracy of the swarms' best subset by step."""
    return _lines(result, curves.swarm(result), ax, "step", "accuracy")


def accuracy(result: SelectionResult, ax: Axes = None) -> Axes:
    """Accuracy against number of features, where the method measured both."""
    return _lines(result, curves.accuracy_by_size(result), ax, "features", "accuracy")


def frontier(result: SelectionResult, ax: Axes = None) -> Axes:
    """Smallest validation loss by number of features; the dotted line is the selection."""
    points = curves.frontier(result)
    axes = _lines(result, {"frontier": points} if points else {}, ax, "features", "loss")
    axes.axvline(result.n_selected, color="grey", linestyle=":")
    return axes


def interaction(result: SelectionResult, ax: Axes = None) -> Axes:
    """Heat map of features with those that were selected before."""
    return _heat(result, curves.interaction(result), ax, "interactions")


def redundancy(result: SelectionResult, ax: Axes = None) -> Axes:
    """Heat map of participants: copies of each other come out high."""
    return _heat(result, curves.redundancy(result), ax, "groups to compare")


def traffic(result: SelectionResult, ax: Axes = None, *, by: str = "message") -> Axes:
    """Bytes by message or by sending party, or seconds by phase (``by="phase"``)."""
    amounts: dict[str, Mapping[str, float]] = {
        "message": result.traffic.by_message,
        "party": result.traffic.by_party,
        "phase": result.timings,
    }
    if by not in amounts:
        raise ParameterError(
            f"by={by!r}.", f"One of {', '.join(amounts)} is needed.", "Choose one."
        )
    _need(amounts[by], result, "costs")
    axes = _axes(ax)
    rows = sorted(amounts[by].items(), key=lambda item: item[1])[-_MOST_ROWS:]
    axes.barh([_plain(name) for name, _ in rows], [value for _, value in rows])
    axes.set_xlabel("seconds" if by == "phase" else "bytes")
    return axes


def _dots(axes: Axes, scored: list[curves.Scored], parties: list[str]) -> None:
    for place, one in enumerate(scored):
        colour = f"C{parties.index(one.party) % 10}" if one.party in parties else "C0"
        axes.errorbar(
            one.score,
            place,
            xerr=one.standard_error,
            fmt="o",
            capsize=3,
            color=colour,
            markerfacecolor=colour if one.selected else "none",
        )
    axes.set_yticks(range(len(scored)), [_plain(one.name) for one in scored])
    axes.invert_yaxis()


def _lines(
    result: SelectionResult, found: Mapping[str, curves.Curve], ax: Axes, x: str, y: str
) -> Axes:
    _need(found, result, y)
    axes = _axes(ax)
    for name, points in found.items():
        label = "all parties together" if name == curves.JOINT else _plain(name)
        axes.plot([p[0] for p in points], [p[1] for p in points], marker=".", label=label)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if len(found) > 1:
        axes.legend()
    return axes


def _heat(result: SelectionResult, matrix: curves.Matrix | None, ax: Axes, what: str) -> Axes:
    _need(matrix, result, what)
    assert matrix is not None  # noqa: S101 - checked above
    axes = _axes(ax)
    values = [
        [float("nan") if v is None else v for v in line] for line in matrix.values[:_MOST_ROWS]
    ]
    image = axes.imshow(values, cmap="Purples", aspect="auto")
    axes.set_xticks(
        range(len(matrix.columns)), [_plain(n) for n in matrix.columns], rotation=45, ha="right"
    )
    axes.set_yticks(range(len(values)), [_plain(name) for name in matrix.rows[:_MOST_ROWS]])
    axes.figure.colorbar(image, ax=axes)
    return axes


def _plain(name: str) -> str:
    """A name that matplotlib does not read as a formula, nor leaves out of a legend."""
    return clean(name).replace("$", r"\$").lstrip("_") or "-"


def _axes(ax: Axes) -> Axes:
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot as plt
    except ImportError as error:
        raise MissingPackage(
            "matplotlib is not installed.",
            "Plots are drawn by it; reports and results work without.",
            "Install it with: pip install 'fedsift[plots]'",
        ) from error
    return plt.subplots(layout="constrained")[1]


def _need(found: object, result: SelectionResult, what: str) -> None:
    if not found:
        raise ParameterError(
            f"A result of {clean(result.method)!r} has no {what}.",
            "A plot needs something that the method reported.",
            "Use another plot_ function; the HTML report draws all that fit.",
        )
