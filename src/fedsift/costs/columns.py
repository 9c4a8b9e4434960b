# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Encrypted columns against secret rows (:mod:`fedsift.crypto.columns.api`), only counted."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from fedsift.costs.counts import Counts, PaillierWork, Ring, blank_ciphertexts, blank_keys, opened
from fedsift.crypto.columns.api import BigArray, BinnedRows, ColumnSpec, IntArray, Rows
from fedsift.crypto.columns.bgv import BGVPlan, make_plan
from fedsift.crypto.columns.paillier import Layout
from fedsift.crypto.columns.plain import (
    PlainColumnEvaluator,
    PlainColumnOwner,
    QuadraticWidths,
)
from fedsift.crypto.fixed_point import SignedPacking
from fedsift.crypto.schemes.multiexp import MERGE_COST, _collapse_merges, group_size
from fedsift.crypto.wire import Ciphertexts, PublicKeys

_COLUMNS_AT_ONCE = 8


@dataclass(frozen=True)
class Evaluator:
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

    def __init__(self, tally: Counts, spec: ColumnSpec) -> None:
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

    def result(self, evaluator: Evaluator) -> tuple[int, int]:
        """Number and bytes of what an evaluator returns."""
        layout, plan = self._plan.layout, self._plan
        if evaluator.quadratic:
            blocks = plan.n_groups * layout.n_blocks(2 * evaluator.n_rows)
            blocks += layout.n_blocks(evaluator.n_features)
        else:
            blocks = plan.n_groups * layout.n_blocks(math.ceil(evaluator.n_rows / plan.row_digits))
        return len(self._rings) * blocks, self._rings[0].result_bytes

    def sealed(self, evaluator: Evaluator) -> list[tuple[int, int]]:
        """The same as a list, for schemes that return several kinds."""
        return [self.result(evaluator)]

    def encrypt(self) -> None:
        """The owner makes keys and encrypts its columns."""
        for ring in self._rings:
            ring.make_keys("encrypt", len({1, self._plan.layout.baby_steps}))
            ring.do("encrypt", "encrypt", self._plan.n_groups * self._plan.n_chunks)

    def evaluate(self, evaluator: Evaluator) -> None:
        """An evaluator multiplies its rows with all columns."""
        plan = self._plan
        for ring in self._rings:
            ring.read_keys("evaluate", 2)
            if not evaluator.quadratic:
                rows = math.ceil(evaluator.n_rows / plan.row_digits)
                self._multiply(ring, rows, plan.n_groups, "member cell", plan.row_digits)
                continue
            self._multiply(ring, 2 * evaluator.n_rows, plan.n_groups, "weight cell", 0.5)
            for _ in range(plan.n_groups):
                self._multiply(ring, evaluator.n_features, 1, "member cell", 1)
        ring = self._rings[0]
        ring.do("evaluate", "hide", self.result(evaluator)[0])

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

    def decrypt(self, evaluator: Evaluator) -> None:
        """The owner opens what an evaluator returned."""
        self._rings[0].do("decrypt", "decrypt", self.result(evaluator)[0])


