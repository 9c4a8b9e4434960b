# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Horizontal filters: totals of two runs that differ in one row, or in one party, subtracted.

Method    filter on rows of the same columns (and any other method that opens sums over parties).
Leak      The coordinator learns totals over all members. One run hides a member's part under
          masks; two runs whose rows differ by one row differ by that row, value for value, and two
          runs that differ by a member differ by its sums.
Fix       None in a single run, which is what masks are for (:func:`member_parts` reads them where
          they are off). A party that answers the same job again with one row more should know it.
Remains   The difference is declared as ``pooled-sums``: totals are what the coordinator is for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedsift.crypto.masking import unmask_sum
from fedsift.maths import moments

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Totals:
    """Sums behind the score ``f``: rows, rows of each class, and each column's sum by class."""

    n_rows: int
    class_sizes: npt.NDArray[np.int64]
    sums: Floats

    @classmethod
    def read(cls, numbers: Sequence[int], n_columns: int, n_classes: int) -> Totals:
        """From the numbers in the order that members lay them down."""
        stream = iter(numbers)
        n_rows = next(stream)
        sizes = [next(stream) for _ in range(n_classes)]
        columns = [moments.read_column(stream, n_classes, with_target=False)
                   for _ in range(n_columns)]  # fmt: skip
        sums = [[float(value) for value in column.sums] for column in columns]
        return cls(n_rows, np.array(sizes), np.array(sums))

    def minus(self, other: Totals) -> Totals:
        """What the other run had less of."""
        return Totals(
            self.n_rows - other.n_rows,
            self.class_sizes - other.class_sizes,
            self.sums - other.sums,
        )

    @property
    def means(self) -> Floats:
        """Mean of every column; for a single row, the row."""
        return np.asarray(self.sums.sum(axis=1) / max(1, self.n_rows))


def pooled(parts: Sequence[npt.NDArray[np.uint64]]) -> list[int]:
    """Totals of what all members sent: masks cancel, whether there are any or not."""
    return unmask_sum(list(parts), moments.LIMBS)


def member_parts(part: npt.NDArray[np.uint64]) -> list[int]:
    """What one member sent, read as if it were under no mask."""
    return unmask_sum([part], moments.LIMBS)


def recovered(guess: Floats, truth: Floats) -> float:
    """Share of values known to a millionth of their size."""
    size = np.maximum(np.abs(truth), 1e-3)
    return float((np.abs(guess - truth) <= 1e-6 * size).mean())
