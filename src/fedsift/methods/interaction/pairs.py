# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Which parts are multiplied with which, and which opened number each product belongs to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedsift.crypto.modular import Residues
from fedsift.crypto.products.shares import Residue, product_terms

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
BigArray = npt.NDArray[np.object_]
Wanted = Sequence[tuple[int, Sequence[int]]]
"""Features, each with those whose gain with it is wanted."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """Products of one exchange.

    Parameters
    ----------
    jobs : tuple of tuple of int
        For every part of every mate, the parts that are multiplied with it.
    left, right : ndarray of int of shape (n_products,)
        Both parts of every product, job after job.
    group : ndarray of int of shape (n_products,)
        The number that is opened for it: one for every pair of features.
    """

    jobs: tuple[tuple[int, ...], ...]
    left: Integers
    right: Integers
    group: Integers


def pair_up(feature: Integers, wanted: Wanted) -> Pairs:
    """All products of the parts of some features; ``feature`` says whose part each one is.

    Examples
    --------
    >>> pair_up(np.array([0, 1, 1]), [(0, [0, 1])]).jobs
    ((0, 1, 2),)
    """
    jobs, right, group, n_opened = [], [], [], 0
    for mate, others in wanted:
        held = [np.flatnonzero(feature == other) for other in others]
        numbers = np.repeat(np.arange(len(held)), [len(parts) for parts in held]) + n_opened
        for part in np.flatnonzero(feature == mate).tolist():
            jobs.append(tuple(np.concatenate(held).tolist()))
            right.append(np.full(len(numbers), part))
            group.append(numbers)
        n_opened += len(others)
    left = np.array([part for job in jobs for part in job], dtype=np.int64)
    return Pairs(tuple(jobs), left, np.concatenate(right), np.concatenate(group))


def start_pairs(parts: Integers, candidates: Sequence[int], mates: Iterable[int]) -> Wanted:
    """Candidates with those that come later, and with themselves if they are numbers."""
    wanted = [
        (mate, [f for f in candidates if f > mate or (f == mate and parts[mate] == 1)])
        for mate in mates
    ]
    return [(mate, others) for mate, others in wanted if others]


def in_batches(
    wanted: Wanted, size: Callable[[tuple[int, Sequence[int]]], int], most: int
) -> Iterator[list[int]]:
    """Mates whose exchanges together stay below a size; one at least."""
    batch: list[int] = []
    total = 0
    for pair in wanted:
        if batch and total + size(pair) > most:
            yield batch
            batch, total = [], 0
        batch.append(pair[0])
        total += size(pair)
    if batch:
        yield batch


def in_matrix(candidates: Sequence[int], wanted: Wanted, weights: Floats) -> Floats:
    """Weights of a pair start by candidate; NaN where a column is not weighed with itself."""
    place = {feature: i for i, feature in enumerate(candidates)}
    matrix = np.full((len(candidates),) * 2, np.nan)
    pairs = [(place[mate], place[other]) for mate, others in wanted for other in others]
    for (one, other), weight in zip(pairs, weights.tolist(), strict=True):
        matrix[one, other] = matrix[other, one] = weight
    return matrix


def with_total(ring: Residue, shares: Residues, n_vectors: int = 1) -> Residues:
    """Class sums and, as one more slot for every vector of labels, their sum: all rows together."""
    apart = shares.reshape(*shares.shape[:2], n_vectors, -1)
    added = np.concatenate([apart, ring.total(apart, (3,))[..., None]], axis=3)
    return added.reshape(*shares.shape[:2], -1)


def not_binary(ring: Residue, squares: Residues, sums: Residues) -> Residues:
    """Shares of ``sum x^2 - x`` over all rows: integers only cancel if all are 0 or 1."""
    return ring.add(squares[:, :, -1], ring.negate(sums[:, :, -1]))


def covariance_terms(
    ring: Residue, products: Residues, sums: Residues, sizes: BigArray, pairs: Pairs
) -> tuple[Residues, Residues]:
    """``n_j S - s_f s_s`` of every class as own values, and terms that others' shares go with."""
    wide = ring.of(sizes)[:, None, :]
    minus = ring.of(np.array([[-1]]))
    value, terms = product_terms(ring, [sums[:, pairs.left], sums[:, pairs.right]], minus)
    value = ring.add(value, ring.multiply(products, wide))
    spread = np.broadcast_to(wide, value.shape)[:, None]
    return value, np.concatenate([terms, spread], axis=1)


def shared_cells(ring: Residue, both: Residues, mine: Residues, mate: Residues) -> Residues:
    """Shares of the four cell counts, without the class sizes that the label owner adds."""
    less = ring.negate(both)
    neither = ring.add(both, ring.negate(ring.add(mine, mate)))
    return np.stack([both, ring.add(mine, less), ring.add(mate, less), neither], axis=-1)


def joint_cells(
    ring: Residue, products: Residues, sums: Residues, sizes: BigArray, pairs: Pairs
) -> Residues:
    """Shares of the four cell counts of every pair, with the class sizes."""
    cells = shared_cells(ring, products, sums[:, pairs.left], sums[:, pairs.right])
    cells[..., 3] = ring.add(cells[..., 3], ring.of(sizes)[:, None, :])
    return cells
