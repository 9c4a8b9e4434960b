# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Scores from what a horizontal filter opens at its end, and the same on open rows as an oracle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from fedsift.data.table import PartyTable
from fedsift.data.target import Target
from fedsift.maths import moments
from fedsift.methods.filter import features as local
from fedsift.methods.filter import scores, significance
from fedsift.methods.filter import uncertainty as filter_errors
from fedsift.methods.filter.course import Course, Moments, Tables
from fedsift.methods.filter.own_rows import OwnRows, walk
from fedsift.methods.filter.ranking import Params, scores_of_noisy

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PooledScores:
    """What the totals of all members say.

    Attributes
    ----------
    values : ndarray of shape (n_features,)
    n_rows : int
        Known where counts without noise were opened.
    remarks : list of str
    errors : ndarray, optional
        Standard errors.
    p_values : ndarray, optional
    """

    values: Floats
    n_rows: int = 0
    remarks: list[str] = field(default_factory=list)
    errors: Floats | None = None
    p_values: Floats | None = None


def read_totals(
    course: Course, totals: Sequence[int], params: Params, names: Sequence[str]
) -> PooledScores:
    """Scores of tables, or of sums; ``names`` are those of the columns."""
    request = course.request
    if isinstance(request, Tables):
        return _of_tables(course, request, totals, params)
    assert isinstance(request, Moments)  # noqa: S101 - nothing else is last
    return _of_moments(course, request, totals, params, names)


def pooled_scores(table: PartyTable, target: Target | None, params: Params) -> PooledScores:
    """Scores as parties with parts of these rows would find them."""
    own = OwnRows(table, target, params)
    course, totals = walk(Course(own.schema(frequencies=own.frequencies), params), [own])
    return read_totals(course, totals, params, table.feature_names)


def _of_tables(
    course: Course, request: Tables, totals: Sequence[int], params: Params
) -> PooledScores:
    n_features = len(request.plan)
    table = np.array(totals).reshape(n_features, request.n_bins, course.schema.n_classes)
    if params.noisy:
        return PooledScores(scores_of_noisy(table, params.score))
    remarks = []
    hint = " With fewer bins, or if all policies name 'bin-counts', fewer are."
    if course.n_merged:
        smallest = params.min_class_size
        few = f"fewer than {params.min_bin_size} rows, or from 1 to {smallest - 1} of a class,"
        if params.small_cells:
            few, hint = f"fewer than {params.rows_of_bin(course.schema.n_classes)} rows", ""
        remarks.append(f"{course.n_merged} pooled bins had {few} and were merged.{hint}")
    if course.coarse:
        remarks.append(
            f"{course.coarse} features vary by less than a thousandth of their values and have one "
            "bin; subtract a constant from them before they are stored."
        )
    used = table.sum(axis=(0, 1)) > 0  # a target with ties may leave quantile classes empty
    own = table[:, :, used]
    return PooledScores(
        scores.TABLE_SCORES[params.score](own),
        int(table[0].sum()),
        remarks,
        filter_errors.errors_of_tables(own, params),
        significance.of_tables(own, params) if params.tests else None,
    )


def _of_moments(
    course: Course,
    request: Moments,
    totals: Sequence[int],
    params: Params,
    names: Sequence[str],
) -> PooledScores:
    schema, n_classes = course.schema, course.schema.n_classes
    numeric, n_columns = schema.numeric_target and not n_classes, len(request.columns)
    found = moments.read_sums(
        totals, n_columns, n_classes, numeric=numeric, complete=request.complete
    )
    remarks = local.rounding_remarks(sum(map(moments.rounded_only, found.columns)))
    if course.left_out:
        shown = ", ".join(repr(names[f]) for f in course.left_out)
        remarks.append(
            f"Fewer than {params.min_class_size} rows of a class have a value of {shown}, or fewer "
            "lack one beside a numeric label: sums would tell values of single rows. The score "
            "is 0."
        )
    values = np.zeros(len(schema.category_counts))
    values[list(request.columns)] = _scores_of(found, params)
    errors = p_values = None
    if params.score == "f":
        errors = filter_errors.of_scores(values, params, found.n_rows, n_classes, 0)
        n_groups = sum(size > 0 for size in found.sizes) or 2
        p_values = significance.of_f(values, found.n_rows, n_groups)
        p_values[list(course.left_out)] = np.nan
    return PooledScores(values, found.n_rows, remarks, errors, p_values)


def _scores_of(pooled: moments.TableSums, params: Params) -> Floats:
    own, sizes = pooled.columns, pooled.sizes
    if params.score == "variance":
        return np.array([moments.variance(column) for column in own])
    if params.score == "chi2":
        used = [k for k, size in enumerate(sizes) if size]
        sums = [[float(column.sums[k]) for k in used] for column in own]
        return scores.chi2_of_sums(sums, [sizes[k] for k in used])
    if len(sizes):
        shares = [moments.explained_share(column, sizes) for column in own]
    else:
        total, squares = pooled.target
        shares = [
            moments.squared_correlation(column, pooled.n_rows, total, squares) for column in own
        ]
    found = scores.anova_f(shares, pooled.n_rows, len(sizes) or 2)
    # JSON knows no infinity.
    return np.minimum(found, np.finfo(np.float64).max)
