# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Where samples and rows sit in slots: a baby-step giant-step matrix-vector product.

A slot row is cut into ``groups`` equal parts. Part ``g`` repeats its own ``period`` samples over
and over, and slot ``j`` of every part belongs to matrix row ``j`` of a block. After ``period``
rotations by one, every row has met every sample exactly once, spread over its slots in the parts;
adding those slots gives the product. The number of plaintext factors is about
``rows * samples / slots``, the number of rotations about twice the square root of ``period``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedsift.crypto.modular import sum_modulo

# Measured milliseconds at degree 8192, only their ratios matter for the choice.
_FACTOR_COST = 0.8
_ROTATION_COST = 3.1
_RESULT_COST = 40.0  # flooding, sending and decrypting one more ciphertext
_MAX_PERIOD = 1024
"""Bounds the dense matrix of one block to period * slots numbers."""

Index = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Layout:
    """A chosen arrangement; owner and evaluator derive the same one from the same numbers."""

    row_size: int
    period: int
    groups: int

    @property
    def block_rows(self) -> int:
        """Matrix rows that fit one ciphertext."""
        return self.row_size // self.groups

    @property
    def chunk_samples(self) -> int:
        """Samples that fit one ciphertext; the two slot rows hold different ones."""
        return 2 * self.groups * self.period

    @property
    def baby_steps(self) -> int:
        """Rotations by one that are kept; giant steps jump over this many."""
        return 1 << (self.period.bit_length() // 2)

    @property
    def giant_steps(self) -> int:
        """Rotations by ``baby_steps``."""
        return self.period // self.baby_steps

    def n_chunks(self, n_samples: int) -> int:
        """Ciphertexts that one column of samples needs."""
        return max(1, math.ceil(n_samples / self.chunk_samples))

    def n_blocks(self, n_rows: int) -> int:
        """Ciphertexts that the results of ``n_rows`` rows need."""
        return max(1, math.ceil(n_rows / self.block_rows))

    def sample_of_slot(self) -> Index:
        """Sample of the chunk in each slot, shape (2, row_size)."""
        slot = np.arange(self.row_size)
        part = slot // self.block_rows
        one_row = part * self.period + slot % self.period
        return np.stack([one_row, one_row + self.groups * self.period])

    def row_of_slot(self) -> Index:
        """Matrix row of the block in each slot of a slot row."""
        return np.arange(self.row_size) % self.block_rows

    def add_parts(self, slots: npt.NDArray[np.uint64], modulus: int) -> npt.NDArray[np.uint64]:
        """Add the slots of each matrix row modulo t; shape (block_rows,)."""
        return sum_modulo(slots.reshape(2 * self.groups, self.block_rows), modulus)


def choose_layout(
    row_size: int, n_samples: int, *, shared_rows: int, own_rows: int, n_columns: int
) -> Layout:
    """The cheapest layout for one matrix against all columns and one against each of them.

    Parameters
    ----------
    shared_rows : int
        Rows of the matrix that meets every column: its factors are encoded once.
    own_rows : int
        Rows of the matrices that meet one column each, results added up; 0 if there are none.
    """
    best: tuple[float, Layout] | None = None
    period = 8
    while period <= min(_MAX_PERIOD, row_size):
        groups = 1
        while groups * period <= row_size:
            layout = Layout(row_size, period, groups)
            cost = _cost(layout, n_samples, shared_rows, own_rows, n_columns)
            if best is None or cost < best[0]:
                best = (cost, layout)
            groups *= 2
        period *= 2
    assert best is not None  # noqa: S101 - the loops ran at least once
    return best[1]


def _cost(layout: Layout, n_samples: int, shared_rows: int, own_rows: int, n_columns: int) -> float:
    shared = layout.n_blocks(shared_rows)
    own = layout.n_blocks(own_rows) if own_rows else 0
    # Once encoded, a factor costs a third of its price for every further column.
    factors = layout.period * (shared * (1 + (n_columns - 1) / 3) + own * n_columns)
    rotations = n_columns * (layout.baby_steps + (shared + own) * layout.giant_steps)
    work = layout.n_chunks(n_samples) * (_FACTOR_COST * factors + _ROTATION_COST * rotations)
    return work + _RESULT_COST * (shared * n_columns + own)
