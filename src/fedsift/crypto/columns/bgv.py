# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Encrypted columns under BGV: secret rows are plaintext factors, one multiplication deep.

Three things make it fast. Several counts share a slot (digits of the plaintext modulus) when only
counts are asked for. Samples and rows fill all slots (:mod:`fedsift.crypto.layout`). And partial
sums are added by the owner after decryption, as random shares that add up to the result, instead
of by rotations under encryption.

Numbers too large for one plaintext prime are computed modulo several and put together by the
Chinese remainder theorem.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import seal

from fedsift.crypto.columns.api import (
    BigArray,
    ColumnSpec,
    Digits,
    IntArray,
    Rows,
    RowValues,
    check_added,
    check_columns,
    check_rows,
    check_weights,
    correction_values,
    packed_values,
    two_sides,
    values_of,
)
from fedsift.crypto.layout import Layout, choose_layout
from fedsift.crypto.modular import last_share, recombine, uniform_below
from fedsift.crypto.schemes.seal import (
    FLOODING_BITS,
    SealOwner,
    SealParameters,
    SealPublic,
    Slots,
    plain_primes,
)
from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.errors import BadCiphertext, KeyTooWeak

_DEGREE = 8192
_LEVELS = 3
_COLUMNS_AT_ONCE = 8
"""Columns whose rotated copies are held together: bounds memory, still shares the factors."""


def product_noise_bits(plain_bits: int, n_terms: int) -> float:
    """Upper bound of log2 of the noise after ``n_terms`` factor-times-rotated-column products.

    Fresh and rotated columns carry about ``plain_bits + 14`` bits, a factor adds
    ``plain_bits + 8``, terms add like independent errors; the constant has three bits to spare
    (asserted by the tests).
    """
    return 2 * plain_bits + 25 + math.log2(max(n_terms, 64) / 64) / 2


@dataclass(frozen=True)
class BGVPlan:
    """Everything owner and evaluator derive from the specification alone."""

    parameters: tuple[SealParameters, ...]
    layout: Layout
    digit_bits: int
    column_digits: int
    row_digits: int
    noise_bits: float
    n_chunks: int
    n_groups: int

    @property
    def moduli(self) -> tuple[int, ...]:
        """The plaintext primes."""
        return tuple(parameters.plain_modulus for parameters in self.parameters)

    @property
    def numbers(self) -> dict[str, int]:
        """The public parameters as they travel."""
        moduli = {f"plain_{i}": modulus for i, modulus in enumerate(self.moduli)}
        return {
            "degree": _DEGREE,
            "levels": _LEVELS,
            "period": self.layout.period,
            "groups": self.layout.groups,
            "security_bits": 128,
            **moduli,
        }


