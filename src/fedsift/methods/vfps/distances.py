# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""VF-PS, what a participant does alone: standardise, measure distances, rank rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedsift.crypto.shuffle import SecretOrder
from fedsift.data.table import Column, PartyTable
from fedsift.errors import BadFrame, ParameterError
from fedsift.methods.vfps.blinding import SUM_BITS
from fedsift.methods.vfps.fagin import tie_end
from fedsift.methods.vfps.zero_shares import SHORT_BITS

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


CAP_BITS = 12
"""Parts of a squared distance are cut off at 2**12: far beyond any nearest neighbour."""

MOST_COLUMNS = 512
"""Two rows are 2 apart in a standardised column on average, so so many columns stay below the cap.

A party with more of them counts as much as one with this many. One scale for all, whatever they
have, so that nobody learns from it how many columns the others have.
"""

_MOST_DEVIATIONS = 30.0
"""Values further off are cut: a few of them would squeeze all others into the last digits."""

_QUARTILES_APART = 1.349  # standard deviations of a normal distribution
_SIZE_PER_COLUMN = 64
_MOST_SIZE_BITS = 20

_TIE_BITS = 64 - SUM_BITS  # one 64-bit key holds a distance and its tie-break


@dataclass(frozen=True)
class Params:
    """Settings of one run, the same at every party; parameters of the selector, and these.

    Parameters
    ----------
    auto : bool
        Whether the search ends as soon as nobody clearly adds.
    singles : bool
        Whether groups with the data of one participant may be tested.
    all_rows : bool
        Whether a separate design may show the leader any number of distances.
    scheme : {"bgv", "paillier", "plain"}
    security_bits : int
    seed : int, optional
        Seeds the choice of groups, and of queries if it is ``query_seed`` too.
    query_seed : int, optional
        None between organisations: then queries come from the operating system.
    """

    n_participants: int = 1
    strategy: str = "group-testing"
    n_groups: int = 50
    k: int = 3
    n_queries: int = 1000
    fagin: bool = True
    batching: bool = True
    design: str = "separate"
    keep_own: bool = False
    distance: str = "euclidean"
    scaling: str = "columns"
    auto: bool = False
    prices: Mapping[str, float] | None = None
    singles: bool = False
    all_rows: bool = False
    scheme: str = "bgv"
    security_bits: int = 128
    seed: int | None = None
    query_seed: int | None = None

    @property
    def scores(self) -> bool:
        """Whether the leader gets means over all queries, and no distance."""
        return self.design == "scores"

    @property
    def likelihood(self) -> bool:
        """Whether lists are scored by the likelihood of the label among the nearest rows."""
        return self.strategy == "submodular"

    def price_of(self, names: Iterable[str]) -> float:
        """What these participants cost; the number of them without prices."""
        return sum(1.0 if self.prices is None else self.prices[name] for name in names)

    @property
    def paired(self) -> bool:
        """Whether one query serves groups that have participants in common, in the open."""
        if self.scores:
            return False
        if self.strategy == "group-testing":
            return self.design == "shared"
        return self.strategy != "individual"

    @property
    def split_queries(self) -> bool:
        """Whether every group has queries of its own."""
        return self.strategy == "group-testing" and self.design == "separate"

    @property
    def separate(self) -> bool:
        """Whether every participant is in at most one sum of a query, and never alone."""
        return not self.paired and not self.singles and not self.scores

    @property
    def unlimited(self) -> bool:
        """Whether the number of distances that the leader may see has no limit."""
        return self.all_rows or not self.fagin


def size_bits(n_columns: int) -> int:
    """Order of magnitude of a number of columns, as participants announce it to the leader."""
    return min(_MOST_SIZE_BITS, (_SIZE_PER_COLUMN * max(1, n_columns) - 1).bit_length())


def check_size(bits: int) -> None:
    """Refuse a size that nobody can have announced."""
    if not 1 <= bits <= _MOST_SIZE_BITS:
        raise BadFrame(
            f"A party announces {bits} as the order of magnitude of its columns.",
            f"1 to {_MOST_SIZE_BITS} are possible.",
            "Check that all parties run the same version of fedsift.",
        )


