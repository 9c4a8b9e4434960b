# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The greedy search: what a feature is worth beside those that were selected before it.

The paper multiplies: ``R = (1 + relevance) * product of weights``. Where columns are many and rows
few, that goes wrong after some rounds: a relevant feature shares information with the selected
ones, so that its product falls below 1 (0.8 of ``1 + 0.25``), while among hundreds of irrelevant
features some have small weights above 1 by chance in every round, and products of chance grow.

``miw`` adds: ``R = 1 + relevance + penalty + bonus``.

- *penalty*: the most negative gain with a selected feature, the one that a feature repeats most;
- *bonus*: the largest gain with a selected feature, as far as it exceeds what chance reaches among
  that many features (:func:`chance_gain`, and shuffled labels where they are measured).

A pair start knows gains before anything is selected: half of the bonus counts for either feature of
a pair as long as the other one is not selected. Of a column *with itself* the gain tells whether
its spread differs between the classes (a ring); it is never a penalty.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

Floats = npt.NDArray[np.float64]

LARGEST_GAIN = 0.5
"""Bound of the moment-based interaction gain in either direction, per part of a column."""

CHANCE = 0.05
"""Share of tables without any interaction in which chance exceeds its limit."""

FEW_COLUMNS = 20
"""All pairs are weighed at the start up to this number of columns."""


@dataclass(frozen=True)
class Trace:
    """Outcome of a greedy search.

    Parameters
    ----------
    order : tuple of int
        Features in the order of their selection.
    relevance : ndarray of shape (n_features,)
        Relevance of every feature alone.
    scores : ndarray of shape (n_features,)
        ``R`` when the feature was selected, or at the end.
    weights : dict of int to ndarray of shape (n_features,)
        ``IW`` of all features with one; NaN where not computed.
    """

    order: tuple[int, ...]
    relevance: Floats
    scores: Floats
    weights: dict[int, Floats]

    @property
    def interaction(self) -> Floats:
        """``IW`` of a feature (row) with another one (column); NaN where not computed."""
        return as_matrix(self.weights, len(self.relevance))


def as_matrix(weights: dict[int, Floats], n_features: int) -> Floats:
    """Weights of all features (rows) with some (columns)."""
    matrix = np.full((n_features, n_features), np.nan)
    for mate, column in weights.items():
        matrix[:, mate] = column
    return matrix


def best_of(scores: Floats, candidates: list[int], tie: float = 0.0) -> int:
    """The candidate with the largest score; the first within this share of it."""
    largest = float(max(scores[f] for f in candidates))
    return next(f for f in candidates if scores[f] >= largest - tie * abs(largest))


@dataclass(frozen=True)
class Chance:
    """How large gains become by chance: the tail of chi-square, and its scale.

    Of standardised columns that have nothing to do with each other or the label, twice the gain
    times the number of rows is about chi-square with one degree of freedom for every class but one
    and pair of parts. Heavy tails widen it: ``scale`` is what shuffled labels show of that.
    """

    n_rows: int
    n_classes: int
    n_features: int

    def relevance(self) -> float:
        """Relevance that the best of all features, none of them relevant, exceeds rarely."""
        share = CHANCE / max(1, self.n_features)
        rest = max(1, self.n_rows - self.n_classes)
        return float(stats.beta.isf(share, (self.n_classes - 1) / 2, rest / 2))

    def gain(self, n_parts: npt.ArrayLike = 1, share: float = CHANCE) -> Floats:
        """Gain that the largest of all features' exceeds in this share of tables."""
        freedom = np.asarray(n_parts) * (self.n_classes - 1)
        return np.asarray(stats.chi2.isf(share / self.n_features, freedom) / (2 * self.n_rows))

    def scale(self, shuffled: Floats) -> float:
        """How many times as large the gains for shuffled labels are as they should be."""
        if not shuffled.size:
            return 1.0
        one = Chance(self.n_rows, self.n_classes, shuffled.size)
        return max(1.0, float(shuffled.max()) / float(one.gain(share=0.5)))


class Product:
    """The rule of the paper: ``R`` is multiplied by the weight with every selected feature.

    Parameters
    ----------
    relevance : ndarray of shape (n_features,)

    Attributes
    ----------
    scores : ndarray of shape (n_features,)
        ``R`` of all features.
    weights : dict of int to ndarray of shape (n_features,)
        Weights of all features with one; NaN where not known.
    """

    def __init__(self, relevance: Floats) -> None:
        self.relevance = relevance
        self.scores = 1.0 + relevance
        self.weights: dict[int, Floats] = {}

    def unknown(self, chosen: int, remaining: Sequence[int]) -> list[int]:
        """Remaining features whose weight with a selected one has yet to be computed."""
        known = self._column(chosen)
        return [f for f in remaining if np.isnan(known[f])]

    def _column(self, mate: int) -> Floats:
        return self.weights.setdefault(mate, np.full(len(self.relevance), np.nan))

    def weigh(
        self,
        chosen: int,
        others: Sequence[int],
        weights: Floats,
        scale: float = 1.0,
    ) -> None:
        """Take the weights of other features with one that was selected."""
        self._column(chosen)[list(others)] = weights
        self.scores[list(others)] *= weights


