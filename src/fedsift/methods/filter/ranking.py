# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Scores of open columns and the ranking over all parties: the part of filters without secrets."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.data.table import PartyTable
from fedsift.data.target import Target
from fedsift.errors import ParameterError
from fedsift.maths import binning
from fedsift.methods.filter import features as local
from fedsift.methods.filter import scores
from fedsift.privacy.mechanisms import CountNoise
from fedsift.privacy.release import gini_gain

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Params:
    """Settings of one run, the same at every party; parameters of the selector, and these.

    Parameters
    ----------
    min_class_size : int
        Smallest class of the label in rows; labels with smaller ones are refused.
    scheme : {"bgv", "paillier", "plain"}
    security_bits : int
    target_bins : int
        Quantile classes of a numeric target, for scores that need classes.
    small_cells : bool
        Parties with different rows open cells of any size, as all their policies allow.
    numeric_label : bool
        The label has numbers: what is told about it has a kind of its own.
    fdr : float, optional
        Select by q-values of at most this much instead of a number of features.
    n_permutations : int
        Shuffled copies of every feature that p-values are made of; 0 takes known distributions.
    share_scores : bool
        Send each feature holder the scores of its own features.
    seed : int, optional
        Makes the secret orders repeatable, for simulations; by default they come from the
        operating system.
    noise_seed : int, optional
        Makes the noise repeatable, in tests only: whoever knows it can take the noise off.
    """

    score: str = "gini"
    n_features_to_select: int = 10
    bins: local.BinChoice = 10
    min_bin_size: int = 5
    min_class_size: int = 1
    disclose: str = "scores"
    scheme: str = "bgv"
    security_bits: int = 128
    target_bins: int = 4
    small_cells: bool = False
    numeric_label: bool = False
    fdr: float | None = None
    n_permutations: int = 0
    share_scores: bool = False
    seed: int | None = None
    epsilon: float | None = None
    delta: float = 0.0
    noise_seed: int | None = None
    release_epsilon: float | None = None
    release_delta: float = 0.0

    @property
    def noisy(self) -> bool:
        """Whether counts carry noise."""
        return self.epsilon is not None

    @property
    def releases(self) -> bool:
        """Whether the selection is drawn, and scores stay where they are."""
        return self.release_epsilon is not None

    @property
    def fixed_edges(self) -> bool:
        """Whether neither edges nor numbers of bins may depend on the rows."""
        return self.noisy or self.releases

    @property
    def tests(self) -> bool:
        """Whether p-values are computed: not from noise, and not beside a drawn selection."""
        return not self.fixed_edges and self.score != "variance"

    @property
    def tells_bins(self) -> bool:
        """Whether numbers of bins are sent, on which the p-values of scores alone depend."""
        of_bins = self.score in ("gini", "chi2") and self.disclose == "scores"
        return of_bins and (self.fdr is not None or self.n_permutations > 0)

    @property
    def exact_gini(self) -> bool:
        """Whether impurities are needed to less than one row."""
        return self.releases or (self.score == "gini" and self.tells_bins)

    def rows_of_bin(self, n_classes: int) -> int:
        """Rows of a bin at least, whose counts are opened: enough to fill every cell on average.

        A ``min_class_size`` of 1 asks for nothing.
        """
        cells = n_classes * self.min_class_size if self.min_class_size > 1 else 1
        return max(self.min_bin_size, cells)

    def noise(self, n_tables: int) -> CountNoise:
        """Noise for the tables of so many features."""
        assert self.epsilon is not None  # noqa: S101 - asked only if there is a budget
        return CountNoise(self.epsilon, self.delta, n_tables)

    def noise_source(self, party: str) -> list[int] | None:
        """Seed of a party's noise; None takes the operating system's randomness."""
        return None if self.noise_seed is None else [self.noise_seed, *party.encode()]


@dataclass(frozen=True)
class Ranking:
    """What the label holder knows at the end, features by party and secret number.

    ``errors`` are standard errors of the scores, of parties whose scores have any, and
    ``errors_are`` says how they were found.
    """

    scores: dict[str, Floats]
    selected: dict[str, tuple[int, ...]]
    ranks: dict[str, npt.NDArray[np.int64]]
    errors: dict[str, Floats] = field(default_factory=dict)
    errors_are: str | None = None
    p_values: dict[str, Floats] = field(default_factory=dict)
    q_values: dict[str, Floats] = field(default_factory=dict)


def rank(results: Mapping[str, Floats], score: str, n_select: int) -> Ranking:
    """Order all features of all parties, best first; ties go to the earlier party and number."""
    parties = list(results)
    values = np.concatenate([results[party] for party in parties])
    owner = np.concatenate([np.full(len(results[p]), i) for i, p in enumerate(parties)])
    number = np.concatenate([np.arange(len(results[p])) for p in parties])
    keys = values if score in scores.LOWER_IS_BETTER else -values
    order = np.lexsort((number, owner, keys))
    ranks = np.empty(len(values), dtype=np.int64)
    ranks[order] = np.arange(1, len(values) + 1)
    return Ranking(
        scores={p: np.asarray(results[p], dtype=np.float64) for p in parties},
        selected={
            p: tuple(np.flatnonzero(ranks[owner == i] <= n_select).tolist())
            for i, p in enumerate(parties)
        },
        ranks={p: ranks[owner == i] for i, p in enumerate(parties)},
    )


def scores_of_noisy(tables: npt.NDArray[np.int64], score: str) -> Floats:
    """Scores of tables whose counts carry noise: there are no rows below zero."""
    kept = np.maximum(tables, 0)
    kept[kept.sum(axis=(1, 2)) == 0] = 1  # nothing is left: a feature that tells nothing
    return scores.TABLE_SCORES[score](kept)


