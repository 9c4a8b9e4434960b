# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Class sums of products (:mod:`fedsift.crypto.products.bgv`), only counted.

All sides compute in the clear with a plan for few rows and count with the plan for all rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from fedsift.costs.counts import Counts, blank_ciphertexts, blank_keys, opened, ring_of
from fedsift.crypto.modular import Residues
from fedsift.crypto.products.bgv import ColumnHolder, ProductCloud, ProductOwner
from fedsift.crypto.products.plan import Integers, ProductPlan
from fedsift.crypto.wire import Ciphertexts, PublicKeys


class _Side:
    """Sizes and work by the plan for all rows."""

    def __init__(self, counts: Counts, scheme: str, plan: ProductPlan) -> None:
        self.plan = plan
        self.scheme = scheme
        self.n_primes = len(plan.parameters)
        self.n_rotations = len({1, plan.layout.baby_steps})
        self.ring = ring_of(counts, scheme, plan.parameters[0])

    def vectors(self, length: int) -> int:
        """Ciphertexts of a flat vector."""
        return self.n_primes * max(1, math.ceil(length / self.plan.slots))

    def fresh(self, operation: str, count: int, content: Ciphertexts) -> Ciphertexts:
        """New ciphertexts."""
        self.ring.do("encrypt", operation, count)
        return blank_ciphertexts(self.scheme, [(count, self.ring.fresh_bytes)], content)

    def results(self, count: int, content: Ciphertexts) -> Ciphertexts:
        """Computed ciphertexts on their way back."""
        self.ring.do("evaluate", "hide", count)
        return blank_ciphertexts(self.scheme, [(count, self.ring.result_bytes)], content)

    def decrypt(self, sealed: Ciphertexts) -> Ciphertexts:
        """What the owner finds in ciphertexts."""
        self.ring.do("decrypt", "decrypt", len(sealed.blobs))
        content: Ciphertexts = opened(sealed)
        return content

    def load(self, sealed: Ciphertexts) -> Ciphertexts:
        """Ciphertexts that the cloud computes with."""
        self.ring.do("evaluate", "load", len(sealed.blobs))
        content: Ciphertexts = opened(sealed)
        return content


class CountingProductOwner(ProductOwner):
    """The label owner's side."""

    def __init__(self, counts: Counts, scheme: str, few: ProductPlan, plan: ProductPlan) -> None:
        super().__init__(few, "plain")
        self._side = side = _Side(counts, scheme, plan)
        ring, numbers = side.ring, PublicKeys(scheme, {"n_primes": side.n_primes}, ())
        for _ in plan.parameters:
            ring.make_keys("encrypt", side.n_rotations + 1)
        rotations = ring.rotation_keys_bytes(side.n_rotations)
        sizes = [ring.public_key_bytes, rotations, ring.product_key_bytes]
        self.evaluation_keys = blank_keys(numbers, sizes * side.n_primes)
        self.column_keys = blank_keys(numbers, sizes[:1] * side.n_primes)

    def encrypt_labels(self, codes: Integers) -> Ciphertexts:
        """See :class:`ProductOwner`."""
        side, plan = self._side, self._side.plan
        count = side.n_primes * plan.n_classes * plan.layout.n_chunks(plan.n_rows)
        return side.fresh("encrypt", count, super().encrypt_labels(codes))

    def encrypt_vector(self, vector: Residues) -> Ciphertexts:
        """See :class:`ProductOwner`."""
        count = self._side.vectors(vector.shape[1])
        return self._side.fresh("encrypt", count, super().encrypt_vector(vector))

    def open_vector(self, sealed: Ciphertexts, length: int) -> Residues:
        """See :class:`ProductOwner`."""
        return super().open_vector(self._side.decrypt(sealed), length)

    def open_scalars(self, sealed: Ciphertexts, lengths: Sequence[int]) -> Residues:
        """See :class:`ProductOwner`."""
        return super().open_scalars(self._side.decrypt(sealed), lengths)

    def open_pairs(
        self,
        masked: Ciphertexts,
        corrections: Ciphertexts,
        jobs: Sequence[Sequence[int]],
        codes: Integers,
    ) -> Residues:
        """See :class:`ProductOwner`."""
        masked, corrections = self._side.decrypt(masked), self._side.decrypt(corrections)
        return super().open_pairs(masked, corrections, jobs, codes)


