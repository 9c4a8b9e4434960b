# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Cost of encrypted columns against secret rows (K1, :mod:`fedsift.crypto.counts`)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedsift.costs.tally import Ring, Tally
from fedsift.crypto.counts import ColumnSpec
from fedsift.crypto.counts_bgv import BGVPlan, make_plan
from fedsift.crypto.counts_paillier import Layout
from fedsift.crypto.counts_plain import QuadraticWidths
from fedsift.crypto.fixed_point import SignedPacking
from fedsift.crypto.multiexp import MERGE_COST, _collapse_merges, group_size
from fedsift.crypto.paillier import key_bits_for
from fedsift.crypto.wire import PublicKeys

_COLUMNS_AT_ONCE = 8


@dataclass(frozen=True)
class Guest:
    """What one feature holder multiplies the columns with.

    Parameters
    ----------
    n_features, n_cells : int
        Features, and rows per feature: its bins, or 1 for numbers.
    quadratic : bool
        Whether only quadratics are revealed.
    """

    n_features: int
    n_cells: int
    quadratic: bool

    @property
    def n_rows(self) -> int:
        """Rows of the matrix."""
        return self.n_features * self.n_cells


class BGVColumns:
    """Under BGV: sizes on the wire and work at both sides."""

    def __init__(self, tally: Tally, spec: ColumnSpec) -> None:
        self._spec = spec
        self._plan: BGVPlan = make_plan(spec)
        self._rings = [Ring(tally, parameters) for parameters in self._plan.parameters]
        self._tally = tally

    @property
    def keys(self) -> PublicKeys:
        """Public numbers, without the keys themselves."""
        return PublicKeys("bgv", self._plan.numbers, ())

    @property
    def key_bytes(self) -> list[int]:
        """Public and rotation keys of every prime."""
        steps = len({1, self._plan.layout.baby_steps})
        return [
            size
            for ring in self._rings
            for size in (ring.public_key_bytes, ring.rotation_keys_bytes(steps))
        ]

    @property
    def columns(self) -> tuple[int, int]:
        """Number and bytes of the owner's ciphertexts."""
        count = len(self._rings) * self._plan.n_groups * self._plan.n_chunks
        return count, self._rings[0].fresh_bytes

    def result(self, guest: Guest) -> tuple[int, int]:
        """Number and bytes of what a guest returns."""
        layout, plan = self._plan.layout, self._plan
        if guest.quadratic:
            blocks = plan.n_groups * layout.n_blocks(2 * guest.n_rows)
            blocks += layout.n_blocks(guest.n_features)
        else:
            blocks = plan.n_groups * layout.n_blocks(math.ceil(guest.n_rows / plan.row_digits))
        return len(self._rings) * blocks, self._rings[0].result_bytes

    def encrypt(self) -> None:
        """The owner makes keys and encrypts its columns."""
        for ring in self._rings:
            ring.make_keys("encrypt", len({1, self._plan.layout.baby_steps}))
            ring.do("encrypt", "encrypt", self._plan.n_groups * self._plan.n_chunks)

    def evaluate(self, guest: Guest) -> None:
        """A guest multiplies its rows with all columns."""
        plan = self._plan
        for ring in self._rings:
            ring.read_keys("evaluate", 2)
            if not guest.quadratic:
                rows = math.ceil(guest.n_rows / plan.row_digits)
                self._multiply(ring, rows, plan.n_groups, "member cell", plan.row_digits)
                continue
            self._multiply(ring, 2 * guest.n_rows, plan.n_groups, "weight cell", 0.5)
            for _ in range(plan.n_groups):
                self._multiply(ring, guest.n_features, 1, "member cell", 1)
        ring = self._rings[0]
        ring.do("evaluate", "hide", self.result(guest)[0])

    def _multiply(
        self, ring: Ring, n_rows: int, n_columns: int, unit: str, values_per_cell: float
    ) -> None:
        """Baby steps, giant steps: every block of rows against some columns."""
        layout, chunks = self._plan.layout, self._plan.n_chunks
        blocks = layout.n_blocks(n_rows)
        passes = math.ceil(n_columns / _COLUMNS_AT_ONCE)
        ring.do("evaluate", "load", chunks * n_columns)
        ring.do("evaluate", "rotate", chunks * n_columns * (layout.baby_steps - 1))
        ring.do("evaluate", "rotate", chunks * blocks * n_columns * (layout.giant_steps - 1))
        ring.do("evaluate", "factor", chunks * blocks * layout.period * passes)
        ring.do("evaluate", "multiply", chunks * blocks * layout.period * n_columns)
        cells = n_rows * self._spec.n_samples * values_per_cell * passes
        self._tally.do("evaluate", unit, cells)

    def decrypt(self, guest: Guest) -> None:
        """The owner opens what a guest returned."""
        self._rings[0].do("decrypt", "decrypt", self.result(guest)[0])


