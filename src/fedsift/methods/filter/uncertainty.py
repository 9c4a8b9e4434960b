# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""How far a filter score may be off, from what its owner knows anyway: counts, or the score alone.

Rows are taken as a sample of a population; the standard error says how much a score would vary
from one such sample to the next, with the same bins. Nothing is sent for it.

Counts tell the error of their score. A Gini impurity alone tells how large its error can be at
most, an F statistic alone what it is for normal values. Sums of frequencies and variances do not
tell theirs. With noise in the counts an error of the counts would mislead, and where scores are
withheld so are errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from fedsift.data.target import Target
from fedsift.methods.filter import features as local
from fedsift.methods.filter.ranking import Params, Ranking, classes_of, contingency
from fedsift.result import SelectionResult

Floats = npt.NDArray[np.float64]

_GRID = 4097


def of_tables(counts: npt.ArrayLike, score: str) -> Floats:
    """Standard errors of the scores of contingency tables, by leaving out one row at a time.

    Rows in the same cell are alike, so that one value per cell is enough; all of them together
    take about as long as a few scores. NaN for tables of less than two rows.

    Parameters
    ----------
    counts : array-like of shape (n_features, n_bins, n_classes)
    score : str
        A key of :data:`fedsift.methods.filter.scores.TABLE_SCORES`.

    Examples
    --------
    >>> table = np.array([[[40, 10], [10, 40]]])
    >>> of_tables(table, "gini").round(3), of_tables(10 * table, "gini").round(3)
    (array([0.049]), array([0.015]))
    """
    table = np.asarray(counts, dtype=np.float64)
    n_rows = table.sum(axis=(1, 2))
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.where(table > 0, WITHOUT_ONE_ROW[score](table), 0.0)
        mean = (table * each).sum(axis=(1, 2)) / n_rows
        around = (each - mean[:, None, None]) ** 2
        variance = (n_rows - 1) / n_rows * (table * around).sum(axis=(1, 2))
    return np.where(n_rows >= 2, np.sqrt(variance), np.nan)


def of_gini_at_most(impurities: npt.ArrayLike, n_rows: int, n_classes: int, n_bins: int) -> Floats:
    """The largest standard error that Gini impurities can have, whatever counts are behind them.

    With ``q`` the shares of the classes in a bin of the population and ``s`` the sum of their
    squares, an impurity is one minus the mean of ``2 q - s`` over the rows, minus a remainder: the
    sum over the bins of the squared distance of their shares from ``q``, times rows of the bin over
    all rows.

    The mean square of ``2 q - s`` in a bin is ``4 sum q**3 - 3 s**2``, which for a given ``s`` is
    largest if all classes but one are equally rare. A concave function above all of these bounds
    the mean over the bins by its value at the mean of ``s``, which is known. The remainder of a bin
    varies by at most one half over the square of the number of rows. Deviations add up at worst.

    Examples
    --------
    >>> of_gini_at_most([0.32, 0.0], 10000, 2, 10).round(4)
    array([0.005 , 0.0002])
    """
    purity = 1.0 - np.clip(np.asarray(impurities, dtype=np.float64), 0.0, 1.0 - 1.0 / n_classes)
    s = np.linspace(1.0 / n_classes, 1.0, _GRID)
    common = (1.0 + np.sqrt(np.maximum((n_classes - 1) * (n_classes * s - 1), 0.0))) / n_classes
    rare = (1.0 - common) / (n_classes - 1)
    squares = 4.0 * (common**3 + (n_classes - 1) * rare**3) - 3.0 * s**2
    largest = np.interp(purity, *_upper_hull(s, squares))
    linear = np.sqrt(np.maximum(largest - purity**2, 0.0) / n_rows)
    return np.asarray(linear + np.sqrt(min(n_bins, n_rows) / 2) / n_rows)