class PaillierColumns:
    """Under Paillier, with a key of the wanted strength."""

    def __init__(self, tally: Counts, spec: ColumnSpec, security_bits: int) -> None:
        self._work = PaillierWork(tally, security_bits)
        self._spec = spec
        self._security_bits = security_bits
        self._layout = Layout(spec, self._work.key_bits - 2)

    @property
    def keys(self) -> PublicKeys:
        """Public numbers, without the key itself."""
        numbers = {"key_bits": self._work.key_bits, "security_bits": self._security_bits}
        return PublicKeys("paillier", numbers, ())

    @property
    def key_bytes(self) -> list[int]:
        """Modulus and generator."""
        return [self._work.public_key_bytes]

    @property
    def columns(self) -> tuple[int, int]:
        """Number and bytes of the owner's ciphertexts."""
        return self._spec.n_samples * self._layout.n_groups, self._work.ciphertext_bytes

    def _packings(self, evaluator: Evaluator) -> list[tuple[int, SignedPacking, int]]:
        """Digits of every part of an answer, how they are packed, and bits of their factors."""
        layout, spec = self._layout, self._spec
        if not evaluator.quadratic:
            return [(evaluator.n_rows * layout.n_groups, layout.results, 1)]
        widths, count = QuadraticWidths(spec), evaluator.n_rows * spec.n_columns
        return [
            (count, layout.joined(widths.product_digit), 1),
            (count, layout.joined(widths.weighted_digit), spec.weight_bits),
            (evaluator.n_features, layout.joined(widths.correction_digit), widths.correction_digit),
        ]

    def result(self, evaluator: Evaluator) -> tuple[int, int]:
        """Number and bytes of what an evaluator returns."""
        parts = self._packings(evaluator)
        count = sum(math.ceil(count / p.n_digits) for count, p, _ in parts)
        return count, self._work.ciphertext_bytes

    def sealed(self, evaluator: Evaluator) -> list[tuple[int, int]]:
        """The same as a list, for schemes that return several kinds."""
        return [self.result(evaluator)]

    def encrypt(self) -> None:
        """The owner makes a key and encrypts its columns."""
        self._work.do("encrypt", "key")
        self._work.do("encrypt", "tables", 0.5)
        self._work.do("encrypt", "encrypt", self.columns[0])

    def evaluate(self, evaluator: Evaluator) -> None:
        """An evaluator multiplies the ciphertexts of its bins, joins and re-randomises."""
        spec = self._spec
        self._work.do("evaluate", "tables", 0.5)
        self._work.do("evaluate", "read", self.columns[0])
        for _ in range(self._layout.n_groups):
            if evaluator.n_cells > 1:
                self._buckets(evaluator.n_features, evaluator.n_cells)
            else:
                width = spec.result_bits
                windows = math.ceil(width / 8)
                for _ in range(evaluator.n_features):
                    self._buckets(windows, 1 << 8)
                    self._work.do("evaluate", "merge", MERGE_COST * windows * 2 * (1 << 8) + width)
        for count, packing, factor_bits in self._packings(evaluator):
            joined = math.ceil(count / packing.n_digits)
            self._work.do("evaluate", "shift", joined * packing.digit_bits * (packing.n_digits - 1))
            per_digit = max(1, evaluator.n_rows * spec.n_columns // max(1, count))
            self._work.do("evaluate", "merge", 3 * count * per_digit * max(1, factor_bits / 6))
        self._work.do("evaluate", "rerandomise", self.result(evaluator)[0])

    def _buckets(self, n_features: int, n_bins: int) -> None:
        size = group_size(self._spec.n_samples, n_bins)
        groups = math.ceil(n_features / size)
        self._work.do("evaluate", "multiply", groups * self._spec.n_samples)
        merges = groups * _collapse_merges(size, n_bins) + 2 * n_features * n_bins
        self._work.do("evaluate", "merge", merges)

    def decrypt(self, evaluator: Evaluator) -> None:
        """The owner opens what an evaluator returned."""
        self._work.do("decrypt", "decrypt", self.result(evaluator)[0])


class PlainColumns:
    """Without encryption: exact integers as bytes, and Python's own arithmetic."""

    def __init__(self, tally: Counts, spec: ColumnSpec) -> None:
        self._tally = tally
        self._spec = spec

    @property
    def keys(self) -> PublicKeys:
        """There are none."""
        return PublicKeys("plain", {"key_bits": 0, "security_bits": 0}, ())

    @property
    def key_bytes(self) -> list[int]:
        """There are none."""
        return []

    @property
    def columns(self) -> tuple[int, int]:
        """All columns together, eight bytes per number."""
        return 1, 8 * self._n_numbers

    @property
    def _n_numbers(self) -> int:
        return self._spec.n_samples * self._spec.n_columns

    def sealed(self, evaluator: Evaluator) -> list[tuple[int, int]]:
        """Products; or masked products, weighted ones and a correction per feature."""
        spec, count = self._spec, evaluator.n_rows * self._spec.n_columns
        if not evaluator.quadratic:
            return [(1, count * math.ceil((spec.result_bits + 1) / 8))]
        widths = QuadraticWidths(spec)
        parts = (
            (count, widths.product_digit),
            (count, widths.weighted_digit),
            (evaluator.n_features, widths.correction_digit),
        )
        return [(1, numbers * math.ceil(bits / 8)) for numbers, bits in parts]

    def encrypt(self) -> None:
        """The owner writes its columns."""
        self._tally.do("encrypt", "plain number", self._n_numbers)

    def evaluate(self, evaluator: Evaluator) -> None:
        """An evaluator reads them, adds up bins or multiplies numbers, and writes results."""
        self._tally.do("evaluate", "plain number", self._n_numbers)
        unit = "plain sum" if evaluator.n_cells > 1 else "plain product"
        self._tally.do("evaluate", unit, evaluator.n_features * self._n_numbers)
        self._results("evaluate", evaluator)

    def decrypt(self, evaluator: Evaluator) -> None:
        """The owner reads what an evaluator returned."""
        self._results("decrypt", evaluator)

    def _results(self, phase: str, evaluator: Evaluator) -> None:
        # A masked square has a product, a weighted one and two masks.
        per_cell = 4 if evaluator.quadratic else 1
        count = per_cell * evaluator.n_rows * self._spec.n_columns
        self._tally.do(phase, "plain number", count)


Columns = BGVColumns | PaillierColumns | PlainColumns


def columns_of(tally: Counts, scheme: str, spec: ColumnSpec, security_bits: int) -> Columns:
    """The kernel of a scheme."""
    if scheme == "plain":
        return PlainColumns(tally, spec)
    if scheme == "paillier":
        return PaillierColumns(tally, spec, security_bits)
    return BGVColumns(tally, spec)


class CountingOwner:
    """The label holder's side: computes in the clear on the rows there are, counts for all rows."""

    def __init__(
        self, tally: Counts, scheme: str, columns: IntArray, spec: ColumnSpec, security_bits: int
    ) -> None:
        self.spec = spec
        self._kernel = columns_of(tally, scheme, spec, security_bits)
        self._inside = PlainColumnOwner(columns, replace(spec, n_samples=len(columns)))
        self._kernel.encrypt()
        self.keys = blank_keys(self._kernel.keys, self._kernel.key_bytes)
        content = (self._kernel, self._inside)
        self.columns = blank_ciphertexts(scheme, [self._kernel.columns], content)

    def open_products(self, sealed: Ciphertexts, n_rows: int) -> BigArray:
        """The products themselves."""
        self._kernel.decrypt(Evaluator(n_rows, 1, quadratic=False))
        return self._inside.open_products(opened(sealed), n_rows)

    def open_quadratics(self, sealed: Ciphertexts, n_features: int, n_cells: int) -> BigArray:
        """The quadratics themselves."""
        self._kernel.decrypt(Evaluator(n_features, n_cells, quadratic=True))
        return self._inside.open_quadratics(opened(sealed), n_features, n_cells)


class CountingEvaluator:
    """The feature holder's side of :class:`CountingOwner`."""

    def __init__(self, _counts: Counts, columns: Ciphertexts, spec: ColumnSpec) -> None:
        self.spec = spec
        self._scheme = columns.scheme
        self._kernel: Columns
        self._kernel, owner = opened(columns)
        self._inside = PlainColumnEvaluator(owner.keys, owner.columns, owner.spec)

    def products(self, rows: Rows, added: IntArray | BigArray | None = None) -> Ciphertexts:
        """As many ciphertexts as the products of all rows take."""
        return self._sealed(rows, self._inside.products(rows, added), quadratic=False)

    def quadratics(self, rows: Rows, weights: IntArray | None = None) -> Ciphertexts:
        """As many ciphertexts as masked products and corrections take."""
        return self._sealed(rows, self._inside.quadratics(rows, weights), quadratic=True)

    def _sealed(self, rows: Rows, content: Ciphertexts, *, quadratic: bool) -> Ciphertexts:
        n_cells = rows.n_bins if isinstance(rows, BinnedRows) else 1
        evaluator = Evaluator(rows.n_features, n_cells, quadratic)
        self._kernel.evaluate(evaluator)
        return blank_ciphertexts(self._scheme, self._kernel.sealed(evaluator), content)