class PaillierColumns:
    """Under Paillier, with a key of the wanted strength."""

    def __init__(self, tally: Tally, spec: ColumnSpec, security_bits: int) -> None:
        self._tally = tally
        self._spec = spec
        self._key_bits = key_bits_for(security_bits)
        self._layout = Layout(spec, self._key_bits - 2)
        # Work is measured with 3072 bits; products of longer numbers take the square of that.
        self._scale = (self._key_bits / 3072) ** 2

    @property
    def keys(self) -> PublicKeys:
        """Public numbers, without the key itself."""
        numbers = {"key_bits": self._key_bits, "security_bits": self._spec.n_samples and 128}
        return PublicKeys("paillier", numbers, ())

    @property
    def key_bytes(self) -> list[int]:
        """Modulus and generator."""
        return [5 + 3 * self._key_bits // 8]

    @property
    def columns(self) -> tuple[int, int]:
        """Number and bytes of the owner's ciphertexts."""
        return self._spec.n_samples * self._layout.n_groups, self._bytes

    @property
    def _bytes(self) -> int:
        return 2 * self._key_bits // 8

    def _packings(self, guest: Guest) -> list[tuple[int, SignedPacking, int]]:
        """Digits of every part of an answer, how they are packed, and bits of their factors."""
        layout, spec = self._layout, self._spec
        if not guest.quadratic:
            return [(guest.n_rows * layout.n_groups, layout.results, 1)]
        widths, count = QuadraticWidths(spec), guest.n_rows * spec.n_columns
        return [
            (count, layout.joined(widths.product_digit), 1),
            (count, layout.joined(widths.weighted_digit), spec.weight_bits),
            (guest.n_features, layout.joined(widths.correction_digit), widths.correction_digit),
        ]

    def result(self, guest: Guest) -> tuple[int, int]:
        """Number and bytes of what a guest returns."""
        parts = self._packings(guest)
        return sum(math.ceil(count / p.n_digits) for count, p, _ in parts), self._bytes

    def encrypt(self) -> None:
        """The owner makes a key and encrypts its columns."""
        self._do("encrypt", "key")
        self._do("encrypt", "tables", 0.5)
        self._do("encrypt", "encrypt", self.columns[0])

    def evaluate(self, guest: Guest) -> None:
        """A guest multiplies the ciphertexts of its bins, joins and re-randomises."""
        spec = self._spec
        self._do("evaluate", "tables", 0.5)
        self._do("evaluate", "read", self.columns[0])
        for _ in range(self._layout.n_groups):
            if guest.n_cells > 1:
                self._buckets(guest.n_features, guest.n_cells)
            else:
                width = spec.result_bits
                windows = math.ceil(width / 8)
                for _ in range(guest.n_features):
                    self._buckets(windows, 1 << 8)
                    self._do("evaluate", "merge", MERGE_COST * windows * 2 * (1 << 8) + width)
        for count, packing, factor_bits in self._packings(guest):
            joined = math.ceil(count / packing.n_digits)
            self._do("evaluate", "shift", joined * packing.digit_bits * (packing.n_digits - 1))
            per_digit = max(1, guest.n_rows * spec.n_columns // max(1, count))
            self._do("evaluate", "merge", 3 * count * per_digit * max(1, factor_bits / 6))
        self._do("evaluate", "rerandomise", self.result(guest)[0])

    def _buckets(self, n_features: int, n_bins: int) -> None:
        size = group_size(self._spec.n_samples, n_bins)
        groups = math.ceil(n_features / size)
        self._do("evaluate", "multiply", groups * self._spec.n_samples)
        merges = groups * _collapse_merges(size, n_bins) + 2 * n_features * n_bins
        self._do("evaluate", "merge", merges)

    def decrypt(self, guest: Guest) -> None:
        """The owner opens what a guest returned."""
        self._do("decrypt", "decrypt", self.result(guest)[0])

    def _do(self, phase: str, operation: str, count: float = 1) -> None:
        power = 1.5 if operation in ("key", "decrypt", "rerandomise") else 1.0
        self._tally.do(phase, f"paillier {operation}", count * self._scale**power)


Columns = BGVColumns | PaillierColumns


def columns_of(tally: Tally, scheme: str, spec: ColumnSpec, security_bits: int) -> Columns:
    """The kernel of a scheme."""
    if scheme == "paillier":
        return PaillierColumns(tally, spec, security_bits)
    return BGVColumns(tally, spec)
