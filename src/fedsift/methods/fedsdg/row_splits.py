# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Which rows train, which validate, and in which batches."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.int64]


def validation_split(
    strata: npt.NDArray[np.int64], share: float, rng: np.random.Generator
) -> tuple[Rows, Rows]:
    """Training and validation rows, both in random order.

    Parameters
    ----------
    strata : ndarray of int of shape (n_rows,)
        Classes; every one gives the same share and keeps at least one row for training.
    share : float
        Of the rows that validate.

    Examples
    --------
    >>> training, validation = validation_split(
    ...     np.array([0, 0, 0, 0, 1]), 0.25, np.random.default_rng(0)
    ... )
    >>> len(training), len(validation)
    (4, 1)
    """
    validating = []
    for stratum in np.unique(strata):
        rows = rng.permutation(np.flatnonzero(strata == stratum))
        validating.append(rows[: min(round(share * len(rows)), len(rows) - 1)])
    validation = rng.permutation(np.concatenate(validating)).astype(np.int64)
    rest = np.setdiff1d(np.arange(len(strata)), validation)
    return rng.permutation(rest).astype(np.int64), validation


def shuffled_batches(rows: Rows, size: int, smallest: int, rng: np.random.Generator) -> list[Rows]:
    """All rows in random order, cut into batches; a tiny rest waits for another epoch."""
    shuffled = rng.permutation(rows)
    batches = [shuffled[start : start + size] for start in range(0, len(shuffled), size)]
    if len(batches) > 1 and len(batches[-1]) < smallest:
        batches.pop()
    return batches


def equal_batches(rows: Rows, size: int) -> list[Rows]:
    """Rows in as few batches as the size allows, all alike but for one row.

    Examples
    --------
    >>> [len(batch) for batch in equal_batches(np.arange(10), 4)]
    [4, 3, 3]
    """
    return np.array_split(rows, max(1, -(-len(rows) // size)))
