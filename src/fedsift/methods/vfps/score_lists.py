# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""VF-PS with ``design="scores"``, the computations: which rows a list holds, and what it says.

A *list* belongs to one query and one group: the distances of rows to the query, summed over the
group, in an order of its own. Two lists of one run must not hold the same number, or the aggregator
could put them together to pairwise distances of the queries, and these to a picture of the rows.
So the distance between two queries is in the list of one of them only (:func:`listed_rows`).
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.special import digamma

from fedsift.crypto.shuffle import SecretOrder
from fedsift.methods.vfps.knn_mi import Estimate, term

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

DRAW = 1 << 62
"""Numbers of draws begin here; no list has so large a number."""

CLEARLY = 2.0
"""Standard errors that a participant must add for ``n_participants="auto"``."""


def draw_queries(
    secret: bytes, number: int, seed: int | None, n_rows: int, n_queries: int
) -> Integers:
    """Query rows; in a simulation with a seed they follow it."""
    if seed is not None:
        return np.random.default_rng(seed).permutation(n_rows)[:n_queries].astype(np.int64)
    return SecretOrder(secret, number, n_rows).row_of[:n_queries]


def left_out(number: int, n_queries: int) -> Integers:
    """Numbers of the queries that a query's list leaves out: itself, and half of the others."""
    others = np.arange(n_queries)
    even = (number + others) % 2 == 0
    return np.flatnonzero(np.where(others < number, ~even, even))


def listed_rows(queries: Integers, number: int, n_rows: int) -> Integers:
    """Rows in the list of a query, in row order."""
    kept = np.ones(n_rows, dtype=bool)
    kept[queries[left_out(number, len(queries))]] = False
    return np.flatnonzero(kept)


def list_length(number: int, n_rows: int, n_queries: int) -> int:
    """Rows in the list of a query, for whoever does not know the queries."""
    return n_rows - len(left_out(number, n_queries))


def worth(distances: Integers | Floats, alike: Mask, k: int, *, likelihood: bool) -> float:
    """What a list says of its query's label; not a number if no listed row shares the label.

    Either the term of the mutual information, or the share of the k nearest rows that carry the
    query's label (with all rows at the k-th distance).
    """
    n_alike = int(alike.sum())
    if not n_alike or len(distances) < 2:
        return math.nan
    if not likelihood:
        return term(distances, alike, k, len(distances) + 1, n_alike + 1)
    nearest = min(k, len(distances)) - 1
    within = distances <= np.partition(distances, nearest)[nearest]
    return float(alike[within].mean())


def most_changed(n_rows: int, *, likelihood: bool) -> float:
    """The most by which :func:`worth` of one query can differ between two lists."""
    return 1.0 if likelihood else float(digamma(n_rows) - digamma(1))


def rounded_mean(values: Floats, reach: float) -> Estimate:
    """Mean and standard error on a grid of what one query can change.

    Whatever a leader does to labels, own columns and own scores, a mean of n queries has about n
    values at most: some ten bits for a whole group.
    """
    known = values[~np.isnan(values)]
    n = len(known)
    if n < 2:
        return Estimate(0.0, reach, n)
    step = reach / n
    spread = math.hypot(float(known.std(ddof=1)) / math.sqrt(n), step / math.sqrt(12))
    error = max(1, round(2 * spread / step)) * step / 2
    return Estimate(round(float(known.mean()) / step) * step, error, n)