def of_f(
    statistics: npt.ArrayLike, n_rows: int, n_groups: int, *, regression: bool = False
) -> Floats:
    """Standard errors of F statistics if values are normal within groups of equal spread.

    The deviation of the non-central F distribution whose mean is the statistic; NaN with too few
    rows. Groups keep their sizes. A ``regression`` on one feature counts as two groups, and the
    feature varies from sample to sample too.

    Examples
    --------
    >>> of_f([1.0, 20.0], 104, 2).round(2)
    array([1.46, 9.45])
    """
    found = np.asarray(statistics, dtype=np.float64)
    between, within = n_groups - 1, n_rows - n_groups
    if between < 1 or within <= 4:
        return np.full(found.shape, np.nan)
    with np.errstate(over="ignore", invalid="ignore"):
        # The mean of the distribution is (between + shift) * within / (between * (within - 2)).
        shift = np.maximum(found * between * (within - 2) / within - between, 0.0)
        # The feature's own spread multiplies the shift by a chi-squared over its mean.
        own = 2.0 * shift**2 / (n_rows - 1) if regression else np.zeros_like(shift)
        spread = (between + shift) ** 2 + own + (between + 2 * shift) * (within - 2)
        variance = 2 * spread / ((within - 2) ** 2 * (within - 4)) + own / (within - 2) ** 2
        error = within / between * np.sqrt(variance)
    return np.where(np.isfinite(error), error, np.nan)


def _gini_without(table: Floats) -> Floats:
    sizes = table.sum(axis=2, keepdims=True)
    squares = (table**2).sum(axis=2, keepdims=True)
    purity = np.where(sizes > 0, squares / sizes, 0.0)
    left = np.where(sizes > 1, (squares - 2 * table + 1) / (sizes - 1), 0.0)
    total = purity.sum(axis=1, keepdims=True)
    return np.asarray(1.0 - (total - purity + left) / (sizes.sum(axis=1, keepdims=True) - 1))


def _information_without(table: Floats) -> Floats:
    bins, classes = table.sum(axis=2, keepdims=True), table.sum(axis=1, keepdims=True)
    n_rows = bins.sum(axis=1, keepdims=True)
    together = (
        _x_log_x(table).sum(axis=(1, 2), keepdims=True)
        - _x_log_x(bins).sum(axis=1, keepdims=True)
        - _x_log_x(classes).sum(axis=2, keepdims=True)
    )
    change = _step_down(table) - _step_down(bins) - _step_down(classes)
    left = (together + change + _x_log_x(n_rows - 1)) / (n_rows - 1)
    return np.asarray(np.maximum(left, 0.0))


def _chi2_without(table: Floats) -> Floats:
    bins, classes = table.sum(axis=2, keepdims=True), table.sum(axis=1, keepdims=True)
    n_rows = bins.sum(axis=1, keepdims=True)
    by_class = np.where(classes > 0, table**2 / classes, 0.0)
    by_bin = np.where(bins > 0, table**2 / bins, 0.0)
    cell = np.where(bins > 0, by_class / bins, 0.0)
    of_bin, of_class = by_class.sum(axis=2, keepdims=True), by_bin.sum(axis=1, keepdims=True)
    elsewhere = (
        cell.sum(axis=(1, 2), keepdims=True)
        - np.where(bins > 0, of_bin / bins, 0.0)
        - np.where(classes > 0, of_class / classes, 0.0)
        + cell
    )
    same_bin = np.where(bins > 1, (of_bin - by_class) / (bins - 1), 0.0)
    same_class = np.where(classes > 1, (of_class - by_bin) / (classes - 1), 0.0)
    here = np.where(table > 1, (table - 1) ** 2 / ((bins - 1) * (classes - 1)), 0.0)
    return np.asarray((n_rows - 1) * (elsewhere + same_bin + same_class + here - 1.0))


def _value_without(table: Floats) -> Floats:
    """Information value: for every class against the rest, with a row of either side left out."""
    sizes, n_classes = table.sum(axis=2), table.shape[2]
    values = np.zeros_like(table)
    for k in range(n_classes):
        hits, rest = table[:, :, k], sizes - table[:, :, k]
        now = _sides(hits, rest)
        totals = [side.sum(axis=1, keepdims=True) for side in now]
        without: list[Floats] = []
        for fewer in (_sides(hits - 1, rest), _sides(hits, rest - 1)):
            h, r, h_log, r_log = (
                total - old + new for total, old, new in zip(totals, now, fewer, strict=True)
            )
            without.append(h_log / h - r_log / r)
        each = np.repeat(without[1][:, :, None], n_classes, axis=2)
        each[:, :, k] = without[0]
        values += each
    return np.asarray(values / n_classes)


