# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Relevance and interaction of features with a class label: the measures of paper 001 and better.

All measures drive the same greedy search. Every feature starts with weight 1; in each round the
feature with the largest ``R = w * (1 + relevance)`` is selected, and the weights of the others are
multiplied by ``IW``, which is above 1 where a feature tells more about the label *together* with
the selected one, and below 1 where it repeats it.

``miw``
    Moments of standardised columns: relevance is the between-class variance, and
    ``IW = 1 + 0.5 * (sum_j P_j cov_j^2 - cov^2)``, the second-order form of
    ``I(f; s | class) - I(f; s)``. No logarithm, no division by secrets, no binarisation.
``paper``
    Columns cut at their mean, ``log p`` as the paper's two-term Taylor polynomial, entropies with
    the minus sign that the paper forgot, symmetric uncertainty with the paper's *product*.
``iwfs``
    Exact logarithms and the *sum* of entropies that the literature uses: what the paper
    approximates. Plaintext only.
``paper_literal``
    The paper as printed, to show the defect. Plaintext only, never a default.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedsift.errors import ParameterError
from fedsift.methods.interaction.parameters import PARAMETERS

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]

CLIP = 4.0
"""Standardised values are cut here, so that one outlier cannot own a covariance."""

SMALLEST_ENTROPY = 0.05
"""Entropies are not taken below this; a nearly constant feature would divide by nothing."""

LARGEST_GAIN = 0.5
"""Bound of the moment-based interaction gain in either direction."""

TAYLOR = (0.0, -0.6, 0.8, -0.2)
"""p * TL(p) of the paper, TL(p) = 0.4 ((p - 1) - (p - 1)^2 / 2), by rising powers."""

SECURE = PARAMETERS["measure"].choices[0].words
"""Measures that have a protocol."""

ORACLES = (*SECURE, "iwfs", "paper_literal")


def is_binary(measure: str) -> bool:
    """Whether a measure works on columns cut at their mean."""
    return measure != "miw"


def _centred(values: npt.ArrayLike) -> Floats:
    """Columns around their mean, scaled by their largest magnitude; NaN stays."""
    array = np.asarray(values, dtype=np.float64)
    # Dividing by the largest magnitude first keeps squares of extreme numbers finite.
    largest = np.max(np.abs(np.where(np.isnan(array), 0.0, array)), axis=0, initial=0.0)
    scaled = array / np.where(largest > 0, largest, 1.0)
    missing = np.isnan(scaled)
    present = np.maximum((~missing).sum(axis=0), 1)
    return np.asarray(scaled - np.where(missing, 0.0, scaled).sum(axis=0) / present)


def standardise(values: npt.ArrayLike) -> Floats:
    """Columns with mean 0 and variance 1, cut at +-4; missing is the mean, constants become 0.

    Examples
    --------
    >>> standardise([[1.0, 7.0], [3.0, 7.0]]).round(9).tolist()
    [[-1.0, 0.0], [1.0, 0.0]]
    """
    centred = _centred(values)
    centred = np.where(np.isnan(centred), 0.0, centred)
    spread = np.sqrt((centred**2).mean(axis=0))
    flat = spread <= 1e-13
    unit = np.where(flat, 0.0, centred / np.where(flat, 1.0, spread))
    return np.asarray(np.clip(unit, -CLIP, CLIP))


def binarise(values: npt.ArrayLike) -> Floats:
    """1 where a value reaches its column's mean, else 0; missing counts as below."""
    with np.errstate(invalid="ignore"):
        return np.asarray(_centred(values) >= -1e-15, dtype=np.float64)


def prepare(values: npt.ArrayLike, measure: str) -> Floats:
    """Columns in the form a measure works with."""
    return binarise(values) if is_binary(measure) else standardise(values)