def make_plan(spec: ColumnSpec) -> BGVPlan:
    """Choose plaintext primes, digits and layout so that every result fits and can be hidden."""
    terms = spec.n_samples * spec.n_columns
    spare = _LEVELS * 54 - FLOODING_BITS - 3 - (product_noise_bits(0, terms))
    max_bits = math.floor(spare / 2)
    digit_bits, column_digits, row_digits = 0, 1, 1
    if spec.counting:
        digit_bits = spec.n_samples.bit_length()
        digits = max(1, (max_bits - 1) // digit_bits)
        column_digits = min(spec.n_columns, digits)
        row_digits = digits // column_digits
        bits, count = max(20, digit_bits * column_digits * row_digits + 1), 1
    else:
        count = math.ceil((spec.result_bits + 2) / (max_bits - 1))
        bits = max(20, math.ceil((spec.result_bits + 2) / count) + 1)
    primes = plain_primes(_DEGREE, bits, count)
    groups_of_columns = math.ceil(spec.n_columns / column_digits)
    layout = choose_layout(
        _DEGREE // 2,
        spec.n_samples,
        shared_rows=math.ceil(spec.expected_rows / row_digits),
        own_rows=spec.expected_features,
        n_columns=groups_of_columns,
    )
    added_terms = layout.period * layout.n_chunks(spec.n_samples) * groups_of_columns
    return BGVPlan(
        parameters=tuple(SealParameters("bgv", _DEGREE, _LEVELS, prime) for prime in primes),
        layout=layout,
        digit_bits=digit_bits,
        column_digits=column_digits,
        row_digits=row_digits,
        noise_bits=product_noise_bits(bits, added_terms),
        n_chunks=layout.n_chunks(spec.n_samples),
        n_groups=groups_of_columns,
    )


class BGVColumnOwner:
    """Holds the columns and one secret key per plaintext prime."""

    def __init__(self, columns: IntArray, spec: ColumnSpec, *, security_bits: int = 128) -> None:
        if security_bits > 128:
            raise KeyTooWeak(
                f"BGV here offers 128-bit security, {security_bits} was asked for.",
                "At most 128 bits are supported.",
                "Use he='paillier' with a larger key, or lower the demand.",
            )
        self.spec = spec
        self._plan = make_plan(spec)
        steps = [1, self._plan.layout.baby_steps]
        self._owners = [SealOwner(p, steps=steps) for p in self._plan.parameters]
        blobs = [blob for owner in self._owners for blob in owner.public_blobs]
        self.keys = PublicKeys("bgv", self._plan.numbers, tuple(blobs))
        self.columns = Ciphertexts("bgv", tuple(self._encrypt(check_columns(columns, spec))))

    def _encrypt(self, columns: IntArray) -> Iterator[bytes]:
        """Prime by prime, column group by column group, chunk by chunk."""
        plan = self._plan
        shape = (plan.n_chunks * plan.layout.chunk_samples, spec_width(plan, self.spec))
        padded = np.zeros(shape, dtype=np.int64)
        padded[: columns.shape[0], : columns.shape[1]] = columns
        slots = plan.layout.sample_of_slot().ravel()
        for owner in self._owners:
            modulus = owner.workspace.parameters.plain_modulus
            for group in range(plan.n_groups):
                packed = _pack_columns(padded, group, plan) % modulus
                for chunk in packed.reshape(plan.n_chunks, -1):
                    yield owner.encrypt(chunk[slots].astype(np.uint64))

    def open_products(self, sealed: Ciphertexts, n_rows: int) -> BigArray:
        """Decrypt to exact integers of shape (n_rows, n_columns)."""
        plan = self._plan
        packed_rows = math.ceil(n_rows / plan.row_digits)
        residues = self._residues(sealed, [packed_rows] * plan.n_groups)
        if not self.spec.counting:
            values = [
                recombine([r[g] for r in residues], plan.moduli) for g in range(plan.n_groups)
            ]
            return self._in_range(np.stack(values, axis=1))
        (packed,) = residues  # one prime is enough for counts; they are never negative
        digits = _unpack(np.stack(packed, axis=1).astype(np.int64), plan)
        flat = digits.reshape(digits.shape[0], -1)[:n_rows, : self.spec.n_columns]
        return flat.astype(object)

    def open_quadratics(self, sealed: Ciphertexts, n_features: int, n_cells: int) -> BigArray:
        """Decrypt to one exact integer per feature."""
        plan, cells = self._plan, n_features * n_cells
        lengths = [2 * cells] * plan.n_groups + [n_features]
        totals = []
        for parameters, parts in zip(plan.parameters, self._residues(sealed, lengths), strict=True):
            total = parts[-1].astype(object)
            for masked in parts[:-1]:
                left, right = masked[:cells].astype(object), masked[cells:].astype(object)
                total += (left * right).reshape(n_features, n_cells).sum(axis=1)
            totals.append(total % parameters.plain_modulus)
        return self._in_range(recombine(totals, plan.moduli))

    def _in_range(self, values: BigArray) -> BigArray:
        """Refuse results beyond the agreed range: an overflow, or a party that computes wrongly."""
        if values.size and np.abs(values).max() >= 1 << self.spec.result_bits:
            raise BadCiphertext(
                "A result opened to a number beyond the agreed range.",
                f"Results have at most {self.spec.result_bits} bits.",
                "Check that the other party runs the same job on the same rows.",
            )
        return values

    def _residues(self, sealed: Ciphertexts, lengths: Sequence[int]) -> list[list[Slots]]:
        """Per prime, the row sums of each part; part ``i`` has ``lengths[i]`` rows."""
        layout = self._plan.layout
        blocks = [layout.n_blocks(length) for length in lengths]
        expected = len(self._owners) * sum(blocks)
        if sealed.scheme != "bgv" or len(sealed.blobs) != expected:
            raise BadCiphertext(
                f"Received {len(sealed.blobs)} {sealed.scheme[:12]} ciphertexts.",
                f"{expected} bgv ciphertexts were agreed.",
                "Check that all parties run the same version of fedsift and the same job.",
            )
        blobs = iter(sealed.blobs)
        return [
            [self._part(owner, blobs, n, length) for n, length in zip(blocks, lengths, strict=True)]
            for owner in self._owners
        ]

    def _part(self, owner: SealOwner, blobs: Iterator[bytes], n_blocks: int, length: int) -> Slots:
        modulus = owner.workspace.parameters.plain_modulus
        sums = [
            self._plan.layout.add_parts(owner.decrypt(next(blobs)), modulus)
            for _ in range(n_blocks)
        ]
        return np.concatenate(sums)[:length]


class BGVColumnEvaluator:
    """Computes under the owner's keys; every result leaves masked, flooded and switched down."""

    def __init__(self, keys: PublicKeys, columns: Ciphertexts, spec: ColumnSpec) -> None:
        self.spec = spec
        self._plan = plan = make_plan(spec)
        expected = len(plan.parameters) * plan.n_groups * plan.n_chunks
        if keys.numbers != plan.numbers or len(keys.blobs) != 2 * len(plan.parameters):
            raise BadCiphertext(
                "The public keys are of other parameters than this job needs.",
                "Both sides derive ring, primes and layout from the agreed shapes.",
                "Check that all parties run the same version of fedsift and the same job.",
            )
        if (keys.scheme, columns.scheme) != ("bgv", "bgv") or len(columns.blobs) != expected:
            raise BadCiphertext(
                f"Received {len(columns.blobs)} {columns.scheme[:12]} ciphertexts.",
                f"{expected} bgv ciphertexts were agreed.",
                "Check that all parties run the same version of fedsift and the same job.",
            )
        self._publics = [
            SealPublic(parameters, keys.blobs[2 * i : 2 * i + 2], rotations=True)
            for i, parameters in enumerate(plan.parameters)
        ]
        # Loaded when used: at 100,000 rows there are too many to hold them unpacked.
        self._columns = columns.blobs
        self._column(0, 0, 0)  # a malformed first ciphertext is refused before any work

    def _column(self, prime: int, group: int, chunk: int) -> seal.Ciphertext:
        plan = self._plan
        position = (prime * plan.n_groups + group) * plan.n_chunks + chunk
        public = self._publics[prime]
        return public.workspace.ciphertext(self._columns[position], _LEVELS)

    def products(self, rows: Rows, added: IntArray | BigArray | None = None) -> Ciphertexts:
        """Every row times every column, plus what is to be added."""
        check_rows(rows, self.spec)
        more = check_added(added, rows, self.spec)
        plan = self._plan
        n_rows = math.ceil(rows.n_rows / plan.row_digits)
        blobs: list[bytes] = []
        for prime, public in enumerate(self._publics):
            modulus = public.workspace.parameters.plain_modulus
            values = (
                packed_values(rows, Digits(plan.digit_bits * plan.column_digits, plan.row_digits))
                if self.spec.counting
                else values_of(rows, modulus)
            )
            zeros = np.zeros(n_rows, dtype=np.uint64)
            products = self._multiply(prime, values, n_rows, range(plan.n_groups))
            for column, results in enumerate(products):
                share = zeros if more is None else (more[:, column] % modulus).astype(np.uint64)
                blobs += self._seal(prime, results, share)
        return Ciphertexts("bgv", tuple(blobs))

    def quadratics(self, rows: Rows, weights: IntArray | None = None) -> Ciphertexts:
        """Per feature one quadratic, and nothing of the single products."""
        check_rows(rows, self.spec)
        checked = check_weights(rows, weights, self.spec)
        blobs: list[bytes] = []
        for prime in range(len(self._publics)):
            blobs += self._quadratic_of_prime(prime, rows, checked.astype(object), checked.shape[1])
        return Ciphertexts("bgv", tuple(blobs))

    def _quadratic_of_prime(
        self, prime: int, rows: Rows, weights: BigArray, n_cells: int
    ) -> list[bytes]:
        """Cells: u = m + r and v = w m + r'. Features: T = -sum(r' m + w r m + r r')."""
        modulus = self._plan.parameters[prime].plain_modulus
        groups, cells = self._plan.n_groups, rows.n_rows
        masks = [uniform_below(modulus, (2, rows.n_features, n_cells)) for _ in range(groups)]
        sides = two_sides(rows, weights, modulus)
        blobs: list[bytes] = []
        for k, results in enumerate(self._multiply(prime, sides, 2 * cells, range(groups))):
            blobs += self._seal(prime, results, masks[k].ravel())

        # Corrections are added over the columns: single ones would reveal per-class quadratics.
        total: list[list[seal.Ciphertext]] = []
        constant = np.zeros(rows.n_features, dtype=object)
        for k in range(groups):
            left, right = masks[k].astype(object)
            constant -= (left * right).sum(axis=1)
            factor = -(right + weights * left) % modulus
            values = correction_values(rows, factor.astype(np.uint64), modulus)
            part = list(self._multiply(prime, values, rows.n_features, range(k, k + 1)))
            total = _add_blocks(self._publics[prime], total, part) if total else part
        return blobs + self._seal(prime, total[0], (constant % modulus).astype(np.uint64))

    def _multiply(
        self, prime: int, values: RowValues, n_rows: int, groups: range
    ) -> Iterator[list[seal.Ciphertext]]:
        """For each column group, the encrypted partial sums of all rows, one ciphertext a block."""
        for first in range(groups.start, groups.stop, _COLUMNS_AT_ONCE):
            batch = range(first, min(first + _COLUMNS_AT_ONCE, groups.stop))
            totals: list[list[seal.Ciphertext]] = []
            for chunk in range(self._plan.n_chunks):
                columns = [self._column(prime, group, chunk) for group in batch]
                part = self._multiply_chunk(prime, values, n_rows, chunk, columns)
                totals = _add_blocks(self._publics[prime], totals, part) if totals else part
            yield from totals

    def _multiply_chunk(
        self,
        prime: int,
        values: RowValues,
        n_rows: int,
        chunk: int,
        columns: Sequence[seal.Ciphertext],
    ) -> list[list[seal.Ciphertext]]:
        layout, public = self._plan.layout, self._publics[prime]
        babies = [_rotated_copies(public, column, layout.baby_steps) for column in columns]
        start = chunk * layout.chunk_samples
        samples = slice(start, min(start + layout.chunk_samples, self.spec.n_samples))
        results: list[list[seal.Ciphertext]] = [[] for _ in columns]
        for block in range(layout.n_blocks(n_rows)):
            first = block * layout.block_rows
            dense = np.zeros((layout.block_rows, layout.chunk_samples), dtype=np.uint64)
            wanted = slice(first, min(first + layout.block_rows, n_rows))
            dense[: wanted.stop - first, : samples.stop - start] = values(wanted, samples)
            for k, total in enumerate(_giant_steps(public, layout, dense, babies)):
                results[k].append(total)
        return results

    def _seal(self, prime: int, blocks: Sequence[seal.Ciphertext], target: Slots) -> list[bytes]:
        """Add shares that sum to ``target`` over the parts of each row, then hide the circuit.

        Slots without a row get uniform values, so that the owner learns the row sums and nothing
        of the partial sums.
        """
        public, layout = self._publics[prime], self._plan.layout
        modulus = public.workspace.parameters.plain_modulus
        sealed = []
        for i, block in enumerate(blocks):
            shares = uniform_below(modulus, (2 * layout.groups, layout.block_rows))
            wanted = target[i * layout.block_rows : (i + 1) * layout.block_rows]
            shares[-1, : len(wanted)] = last_share(shares[:-1, : len(wanted)], wanted, modulus)
            masked = public.workspace.evaluator.add_plain(block, public.workspace.encode(shares))
            sealed.append(public.hide_circuit(masked, self._plan.noise_bits))
        return sealed


def spec_width(plan: BGVPlan, spec: ColumnSpec) -> int:
    """Columns after padding to whole column groups."""
    return max(spec.n_columns, plan.n_groups * plan.column_digits)


def _pack_columns(columns: IntArray, group: int, plan: BGVPlan) -> IntArray:
    """The columns of one group as digits of one number per sample."""
    first = group * plan.column_digits
    packed = np.zeros(columns.shape[0], dtype=np.int64)
    for digit in range(plan.column_digits):
        packed += columns[:, first + digit] << (digit * plan.digit_bits)
    return packed


def _unpack(values: IntArray, plan: BGVPlan) -> IntArray:
    """Digits of packed counts: (packed rows, groups) -> (rows, groups, column digits)."""
    mask = (1 << plan.digit_bits) - 1
    row_bits = plan.digit_bits * plan.column_digits
    rows = np.stack([values >> (d * row_bits) for d in range(plan.row_digits)], axis=1)
    rows = rows.reshape(-1, values.shape[1])
    return np.stack(
        [(rows >> (d * plan.digit_bits)) & mask for d in range(plan.column_digits)], axis=2
    )


def _rotated_copies(
    public: SealPublic, column: seal.Ciphertext, count: int
) -> list[seal.Ciphertext]:
    copies = [column]
    for _ in range(count - 1):
        copies.append(public.rotate(copies[-1], 1))
    return copies


def _giant_steps(
    public: SealPublic,
    layout: Layout,
    dense: npt.NDArray[np.uint64],
    babies: Sequence[Sequence[seal.Ciphertext]],
) -> list[seal.Ciphertext]:
    """One block of rows against every column: Horner over giant steps, factors shared."""
    evaluator = public.workspace.evaluator
    samples, rows = layout.sample_of_slot(), layout.row_of_slot()
    totals: list[seal.Ciphertext | None] = [None] * len(babies)
    for giant in reversed(range(layout.giant_steps)):
        inner: list[seal.Ciphertext | None] = [None] * len(babies)
        # Slot x is about to be rotated by giant * baby_steps, so its row sits that far to the left.
        shifted_rows = np.roll(rows, giant * layout.baby_steps)
        for baby in range(layout.baby_steps):
            factor_slots = dense[shifted_rows, np.roll(samples, -baby, axis=1)]
            if not factor_slots.any():
                continue
            factor = public.workspace.encode_factor(factor_slots, _LEVELS)
            for k, copies in enumerate(babies):
                _accumulate(evaluator, inner, k, evaluator.multiply_plain(copies[baby], factor))
        for k, part in enumerate(inner):
            if totals[k] is not None:
                totals[k] = public.rotate(totals[k], layout.baby_steps)
            if part is not None:
                _accumulate(evaluator, totals, k, part)
    # A block without members is an encryption of zero: SEAL refuses to multiply by zero.
    return [public.zero() if total is None else total for total in totals]


def _accumulate(
    evaluator: seal.Evaluator,
    sums: list[seal.Ciphertext | None],
    position: int,
    term: seal.Ciphertext,
) -> None:
    current = sums[position]
    if current is None:
        sums[position] = term
    else:
        evaluator.add_inplace(current, term)


def _add_blocks(
    public: SealPublic,
    totals: list[list[seal.Ciphertext]],
    part: list[list[seal.Ciphertext]],
) -> list[list[seal.Ciphertext]]:
    for sums, terms in zip(totals, part, strict=True):
        for current, term in zip(sums, terms, strict=True):
            public.workspace.evaluator.add_inplace(current, term)
    return totals
