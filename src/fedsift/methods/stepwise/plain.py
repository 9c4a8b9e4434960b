# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Forward selection over columns that are all in one place: the oracle of both protocols."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fedsift.methods.stepwise.forward import ForwardSearch
from fedsift.methods.stepwise.knockoffs import entry_differences, goes_on, kept_at, make_knockoffs

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]

LEVEL = 0.05
"""``auto`` goes on while chance explains as much as the best candidate at most this often."""

N_COPIES = 50


def class_contrasts(codes: Codes, n_classes: int) -> Floats:
    """Orthonormal columns, one fewer than classes, each with mean 0, that span the classes.

    Column ``k`` sets class ``k + 1`` against all classes before it.

    Examples
    --------
    >>> class_contrasts(np.array([0, 1, 1, 2]), 3).round(3)
    array([[-0.816, -0.289],
           [ 0.408, -0.289],
           [ 0.408, -0.289],
           [ 0.   ,  0.866]])
    """
    sizes = np.bincount(codes, minlength=n_classes).astype(np.float64)
    before = np.cumsum(sizes)
    weights = np.zeros((n_classes, n_classes - 1))
    for k in range(n_classes - 1):
        scale = np.sqrt(sizes[k + 1] * before[k] * before[k + 1])
        weights[: k + 1, k] = -sizes[k + 1] / scale
        weights[k + 1, k] = before[k] / scale
    return np.asarray(weights[codes])


def number_column(target: Floats) -> Floats:
    """A numeric target as one column with mean 0 and length 1."""
    around = target - target.mean()
    length = float(np.linalg.norm(around))
    return np.asarray(around[:, None] / length if length > 0 else around[:, None])


def shuffled_copies(columns: Floats, n_copies: int, rng: np.random.Generator) -> list[Floats]:
    """Label columns with their rows in another order each."""
    return [columns[rng.permutation(len(columns))] for _ in range(n_copies)]


def search_plain(
    values: Floats,
    labels: Floats,
    *,
    ridge: float | None = None,
    copies: list[Floats] | None = None,
) -> tuple[ForwardSearch, Floats]:
    """A search that is about to begin, and the columns with mean 0 and length 1."""
    around = values - values.mean(axis=0)
    lengths = np.linalg.norm(around, axis=0)
    # What rounding leaves of a constant is no column.
    lengths[lengths <= 1e-12 * np.abs(values).max(axis=0, initial=0.0) * len(values)] = 0.0
    columns = np.divide(around, lengths, out=np.zeros_like(around), where=lengths > 0)
    shuffled = None if not copies else np.stack([columns.T @ copy for copy in copies])
    search = ForwardSearch(
        columns.T @ labels,
        (lengths > 0).astype(np.float64),
        len(values),
        shuffled=shuffled,
        ridge=ridge,
    )
    return search, columns


def select_plain(
    values: Floats,
    labels: Floats,
    n_select: int,
    *,
    ridge: float | None = None,
    forced: tuple[int, ...] = (),
    copies: list[Floats] | None = None,
    level: float | None = None,
) -> ForwardSearch:
    """The whole search; with a ``level`` it may stop before ``n_select`` columns."""
    search, columns = search_plain(values, labels, ridge=ridge, copies=copies)
    for column in forced:
        search.add(column, columns.T @ columns[:, column], forced=True)
    while len(search.selected) < n_select and (best := search.best(level)) is not None:
        search.add(best, columns.T @ columns[:, best])
    return search


def keep_true(
    parts: list[Floats], labels: Floats, rate: float, rng: np.random.Generator
) -> npt.NDArray[np.bool_]:
    """Columns that are kept at a rate of false discoveries, with knockoffs of each party's own."""
    doubled = [*parts, *(make_knockoffs(part, rng) for part in parts)]
    search, columns = search_plain(np.hstack(doubled), labels, ridge=0.0)
    while goes_on(search, rate) and (best := search.best()) is not None:
        search.add(best, columns.T @ columns[:, best])
    return kept_at(entry_differences(search), rate)
