# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The classes as the label owner encrypts them: true ones, and shuffled ones beside them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedsift.crypto.modular import Residues
from fedsift.methods.interaction.measures import Codes


class LabelVectors:
    """Vectors of classes that share an exchange, each with class numbers of its own.

    Parameters
    ----------
    codes : ndarray of int of shape (n_rows,)
    n_vectors : int
    rng : Generator
        Shuffles labels.
    """

    def __init__(self, codes: Codes, n_vectors: int, rng: np.random.Generator) -> None:
        self.codes, self.n_vectors = codes, n_vectors
        self._n_classes = int(codes.max()) + 1
        self._rng = rng
        self._beside: list[Codes] | None = None

    def _shuffles(self, count: int) -> list[Codes]:
        return [self._rng.permutation(self.codes) for _ in range(count)]

    def _side_by_side(self, vectors: Sequence[Codes]) -> Codes:
        return np.stack([codes + i * self._n_classes for i, codes in enumerate(vectors)])

    def true(self) -> Codes:
        """The true labels; beside them, where weights need any, shuffled ones."""
        if self._beside is None:
            self._beside = self._shuffles(self.n_vectors - 1)
        return self._side_by_side([self.codes, *self._beside])

    def shuffled(self) -> Codes:
        """Freshly shuffled labels."""
        return self._side_by_side(self._shuffles(self.n_vectors))

    def section(self, values: Residues, vector: int) -> Residues:
        """Slots of one vector; everything where there is only one."""
        width = values.shape[-1] // self.n_vectors
        return values[..., vector * width : (vector + 1) * width]
