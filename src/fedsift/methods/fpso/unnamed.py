# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Subsets of all parties from sums over the parties: which subsets there are, not whose.

Every one of n parties takes its subset as a whole number w and draws a random tag t. It adds t,
t^2, ..., t^n and w, w t, ..., w t^(n-1) to sums over all parties under masks. Any order of the
parties gives the same sums, so they tell the pairs of tag and subset and nothing else:

- the sums of t^k give the polynomial whose roots are the tags (Newton's identities);
- with c the coefficients of that polynomial divided by (x - t_i), the sum of c_k over the sums of
  w t^k leaves w_i times the product of all t_i - t_j: every other party's tag is a root of it.

All of it in whole numbers, so that nothing is lost to rounding, and in one exchange: there are no
places to agree on and none that two parties could take.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fedsift.errors import ProtocolError

Masks = npt.NDArray[np.bool_]

_TAG_BITS = 40
"""Two of a hundred parties draw the same tag once in 2**27 exchanges; the run then ends."""
_STEPS_PER_ROOT = 100
"""Newton's method needs less than fifty for every party."""


def words_needed(n_features: int, n_parties: int) -> int:
    """64-bit words of one sum, with its sign."""
    largest = max(_TAG_BITS, n_features) + _TAG_BITS * (n_parties - 1)
    return -(-(largest + n_parties.bit_length() + 1) // 64)


def summands(subset: Masks, n_parties: int) -> list[int]:
    """What one party adds: powers of a new tag, and its subset times powers of the tag.

    Examples
    --------
    >>> subsets = np.array([[True, False], [False, True], [True, False]])
    >>> parts = [summands(subset, 3) for subset in subsets]
    >>> subsets_in([sum(column) for column in zip(*parts)], 2).astype(int).tolist()
    [[1, 0], [1, 0], [0, 1]]
    """
    tag = secrets.randbits(_TAG_BITS)
    number = int("".join("1" if used else "0" for used in subset), 2)
    powers = [tag**k for k in range(n_parties + 1)]
    return [*powers[1:], *(number * power for power in powers[:-1])]


def subsets_in(sums: Sequence[int], n_features: int) -> Masks:
    """All parties' subsets, in an order that follows from the subsets alone.

    Returns
    -------
    subsets : ndarray of shape (n_parties, n_features)
    """
    n_parties = len(sums) // 2
    polynomial, weighted = _with_roots(sums[:n_parties]), sums[n_parties:]
    rest, at = polynomial, sums[0]  # no tag is larger than the sum of all
    numbers = []
    for _ in range(n_parties):
        at = _largest_root(rest, at)
        rest = _divided(rest, at)
        others = _divided(polynomial, at)
        product, _ = _value_and_slope(others, at)
        total = sum(c * v for c, v in zip(others, reversed(weighted), strict=True))
        numbers.append(_exact(total, product))
    if any(number <= 0 or number >> n_features for number in numbers):
        raise _impossible()
    texts = [f"{number:0{n_features}b}" for number in sorted(numbers, reverse=True)]
    return np.array([[digit == "1" for digit in text] for text in texts])


def in_order(subsets: Masks) -> Masks:
    """Subsets whose owners are known, in the order that :func:`subsets_in` gives."""
    return np.array(sorted(subsets.tolist(), reverse=True))


def _with_roots(sums: Sequence[int]) -> list[int]:
    """The polynomial, highest power first, whose roots have these sums of powers."""
    coefficients = [1]
    for k in range(1, len(sums) + 1):
        total = sum(c * s for c, s in zip(coefficients, reversed(sums[:k]), strict=True))
        coefficients.append(_exact(-total, k))
    return coefficients


def _largest_root(polynomial: Sequence[int], start: int) -> int:
    """Newton's method from above: it never passes the largest root if all roots are real."""
    at = start
    for _ in range(_STEPS_PER_ROOT * len(polynomial)):
        value, slope = _value_and_slope(polynomial, at)
        if value == 0:
            return at
        if value < 0 or slope <= 0:
            break
        at -= max(1, value // slope)
    raise _impossible()


def _value_and_slope(polynomial: Sequence[int], at: int) -> tuple[int, int]:
    value = slope = 0
    for coefficient in polynomial:
        slope = slope * at + value
        value = value * at + coefficient
    return value, slope


def _divided(polynomial: Sequence[int], root: int) -> list[int]:
    """The polynomial without one of its roots."""
    quotient = [polynomial[0]]
    for coefficient in polynomial[1:-1]:
        quotient.append(coefficient + quotient[-1] * root)
    return quotient


def _exact(dividend: int, divisor: int) -> int:
    """A quotient without remainder."""
    if divisor == 0 or dividend % divisor:
        raise _impossible()
    return dividend // divisor


def _impossible() -> ProtocolError:
    return ProtocolError(
        "The participants' subsets do not add up to subsets.",
        "Every participant must add one subset of the common columns, with a tag of its own.",
        "Start again, with the same version everywhere; if it happens twice, somebody does not "
        "follow the protocol.",
    )
