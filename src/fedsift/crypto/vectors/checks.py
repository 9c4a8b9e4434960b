# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Checks of vectors and factors that all schemes share."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from fedsift.errors import FixedPointOverflow, ParameterError


def whole_numbers(vector: npt.ArrayLike, value_bits: int) -> list[int]:
    """Entries of a vector of integers, none of them longer than the agreed bits."""
    array = np.asarray(vector)
    if array.ndim != 1 or array.dtype.kind not in "iuO":
        raise ParameterError(
            f"A vector has shape {array.shape} and type {array.dtype}.",
            "One dimension of integers is needed.",
            "Encode reals with FixedPoint first.",
        )
    numbers = [int(number) for number in array]
    check_bits(numbers, value_bits)
    return numbers


def check_bits(numbers: Iterable[int], value_bits: int) -> None:
    """Refuse numbers beyond the agreed bits."""
    numbers = list(numbers)
    if any(abs(number) >> value_bits for number in numbers):
        raise FixedPointOverflow(
            f"An entry of a vector of {len(numbers)} is longer than {value_bits} bits.",
            "Every entry and every sum must keep to the agreed bits.",
            "Scale the numbers or agree on more bits.",
        )


def check_factor(factor: int, value_bits: int) -> None:
    """Refuse a factor that is not positive, or beyond the agreed bits."""
    if not 0 < factor < 1 << value_bits:
        raise ParameterError(
            "A factor is not positive or longer than the agreed value bits.",
            f"It must lie in 1 .. 2**{value_bits} - 1.",
            "Scale by a positive integer in range.",
        )
