# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Keys and masks come from the operating system, never from a seeded generator.

Statistics use ``numpy.random.Generator`` so that a run can be repeated; a mask that can be
repeated hides nothing, so the two sources never meet.
"""

from __future__ import annotations

import math
import os

import numpy as np
import numpy.typing as npt

from fedsift.errors import ParameterError

MAX_MODULUS_BITS = 63


def uniform_below(modulus: int, shape: int | tuple[int, ...]) -> npt.NDArray[np.uint64]:
    """Draw exactly uniform numbers in ``0 .. modulus - 1``.

    Parameters
    ----------
    modulus : int
        Positive and below ``2**63``.
    shape : int or tuple of int
        Shape of the answer.

    Returns
    -------
    ndarray of uint64

    Examples
    --------
    >>> bool((uniform_below(10, (3, 4)) < 10).all())
    True
    """
    if not 0 < modulus < 1 << MAX_MODULUS_BITS:
        raise ParameterError(
            f"A modulus of {modulus.bit_length()} bits was asked for.",
            f"It must be positive and below 2**{MAX_MODULUS_BITS}.",
            "Choose a smaller plaintext modulus.",
        )
    dimensions = (shape,) if isinstance(shape, int) else tuple(shape)
    wanted = math.prod(dimensions)
    accepted = np.empty(wanted, dtype=np.uint64)
    filled = 0
    # Cutting to the bit length of the largest value keeps at least half of the draws; rejecting
    # the rest is what makes every value equally likely (a remainder would favour small ones).
    mask = np.uint64((1 << (modulus - 1).bit_length()) - 1)
    while filled < wanted:
        draws = np.frombuffer(os.urandom(8 * (wanted - filled)), dtype=np.uint64) & mask
        kept = draws[draws < np.uint64(modulus)]
        accepted[filled : filled + kept.size] = kept
        filled += kept.size
    return accepted.reshape(dimensions)


def random_integers(bits: int, count: int) -> list[int]:
    """Draw ``count`` uniform integers in ``0 .. 2**bits - 1``.

    Examples
    --------
    >>> [number.bit_length() <= 100 for number in random_integers(100, 2)]
    [True, True]
    """
    if bits < 0 or count < 0:
        raise ParameterError(
            f"{count} random integers of {bits} bits were asked for.",
            "Neither number may be negative.",
            "Correct the call.",
        )
    if bits == 0:
        return [0] * count
    width = -(-bits // 8)
    surplus = 8 * width - bits
    block = os.urandom(width * count)
    return [
        int.from_bytes(block[start : start + width], "little") >> surplus
        for start in range(0, width * count, width)
    ]
