# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Standard errors of filter scores, at the party that knows the scores; nothing is sent for them.

Counts tell the error of their score. A Gini impurity alone tells how large its error can be at
most, an F statistic alone what it is for normal values. Sums of frequencies and variances do not
tell theirs. With noise in the counts an error of the counts would mislead, and where scores are
withheld so are errors.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fedsift.data.target import Target
from fedsift.methods.filter import features as local
from fedsift.methods.filter import uncertainty
from fedsift.methods.filter.ranking import Params, classes_of, contingency

Floats = npt.NDArray[np.float64]

FROM_COUNTS, AT_MOST, IF_NORMAL = "from counts", "at most", "if normal"
"""How errors were found."""


def kind_of(params: Params, way: str) -> str | None:
    """How errors of a run are found; None if there are none."""
    if params.noisy or params.releases or params.score == "variance":
        return None
    if params.score == "f":
        return IF_NORMAL
    return {"count": FROM_COUNTS, "impurity": AT_MOST}.get(way)


def of_tables(tables: npt.ArrayLike, params: Params) -> Floats | None:
    """From counts that their owner or the coordinator knows."""
    if params.noisy or params.releases:
        return None
    return uncertainty.of_tables(tables, params.score)


def of_scores(
    values: Floats, params: Params, n_rows: int, n_classes: int, n_cells: int
) -> Floats | None:
    """From scores alone; ``n_classes`` is 0 for a numeric target."""
    if params.noisy or params.releases:
        return None
    if params.score == "gini":
        return uncertainty.of_gini_at_most(values, n_rows, n_classes, n_cells)
    if params.score == "f":
        regression = not n_classes
        return uncertainty.of_f(values, n_rows, n_classes or 2, regression=regression)
    return None


def of_own(
    binned: local.BinnedTable | None,
    target: Target | None,
    values: Floats,
    params: Params,
    n_rows: int,
    *,
    frequencies: bool,
) -> Floats | None:
    """Of the label holder's own features; ``binned`` for scores of bins."""
    if kind_of(params, "count") is None or (params.score == "chi2" and frequencies):
        return None
    codes, n_classes = classes_of(target, params)
    if params.score == "f":
        return of_scores(values, params, n_rows, n_classes, 0)
    assert binned is not None  # noqa: S101 - all other scores have bins
    return of_tables(contingency(binned.codes, binned.n_bins, codes, n_classes), params)


def rounded_errors(errors: npt.ArrayLike) -> list[float | None]:
    """Errors for a result: two digits are as much as a bar needs, and tell little of the counts.

    Examples
    --------
    >>> rounded_errors([0.012345, float("nan")])
    [0.012, None]
    """
    return [float(f"{error:.2g}") if np.isfinite(error) else None for error in np.asarray(errors)]
