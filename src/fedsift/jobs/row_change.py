# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""How few rows the sums of several jobs can be narrowed down to.

Jobs reveal sums over their rows. Sums of two jobs that differ in one row are subtracted and leave
that row; so do three jobs if two of them have together all rows of the third but one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedsift.data.row_digests import Digests

_STEP = np.uint64(0x9E3779B97F4A7C15)
"""Odd, so that the copies of a row have different numbers."""


def tell_copies_apart(digests: Digests) -> Digests:
    """Return sorted digests in which the second and later copies of a row have other numbers.

    Examples
    --------
    >>> rows = np.array([5, 3, 5], dtype=np.uint64)
    >>> len(np.unique(tell_copies_apart(rows)))
    3
    """
    ordered = np.sort(digests)
    first = np.searchsorted(ordered, ordered, side="left")
    copy = (np.arange(len(ordered)) - first).astype(np.uint64)
    return np.sort(ordered + copy * _STEP)


def find_smallest_change(rows: Digests, earlier: Sequence[Digests]) -> int | None:
    """Count the fewest rows that remain when one or two earlier jobs are added or subtracted.

    Parameters
    ----------
    rows : ndarray of uint64
        Distinct, of the new job.
    earlier : sequence of ndarray of uint64
        The same of earlier jobs.

    Returns
    -------
    n_rows : int or None
        None if nothing remains in any combination, or if there is no earlier job.

    Examples
    --------
    >>> whole = np.arange(100, dtype=np.uint64)
    >>> find_smallest_change(whole[1:], [whole])
    1
    >>> find_smallest_change(whole[50:99], [whole, whole[:50]])
    1
    >>> find_smallest_change(whole, [whole]) is None
    True
    """
    if not earlier:
        return None
    everything = np.unique(np.concatenate([rows, *earlier]))
    members = np.stack([np.isin(everything, one, assume_unique=True) for one in (rows, *earlier)])
    # Rows that were in the same jobs cannot be told apart by sums, so they are counted together.
    packed = np.ascontiguousarray(np.packbits(members, axis=0).T)
    groups, sizes = np.unique(packed.view(np.dtype((np.void, packed.shape[1]))), return_counts=True)
    bits = np.unpackbits(groups.view(np.uint8).reshape(len(groups), -1), axis=1)
    own, *others = bits[:, : len(members)].T.astype(np.int8)
    smallest: int | None = None
    for place, one in enumerate(others):
        rest = others[:place] + others[place + 1 :]
        second = np.stack([np.zeros_like(own), *rest, *(-other for other in rest)])
        counts = (own - one + second != 0) @ sizes
        remaining = counts[counts > 0]
        if len(remaining) and (smallest is None or remaining.min() < smallest):
            smallest = int(remaining.min())
    return smallest
