# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Settings of DCFS and the checks that every party makes for itself before it sends anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import repeat

import numpy as np
import numpy.typing as npt

from fedsift.data.table import PartyTable
from fedsift.errors import BadFrame, ColumnError, ParameterError, PartyError, ValueProblem
from fedsift.maths import moments
from fedsift.methods.dcfs import anchor
from fedsift.methods.dcfs.stream import uniform_numbers

Floats = npt.NDArray[np.float64]

ANCHOR_RANGE = 3.0
"""Public range of the anchors, in units of the spread around the mean."""

FEWEST_ROWS = 3

SUMS_PER_COLUMN = 2
"""Sum and sum of squares; the number of rows comes once, before them."""


@dataclass(frozen=True)
class Params:
    """Settings of one run, the same at every party; parameters of the selector, and these.

    In the paper ``n_components`` is q, ``n_dimensions`` is p and ``n_anchors`` is r.

    Parameters
    ----------
    anchors : ndarray of shape (r, m), optional
        Public anchors in the units of the columns, instead of random ones.
    many_anchors : bool
        More anchors than columns, allowed by an explicit override.
    protected : bool
        False sends sums without masks (``security="plain"``).
    seed : int, optional
        Makes anchors repeatable, for simulations; by default they come from a dealt secret.
    """

    n_features_to_select: int
    alpha: float = 1.0
    beta: float = 1.0
    n_components: int = 5
    n_dimensions: int = 10
    n_anchors: int = 100
    n_neighbors: int = 5
    n_iterations: int = 5
    alignment: str = "server"
    target: anchor.Target = "exact"
    scale: str = "own"
    scaling: str = "columns"
    anchors: Floats | None = None
    many_anchors: bool = False
    protected: bool = True
    seed: int | None = None

    @property
    def anchors_are_known(self) -> bool:
        """Whether somebody outside the members may know the anchors."""
        return self.anchors is not None or self.seed is not None


def check_anchors(n_anchors: int, n_features: int, *, allowed: bool) -> bool:
    """Whether there are as many anchors as columns; refused unless explicitly allowed."""
    if n_anchors < n_features:
        return False
    if not allowed:
        raise ParameterError(
            f"{n_anchors} anchors for {n_features} columns.",
            "With as many anchors as columns, images give a party's projection away.",
            "Use fewer, or set allow_many_anchors=True to accept and record that disclosure.",
        )
    return True


def numbers_of(table: PartyTable) -> Floats:
    """The table as complete numbers with enough rows for a neighbourhood."""
    for column in table.columns:
        if column.kind != "numeric":
            raise ColumnError(
                f"Column {column.name!r} of party {table.name!r} holds categories.",
                "DCFS needs numbers.",
                "Drop or encode the column at every party.",
            )
        if column.missing.any():
            raise ValueProblem(
                f"Column {column.name!r} of party {table.name!r} has missing values (NaN).",
                "DCFS needs complete columns.",
                "Fill the missing values at every party in the same way.",
            )
    if table.n_rows < FEWEST_ROWS:
        raise PartyError(
            f"Party {table.name!r} has {table.n_rows} rows.",
            f"DCFS needs at least {FEWEST_ROWS} rows at every party.",
            "Leave the party out or give it more rows.",
        )
    return table.numeric_matrix()


def anchors_for(params: Params, secret: bytes, scale: Scale) -> Floats:
    """The scaled anchors: given, from the seed, or from the secret of the members."""
    n_features = len(scale.mean)
    if params.anchors is not None:
        anchor.check_width(params.anchors, n_features)
        return scale.of(params.anchors)
    shape = (params.n_anchors, n_features)
    if params.seed is not None:
        uniform = np.random.default_rng(params.seed).random(shape)
    elif not secret:
        raise BadFrame(
            "There is no secret to draw anchors from.",
            "One member deals a secret to all others first.",
            "Check that all sites run the same version; if they do, the coordinator kept it back.",
        )
    else:
        uniform = uniform_numbers(secret, "dcfs anchors", shape)
    return anchor.uniform_anchors(uniform, -ANCHOR_RANGE, ANCHOR_RANGE)


@dataclass(frozen=True, eq=False)
class Scale:
    """Mean and unit of every column; columns that are constant where it was made have unit 1.

    ``shared`` divides all columns by one number, which suits columns of one kind such as pixels: a
    column that hardly ever changes stays small instead of being blown up.

    Examples
    --------
    >>> own = Scale.of_rows(np.array([[1.0, 5.0], [3.0, 5.0]]), "columns")
    >>> own.of(np.array([[1.0, 5.0], [5.0, 6.0]])).tolist()
    [[-1.0, 0.0], [3.0, 1.0]]
    """

    mean: Floats
    unit: Floats

    @classmethod
    def of_rows(cls, values: Floats, scaling: str) -> Scale:
        """One member's own."""
        # Divided first, so that neither sums of large numbers nor squares of small ones get lost.
        mean = (values / len(values)).sum(axis=0)
        constant = (values == values[0]).all(axis=0)
        mean[constant] = values[0, constant]
        return cls(mean, _units(_root_mean_square(values - mean), scaling))

    @classmethod
    def of_sums(cls, totals: Sequence[int], scaling: str) -> Scale:
        """That of all members, from their counts, sums and squares."""
        rows, stream = repeat(totals[0]), iter(totals[1:])
        n_features = len(totals) // SUMS_PER_COLUMN
        columns = [
            moments.read_column(rows, stream, 0, with_target=False) for _ in range(n_features)
        ]
        mean = np.array([float(c.sums[0] / c.counts[0]) for c in columns])
        spread = np.sqrt([moments.variance(c) for c in columns])
        # What rounding alone leaves of a constant column is no spread.
        spread[spread <= 1e-12 * np.abs(mean)] = 0.0
        return cls(mean, _units(spread, scaling))

    def of(self, values: Floats) -> Floats:
        """Values in these units; columns that are constant where it was made become zero there."""
        return np.asarray((values - self.mean) / self.unit)


def _units(spread: Floats, scaling: str) -> Floats:
    if scaling == "shared":
        spread = np.full(len(spread), _root_mean_square(spread))
    return np.where(spread > 0, spread, 1.0)


def _root_mean_square(values: Floats) -> Floats:
    """Down the columns; large and small numbers alike."""
    largest = np.abs(values).max(axis=0)
    return np.asarray(
        largest * np.sqrt(np.mean((values / np.where(largest > 0, largest, 1.0)) ** 2, axis=0))
    )


def column_moments(values: Floats) -> list[int]:
    """Count, then sum and sum of squares of every column, for :func:`moments.read_column`.

    Deviations from a party's own mean are added in floats, all columns at once; what is large is
    put together exactly, so that pooled spreads keep their digits.
    """
    n_rows = len(values)
    mean = values.mean(axis=0)
    around = values - mean
    rest, spread = around.sum(axis=0), np.einsum("ij,ij->j", around, around)
    out = [n_rows]
    for centre, remainder, square in zip(
        mean.tolist(), rest.tolist(), spread.tolist(), strict=True
    ):
        exact, left = Fraction(centre), Fraction(remainder)
        total = n_rows * exact + left
        squares = Fraction(square) + 2 * exact * left + n_rows * exact * exact
        out += [moments.encode(total), moments.encode_squares(squares)]
    return out
