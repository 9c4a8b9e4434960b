# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Many products of powers with few multiplications.

Everything slow in Paillier is a product of powers modulo the square of ``root``. The ways here
are the known ones, each where it wins:

- :class:`FixedBase`: random powers of one base (Lim and Lee's comb);
- :func:`straus`: one product of a few bases, each with its own exponent;
- :func:`joined_powers`: many such products side by side in few ciphertexts;
- :func:`bucket_products`: sums over bins. Every base is multiplied once per *group* of features
  into the joint bucket of its bins, and the joint buckets are then collapsed;
- :func:`weighted_products`: sums weighted by integers, as bucket products of the digits
  (Pippenger's method).
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gmpy2
import numpy as np
import numpy.typing as npt
from gmpy2 import mpz

from fedsift.errors import BadCiphertext, ParameterError

TEETH = 8
"""Comb width: one random byte picks one table entry."""

MERGE_COST = 1.8
"""A product of two full numbers against one of a full with a half number (measured, 6144 bits)."""

MAX_JOINT_BUCKETS = 1 << 16
"""Keeps the joint buckets of one group of features within some 50 MB."""

MAX_THREADS = 8


class SharedBases:
    """Many numbers modulo ``root**2`` that will be multiplied in many combinations.

    Each number is written ``residue * (1 + root * slope)`` with ``residue < root``. The slopes of
    a product only add up, and the residues are half as long, which makes a multiplication nearly
    twice as fast (the identity ``(1 + ra)(1 + rb) = 1 + r(a + b)`` modulo ``r**2``).
    """

    def __init__(self, numbers: Sequence[mpz], root: mpz) -> None:
        self.root = root
        self.modulus = root * root
        self.residues: list[mpz] = []
        self.slopes: list[mpz] = []
        for number in numbers:
            multiple, residue = gmpy2.f_divmod(number, root)
            self.residues.append(residue)
            self.slopes.append(multiple * _inverse(residue, root) % root)

    def __len__(self) -> int:
        return len(self.residues)

    def join(self, product: mpz, slope: mpz) -> mpz:
        """Put a product of residues and its sum of slopes together again."""
        return product * (1 + self.root * (slope % self.root)) % self.modulus

    def total(self) -> mpz:
        """Return the product of all numbers."""
        product = mpz(1)
        for residue in self.residues:
            product = product * residue % self.modulus
        return self.join(product, sum(self.slopes, mpz(0)))


def _inverse(number: mpz, modulus: mpz) -> mpz:
    try:
        return gmpy2.invert(number, modulus)
    except ZeroDivisionError:
        raise BadCiphertext(
            "A ciphertext has a factor in common with the key.",
            "Ciphertexts are invertible.",
            "Ask the owner for fresh keys and ciphertexts.",
        ) from None


class FixedBase:
    """Powers of one base modulo ``root**2`` with random exponents, from a precomputed comb.

    The exponent is never formed: each random byte is one column of its bits, so a string of
    uniform bytes is a uniform exponent below ``2**(8 * n_columns)``.

    Parameters
    ----------
    base, root : mpz
    exponent_bits : int
        At least this many random bits in the exponent.
    n_squarings : int
        Squarings per power; more of them make the table smaller.
    """

    def __init__(self, base: mpz, root: mpz, exponent_bits: int, n_squarings: int) -> None:
        self._depth = n_squarings + 1
        n_blocks = math.ceil(exponent_bits / (TEETH * self._depth))
        self.n_columns = n_blocks * self._depth
        modulus = root * root
        ladder = [base % modulus]
        for _ in range(TEETH * self.n_columns - 1):
            ladder.append(ladder[-1] * ladder[-1] % modulus)
        entries: list[mpz] = []
        for block in range(n_blocks):
            teeth = ladder[block * self._depth :: self.n_columns][:TEETH]
            entries += _subset_products(teeth, modulus)
        self._entries = SharedBases(entries, root)
        self._offsets = range(0, len(entries), 1 << TEETH)

    def random_digits(self, count: int) -> list[bytes]:
        """Fresh exponents from the operating system, in the form :meth:`power` takes."""
        block = os.urandom(self.n_columns * count)
        return [block[i * self.n_columns : (i + 1) * self.n_columns] for i in range(count)]

    def power(self, digits: bytes) -> mpz:
        """Raise the base to the exponent that the digits stand for."""
        residues, slopes = self._entries.residues, self._entries.slopes
        modulus, depth = self._entries.modulus, self._depth
        product, slope = mpz(1), mpz(0)
        for row in range(depth - 1, -1, -1):
            product, slope = product * product % modulus, 2 * slope
            for offset, digit in zip(self._offsets, digits[row::depth], strict=True):
                product = product * residues[offset + digit] % modulus
                slope += slopes[offset + digit]
        return self._entries.join(product, slope)

    def exponent(self, digits: bytes) -> int:
        """Return the exponent as a number (the column of byte ``i`` has weight ``2**i``)."""
        return sum(
            ((digit >> tooth) & 1) << (tooth * self.n_columns + column)
            for column, digit in enumerate(digits)
            for tooth in range(TEETH)
        )


def _subset_products(teeth: Sequence[mpz], modulus: mpz) -> list[mpz]:
    products = [mpz(1)]
    for tooth in teeth:
        products += [product * tooth % modulus for product in products]
    return products


_Pair = tuple[mpz, mpz]


class StrausTables:
    """Small odd powers of several bases, shared by many products over the same bases.

    Numbers are kept as ``low + root * high``: a product then needs three short multiplications
    and two short divisions, a third less than one long multiplication and one long division.
    """

    def __init__(self, bases: Sequence[mpz], root: mpz, window: int) -> None:
        self._root = root
        self._window = window
        self._tables = [_odd_powers(base, 1 << (window - 1), root) for base in bases]

    def product(self, exponents: Sequence[int]) -> mpz:
        """Return the product of ``bases[i] ** exponents[i]``; exponents may be negative."""
        above = self._unsigned([max(exponent, 0) for exponent in exponents])
        if all(exponent >= 0 for exponent in exponents):
            return above
        # All negative powers are collected first, so that one inversion serves them all.
        below = self._unsigned([max(-exponent, 0) for exponent in exponents])
        modulus = self._root * self._root
        return above * gmpy2.invert(below, modulus) % modulus

    def _unsigned(self, exponents: Sequence[int]) -> mpz:
        """Sliding windows of all exponents over one common chain of squarings."""
        root = self._root
        low, high = mpz(1), mpz(0)
        for factors in reversed(self._due(exponents)):
            carry, square = divmod(low * low, root)
            low, high = square, (carry + 2 * low * high) % root
            for other_low, other_high in factors:
                carry, lowest = divmod(low * other_low, root)
                low, high = lowest, (carry + low * other_high + high * other_low) % root
        return low + root * high

    def _due(self, exponents: Sequence[int]) -> list[list[_Pair]]:
        """Table entries to multiply in at each bit position."""
        longest = max((exponent.bit_length() for exponent in exponents), default=0)
        due: list[list[_Pair]] = [[] for _ in range(longest)]
        mask = (1 << self._window) - 1
        for table, rest in zip(self._tables, exponents, strict=True):
            position = 0
            while rest:
                zeros = (rest & -rest).bit_length() - 1
                rest, position = rest >> zeros, position + zeros
                due[position].append(table[(rest & mask) >> 1])
                rest, position = rest >> self._window, position + self._window
        return due


def _odd_powers(base: mpz, count: int, root: mpz) -> list[_Pair]:
    modulus = root * root
    power, square = mpz(base), base * base % modulus if count > 1 else base
    pairs = []
    for _ in range(count):
        high, low = divmod(power, root)
        pairs.append((low, high))
        power = power * square % modulus if len(pairs) < count else power
    return pairs


def straus_window(exponent_bits: int, n_products: int = 1) -> int:
    """Window with the fewest multiplications for this many products over the same bases."""
    # A sliding window is followed by one zero on average.
    return min(range(1, 9), key=lambda w: (1 << (w - 1)) + n_products * exponent_bits / (w + 1))


def straus(bases: Sequence[mpz], exponents: Sequence[int], root: mpz) -> mpz:
    """Return the product of ``bases[i] ** exponents[i]`` modulo ``root**2``.

    Examples
    --------
    >>> int(straus([mpz(3), mpz(5)], [2, -1], mpz(7)))
    41
    """
    longest = max((abs(exponent).bit_length() for exponent in exponents), default=0)
    return StrausTables(bases, root, straus_window(max(longest, 1))).product(exponents)


def joined_powers(
    bases: Sequence[mpz],
    exponents: Sequence[int],
    root: mpz,
    *,
    digit_bits: int,
    n_digits: int,
    bases_per_digit: int = 1,
) -> list[mpz]:
    """Join many results in few numbers: digit ``i`` is shifted up by ``i * digit_bits``.

    A digit is the product of ``bases_per_digit`` powers. All digits of one joined number share
    its squarings, so shifting and raising cost not more than shifting alone.
    """
    longest = max((abs(exponent).bit_length() for exponent in exponents), default=0)
    window = straus_window(max(longest, 1))
    size = n_digits * bases_per_digit
    joined = []
    for start in range(0, len(bases), size):
        part = exponents[start : start + size]
        shifted = [e << (i // bases_per_digit * digit_bits) for i, e in enumerate(part)]
        joined.append(StrausTables(bases[start : start + size], root, window).product(shifted))
    return joined


def group_size(n_bases: int, n_bins: int) -> int:
    """How many features should share joint buckets, by the number of multiplications."""

    def cost(size: int) -> float:
        fills = max(n_bases - int(n_bins**size), 0)
        return (fills + MERGE_COST * _collapse_merges(size, n_bins)) / size

    sizes = [s for s in range(1, 9) if s == 1 or n_bins**s <= MAX_JOINT_BUCKETS]
    return min(sizes, key=cost)


def _collapse_merges(size: int, n_bins: int) -> int:
    if size == 1:
        return 0
    left = size // 2
    here = int(2 * n_bins**size - n_bins**left - n_bins ** (size - left))
    return here + _collapse_merges(left, n_bins) + _collapse_merges(size - left, n_bins)


def bucket_products(
    bases: SharedBases, codes: npt.NDArray[np.integer[Any]], n_bins: int
) -> list[mpz]:
    """Multiply the bases of every bin of every feature.

    Parameters
    ----------
    bases : SharedBases
        One number per sample.
    codes : ndarray of shape (n_samples, n_features)
        Bin of each sample, in ``0 .. n_bins - 1``.
    n_bins : int

    Returns
    -------
    list of mpz
        ``n_features * n_bins`` products, feature by feature; 1 for an empty bin.
    """
    if codes.ndim != 2 or codes.shape[0] != len(bases):
        raise ParameterError(
            f"The codes have shape {codes.shape}.",
            f"They need one row for each of the {len(bases)} numbers.",
            "Align the rows with the encrypted columns.",
        )
    size = group_size(len(bases), n_bins)
    results: list[mpz] = []
    for start in range(0, codes.shape[1], size):
        group = codes[:, start : start + size].astype(np.int64)
        n_features = group.shape[1]
        joint = group @ (n_bins ** np.arange(n_features - 1, -1, -1, dtype=np.int64))
        products, slopes = _fill(bases, joint.tolist(), n_bins**n_features)
        for margin in _margins(products, slopes, n_features, n_bins, bases.modulus):
            results += [bases.join(*pair) for pair in zip(*margin, strict=True)]
    return results


_Buckets = tuple[list[mpz], list[mpz]]


def _fill(bases: SharedBases, joint: list[int], n_buckets: int) -> _Buckets:
    """Multiply each base into its bucket: the inner loop of the whole kernel."""
    products, slopes = [mpz(1)] * n_buckets, [mpz(0)] * n_buckets
    modulus = bases.modulus
    for bucket, residue, slope in zip(joint, bases.residues, bases.slopes, strict=True):
        products[bucket] = products[bucket] * residue % modulus
        slopes[bucket] += slope
    return products, slopes


def _margins(
    products: list[mpz], slopes: list[mpz], n_features: int, n_bins: int, modulus: mpz
) -> list[_Buckets]:
    """Collapse joint buckets to those of the single features, halving the group each time."""
    if n_features == 1:
        return [(products, slopes)]
    left = n_features // 2
    n_left, n_right = n_bins**left, n_bins ** (n_features - left)
    rows = [range(i * n_right, (i + 1) * n_right) for i in range(n_left)]
    columns = [range(j, n_left * n_right, n_right) for j in range(n_right)]
    margins: list[_Buckets] = []
    for parts, n_part in ((rows, left), (columns, n_features - left)):
        merged = [_product((products[k] for k in part), modulus) for part in parts]
        summed = [sum((slopes[k] for k in part), mpz(0)) for part in parts]
        margins += _margins(merged, summed, n_part, n_bins, modulus)
    return margins


def _product(numbers: Any, modulus: mpz) -> mpz:
    result = mpz(1)
    for number in numbers:
        # Empty buckets are common when groups are large.
        if number != 1:
            result = result * number % modulus
    return result


def weighted_products(bases: SharedBases, values: npt.NDArray[np.int64]) -> list[mpz]:
    """Return for every feature the product of ``bases[i] ** values[i, feature]``.

    Negative values are shifted up to non-negative ones; the surplus power of all bases together
    is the same for every feature and is divided out at the end.
    """
    if values.size == 0:
        return [mpz(1)] * values.shape[1]
    low, high = min(int(values.min()), 0), max(int(values.max()), 0)
    width = max((high - low).bit_length(), 1)
    window = _digit_window(len(bases), width)
    shifted = values.astype(np.uint64) - np.uint64(low & (2**64 - 1))
    n_windows = -(-width // window)
    shifts = np.arange(n_windows - 1, -1, -1, dtype=np.uint64) * np.uint64(window)
    surplus = gmpy2.powmod(gmpy2.invert(bases.total(), bases.modulus), -low, bases.modulus)
    results = []
    for feature in shifted.T:
        digits = (feature[:, None] >> shifts) & np.uint64((1 << window) - 1)
        buckets = bucket_products(bases, digits.astype(np.int64), 1 << window)
        results.append(_join_windows(buckets, window, bases.modulus) * surplus % bases.modulus)
    return results


def _digit_window(n_bases: int, width: int) -> int:
    def cost(window: int) -> float:
        buckets = n_bases + MERGE_COST * 2 * (1 << window)
        return -(-width // window) * (buckets + MERGE_COST * window)

    return min(range(1, 13), key=cost)


def _join_windows(buckets: list[mpz], window: int, modulus: mpz) -> mpz:
    """Pippenger: bucket ``d`` counts ``d`` times, the windows come highest first."""
    result = mpz(1)
    for start in range(0, len(buckets), 1 << window):
        for _ in range(window if start else 0):
            result = result * result % modulus
        running = mpz(1)
        # The product of all suffix products contains bucket d exactly d times.
        for bucket in reversed(buckets[start + 1 : start + (1 << window)]):
            running = running * bucket % modulus
            result = result * running % modulus
    return result


def n_threads() -> int:
    """Threads for list powers, which run without Python's lock."""
    return min(os.cpu_count() or 1, MAX_THREADS)


def powers(
    bases: list[mpz], exponent: mpz, modulus: mpz, pool: ThreadPoolExecutor | None = None
) -> list[mpz]:
    """Raise every base to the same exponent, in threads when a pool is given."""
    if pool is None or len(bases) < 2:
        return list(gmpy2.powmod_base_list(bases, exponent, modulus))
    part = math.ceil(len(bases) / n_threads())
    parts = [bases[start : start + part] for start in range(0, len(bases), part)]
    done = pool.map(lambda chunk: gmpy2.powmod_base_list(chunk, exponent, modulus), parts)
    return [number for chunk in done for number in chunk]
