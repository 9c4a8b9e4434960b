# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Settings of DCFS and the checks that every party makes for itself before it sends anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from fedsift.data.table import PartyTable
from fedsift.errors import ColumnError, ParameterError, PartyError, ValueProblem
from fedsift.maths import moments
from fedsift.methods.dcfs import anchor
from fedsift.methods.dcfs.stream import uniform_numbers

Floats = npt.NDArray[np.float64]

ANCHOR_RANGE = 3.0
"""Public range of the anchors, in units of the common spread around the common mean."""

FEWEST_ROWS = 3


@dataclass(frozen=True)
class Params:
    """Settings of one run, the same at every party (paper's symbols in brackets).

    Parameters
    ----------
    n_features_to_select : int
    alpha, beta : float
        Weight of sparsity and of the local structure.
    n_components : int
        Dimensions of the common target [q].
    n_dimensions : int
        Dimensions of the first projections [p].
    n_anchors : int
        Anchors in total [r].
    n_neighbors, n_iterations : int
    alignment : {"server", "open", "local"}
        ``local`` has no anchors: every party selects alone, only mean ranks are joined.
    target : {"exact", "paper"}
    scaling : {"columns", "shared"}
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
    """The anchors in common units: given, from the seed, or from the secret of the members."""
    n_features = len(scale.mean)
    if params.anchors is not None:
        anchor.check_width(params.anchors, n_features)
        return scale.of(params.anchors)
    shape = (params.n_anchors, n_features)
    if params.seed is not None:
        uniform = np.random.default_rng(params.seed).random(shape)
    else:
        uniform = uniform_numbers(secret, "dcfs anchors", shape)
    return anchor.uniform_anchors(uniform, scale.low, scale.high)


@dataclass(frozen=True, eq=False)
class Scale:
    """Common mean and unit of every column, and the ends of the anchors in these units."""

    mean: Floats
    unit: Floats
    low: Floats
    high: Floats

    def of(self, values: Floats) -> Floats:
        """Values in common units; constant columns become zero."""
        return np.asarray((values - self.mean) / self.unit)


def column_moments(values: Floats) -> list[int]:
    """Count, sum and sum of squares of every column, as :func:`moments.read_column` takes them.

    Deviations from the own mean are added in floats, all columns at once; what is large is put
    together exactly, so that pooled spreads keep their digits.
    """
    n_rows = len(values)
    mean = values.mean(axis=0)
    around = values - mean
    rest, spread = around.sum(axis=0), np.einsum("ij,ij->j", around, around)
    out: list[int] = []
    for centre, remainder, square in zip(
        mean.tolist(), rest.tolist(), spread.tolist(), strict=True
    ):
        exact, left = Fraction(centre), Fraction(remainder)
        total = n_rows * exact + left
        squares = Fraction(square) + 2 * exact * left + n_rows * exact * exact
        out += [n_rows, moments.encode(total), moments.encode(squares)]
    return out


def common_units(columns: Sequence[moments.ColumnSums], scaling: str) -> tuple[Floats, Floats]:
    """Mean and unit of every column from pooled sums; constant columns have unit 1.

    ``shared`` divides all columns by one number, which suits columns of one kind such as pixels:
    a column that hardly ever changes stays small instead of being blown up.
    """
    mean = np.array([float(c.sums[0] / c.counts[0]) for c in columns])
    spread = np.sqrt([moments.variance(c) for c in columns])
    # What rounding alone leaves of a constant column is no spread.
    spread[spread <= 1e-12 * np.abs(mean)] = 0.0
    if scaling == "shared":
        spread = np.full(len(spread), np.sqrt(np.mean(spread**2)))
    return mean, np.where(spread > 0, spread, 1.0)
