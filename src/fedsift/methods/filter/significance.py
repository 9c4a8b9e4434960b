# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""How likely a filter score is if the feature tells nothing of the label: p-values and q-values.

Laws     ``f``: the F distribution, exact for values that are normal within classes or around a
         line. ``chi2`` of bins: chi-squared, with a degree of freedom for each bin but one and each
         class but one that hold rows. ``gini``: rows times the impurity that the feature takes away
         is a sum of chi-squared variables whose weights follow from the sizes of the classes; for
         two classes this is chi-squared again. ``mi`` and ``iv``: the G test of the counts. All but
         ``f`` hold for many rows. ``chi2`` of frequencies has no law: it grows with the unit.
Shuffles Feature holders compute the same scores with their rows in a secret random order, which
         breaks every relation with the label and leaves each column as it is. A p-value is the
         share of scores at least as significant among all shuffled ones of all features, which are
         brought to one scale by the law, or, without one, by the mean of the feature's others.

Nothing here is computed from counts that carry noise, or where a drawn selection is released.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from fedsift.data.table import PartyTable
from fedsift.data.target import Target
from fedsift.errors import ParameterError
from fedsift.maths.multiple_testing import q_values, select_by_fdr
from fedsift.methods.filter import features as local
from fedsift.methods.filter import scores
from fedsift.methods.filter.ranking import (
    Params,
    Ranking,
    bins_of,
    classes_of,
    contingency,
    plain_scores,
)

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
_SAME = 1e-9
"""Scores of equal tables differ by rounding."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """What tells how significant the features of one party are.

    Attributes
    ----------
    own : ndarray of shape (n_features,)
        P-values by the law of the score; without a law, scores on a common scale, negative.
    shuffled : ndarray of shape (n_shuffles, n_features)
        The same of shuffled rows.
    """

    own: Floats
    shuffled: Floats


def has_law(score: str, way: str) -> bool:
    """Whether scores follow a known distribution where features tell nothing."""
    return score != "variance" and not (score == "chi2" and way in ("sum", "frequency"))


def weigh(
    values: Floats,
    params: Params,
    way: str,
    n_rows: int,
    class_sizes: npt.ArrayLike,
    n_bins: npt.ArrayLike,
) -> Floats:
    """How significant scores are; less is more.

    Parameters
    ----------
    values : ndarray of shape (n_features,) or (n_shuffles + 1, n_features)
        Scores; for ``iv`` the mutual information of the same counts.
    class_sizes : array-like of int
        Empty for a label that stays numeric.
    n_bins : array-like of int
        Bins of each feature that hold rows, for scores of bins.
    """
    sizes = np.asarray(class_sizes)
    sizes = sizes[sizes > 0]
    if params.score == "f":
        return of_f(values, n_rows, len(sizes) or 2)
    if not has_law(params.score, way):
        return -values
    bins = np.asarray(n_bins, dtype=np.float64)
    if params.score == "gini":
        return of_gini(values, sizes, bins)
    statistic = values if params.score == "chi2" else 2 * n_rows * values
    return _tail(statistic, (bins - 1) * (len(sizes) - 1))


def of_f(values: Floats, n_rows: int, n_groups: int) -> Floats:
    """P-values of F statistics."""
    if n_rows <= n_groups or n_groups < 2:
        return np.full(values.shape, np.nan)
    return np.asarray(stats.f.sf(values, n_groups - 1, n_rows - n_groups))


def of_gini(impurities: Floats, class_sizes: npt.ArrayLike, n_bins: npt.ArrayLike) -> Floats:
    """P-values of Gini impurities.

    Rows times the impurity that is taken away is, for each bin but one, a sum of squared normal
    variables with the covariance of one row's class. Its first three moments are matched by a
    chi-squared variable, which is exact for classes of equal size and for two classes.

    Examples
    --------
    >>> of_gini(np.array([0.5, 0.42]), [50, 50], [2, 2]).round(6)
    array([1.0e+00, 6.3e-05])
    """
    sizes = np.asarray(class_sizes, dtype=np.float64)
    shares, bins = sizes / sizes.sum(), np.asarray(n_bins, dtype=np.float64)
    weights = np.linalg.eigvalsh(np.diag(shares) - np.outer(shares, shares))[1:]
    first, second, third = (float((weights**power).sum()) for power in (1, 2, 3))
    degrees = (bins - 1) * second**3 / third**2
    taken = sizes.sum() * (1.0 - (shares**2).sum() - impurities)
    distance = (taken - (bins - 1) * first) * second / third
    return _tail(distance + degrees, degrees)


def _tail(statistic: Floats, degrees: Floats) -> Floats:
    """Upper tail of chi-squared; 1 for features of one bin, which cannot tell anything."""
    tail = stats.chi2.sf(statistic, np.where(degrees > 0, degrees, 1.0))
    return np.asarray(np.where(degrees > 0, tail, 1.0))


def of_tables(tables: npt.ArrayLike, params: Params) -> Floats:
    """P-values of scores of open counts, of shape (n_features, n_bins, n_classes)."""
    counts = np.asarray(tables)
    sizes, n_rows = counts[0].sum(axis=0), int(counts[0].sum())
    n_bins = (counts.sum(axis=2) > 0).sum(axis=1)
    return weigh(_told_by(counts, params), params, "count", n_rows, sizes, n_bins)


def evidence_of_tables(tables: npt.ArrayLike, params: Params, n_features: int) -> Evidence:
    """Of the counts of features, followed by those of their shuffled rows."""
    return split_evidence(of_tables(tables, params), n_features, law=True)


def _told_by(tables: npt.NDArray[np.int64], params: Params) -> Floats:
    name = "mi" if params.score == "iv" else params.score
    return scores.TABLE_SCORES[name](tables)


def split_evidence(weighed: Floats, n_features: int, *, law: bool) -> Evidence:
    """Of features, followed by their shuffled rows."""
    found = weighed.reshape(-1, n_features)
    own, shuffled = found[0], found[1:]
    if law or len(shuffled) < 2:
        return Evidence(own, shuffled)
    # Every one is compared with as many others, so that it is like the rest if nothing is told.
    others = (shuffled.sum(axis=0) - shuffled) / (len(shuffled) - 1)
    return Evidence(_over(own, shuffled[:-1].mean(axis=0)), _over(shuffled, others))


def _over(values: Floats, means: Floats) -> Floats:
    """Negative scores as multiples of a mean; a column that never varies is no evidence."""
    return -np.divide(values, means, out=np.zeros_like(values), where=means != 0)


def own_evidence(
    table: PartyTable,
    target: Target,
    values: Floats,
    params: Params,
    *,
    frequencies: bool,
    way: str,
    rng: np.random.Generator,
) -> Evidence:
    """Of open columns: the label holder's own, and the test oracle."""
    codes, n_classes = classes_of(target, params)
    law, sizes = has_law(params.score, way), np.bincount(codes, minlength=n_classes)
    binned = None
    if params.score in local.BINNED_SCORES and law:
        binned = bins_of(table, params, n_classes)
    n_bins = np.array([]) if binned is None else [len(np.unique(c)) for c in binned.codes.T]

    def found(labels: Target, known: Floats | None) -> Floats:
        if params.score == "iv" and binned is not None:
            counts = contingency(
                binned.codes, binned.n_bins, classes_of(labels, params)[0], n_classes
            )
            return _told_by(counts, params)
        if known is not None:
            return known
        return plain_scores(table, labels, params, frequencies=frequencies, binned=binned)

    orders = [rng.permutation(target.n_rows) for _ in range(params.n_permutations)]
    each = [found(target, values), *(found(target.take(order), None) for order in orders)]
    weighed = weigh(np.stack(each), params, way, target.n_rows, sizes, n_bins)
    return split_evidence(weighed, table.n_columns, law=law)


