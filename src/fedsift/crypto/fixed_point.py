# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Reals as integers, and many signed integers in one.

Homomorphic schemes compute with integers. :class:`FixedPoint` moves real numbers there and back,
:class:`SignedPacking` puts many integers side by side in one large plaintext. Both refuse what
does not fit: a silent wrap would be a wrong result that nobody sees.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.errors import FixedPointOverflow, ParameterError

INT64_BITS = 63
"""Up to here signed fixed-point numbers are stored as int64, above as Python integers."""


@dataclass(frozen=True)
class FixedPoint:
    """Signed fixed-point numbers.

    Parameters
    ----------
    fraction_bits : int
        Binary digits after the point.
    total_bits : int
        All digits, the sign included: encoded numbers lie strictly between
        ``-2**(total_bits - 1)`` and ``2**(total_bits - 1)``.

    Examples
    --------
    >>> FixedPoint(4, 16).encode(np.array([0.5, -1.25])).tolist()
    [8, -20]
    """

    fraction_bits: int
    total_bits: int

    def __post_init__(self) -> None:
        if not 0 <= self.fraction_bits < self.total_bits <= 1024:
            raise ParameterError(
                f"{self.fraction_bits} fraction bits of {self.total_bits} bits in all.",
                "The fraction must be shorter than the number, and that at most 1024 bits.",
                "Choose other sizes.",
            )

    @property
    def resolution(self) -> float:
        """Distance of two neighbouring numbers; rounding errs by at most half of it."""
        return 2.0**-self.fraction_bits

    def encode(self, values: npt.ArrayLike) -> npt.NDArray[Any]:
        """Round to the nearest fixed-point number, halves to the even one.

        Returns
        -------
        ndarray
            int64 up to 63 bits in all, otherwise Python integers (dtype object).
        """
        reals = np.asarray(values, dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = np.rint(np.ldexp(reals, self.fraction_bits))
        # Not "any(abs >= limit)": that comparison is false for NaN and would let it through.
        if not bool((np.abs(scaled) < 2.0 ** (self.total_bits - 1)).all()):
            raise FixedPointOverflow(
                f"A number among {reals.shape} does not fit {self.total_bits} bits "
                f"with {self.fraction_bits} after the point, or is not finite.",
                "Every number must be finite and inside the agreed range.",
                "Scale the numbers, remove missing values, or agree on more bits.",
            )
        if self.total_bits <= INT64_BITS:
            return scaled.astype(np.int64)
        return _object_array([int(number) for number in scaled.ravel()], reals.shape)

    def decode(self, numbers: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Turn fixed-point integers back into the nearest floating-point numbers."""
        integers = np.asarray(numbers)
        if integers.dtype != object:
            return np.ldexp(integers.astype(np.float64), -self.fraction_bits)
        scale = 1 << self.fraction_bits
        reals = [int(number) / scale for number in integers.ravel()]
        return np.array(reals, dtype=np.float64).reshape(integers.shape)


@dataclass(frozen=True)
class SignedPacking:
    """Signed digits side by side in one integer; sums of packed integers stay correct.

    Parameters
    ----------
    digit_bits : int
        Width of a digit, sign included: digits lie in ``-2**(b - 1) .. 2**(b - 1) - 1``.
    n_digits : int
        How many digits one integer holds.

    Examples
    --------
    >>> packing = SignedPacking(8, 3)
    >>> packing.unpack(packing.pack([5, -1, 2]) + packing.pack([-7, 3, -2]), 3)
    [-2, 2, 0]
    """

    digit_bits: int
    n_digits: int

    def __post_init__(self) -> None:
        if self.digit_bits < 2 or self.n_digits < 1:
            raise ParameterError(
                f"{self.n_digits} digits of {self.digit_bits} bits.",
                "A digit needs 2 bits or more, and there must be at least one.",
                "Use a longer key or fewer result bits.",
            )

    @property
    def bits(self) -> int:
        """Plaintext bits of a full integer."""
        return self.digit_bits * self.n_digits

    def pack(self, digits: Iterable[int]) -> int:
        """Put digits side by side, the first one lowest."""
        half = 1 << (self.digit_bits - 1)
        packed, shift = 0, 0
        for digit in map(int, digits):
            if not -half <= digit < half:
                raise self._overflow("A digit")
            packed += digit << shift
            shift += self.digit_bits
        if shift > self.bits:
            raise self._overflow(f"A list of {shift // self.digit_bits} digits")
        return packed

    def unpack(self, packed: int, count: int) -> list[int]:
        """Cut the lowest ``count`` digits out; everything above them must be empty."""
        if not 0 <= count <= self.n_digits:
            raise self._overflow(f"A request for {count} digits")
        width = self.digit_bits
        half, mask = 1 << (width - 1), (1 << width) - 1
        # Half a digit added everywhere makes all digits non-negative, which undoes every borrow.
        rest = int(packed) + half * (((1 << (width * count)) - 1) // mask)
        if rest < 0 or rest >> (width * count):
            raise self._overflow("A packed number")
        return [((rest >> (width * index)) & mask) - half for index in range(count)]

    def _overflow(self, what: str) -> FixedPointOverflow:
        return FixedPointOverflow(
            f"{what} does not fit {self.n_digits} digits of {self.digit_bits} bits.",
            "Every digit must keep to the agreed width.",
            "Agree on more result bits, or scale the numbers down.",
        )


def _object_array(numbers: list[int], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Build an array of Python integers; numpy alone would turn small ones into int64."""
    array = np.empty(len(numbers), dtype=object)
    array[:] = numbers
    return array.reshape(shape)
