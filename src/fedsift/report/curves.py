# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What can be drawn of a result, as plain numbers; charts and plots share it.

A result file may come from anywhere: entries that are not as a method writes them are left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from fedsift.result import SelectionResult

Curve = tuple[tuple[float, float], ...]
"""Points (x, y)."""

JOINT = "*"
"""How a method's history names what all parties found together."""


@dataclass(frozen=True)
class Scored:
    """A feature or participant with its score, best first in lists of them."""

    party: str
    name: str
    score: float
    selected: bool
    standard_error: float | None = None

    @property
    def label(self) -> str:
        """Party and name; the name alone where all parties share it."""
        return self.name if self.party in ("", self.name) else f"{self.party}: {self.name}"


@dataclass(frozen=True)
class Matrix:
    """Values by row and column; None where nothing was computed."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]


@dataclass(frozen=True)
class Group:
    """Participants that were tested together."""

    members: tuple[str, ...]
    value: float
    standard_error: float | None
    step: str


def features(result: SelectionResult) -> list[Scored]:
    """Scored features by rank; columns that all parties share are listed once."""
    errors = _feature_errors(result)
    common = result.setting == "horizontal"
    found: dict[tuple[str, str], tuple[int, Scored]] = {}
    for party, scores in result.scores.items():
        ranks, chosen = result.ranking.get(party, {}), set(result.selected.get(party, ()))
        for name, score in scores.items():
            if name in ranks and _is_number(score):
                owner = "" if common else party
                error = errors.get(party, {}).get(name)
                one = Scored(owner, name, float(score), name in chosen, error)
                found.setdefault((owner, name), (ranks[name], one))
    return [one for _, one in sorted(found.values(), key=lambda pair: pair[0])]


def participants(result: SelectionResult) -> list[Scored]:
    """Participants by what they are worth, best first."""
    errors: dict[str, float] = {}
    for entry in result.history:
        given = entry.get("standard_errors")
        if isinstance(given, dict):
            errors |= {name: float(one) for name, one in given.items() if _is_number(one)}
    found = [
        Scored(name, name, float(value), bool(result.selected.get(name)), errors.get(name))
        for name, value in result.participants.items()
        if _is_number(value)
    ]
    return sorted(found, key=lambda one: -one.score)


def found(result: SelectionResult) -> list[Scored]:
    """In which share of the subsets of a search every feature was, most often found first."""
    counts, n_subsets = found_in(result)
    chosen = {name for names in result.selected.values() for name in names}
    shares = [Scored("", name, n / n_subsets, name in chosen) for name, n in counts.items()]
    return sorted(shares, key=lambda one: (-one.score, not one.selected))


def found_in(result: SelectionResult) -> tuple[dict[str, int], int]:
    """In how many subsets every feature was, and how many there were."""
    for entry in result.history:
        given, n_subsets = entry.get("found_in"), entry.get("n_subsets")
        if isinstance(given, dict) and isinstance(n_subsets, int) and n_subsets > 0:
            counts = {str(k): int(n) for k, n in given.items() if _is_number(n)}
            return {k: n for k, n in counts.items() if 0 <= n <= n_subsets}, n_subsets
    return {}, 0


def errors_are(result: SelectionResult) -> str:
    """How standard errors of features were found, as a method says; empty if it does not."""
    for entry in result.history:
        if "standard_errors" in entry and isinstance(entry.get("errors_are"), str):
            return str(entry["errors_are"])
    return ""


def close_calls(scored: Sequence[Scored]) -> list[Scored]:
    """Features that are nearer to the other side of the cut than their standard error.

    Examples
    --------
    >>> kept, missed = Scored("", "a", 4.0, True, 0.1), Scored("", "b", 3.5, False, 0.7)
    >>> [one.name for one in close_calls([kept, missed])]
    ['b']
    """
    sides = {
        side: _ends([one.score for one in scored if one.selected is not side] or [math.inf])
        for side in (True, False)
    }
    return [
        one
        for one in scored
        if one.standard_error
        and min(abs(one.score - end) for end in sides[one.selected]) < one.standard_error
    ]


def margins(scored: Sequence[Scored]) -> list[float | None]:
    """How far each score is from the other side of the cut, as a share of the range of all.

    Examples
    --------
    >>> margins([Scored("", "a", 4.0, True), Scored("", "b", 1.0, False)])
    [1.0, 1.0]
    """
    inside = [one.score for one in scored if one.selected]
    outside = [one.score for one in scored if not one.selected]
    spread = max((one.score for one in scored), default=0.0) - min(
        (one.score for one in scored), default=0.0
    )
    if not inside or not outside or not spread:
        return [None] * len(scored)
    ends = {True: _ends(outside), False: _ends(inside)}
    return [min(abs(one.score - end) for end in ends[one.selected]) / spread for one in scored]


def training(result: SelectionResult) -> dict[str, Curve]:
    """Curves by epoch: open gates, losses and the validation score."""
    entries = [entry for entry in result.history if _is_number(entry.get("epoch"))]
    curves = {}
    for key in (
        "open_features",
        "open_embeddings",
        "training_loss",
        "validation_loss",
        "validation_score",
    ):
        # A second training on the selected features counts its epochs from the start.
        points = [(i + 1, entry[key]) for i, entry in enumerate(entries) if _has(entry, key)]
        if points:
            curves[key] = tuple((float(x), float(y)) for x, y in points)
    return curves


def swarm(result: SelectionResult) -> dict[str, Curve]:
    """Accuracy of the best subset by step, of every party that says so, and of all together."""
    return _by_party(result, "accuracy")


def swarm_sizes(result: SelectionResult) -> dict[str, Curve]:
    """Number of features of the best subset by step."""
    return _by_party(result, "n_features")


def accuracy_by_size(result: SelectionResult) -> dict[str, Curve]:
    """Accuracy against number of features, where a method measured both; fewest first."""
    pairs = [
        (str(entry.get("party", JOINT)), entry["n_features"], entry["accuracy"])
        for entry in result.history
        if _has(entry, "n_features") and _has(entry, "accuracy")
    ] + [
        ("validation", entry["open_features"], entry["validation_score"])
        for entry in result.history
        if _has(entry, "open_features")
        and _has(entry, "validation_score")
        and "standard_error" not in entry  # a share of explained variance, see frontier
    ]
    best: dict[str, dict[float, float]] = {}
    for name, n_features, accuracy in pairs:
        own = best.setdefault(name, {})
        own[float(n_features)] = max(float(accuracy), own.get(float(n_features), -math.inf))
    return {name: tuple(sorted(own.items())) for name, own in best.items()}


def frontier(result: SelectionResult) -> Curve:
    """Smallest validation loss by number of features, where a method kept both."""
    points = [
        (float(entry["open_features"]), float(entry["validation_loss"]))
        for entry in result.history
        if entry.get("on_frontier") is True
        and _has(entry, "open_features")
        and _has(entry, "validation_loss")
    ]
    return tuple(sorted(points))


def interaction(result: SelectionResult) -> Matrix | None:
    """Weights of features (rows) with those already selected (columns), best features first."""
    steps = [entry for entry in result.history if entry.get("step") == "select"]
    columns = [_full_name(entry) for entry in steps]
    ranked = [one.label for one in features(result)]
    values = [dict(_nested(entry.get("weights"))) for entry in steps]
    known = [(name, own) for name, own in zip(columns, values, strict=True) if own]
    if not known:
        return None
    names = [name for name in ranked if any(name in own for _, own in known)]
    return Matrix(
        tuple(names),
        tuple(name for name, _ in known),
        tuple(tuple(own.get(name) for _, own in known) for name in names),
    )


def selection_order(result: SelectionResult) -> list[tuple[str, float, float | None]]:
    """Features in the order they were selected, with score and relevance at that time."""
    relevance = {
        name: value
        for entry in result.history
        if entry.get("step") == "relevance"
        for name, value in _nested(entry.get("relevance"))
    }
    return [
        (_full_name(entry), float(entry["score"]), relevance.get(_full_name(entry)))
        for entry in result.history
        if entry.get("step") == "select" and _has(entry, "score")
    ]


@dataclass(frozen=True)
class Addition:
    """A feature that was there from the start or was added, and what it added to those before."""

    label: str
    kept: bool
    adds: float
    explained: float
    p_value: float
    q_value: float
    chance: float | None
    redundancy: float
    redundant_with: str


def additions(result: SelectionResult) -> list[Addition]:
    """Features in the order they came in, where a method says what each one adds."""
    found = []
    for entry in result.history:
        numbers = [entry.get(k) for k in ("adds", "explained", "p_value", "q_value", "redundancy")]
        if entry.get("step") not in ("keep", "add") or not all(map(_is_number, numbers)):
            continue
        adds, explained, p_value, q_value, redundancy = (float(n) for n in numbers if n is not None)
        named = "party" in entry
        found.append(
            Addition(
                _full_name(entry) if named else str(entry.get("feature")),
                entry["step"] == "keep",
                adds,
                explained,
                p_value,
                q_value,
                float(entry["chance"]) if _has(entry, "chance") else None,
                redundancy,
                str(entry.get("redundant_with", "")),
            )
        )
    return found


def groups(result: SelectionResult) -> list[Group]:
    """Groups of participants that were tested, in order."""
    found = []
    for entry in result.history:
        members, value = entry.get("group"), entry.get("mutual_information")
        if isinstance(members, (list, tuple)) and _is_number(value):
            error = entry.get("standard_error")
            found.append(
                Group(
                    tuple(str(name) for name in members),
                    float(value),  # type: ignore[arg-type]
                    float(error) if _is_number(error) else None,  # type: ignore[arg-type]
                    str(entry.get("step", "test")),
                )
            )
    return found


def redundancy(result: SelectionResult) -> Matrix | None:
    """How much of what a participant adds is lost when the other one is there too, by pairs.

    Means over tested groups of one size: those with the first one only, plus those with the second
    only, minus those with both, minus those with neither. What each is worth by itself cancels out;
    copies of each other come out high, participants that tell more together below zero.
    """
    tested = groups(result)
    names = list(dict.fromkeys(name for group in tested for name in group.members))
    by_size: dict[int, list[Group]] = {}
    for group in tested:
        by_size.setdefault(len(group.members), []).append(group)
    values: dict[tuple[str, str], float] = {}
    for a, b in combinations(names, 2):
        found = [one for same in by_size.values() if (one := _contrast(same, a, b)) is not None]
        if found:
            values[a, b] = values[b, a] = sum(found) / len(found)
    if not values:
        return None
    lines = tuple(tuple(values.get((a, b)) for b in names) for a in names)
    return Matrix(tuple(names), tuple(names), lines)


def _contrast(same: Sequence[Group], a: str, b: str) -> float | None:
    means = {}
    for pair in ((True, False), (False, True), (True, True), (False, False)):
        some = [g.value for g in same if (a in g.members, b in g.members) == pair]
        if not some:
            return None
        means[pair] = sum(some) / len(some)
    return means[True, False] + means[False, True] - means[True, True] - means[False, False]


def bytes_by_round(result: SelectionResult) -> Curve:
    """Bytes of every round, where the history lists rounds."""
    return tuple(
        (float(entry["round"]), float(entry["n_bytes"]))
        for entry in result.history
        if _has(entry, "round") and _has(entry, "n_bytes") and "messages" in entry
    )


def _by_party(result: SelectionResult, key: str) -> dict[str, Curve]:
    curves: dict[str, list[tuple[float, float]]] = {}
    for entry in result.history:
        if "accuracy" in entry and _has(entry, "step") and _has(entry, key):
            own = curves.setdefault(str(entry.get("party", JOINT)), [])
            own.append((float(entry["step"]), float(entry[key])))
    return {party: tuple(points) for party, points in curves.items()}


def _feature_errors(result: SelectionResult) -> dict[str, dict[str, float]]:
    """Standard errors by party and feature, from methods that measure them."""
    errors: dict[str, dict[str, float]] = {}
    for entry in result.history:
        given = entry.get("standard_errors")
        for party, own in given.items() if isinstance(given, dict) else ():
            if isinstance(own, dict):
                numbers = {
                    name: float(one) for name, one in own.items() if _is_number(one) and one >= 0
                }
                errors.setdefault(party, {}).update(numbers)
    return errors


def _nested(given: Any) -> Iterator[tuple[str, float]]:
    """Labels and values of a mapping by party and feature."""
    for party, own in given.items() if isinstance(given, dict) else ():
        for name, value in own.items() if isinstance(own, dict) else ():
            if _is_number(value):
                yield f"{party}: {name}", float(value)


def _full_name(entry: Mapping[str, Any]) -> str:
    return f"{entry.get('party')}: {entry.get('feature')}"


def _ends(values: Sequence[float]) -> tuple[float, float]:
    return min(values), max(values)


def _has(entry: Mapping[str, Any], key: str) -> bool:
    return _is_number(entry.get(key))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