def p_values(evidence: Mapping[str, Evidence]) -> dict[str, Floats]:
    """P-values of all features; with shuffled rows by their share among these, of all parties."""
    shuffled = np.concatenate([np.empty(0), *(e.shuffled.ravel() for e in evidence.values())])
    if not len(shuffled):
        return {party: one.own for party, one in evidence.items()}
    ordered = np.sort(shuffled)
    return {party: _shares(one.own, ordered) for party, one in evidence.items()}


def _shares(own: Floats, ordered: Floats) -> Floats:
    reach = own + _SAME * np.maximum(1.0, np.abs(own)) * np.where(own < 0, 1.0, np.abs(own))
    at_least = np.searchsorted(ordered, reach, side="right")
    return np.asarray((1 + at_least) / (1 + len(ordered)))


def with_tests(ranking: Ranking, found: Mapping[str, Floats], params: Params) -> Ranking:
    """The ranking with p-values and q-values; and with what they select, if they are to."""
    if not found:
        return ranking
    parties = list(ranking.scores)
    whole = np.concatenate([found[party] for party in parties])
    ends = np.cumsum([len(found[party]) for party in parties])[:-1]

    def by_party(values: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
        return dict(zip(parties, np.split(values, ends), strict=True))

    told = replace(ranking, p_values=dict(found), q_values=by_party(q_values(whole)))
    if params.fdr is None:
        return told
    chosen = by_party(select_by_fdr(whole, params.fdr))
    return replace(
        told, selected={p: tuple(np.flatnonzero(own).tolist()) for p, own in chosen.items()}
    )


def refuse_no_law(shuffles: bool) -> None:
    """Say that the run needs p-values, and there are none."""
    action = "Give n_permutations, for example 100, " if shuffles else "Use score='f', "
    raise ParameterError(
        "chi2 reads the columns of all parties as frequencies, and n_features_to_select is 'fdr'.",
        "That statistic grows with the unit of a column, so no distribution gives its p-values.",
        f"{action}or another score.",
    )


def none_passed(ranking_size: int, fdr: float) -> str:
    """Remark on a selection without features."""
    return (
        f"None of {ranking_size} features is selected: no set of them has an expected share of "
        f"false discoveries of at most {fdr:g}."
    )
