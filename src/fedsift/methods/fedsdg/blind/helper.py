# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The helper's share of the network behind the columns: hidden values, outputs, slopes, losses."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedsift.crypto.modular import Residues
from fedsift.crypto.products.between_two import TwoPartyEvaluator
from fedsift.crypto.products.between_two_plain import small_product
from fedsift.crypto.wire import Ciphertexts
from fedsift.errors import ParameterError
from fedsift.methods.fedsdg.blind.columns import cancelling
from fedsift.methods.fedsdg.blind.numbers import (
    HIDDEN_BITS,
    Moving,
    minus,
    output_signs,
    ring,
    shifted,
    shorten,
)
from fedsift.methods.fedsdg.blind.params import SMALLEST_BLOCK, BlindParams


class HelperNetwork:
    """One feature holder's second part: the other share of what the label holder works with.

    Parameters
    ----------
    evaluator : TwoPartyEvaluator
        Under the label holder's key.
    params : BlindParams
    """

    def __init__(self, evaluator: TwoPartyEvaluator, params: BlindParams) -> None:
        self._evaluator = evaluator
        self._params = params
        self._signs = output_signs(params.hidden, params.n_outputs)
        none = ring().of(np.zeros((params.hidden, 1), dtype=np.int64))
        self.moving = Moving(none, first=False)
        self.outputs = ring().of(np.zeros((params.n_outputs, 0), dtype=np.int64))
        self._hidden = self.outputs
        self._validation: list[Residues] = []
        self._loaded: Any = None

    @property
    def bias(self) -> Residues:
        """This side's share."""
        return self.moving.values

    def square(self, sealed: Ciphertexts, hidden: Residues) -> Ciphertexts:
        """[2 Z Z' + r] from [Z] and this side's share Z', and with it this side's outputs."""
        full = ring().add(hidden, self.bias)
        own = shorten(full, self._params.scales.hidden_shift, first=False)
        mask = ring().uniform(own.shape[1:])
        self._loaded = self._evaluator.load(sealed, own[0].size)
        total = self._evaluator.add_product(None, self._loaded, _flat(shifted(own, 1)))
        squares = minus(ring().multiply(own, own), mask)
        self._hidden = own
        self.outputs = outputs_of(squares, own, self._signs)
        return self._evaluator.finish(total, _flat(mask))

    def slopes(self, sealed: Ciphertexts, share: Residues) -> tuple[Ciphertexts, Residues]:
        """[E Z' + E' Z + r] such that ``share`` is this side's; and that share, shortened."""
        own = small_product(self._signs.T, self.outputs)
        loaded = self._evaluator.load(sealed, own[0].size)
        total = self._evaluator.add_product(None, loaded, _flat(self._hidden))
        total = self._evaluator.add_product(total, self._loaded, _flat(own))
        known = ring().add(ring().multiply(own, self._hidden), shifted(own, HIDDEN_BITS))
        slopes = shorten(share, self._params.scales.slope_shift, first=False)
        step = ring().total(slopes, (2,))[:, :, None]
        self.moving.step(shifted(step, self._params.scales.bias_shift))
        return self._evaluator.finish(total, _flat(minus(known, share))), slopes

    def keep_for_losses(self) -> None:
        """Remember outputs of validation rows."""
        self._validation.append(self.outputs)

    def losses(self, sealed: Ciphertexts, n_rows: int) -> Ciphertexts:
        """[2 D D' + D'^2] with masks that cancel within a block of rows."""
        own = np.concatenate(self._validation, axis=2) if self._validation else self.outputs
        self._validation = []
        n_blocks = self._params.blocks_of(n_rows)
        if own.shape[2] != n_rows or n_rows < SMALLEST_BLOCK:
            raise ParameterError(
                f"Losses of {own.shape[2]} rows were asked for.",
                f"All {n_rows} validation rows, {SMALLEST_BLOCK} at least, are needed.",
                "Run the same job at every party, with more rows.",
            )
        loaded = self._evaluator.load(sealed, own[0].size)
        total = self._evaluator.add_product(None, loaded, _flat(shifted(own, 1)))
        sizes = [len(block) for block in np.array_split(np.arange(n_rows), n_blocks)]
        masks = cancelling(ring().uniform(own.shape[1:]), np.repeat(np.arange(n_blocks), sizes))
        known = ring().add(ring().multiply(own, own), masks)
        return self._evaluator.finish(total, _flat(known))


def outputs_of(squares: Residues, hidden: Residues, signs: Any) -> Residues:
    """A share of the outputs from shares of squares and hidden values."""
    activations = ring().add(squares, shifted(hidden, HIDDEN_BITS + 1))
    return small_product(signs, activations)


def _flat(matrix: Residues) -> Residues:
    return matrix.reshape(len(matrix), -1)
