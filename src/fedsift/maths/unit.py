# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Columns brought to one scale, and to fixed point, before they are multiplied with others."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def unit_columns(values: Floats) -> Floats:
    """Columns with mean 0 and norm 1; missing values count as the mean, constant columns as 0."""
    # A power of two changes no digit and keeps sums and squares of extreme numbers finite.
    largest = np.nanmax(np.abs(values), axis=0)
    scaled = np.ldexp(values, -np.frexp(largest)[1])
    # Close to the mean, differences are exact; a second pass takes the rounding of the mean off.
    centred = scaled - np.nanmean(scaled, axis=0)
    centred = np.where(np.isnan(centred), 0.0, centred - np.nanmean(centred, axis=0))
    flat = constant_columns(values)
    norms = np.where(flat, 1.0, np.sqrt((centred**2).sum(axis=0)))
    return np.asarray(np.where(flat, 0.0, centred / norms))


def constant_columns(values: Floats) -> npt.NDArray[np.bool_]:
    """Columns that differ from a constant by rounding alone: two units in the last place."""
    lowest, highest = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
    with np.errstate(over="ignore"):  # an infinite difference is not small
        return np.asarray(
            highest - lowest <= 2 * np.spacing(np.maximum(np.abs(lowest), np.abs(highest)))
        )


def to_integers(values: Floats, bits: int) -> npt.NDArray[np.int64]:
    """Fixed point with ``bits`` fraction bits."""
    return np.rint(np.ldexp(values, bits)).astype(np.int64)
