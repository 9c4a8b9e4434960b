# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Scores of open columns and the ranking over all parties: the part of filters without secrets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

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
    """Settings of one run, the same at every party.

    Parameters
    ----------
    score : {"gini", "f", "mi", "chi2", "iv", "variance"}
    n_features_to_select : int
    bins : int, list of edges, or mapping of column name to either
    min_bin_size : int
        Smallest bin in rows; smaller ones are merged.
    disclose : {"scores", "counts"}
        What the label holder may learn of others' features.
    scheme : {"bgv", "paillier", "plain"}
    security_bits : int
    target_bins : int
        Quantile classes of a numeric target, for scores that need classes.
    epsilon, delta : float
        Budget of differential privacy of every party's own rows; no noise without an epsilon.
    release_epsilon, release_delta : float
        Budget of differential privacy of the selection that parties are told; the exact one is
        told without a release_epsilon.
    noise_seed : int, optional
        Makes the noise repeatable, for simulations only: whoever knows it can take the noise off.
    share_scores : bool
        Send each feature holder the scores of its own features.
    seed : int, optional
        Makes the secret orders repeatable, for simulations; by default they come from the
        operating system.
    """

    score: str = "gini"
    n_features_to_select: int = 10
    bins: local.BinChoice = 10
    min_bin_size: int = 5
    disclose: str = "scores"
    scheme: str = "bgv"
    security_bits: int = 128
    target_bins: int = 4
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
        return np.asarray(np.nanvar(local.numeric_columns(table, "variance"), axis=0))
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
        sums = local.numeric_columns(table, "chi2").T @ np.eye(n_classes)[codes]
        return scores.chi2_of_sums(sums, np.bincount(codes, minlength=n_classes))
    binned = binned or bins_of(table, params)
    counts = contingency(binned.codes, binned.n_bins, codes, n_classes)
    return scores_of_tables(counts, params, table.n_rows, noisy=False)


def bins_of(table: PartyTable, params: Params) -> local.BinnedTable:
    """The table cut into bins as the run wants it."""
    if params.fixed_edges:
        return local.fixed_bins(table, params.bins)
    return local.bin_table(table, params.bins, params.min_bin_size)


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
    cut = binning.merge_small(binning.cut(target.values, edges), 1, ordered=True)
    if cut.n_bins < 2:
        raise ParameterError(
            "The numeric target has too few distinct values to be cut into classes.",
            f"The score {params.score!r} needs at least two target classes.",
            "Use score='f', or pass the target as classes.",
        )
    return cut.codes, cut.n_bins
