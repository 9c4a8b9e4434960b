# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Products of a party's columns with shared matrices, prepared before the matrices are known.

The holder of the columns X and its partner share ``X U`` although U is shared itself: long before,
the partner draws R, sends it encrypted, and gets ``X R + r`` back. Then it sends ``U2 - R``, which
is uniform, and the holder adds ``X (U2 - R) + X U1 - r`` to what the partner has: ``X U`` in all.
Every R and every r is used once. Batches stay the same throughout a training, so that one exchange
prepares many uses of a batch, in both directions: from columns to rows, and back.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fedsift.crypto.masking import masks_modulo
from fedsift.crypto.modular import Residues
from fedsift.crypto.products.between_two import (
    DEGREE,
    WIDEST,
    Small,
    TwoPartyEvaluator,
    TwoPartyOwner,
    moduli,
)
from fedsift.crypto.wire import Ciphertexts
from fedsift.errors import ParameterError
from fedsift.methods.fedsdg.blind.numbers import minus, ring, to_columns, to_rows
from fedsift.methods.fedsdg.blind.requests import Secrets

_MOST_KEPT = 1 << 24
"""Numbers that are prepared for all batches of one table and direction, about."""

Place = tuple[int, bool]
"""Number of a batch, and whether the product goes back from rows to columns."""


def tiles(n_inputs: int) -> range:
    """First inputs of the parts that are prepared one after the other."""
    return range(0, n_inputs, WIDEST)