class CountingColumnHolder(ColumnHolder):
    """A feature owner's side."""

    def __init__(
        self, counts: Counts, keys: PublicKeys, few: ProductPlan, plan: ProductPlan
    ) -> None:
        super().__init__(_open_keys(few, 1), few)
        self._side = _Side(counts, keys.scheme, plan)
        self._side.ring.do("encrypt", "switch key read", len(plan.parameters) / 3)

    def encrypt_columns(self, columns: Integers) -> Ciphertexts:
        """See :class:`ColumnHolder`."""
        return self._fresh(
            self._side.plan.n_blocks(columns.shape[1]), super().encrypt_columns(columns)
        )

    def encrypt_mates(self, columns: Integers) -> Ciphertexts:
        """See :class:`ColumnHolder`."""
        count = columns.shape[1] * self._side.plan.n_chunks
        return self._fresh(count, super().encrypt_mates(columns))

    def encrypt_scalars(self, scalars: Integers) -> Ciphertexts:
        """See :class:`ColumnHolder`."""
        count = max(1, math.ceil(scalars.size / self._side.plan.slots))
        return self._fresh(count, super().encrypt_scalars(scalars))

    def _fresh(self, per_prime: int, content: Ciphertexts) -> Ciphertexts:
        return self._side.fresh("encrypt public", self._side.n_primes * per_prime, content)


class CountingProductCloud(ProductCloud):
    """The cloud's side."""

    def __init__(
        self, counts: Counts, keys: PublicKeys, few: ProductPlan, plan: ProductPlan
    ) -> None:
        super().__init__(_open_keys(few, 3), few)
        self._side = _Side(counts, keys.scheme, plan)
        for _ in plan.parameters:
            self._side.ring.read_keys("evaluate", self._side.n_rotations + 1)

    def take_columns(self, sealed: Ciphertexts, holder: int) -> None:
        """See :class:`ProductCloud`."""
        super().take_columns(self._side.load(sealed), holder)

    def take_labels(self, sealed: Ciphertexts) -> None:
        """See :class:`ProductCloud`."""
        turns = len(sealed.blobs) * (self._side.plan.layout.baby_steps - 1)
        self._side.ring.do("evaluate", "rotate", turns)
        super().take_labels(self._side.load(sealed))

    def masked_pairs(
        self,
        jobs: Sequence[Sequence[int]],
        mates: Sequence[Ciphertexts] | None = None,
        *,
        squared: bool = False,
    ) -> tuple[Ciphertexts, Ciphertexts, Residues]:
        """See :class:`ProductCloud`."""
        side, plan, layout = self._side, self._side.plan, self._side.plan.layout
        n_masked = side.n_primes * sum(len(plan.blocks_of(features)) for features in jobs)
        row_blocks = side.n_primes * layout.n_blocks(sum(map(len, jobs)))
        n_corrections, steps = (
            plan.n_classes * row_blocks,
            layout.period * layout.n_chunks(plan.n_rows),
        )
        if mates is not None or squared:
            side.ring.do("evaluate", "product", n_masked)
        side.ring.do("evaluate", "factor", row_blocks * steps)
        side.ring.do("evaluate", "multiply", n_corrections * steps)
        side.ring.do("evaluate", "rotate", n_corrections * (layout.giant_steps - 1))
        if mates is not None:
            mates = [side.load(one) for one in mates]
        masked, corrections, shares = super().masked_pairs(jobs, mates, squared=squared)
        return side.results(n_masked, masked), side.results(n_corrections, corrections), shares

    def mask_scalars(
        self, sealed: Sequence[Ciphertexts], counts: Sequence[int]
    ) -> tuple[Ciphertexts, Residues]:
        """See :class:`ProductCloud`."""
        content, shares = super().mask_scalars([opened(one) for one in sealed], counts)
        return self._side.results(sum(map(self._side.vectors, counts)), content), shares

    def inner(self, terms: Ciphertexts, factors: Residues, shares: Residues) -> Ciphertexts:
        """See :class:`ProductCloud`."""
        for operation in ("factor", "multiply"):
            self._side.ring.do("evaluate", operation, len(terms.blobs))
        content = super().inner(self._side.load(terms), factors, shares)
        return self._side.results(len(terms.blobs), content)


def _open_keys(few: ProductPlan, per_prime: int) -> PublicKeys:
    return PublicKeys("plain", {}, (b"",) * (per_prime * len(few.parameters)))