def _sides(hits: Floats, rest: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Both counts of every bin as the score uses them, and times the logarithm of their ratio."""
    used = (hits >= 0) & (rest >= 0) & (hits + rest > 0)
    extra = np.where(used & ((hits == 0) | (rest == 0)), 0.5, 0.0)
    h, r = np.where(used, hits + extra, 0.0), np.where(used, rest + extra, 0.0)
    log = np.log(np.divide(h, r, out=np.ones_like(h), where=used))
    return h, r, h * log, r * log


WITHOUT_ONE_ROW: dict[str, Callable[[Floats], Floats]] = {
    "gini": _gini_without,
    "mi": _information_without,
    "chi2": _chi2_without,
    "iv": _value_without,
}
"""Scores of the same tables if a row of each cell were not there; empty cells hold anything."""


def _x_log_x(x: Floats) -> Floats:
    return np.asarray(x * np.log(np.where(x > 0, x, 1.0)))


def _step_down(x: Floats) -> Floats:
    """How ``x log x`` changes if one row is left out."""
    return _x_log_x(np.maximum(x - 1.0, 0.0)) - _x_log_x(x)


def _upper_hull(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Corners of the lowest concave curve above all points; x ascends."""
    kept: list[int] = []
    for i in range(len(x)):
        while len(kept) > 1:
            a, b = kept[-2:]
            if (y[b] - y[a]) * (x[i] - x[b]) > (y[i] - y[b]) * (x[b] - x[a]):
                break
            kept.pop()
        kept.append(i)
    return x[kept], y[kept]


FROM_COUNTS, AT_MOST, IF_NORMAL = "from counts", "at most", "if normal"
"""How errors were found."""


def kind_of(params: Params, way: str) -> str | None:
    """How errors of a run are found; None if there are none."""
    if params.noisy or params.releases or params.score == "variance":
        return None
    if params.score == "f":
        return IF_NORMAL
    return {"count": FROM_COUNTS, "impurity": AT_MOST}.get(way)


def errors_of_tables(tables: npt.ArrayLike, params: Params) -> Floats | None:
    """From counts that their owner or the coordinator knows."""
    if params.noisy or params.releases:
        return None
    return of_tables(tables, params.score)


def of_scores(
    values: Floats, params: Params, n_rows: int, n_classes: int, n_cells: int
) -> Floats | None:
    """From scores alone; ``n_classes`` is 0 for a numeric target."""
    if params.noisy or params.releases:
        return None
    if params.score == "gini":
        return of_gini_at_most(values, n_rows, n_classes, n_cells)
    if params.score == "f":
        regression = not n_classes
        return of_f(values, n_rows, n_classes or 2, regression=regression)
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
    no_errors = params.score == "chi2" and (frequencies or params.disclose == "scores")
    if kind_of(params, "count") is None or no_errors:
        return None
    codes, n_classes = classes_of(target, params)
    if params.score == "f":
        return of_scores(values, params, n_rows, n_classes, 0)
    assert binned is not None  # noqa: S101 - all other scores have bins
    return errors_of_tables(contingency(binned.codes, binned.n_bins, codes, n_classes), params)


def rounded_errors(errors: npt.ArrayLike) -> list[float | None]:
    """Errors for a result: two digits are as much as a bar needs, and tell little of the counts.

    Examples
    --------
    >>> rounded_errors([0.012345, float("nan")])
    [0.012, None]
    """
    return [float(f"{error:.2g}") if np.isfinite(error) else None for error in np.asarray(errors)]


def with_errors(
    result: SelectionResult, ranking: Ranking, names: Mapping[str, Sequence[str]]
) -> SelectionResult:
    """The result with one more entry in its history, if there are errors.

    Parameters
    ----------
    names : mapping of party to feature names
        In the order of the ranking.
    """
    if not ranking.errors or not result.scores:
        return result
    by_party = {
        party: {
            name: error
            for name, error in zip(names[party], rounded_errors(ranking.errors[party]), strict=True)
            if error is not None
        }
        for party in result.scores
        if party in ranking.errors
    }
    entry = {"standard_errors": by_party, "errors_are": ranking.errors_are}
    return msgspec.structs.replace(result, history=(*result.history, entry))
