# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Alignment: a party asks about people by putting their ids on its list.

Method    align (private set intersection before any vertical method).
Leak      Private set intersection answers "which of my ids do you have too". A prober that pads its
          list with ids it only guesses learns who is in the other's table
          (:func:`members_among`). One that is told nothing but the size of the intersection asks
          about one person at a time: the size grows by one or it does not
          (:func:`member_by_sizes`).
Fix       None: it is what an intersection says. Both sides learn how long the other's list is, and
          a policy with ``min_rows`` refuses a list that is shorter before any id is compared.
Remains   A list that is long enough and holds real ids besides the guesses passes. The answers are
          declared as ``common-ids``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fedsift.data.ids import Ids

Flags = npt.NDArray[np.bool_]


def padded(own: Ids, guesses: Ids) -> Ids:
    """The prober's list: what it has, then what it wants to know about."""
    return np.concatenate([own, guesses])


def members_among(common: npt.NDArray[np.int64], n_own: int, n_guesses: int) -> Flags:
    """Which guesses were right, from the common rows of a padded list.

    Examples
    --------
    >>> members_among(np.array([0, 2, 5]), n_own=4, n_guesses=3).tolist()
    [False, True, False]
    """
    return np.isin(np.arange(n_own, n_own + n_guesses), common)


def member_by_sizes(without: int, with_guess: int) -> bool:
    """Whether one more id on the list made the intersection larger."""
    return with_guess > without
