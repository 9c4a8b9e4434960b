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

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedsift.data.table import Column
from fedsift.errors import ParameterError
from fedsift.maths import binning
from fedsift.methods.interaction.parameters import PARAMETERS
from fedsift.methods.interaction.search import (
    LARGEST_GAIN,
    Chance,
    Measured,
    Product,
    Sum,
    Trace,
    greedy,
    number_paired,
)

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]

CLIP = 4.0
"""Standardised values are cut here, so that one outlier cannot own a covariance."""

SMALLEST_ENTROPY = 0.05
"""Entropies are not taken below this; a nearly constant feature would divide by nothing."""

MOST_PARTS = 7
"""Parts of a column of categories: one less than its levels."""

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


def contrasts(codes: Codes) -> Floats:
    """Parts of a column of categories: uncorrelated, mean 0, variance 1; missing (-1) is 0.

    Every level has one row in 17 or more, and there are at most 8: rarer ones count as one, so that
    no value exceeds 4. What the measures add over the parts does not depend on their rotation.

    Examples
    --------
    >>> contrasts(np.array([0, 1, 0, 1])).ravel().tolist()
    [1.0, -1.0, 1.0, -1.0]
    """
    present = codes >= 0
    sizes = np.bincount(codes[present], minlength=1)
    frequent = np.argsort(-sizes, kind="stable")
    # Positions by falling frequency; all that are rare share one.
    kept = int(((sizes[frequent] * 17 >= present.sum()) & (sizes[frequent] > 0)).sum())
    place = np.minimum(np.argsort(frequent, kind="stable"), min(kept, MOST_PARTS))
    dense = np.full(len(codes), -1)
    dense[present] = place[codes[present]]
    levels = binning.merge_small(
        binning.categories(dense[present], int(dense.max(initial=0)) + 1),
        max(1, -(-int(present.sum()) // 17)),
        ordered=False,
    )
    parts = np.zeros((len(codes), max(1, levels.n_bins - 1)))
    if levels.n_bins > 1:
        indicator = np.eye(levels.n_bins)[levels.codes][:, :-1]
        base, upper = np.linalg.qr(indicator - indicator.mean(axis=0))
        signed = base * np.sign(np.diag(upper))
        parts[present] = standardise(signed)
    return parts


@dataclass(frozen=True, eq=False, repr=False)
class Parts:
    """Columns in the form a measure works with.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_parts)
    feature : ndarray of int of shape (n_parts,)
        Whose part each column is; rising.
    """

    values: Floats
    feature: Codes

    @property
    def n_features(self) -> int:
        """Columns as their owner counts them."""
        return int(self.feature.max(initial=-1)) + 1

    @property
    def constant(self) -> npt.NDArray[np.bool_]:
        """Features without any difference between rows, as the measure sees them."""
        flat = np.ptp(self.values, axis=0) == 0
        return np.asarray(np.bincount(self.feature, ~flat, self.n_features) == 0)

    def take(self, features: Sequence[int]) -> Parts:
        """Some features, in this order."""
        held = [np.flatnonzero(self.feature == f) for f in features]
        numbers = np.repeat(np.arange(len(held)), [len(h) for h in held]).astype(np.int64)
        places = np.concatenate([*held, np.zeros(0, dtype=np.int64)])
        return Parts(self.values[:, places], numbers)


def prepare(values: npt.ArrayLike | Sequence[Column], measure: str) -> Parts:
    """Numbers, or columns of numbers and categories, in the form a measure works with."""
    columns = list(values) if isinstance(values, (list, tuple)) else []
    if not any(isinstance(column, Column) for column in columns):
        array = np.asarray(values, dtype=np.float64)
        made = binarise(array) if is_binary(measure) else standardise(array)
        return Parts(made, np.arange(made.shape[1]))
    groups = []
    for column in columns:
        if column.kind == "categorical" and not is_binary(measure):
            groups.append(contrasts(column.values.astype(np.int64)))
        else:
            groups.append(prepare(column.as_floats()[:, None], measure).values)
    numbers = np.repeat(np.arange(len(groups)), [g.shape[1] for g in groups]).astype(np.int64)
    return Parts(np.concatenate(groups, axis=1), numbers)


def constant_columns(values: npt.ArrayLike, measure: str) -> npt.NDArray[np.bool_]:
    """Columns without any difference between rows, as the measure sees them."""
    return prepare(values, measure).constant


def oracle(
    values: npt.ArrayLike | Sequence[Column],
    codes: Codes,
    measure: str = "miw",
    n_select: int | None = None,
    pair_start: int | str = "auto",
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
    parts = prepare(values, measure)
    codes = np.unique(codes, return_inverse=True)[1].astype(np.int64)
    n_select = parts.n_features if n_select is None else n_select
    made: Moments | _Counts
    if measure == "miw":
        made = Moments(parts.values, codes, parts.feature)
    else:
        made = _Counts(parts.values, codes, measure)
    return greedy(
        Measured(made.relevance(), made.weights_with, made.rule()),
        n_select,
        idle=parts.constant,
        n_paired=number_paired(pair_start, parts.n_features, n_select),
    )


class Moments:
    """Measure ``miw`` on open data; ``feature`` says whose part each column is."""

    def __init__(self, columns: Floats, codes: Codes, feature: Codes | None = None) -> None:
        self._columns = columns
        self._feature = np.arange(columns.shape[1]) if feature is None else feature
        self._parts = np.bincount(self._feature)
        self._rows = [codes == j for j in range(int(codes.max()) + 1)]
        self._shares = np.array([rows.mean() for rows in self._rows])

    def relevance(self) -> Floats:
        """Of every feature alone: variance between classes, added over its parts."""
        means = np.stack([self._columns[rows].mean(axis=0) for rows in self._rows])
        between = self._shares @ means**2 - self._columns.mean(axis=0) ** 2
        return np.asarray(np.bincount(self._feature, between, len(self._parts)), np.float64)

    def rule(self) -> Product:
        """Gains are added."""
        chance = Chance(len(self._columns), len(self._rows), len(self._parts))
        return Sum(self.relevance(), chance, self._parts)

    def weights_with(self, selected: int, others: list[int]) -> Floats:
        """``IW`` of other features with one."""
        mine = np.flatnonzero(np.isin(self._feature, others))
        total = np.zeros(len(mine))
        for mate in np.flatnonzero(self._feature == selected):
            total += self._gains(self._columns[:, mine], self._columns[:, mate])
        gains = np.asarray(np.bincount(self._feature[mine], total, len(self._parts)), np.float64)
        return 1.0 + clip_gains(gains[others], self._parts[others], self._parts[selected])

    def _gains(self, columns: Floats, mate: Floats) -> Floats:
        inside = sum(
            share * _covariance(columns[rows], mate[rows]) ** 2
            for share, rows in zip(self._shares, self._rows, strict=True)
        )
        return np.asarray(0.5 * (inside - _covariance(columns, mate) ** 2))


def clip_gains(gains: Floats, parts: npt.ArrayLike, of_mate: npt.ArrayLike = 1) -> Floats:
    """Gains within their bounds, which grow with the parts of the smaller column."""
    bound = LARGEST_GAIN * np.minimum(np.asarray(parts), of_mate)
    return np.asarray(np.clip(gains, -bound, bound))


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

    def rule(self) -> Product:
        return Product(self.relevance())

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