def fraction_bits(n_participants: int) -> int:
    """Binary digits of a part of a distance, so that the sum over all parties keeps to its bits."""
    return part_bits(n_participants) - CAP_BITS


def part_bits(n_participants: int) -> int:
    """Bits of one party's part."""
    return SUM_BITS - max(1, (n_participants - 1).bit_length())


def standardised(table: PartyTable) -> tuple[Floats, tuple[str, ...]]:
    """All columns with variance 1, extreme values cut, and remarks about what had to be mended.

    Categories become indicator columns that weigh as much as one number together. Missing numbers
    become the column's mean, missing categories a category of their own. More columns than
    :data:`MOST_COLUMNS` weigh as much as that many.
    """
    blocks, remarks = [], []
    for column in table.columns:
        if column.missing.any():
            remarks.append(
                f"{table.name}: column {column.name!r} has missing values; distances use "
                f"{'the mean' if column.kind == 'numeric' else 'a category of its own'} for them."
            )
        block = _numbers(column) if column.kind == "numeric" else _indicators(column)
        if not block.any():
            remarks.append(f"{table.name}: column {column.name!r} is constant; it tells nothing.")
        blocks.append(block)
    matrix = np.concatenate(blocks, axis=1)
    if matrix.shape[1] > MOST_COLUMNS:
        matrix *= np.sqrt(MOST_COLUMNS / matrix.shape[1])
    return matrix, tuple(remarks)


def _numbers(column: Column) -> Floats:
    values = column.values.astype(np.float64)
    known = ~np.isnan(values)
    if not known.any():
        return np.zeros((len(values), 1))
    # Large values would overflow when squared; the spread is all that matters.
    top = np.abs(values[known]).max()
    scaled = np.where(known, values / top if top > 0 else values, 0.0)
    low, middle, high = np.quantile(scaled[known], (0.25, 0.5, 0.75))
    reach = _MOST_DEVIATIONS * (high - low) / _QUARTILES_APART
    if reach > 1e-9:  # not for the last digits of a constant
        scaled = np.clip(scaled, middle - reach, middle + reach)
    centre = scaled[known].mean()
    scaled = np.where(known, scaled - centre, 0.0)
    spread = scaled[known].std()
    if spread <= 1e-12:
        return np.zeros((len(values), 1))
    return np.asarray((scaled / spread)[:, None])


def _indicators(column: Column) -> Floats:
    codes = column.values.astype(np.int64) + 1
    shares = np.bincount(codes) / len(codes)
    spread = np.sqrt(1.0 - float((shares**2).sum()))
    if spread <= 1e-12:
        return np.zeros((len(codes), 1))
    return np.asarray(np.eye(len(shares))[codes][:, shares > 0] / spread)


def prepared(table: PartyTable, distance: str) -> tuple[Floats, tuple[str, ...]]:
    """Columns as a distance needs them, and remarks about what had to be mended.

    Parameters
    ----------
    distance : {"euclidean", "manhattan", "cosine", "gower"}
        Cosine brings every row of the party's own standardised columns to length 1. Gower brings
        numbers to a range of 1; two categories are 1 apart.
    """
    matrix, remarks = standardised(table)
    if distance == "cosine":
        lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
        matrix = matrix / np.where(lengths > 0, lengths, 1.0)
    elif distance == "gower":
        ranges = matrix.max(axis=0) - matrix.min(axis=0)
        weights = [
            share
            for column in table.columns
            for share in ([1.0] if column.kind == "numeric" else _halves(column))
        ]
        matrix = matrix / np.where(ranges > 0, ranges, 1.0) * np.array(weights)
    return matrix, remarks


def _halves(column: Column) -> list[float]:
    """Weights of indicators: two rows of different categories differ in two of them."""
    return [0.5] * _indicators(column).shape[1]


