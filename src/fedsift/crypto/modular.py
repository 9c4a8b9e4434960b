# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Exact arithmetic modulo t with numpy, for moduli of up to 60 bits, and numbers drawn uniformly.

Keys and masks come from the operating system, never from a seeded generator. Statistics use
``numpy.random.Generator`` so that a run can be repeated; a mask that can be repeated hides nothing,
so the two sources never meet.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

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


BigArray = npt.NDArray[np.object_]
Residues = npt.NDArray[np.uint64]


def centred(numbers: Residues, modulus: int) -> npt.NDArray[np.int64]:
    """Residues modulo t as signed numbers nearest to zero."""
    signed = numbers.astype(np.int64)
    return np.where(signed > modulus // 2, signed - modulus, signed)


def residues(numbers: npt.ArrayLike, shape: tuple[int, int], modulus: int, what: str) -> Residues:
    """Signed integers modulo t, of exactly the agreed shape."""
    array = np.asarray(numbers)
    if array.shape != shape:
        raise ParameterError(
            f"The {what} has shape {array.shape}.",
            f"The agreed shape is {shape}.",
            "Pad short batches with zeros to the agreed size.",
        )
    if array.dtype.kind not in "iuO":
        raise ParameterError(
            f"The {what} has type {array.dtype}.",
            "Integers are needed.",
            "Encode reals with FixedPoint first.",
        )
    if array.dtype.kind == "u":
        return array.astype(np.uint64) % np.uint64(modulus)
    return np.asarray(array % modulus).astype(np.uint64)


_LIMB_BITS = 20


def multiply_modulo(left: Residues, right: Residues, modulus: int) -> Residues:
    """Exact matrix product modulo t below 2**60, although products overflow 64 bits.

    Both sides are cut into 20-bit limbs; sums of ``2**23`` limb products still fit.
    """
    mask = np.uint64((1 << _LIMB_BITS) - 1)
    cuts = [np.uint64(_LIMB_BITS * i) for i in range(-(-modulus.bit_length() // _LIMB_BITS))]
    lefts, rights = ([(side >> cut) & mask for cut in cuts] for side in (left, right))
    total: Residues = np.zeros((left.shape[0], right.shape[1]), dtype=np.uint64)
    for place in reversed(range(2 * len(cuts) - 1)):
        total = _shifted(total, modulus)
        for i in range(max(0, place - len(cuts) + 1), min(place, len(cuts) - 1) + 1):
            part: Residues = np.matmul(lefts[i], rights[place - i]) % np.uint64(modulus)
            total = (total + part) % np.uint64(modulus)
    return total


def _shifted(numbers: Residues, modulus: int) -> Residues:
    """Numbers times ``2**20`` modulo t, in steps that fit 64 bits."""
    room, left = 63 - modulus.bit_length(), _LIMB_BITS
    while left:
        step = min(room, left)
        numbers = (numbers << np.uint64(step)) % np.uint64(modulus)
        left -= step
    return numbers


def last_share(others: Residues, wanted: Residues, modulus: int) -> Residues:
    """What the other shares lack to the wanted sum."""
    missing = np.uint64(modulus) - sum_modulo(others, modulus)
    return np.asarray((wanted + missing) % np.uint64(modulus), dtype=np.uint64)


def sum_modulo(parts: Residues, modulus: int) -> Residues:
    """Sum along the first axis, step by step: 60-bit numbers leave little room."""
    total = np.zeros(parts.shape[1:], dtype=np.uint64)
    for part in parts:
        total = (total + part) % np.uint64(modulus)
    return total


def recombine(parts: Sequence[Residues], moduli: Sequence[int]) -> BigArray:
    """Signed integers from their residues modulo distinct primes (Chinese remainders).

    Examples
    --------
    >>> recombine([np.array([6], np.uint64), np.array([10], np.uint64)], [7, 11]).tolist()
    [-1]
    """
    product = math.prod(moduli)
    total: BigArray = np.zeros(parts[0].shape, dtype=object)
    for part, modulus in zip(parts, moduli, strict=True):
        others = product // modulus
        total = total + part.astype(object) * (others * pow(others, -1, modulus))
    folded: BigArray = (total + product // 2) % product - product // 2
    return folded


def scale_rows(values: Residues, factors: Residues, modulus: int) -> Residues:
    """Row-wise products modulo t, exact although two 45-bit numbers overflow 64 bits."""
    if modulus.bit_length() <= 31 or (values.size and int(values.max()) <= 1):
        short: Residues = values * factors[:, None] % np.uint64(modulus)
        return short
    low_bits = np.uint64(63 - modulus.bit_length())
    result = np.zeros_like(values)
    remaining, scale = values.copy(), factors[:, None] % np.uint64(modulus)
    mask = (np.uint64(1) << low_bits) - np.uint64(1)
    while remaining.any():
        result = (result + (remaining & mask) * scale) % np.uint64(modulus)
        remaining >>= low_bits
        scale = (scale << low_bits) % np.uint64(modulus)
    return result