def uses_at_once(left: int, hidden: int, n_outputs: int, n_batches: int) -> int:
    """For how many uses a batch is prepared; both memory and ciphertexts have an end."""
    kept = _MOST_KEPT // max(1, hidden * n_outputs * n_batches)
    return max(1, min(left, DEGREE // hidden, kept))


@dataclass
class _Drawn:
    """Masks of several uses, tile by tile, that are made again from a secret when needed."""

    n_numbers: int
    hidden: int
    n_uses: int
    secret: bytes = field(repr=False)
    drawn: list[int] = field(default_factory=list)
    used: int = 0

    def tile(self, n_tile: int, n_numbers: int) -> Residues:
        """(primes, n_numbers, uses * hidden)."""
        self.drawn.append(n_tile)
        uses = [self._of_use(n_tile, use, n_numbers) for use in range(self.n_uses)]
        return np.concatenate(uses, axis=2)

    def _of_use(self, n_tile: int, use: int, n_numbers: int) -> Residues:
        shape, context = (n_numbers, self.hidden), f"tile {n_tile} use {use}"
        return np.stack([masks_modulo(self.secret, context, shape, p) for p in moduli()])

    @property
    def left(self) -> int:
        return self.n_uses - self.used

    def take(self) -> int:
        """The next use, which no other will share."""
        self.used += 1
        return self.used - 1

    def together(self, use: int) -> Residues:
        """What all tiles have as inputs, one after the other: (primes, hidden, n_numbers)."""
        widths = [min(WIDEST, self.n_numbers - first) for first in tiles(self.n_numbers)]
        parts = [self._of_use(i, use, width) for i, width in enumerate(widths)]
        return np.concatenate(parts, axis=1).transpose(0, 2, 1)

    def added(self, use: int) -> Residues:
        """What all tiles have as outputs, added up: (primes, hidden, n_numbers)."""
        total = self._of_use(self.drawn[0], use, self.n_numbers)
        for n_tile in self.drawn[1:]:
            total = ring().add(total, self._of_use(n_tile, use, self.n_numbers))
        return total.transpose(0, 2, 1)


class PartnerTable:
    """The side of the partner, who owns the key.

    Parameters
    ----------
    owner : TwoPartyOwner
    hidden : int
        Rows of the matrices that are multiplied.
    n_columns : int
        Of the other party's table.
    secrets : Secrets
        What masks are made from.
    """

    def __init__(self, owner: TwoPartyOwner, hidden: int, n_columns: int, secrets: Secrets) -> None:
        self._owner = owner
        self._secrets = secrets
        self._hidden = hidden
        self._n_columns = n_columns
        self._masks: dict[Place, _Drawn] = {}
        self._products: dict[Place, Residues] = {}

    def left(self, place: Place) -> int:
        """Uses of a batch that are prepared."""
        return self._masks[place].left if place in self._masks else 0

    def shape(self, place: Place, n_rows: int) -> tuple[int, int]:
        """Inputs and outputs of a product."""
        return (n_rows, self._n_columns) if place[1] else (self._n_columns, n_rows)

    def order(self, place: Place, n_rows: int, left: int, n_batches: int) -> list[tuple[int, int]]:
        """What to prepare if nothing is left for a batch: first inputs, and number of uses."""
        if self.left(place):
            return []
        n_inputs, n_outputs = self.shape(place, n_rows)
        uses = uses_at_once(left, self._hidden, n_outputs, n_batches)
        return [(first, uses) for first in tiles(n_inputs)]

    def seal(self, place: Place, first: int, n_rows: int, uses: int) -> Ciphertexts:
        """[R] of one tile."""
        n_inputs = self.shape(place, n_rows)[0]
        if first == 0:
            self._masks[place] = _Drawn(n_inputs, self._hidden, uses, self._secrets())
        tile = self._masks[place].tile(first // WIDEST, min(WIDEST, n_inputs - first))
        return self._owner.seal_matrix(tile)

    def take(self, place: Place, first: int, n_rows: int, sealed: Ciphertexts) -> None:
        """X R + r of one tile."""
        n_outputs = self.shape(place, n_rows)[1]
        samples = self._masks[place].n_uses * self._hidden
        opened = self._owner.open_product(sealed, n_outputs, samples)
        before = self._products[place] if first else None
        self._products[place] = opened if before is None else ring().add(before, opened)

    def mask(self, place: Place, numbers: Residues) -> tuple[Residues, Residues]:
        """What to send of this side's share, U2 - R, and this side's share of the product."""
        if not self.left(place) or place not in self._products:
            raise _not_prepared(place[0])
        masks = self._masks[place]
        use = masks.take()
        samples = slice(use * self._hidden, (use + 1) * self._hidden)
        product = self._products[place][:, :, samples].transpose(0, 2, 1)
        return minus(numbers, masks.together(use)), product


class HeldTable:
    """The side of the holder of the columns.

    Parameters
    ----------
    evaluator : TwoPartyEvaluator
        Under the partner's key.
    inputs : ndarray of shape (n_rows, n_columns)
    hidden : int
    secrets : Secrets
        What masks are made from.
    """

    def __init__(
        self, evaluator: TwoPartyEvaluator, inputs: Small, hidden: int, secrets: Secrets
    ) -> None:
        self._evaluator = evaluator
        self._secrets = secrets
        self._inputs = inputs
        self._hidden = hidden
        self._rows: dict[int, Small] = {}
        self._masks: dict[Place, _Drawn] = {}

    @property
    def n_columns(self) -> int:
        """Columns."""
        return int(self._inputs.shape[1])

    def rows_of(self, batch: int) -> Small:
        """The rows of a batch that was prepared."""
        if batch not in self._rows:
            raise _not_prepared(batch)
        return self._rows[batch]

    def order(self, place: Place, n_rows: int, left: int, n_batches: int) -> list[tuple[int, int]]:
        """See :meth:`PartnerTable.order`."""
        masks = self._masks.get(place)
        if masks is not None and masks.left:
            return []
        n_inputs, n_outputs = n_rows, self.n_columns
        if not place[1]:
            n_inputs, n_outputs = n_outputs, n_inputs
        uses = uses_at_once(left, self._hidden, n_outputs, n_batches)
        return [(first, uses) for first in tiles(n_inputs)]

    def prepare(
        self, place: Place, rows: Small, first: int, uses: int, sealed: Ciphertexts
    ) -> Ciphertexts:
        """[X R + r] of one tile of inputs; tiles come in order."""
        batch, back = place
        if not np.array_equal(self._rows.setdefault(batch, rows), rows):
            raise ParameterError(
                f"Batch {batch} has other rows than before.",
                "The rows of a batch stay the same.",
                "Check that all parties run the same job.",
            )
        table = self._inputs[rows].T if back else self._inputs[rows]
        if first == 0:
            self._masks[place] = _Drawn(len(table), self._hidden, uses, self._secrets())
        masks = self._masks.get(place)
        n_tile = first // WIDEST
        expected = 0 if masks is None else len(masks.drawn)
        if (
            masks is None
            or masks.n_uses != uses
            or first not in tiles(table.shape[1])
            or n_tile != expected
            or not 1 <= uses <= DEGREE // self._hidden
        ):
            raise _not_prepared(batch)
        mask = masks.tile(n_tile, len(table))
        return self._evaluator.times(table[:, first : first + WIDEST], sealed, mask)

    def to_rows(self, batch: int, numbers: Residues) -> Residues:
        """X times some numbers (primes, hidden, n_columns), less this use's mask."""
        mask = self._mask((batch, False), self.n_columns)
        return minus(to_rows(self._inputs[self.rows_of(batch)], numbers), mask)

    def to_columns(self, batch: int, numbers: Residues) -> Residues:
        """The same back, from numbers (primes, hidden, n_rows)."""
        rows = self.rows_of(batch)
        return minus(to_columns(self._inputs[rows], numbers), self._mask((batch, True), len(rows)))

    def _mask(self, place: Place, n_inputs: int) -> Residues:
        masks = self._masks.get(place)
        if masks is None or not masks.left or len(masks.drawn) != len(tiles(n_inputs)):
            raise _not_prepared(place[0])
        return masks.added(masks.take())


def _not_prepared(batch: int) -> ParameterError:
    return ParameterError(
        f"Batch {batch} is to be used, but no masks are left for it, or not for all columns.",
        "Products are prepared in order before they are used, and every mask is used once.",
        "Check that all parties run the same version of fedsift.",
    )