class Distances:
    """One party's parts of distances, as the settings of a run want them.

    Parameters
    ----------
    table : PartyTable
    params : Params
    n_participants : int
        Their parts add up, so each keeps to fewer bits the more there are.

    Attributes
    ----------
    matrix : ndarray of float64 of shape (n_rows, n_columns)
    remarks : tuple of str
    """

    def __init__(self, table: PartyTable, params: Params, n_participants: int) -> None:
        self.matrix, self.remarks = prepared(table, params.distance)
        self.n_participants = n_participants
        self._metric = params.distance
        # Rows of length 1 are as far apart at every party.
        equal = params.scaling == "parties" and params.distance != "cosine"
        self._weight = 1.0 / min(table.n_columns, MOST_COLUMNS) if equal else 1.0

    def part(self, query: int) -> Integers:
        """Parts of the distances of all rows to a query row."""
        return part_of_distance(self.matrix, query, self.n_participants, self._metric, self._weight)


def part_of_distance(
    matrix: Floats,
    query: int,
    n_participants: int,
    metric: str = "euclidean",
    weight: float = 1.0,
) -> Integers:
    """This party's part of the distances to a query row (squared, if Euclidean), in fixed point."""
    differences = matrix - matrix[query]
    if metric in ("manhattan", "gower"):
        lengths = np.abs(differences).sum(axis=1)
    else:
        lengths = np.einsum("ij,ij->i", differences, differences)
    limit = 1 << part_bits(n_participants)
    scaled = np.rint(np.ldexp(lengths * weight, fraction_bits(n_participants)))
    return np.asarray(np.minimum(scaled, limit - 1).astype(np.int64))


def fewest_columns(bits: int) -> int:
    """Columns that a party of such a size has at least; the inverse of :func:`size_bits`."""
    return (1 << bits) // (2 * _SIZE_PER_COLUMN) + 1


def most_distances(sizes: Iterable[int], n_rows: int) -> int:
    """How many distances the leader of a separate design may see, over all groups and queries.

    Every distance is an equation, every cell an unknown: with half as many equations as cells most
    of the cells stay open, wherever the equations happen to crowd.

    Parameters
    ----------
    sizes : iterable of int
        Announced by all participants besides the leader's own.
    """
    return n_rows * sum(map(fewest_columns, sizes)) // 2


def rounded(parts: Integers) -> Integers:
    """Parts with the last digits cut off; the sum over all parties fits short numbers."""
    return parts >> (SUM_BITS - SHORT_BITS)


class Ranking:
    """Rows of one query sorted by this party's part of the distance, as far down as needed."""

    def __init__(self, distances: Integers, order: SecretOrder) -> None:
        self.distances = distances
        self._row_of = order.row_of
        self._ids = order.id_of
        # One key for distance and tie-break: half the work of sorting by two.
        shift = np.uint64(_TIE_BITS)
        ties = order.ties >> np.uint64(64 - _TIE_BITS)
        self._keys = (distances.astype(np.uint64) << shift) | ties
        self._sorted: Integers = np.empty(0, dtype=np.int64)
        self.delivered = 0

    def block(self, depth: int) -> Integers:
        """Pseudo-ids from where the last block ended to the given depth, ties complete."""
        end = self.tie_end(depth)
        start, self.delivered = self.delivered, max(self.delivered, end)
        return self._ids[self._sorted[start : self.delivered]]

    def tie_end(self, depth: int) -> int:
        """The given depth, moved down to the end of its tie."""
        n_rows = len(self.distances)
        depth = min(depth, n_rows)
        while True:
            if depth <= len(self._sorted):
                end = tie_end(self.distances[self._sorted], depth)
                # A tie that reaches the end of what is sorted may go on.
                if end < len(self._sorted) or len(self._sorted) == n_rows:
                    return end
            self._sort(min(n_rows, 2 * max(depth, len(self._sorted))))

    def _sort(self, size: int) -> None:
        if size == len(self.distances):
            self._sorted = np.argsort(self._keys)
            return
        nearest = np.argpartition(self._keys, size)[:size]
        self._sorted = nearest[np.argsort(self._keys[nearest])]

    def of_ids(self, ids: Integers) -> Integers:
        """Distances of some pseudo-ids."""
        if len(ids) and (ids.min() < 0 or ids.max() >= len(self.distances)):
            raise ParameterError(
                "A list of candidates names rows that are not there.",
                f"Pseudo-ids run from 0 to {len(self.distances) - 1}.",
                "Check that all parties run the same job.",
            )
        return self.distances[self._row_of[ids]]