def scores_of_tables(
    tables: npt.NDArray[np.int64], params: Params, n_rows: int, *, noisy: bool
) -> Floats:
    """Scores of counts, which may carry noise."""
    if params.noisy and params.releases:
        # Bounded however the noise turns out; as an impurity, the lower the better.
        return -gini_gain(tables, n_rows)
    if noisy:
        return scores_of_noisy(tables, params.score)
    return scores.TABLE_SCORES[params.score](tables)


def plain_scores(
    table: PartyTable,
    target: Target | None,
    params: Params,
    *,
    frequencies: bool | None = None,
    binned: local.BinnedTable | None = None,
) -> Floats:
    """Scores of one table with open labels: the label holder's own columns, and the test oracle.

    ``binned`` is the same table, where it was cut before.
    """
    if params.score == "variance":
        return local.variances(local.numeric_columns(table, "variance"))
    codes, n_classes = classes_of(target, params)
    if params.score == "f":
        columns = local.unit_columns(local.numeric_columns(table, "f"))
        if not n_classes:
            assert target is not None  # noqa: S101 - f needs a target, checked in _classes
            shares = (columns.T @ local.unit_columns(target.values[:, None]))[:, 0] ** 2
            return scores.regression_f(shares, table.n_rows)
        sums = columns.T @ np.eye(n_classes)[codes]
        shares = scores.explained_share(sums, np.bincount(codes, minlength=n_classes))
        statistic = scores.anova_f(shares, table.n_rows, n_classes)
        return np.minimum(statistic, np.finfo(np.float64).max)
    as_frequencies = local.are_frequencies(table) if frequencies is None else frequencies
    if params.score == "chi2" and as_frequencies and not params.noisy:
        values = local.numeric_columns(table, "chi2")
        # Scores grow with the values: powers of two keep sums of extreme numbers finite.
        exponents = np.frexp(values.max(axis=0, initial=0.0))[1]
        sums = np.ldexp(values, -exponents).T @ np.eye(n_classes)[codes]
        return scores.chi2_of_sums(sums, np.bincount(codes, minlength=n_classes), exponents)
    binned = binned or bins_of(table, params, n_classes)
    counts = contingency(binned.codes, binned.n_bins, codes, n_classes)
    return scores_of_tables(counts, params, table.n_rows, noisy=False)


def bins_of(table: PartyTable, params: Params, n_classes: int) -> local.BinnedTable:
    """The table cut into bins as the run wants it."""
    if params.fixed_edges:
        return local.fixed_bins(table, params.bins)
    opened = params.disclose == "counts"
    smallest = params.rows_of_bin(n_classes) if opened else params.min_bin_size
    return local.bin_table(table, params.bins, smallest)


def contingency(
    bins: npt.NDArray[np.int64], n_bins: int, classes: npt.NDArray[np.int64], n_classes: int
) -> npt.NDArray[np.int64]:
    """Counts of shape (n_features, n_bins, n_classes)."""
    joint = bins * n_classes + classes[:, None]
    counts = [np.bincount(column, minlength=n_bins * n_classes) for column in joint.T]
    return np.stack(counts).reshape(len(counts), n_bins, n_classes)


def classes_of(target: Target | None, params: Params) -> tuple[npt.NDArray[np.int64], int]:
    """Class codes and their number; 0 classes for a numeric target that stays numeric."""
    if params.score == "variance" or target is None:
        return np.empty(0, dtype=np.int64), 0
    if target.kind == "classes":
        return target.codes, len(target.classes)
    if params.score == "f":
        return np.empty(0, dtype=np.int64), 0
    edges = binning.quantile_edges(target.values, params.target_bins)
    raw = binning.cut(target.values, edges)
    cut = binning.merge_small(raw, params.min_class_size, ordered=True)
    if cut.n_bins < 2:
        raise ParameterError(
            "The numeric target has too few distinct values to be cut into classes.",
            f"The score {params.score!r} needs at least two target classes.",
            "Use score='f' (of FedSDG-FS init='constant'), or pass the target as classes.",
        )
    return cut.codes, cut.n_bins


def as_classes(target: Target, params: Params) -> Target:
    """The same target if it has classes; numbers in quantile classes of ``min_class_size`` rows."""
    if target.kind == "classes":
        return target
    codes, n_classes = classes_of(target, params)
    return Target("classes", codes=codes, classes=tuple(map(str, range(n_classes))))


class ScoreName(str):
    """The name of a score; called, it evaluates the fitted selector it belongs to.

    Filters have a parameter ``score``, and scikit-learn calls a method of that name.
    """

    _owner: weakref.ref[Any] | None = None

    def __call__(self, X: Any, y: Any = None) -> float:
        """Mean score of the selected features on other rows; higher is better."""
        owner = self._owner() if self._owner is not None else None
        if owner is None:
            raise TypeError(f"{str(self)!r} does not belong to an estimator")
        score: float = owner._score_rows(X, y)
        return score

    def __deepcopy__(self, memo: Any) -> ScoreName:
        # clone() demands that the constructor keeps the very object it gets.
        return ScoreName(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return ScoreName, (str(self),)


class ScoreParameter:
    """Descriptor that stores the given name and hands it out bound to its estimator."""

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        name = instance.__dict__["score"]
        if isinstance(name, ScoreName):
            name._owner = weakref.ref(instance)
        return name

    def __set__(self, instance: Any, value: Any) -> None:
        if isinstance(value, ScoreName):
            # Another estimator's name is copied; its own one, or a clone's, is kept as it is.
            taken = value._owner is not None and value._owner() is not instance
            value = ScoreName(value) if taken else value
        elif isinstance(value, str):
            value = ScoreName(value)
        instance.__dict__["score"] = value