def constant_columns(values: npt.ArrayLike, measure: str) -> npt.NDArray[np.bool_]:
    """Columns without any difference between rows, as the measure sees them."""
    return np.asarray(np.ptp(prepare(values, measure), axis=0) == 0)


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
    interaction : ndarray of shape (n_features, n_features)
        ``IW`` of a feature (row) with a selected one (column); NaN where not computed.
    """

    order: tuple[int, ...]
    relevance: Floats
    scores: Floats
    interaction: Floats


def best_of(scores: Floats, candidates: list[int]) -> int:
    """The candidate with the largest score; ties go to the smaller number."""
    return max(candidates, key=lambda f: (scores[f], -f))


def greedy(
    relevance: Floats,
    weights_with: Callable[[int, list[int]], Floats],
    n_select: int,
    *,
    idle: npt.NDArray[np.bool_] | None = None,
) -> Trace:
    """The search that all measures share.

    Parameters
    ----------
    relevance : ndarray of shape (n_features,)
    weights_with : callable
        ``(selected, remaining) -> IW`` of every remaining feature.
    n_select : int
        Features to select.
    idle : ndarray of bool of shape (n_features,), optional
        Constant features: they take no part and come last, with score 0.
    """
    n_features = len(relevance)
    interaction = np.full((n_features, n_features), np.nan)
    resting = [] if idle is None else np.flatnonzero(idle).tolist()
    scores = 1.0 + relevance
    scores[resting] = 0.0
    remaining = [f for f in range(n_features) if f not in resting]
    order: list[int] = []
    while remaining and len(order) < n_select:
        chosen = best_of(scores, remaining)
        order.append(chosen)
        remaining.remove(chosen)
        if remaining and len(order) < n_select:
            interaction[remaining, chosen] = weights_with(chosen, remaining)
            scores[remaining] *= interaction[remaining, chosen]
    order += resting[: n_select - len(order)]
    return Trace(tuple(order), relevance, scores, interaction)


def oracle(
    values: npt.ArrayLike, codes: Codes, measure: str = "miw", n_select: int | None = None
) -> Trace:
    """Rank open data with any measure, in floating point.

    Examples
    --------
    >>> oracle([[0, 1], [1, 1], [0, 0], [1, 0]], np.array([0, 0, 1, 1])).order
    (1, 0)
    """
    if measure not in ORACLES:
        raise ParameterError(
            f"measure={measure!r}.", f"One of {', '.join(ORACLES)} is needed.", "Choose one."
        )
    columns = prepare(values, measure)
    codes = np.unique(codes, return_inverse=True)[1].astype(np.int64)
    n_select = columns.shape[1] if n_select is None else n_select
    made = Moments(columns, codes) if measure == "miw" else _Counts(columns, codes, measure)
    idle = constant_columns(values, measure)
    return greedy(made.relevance(), made.weights_with, n_select, idle=idle)


class Moments:
    """Measure ``miw`` on open data."""

    def __init__(self, columns: Floats, codes: Codes) -> None:
        self._columns = columns
        self._rows = [codes == j for j in range(int(codes.max()) + 1)]
        self._shares = np.array([rows.mean() for rows in self._rows])

    def relevance(self) -> Floats:
        """Of every column alone: variance between classes."""
        means = np.stack([self._columns[rows].mean(axis=0) for rows in self._rows])
        return np.asarray(self._shares @ means**2 - self._columns.mean(axis=0) ** 2)

    def weights_with(self, selected: int, remaining: list[int]) -> Floats:
        """``IW`` of other columns with one."""
        columns, mate = self._columns[:, remaining], self._columns[:, selected]
        inside = sum(
            share * _covariance(columns[rows], mate[rows]) ** 2
            for share, rows in zip(self._shares, self._rows, strict=True)
        )
        gain = 0.5 * (inside - _covariance(columns, mate) ** 2)
        return np.asarray(1.0 + np.clip(gain, -LARGEST_GAIN, LARGEST_GAIN))


def _covariance(columns: Floats, mate: Floats) -> Floats:
    return np.asarray(
        (columns * mate[:, None]).mean(axis=0) - columns.mean(axis=0) * float(mate.mean())
    )


class _Counts:
    """The measures of the paper on open data: everything is a count of a cell in a class."""

    def __init__(self, columns: Floats, codes: Codes, measure: str) -> None:
        self._measure = measure
        self._columns = columns
        self._labels = np.eye(int(codes.max()) + 1)[codes]
        self._h = plogp(measure)
        # The printed entropy is negative, and so is the sign of every interaction.
        self._sign = -1.0 if measure == "paper_literal" else 1.0
        self._class_shares = self._labels.mean(axis=0)
        p = columns.mean(axis=0)
        self._entropy = feature_entropy(p, measure)
        self._alone = self._information(self._shares(columns), np.stack([p, 1 - p], axis=-1))

    def _shares(self, columns: Floats) -> Floats:
        """P(x | class) of both values; shape (n_features, n_classes, 2)."""
        ones = (columns.T @ self._labels) / self._labels.sum(axis=0)
        return np.stack([ones, 1 - ones], axis=-1)

    def _information(self, inside: Floats, overall: Floats) -> Floats:
        within = (self._h(inside).sum(axis=-1) * self._class_shares).sum(axis=-1)
        return np.asarray(within - self._h(overall).sum(axis=-1))

    def relevance(self) -> Floats:
        of_label = label_entropy(self._class_shares, self._measure)
        exact = self._measure == "iwfs"
        bottom = self._entropy + of_label if exact else self._entropy * of_label
        return np.asarray(2.0 * self._alone / bottom)

    def weights_with(self, selected: int, remaining: list[int]) -> Floats:
        columns, mate = self._columns[:, remaining], self._columns[:, [selected]]
        cells = [columns * mate, columns * (1 - mate), (1 - columns) * mate]
        cells.append((1 - columns) * (1 - mate))
        sizes = self._labels.sum(axis=0)
        inside = np.stack([cell.T @ self._labels / sizes for cell in cells], axis=-1)
        overall = np.stack([cell.mean(axis=0) for cell in cells], axis=-1)
        gain = self._information(inside, overall) - self._alone[remaining] - self._alone[selected]
        bottom = self._entropy[remaining] + self._entropy[selected]
        return np.asarray(1.0 + self._sign * gain / bottom)


def plogp(measure: str) -> Callable[[Floats], Floats]:
    """``p log p`` as the measure computes it."""
    if measure == "iwfs":
        return lambda p: np.asarray(p * np.log(np.where(p > 0, p, 1.0)))
    return lambda p: np.asarray(np.polynomial.polynomial.polyval(p, TAYLOR))


def feature_entropy(p: Floats, measure: str) -> Floats:
    """Entropy of binary columns from their share of ones; the owner knows it exactly."""
    h = plogp(measure)
    p = np.asarray(p, dtype=np.float64)
    return np.asarray(np.maximum(-(h(p) + h(1 - p)), SMALLEST_ENTROPY))


def label_entropy(shares: Floats, measure: str) -> float:
    """Entropy of the class label from the class shares; its owner knows it exactly."""
    h = plogp(measure)
    return max(float(-h(np.asarray(shares)).sum()), SMALLEST_ENTROPY)