class Sum(Product):
    """The rule of ``miw``.

    Parameters
    ----------
    relevance : ndarray of shape (n_features,)
    chance : Chance
    parts : ndarray of int of shape (n_features,), optional
        Parts of every column: 1 for numbers, levels less one for categories.
    """

    def __init__(
        self, relevance: Floats, chance: Chance, parts: npt.ArrayLike | None = None
    ) -> None:
        super().__init__(relevance)
        self._chance = chance
        self._parts = np.ones(len(relevance)) if parts is None else np.asarray(parts, float)
        # More parts are more relevant by chance; columns of numbers stay as they are.
        surplus = (self._parts - 1) * (chance.n_classes - 1) / chance.n_rows
        self._alone = 1.0 + relevance - surplus
        self._penalty, self._bonus = np.zeros((2, len(relevance)))
        self._offers = np.zeros((0, 0))
        self._candidates: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._score()

    def start(self, candidates: Sequence[int], weights: Floats, scale: float = 1.0) -> None:
        """Take the weights of all pairs of some columns, each with itself among them."""
        places = np.asarray(candidates, dtype=np.int64)
        self._candidates = places
        # The relevance of categories has all there is to know of them alone.
        weights = np.where(np.diag(self._parts[places] > 1), np.nan, weights)
        for mate, column in zip(candidates, weights.T, strict=True):
            self._column(mate)[places] = column
        limits = np.multiply.outer(self._parts[places], self._parts[places])
        self._offers = np.maximum(weights - 1.0 - scale * self._chance.gain(limits), 0.0)
        np.fill_diagonal(self._offers, 0.0)
        # The square of a column varies twice as much as the product of two: a normal one's.
        alone = np.diag(weights) - 1.0 - 2 * scale * self._chance.gain()
        self._alone[places] += np.where(self._parts[places] == 1, np.maximum(alone, 0.0), 0.0)
        self._score()

    def weigh(
        self, chosen: int, others: Sequence[int], weights: Floats, scale: float = 1.0
    ) -> None:
        """Take the weights of other features with one that was selected, and what is known."""
        column = self._column(chosen)
        column[list(others)] = weights
        known = np.flatnonzero(~np.isnan(column))
        known = known[known != chosen]
        gains = column[known] - 1.0
        limits = scale * self._chance.gain(self._parts[known] * self._parts[chosen])
        self._penalty[known] = np.minimum(self._penalty[known], gains)
        self._bonus[known] = np.maximum(self._bonus[known], gains - limits)
        # It is no longer a partner that may be selected.
        self._offers[:, self._candidates == chosen] = 0.0
        self._score()

    def _score(self) -> None:
        bonus = self._bonus.copy()
        if len(self._candidates):
            offered = self._offers.max(axis=1) / 2
            bonus[self._candidates] = np.maximum(bonus[self._candidates], offered)
        self.scores = self._alone + self._penalty + bonus


@dataclass(frozen=True)
class Measured:
    """A measure on open columns.

    Parameters
    ----------
    relevance : ndarray of shape (n_features,)
    weights_with : callable
        ``(selected, others) -> IW`` of other features with a selected one, or itself.
    rule : Product or Sum
    """

    relevance: Floats
    weights_with: Callable[[int, list[int]], Floats]
    rule: Product


def candidates_of(relevance: Floats, usable: Sequence[int], n_paired: int) -> list[int]:
    """The most relevant columns, in the order of their numbers; all that are usable if few."""
    best = sorted(usable, key=lambda f: (-relevance[f], f))[:n_paired]
    return sorted(best)


def number_paired(pair_start: int | str, n_features: int, n_select: int | None) -> int:
    """Columns that a pair start takes: none where a single feature is selected."""
    if n_select == 1 or pair_start == "none":
        return 0
    if pair_start == "auto":
        return n_features if n_features <= FEW_COLUMNS else 0
    return min(int(pair_start), n_features)


def greedy(
    measured: Measured,
    n_select: int,
    *,
    idle: npt.NDArray[np.bool_] | None = None,
    n_paired: int = 0,
) -> Trace:
    """The search on open data.

    Parameters
    ----------
    measured : Measured
    n_select : int
        Features to select.
    idle : ndarray of bool of shape (n_features,), optional
        Constant features: they take no part and come last, with score 0.
    n_paired : int
        Columns of which all pairs are weighed at the start; 0 for no pair start.
    """
    rule, n_features = measured.rule, len(measured.relevance)
    resting = [] if idle is None else np.flatnonzero(idle).tolist()
    remaining = [f for f in range(n_features) if f not in resting]
    if n_paired and isinstance(rule, Sum):
        candidates = candidates_of(measured.relevance, remaining, n_paired)
        weights = [measured.weights_with(mate, candidates) for mate in candidates]
        rule.start(candidates, np.array(weights).T)
    final = np.zeros(n_features)
    order: list[int] = []
    while remaining and len(order) < n_select:
        chosen = best_of(rule.scores, remaining)
        final[chosen] = rule.scores[chosen]
        order.append(chosen)
        remaining.remove(chosen)
        if remaining and len(order) < n_select:
            others = rule.unknown(chosen, remaining)
            rule.weigh(chosen, others, measured.weights_with(chosen, others))
    final[remaining] = rule.scores[remaining]
    order += resting[: n_select - len(order)]
    return Trace(tuple(order), measured.relevance, final, rule.weights)
