# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Degenerate SEAL keys: found by what an honest key cannot look like.

A public key re-randomises what goes back to its owner: the second polynomial of a fresh encryption
of zero must cover that of the result. With a key of zeros, or of small or repeated numbers, it
covers nothing. Polynomials of an honest key cannot be told from uniform ones, neither by their
coefficients nor by their values at the roots (SEAL stores the latter), so anything that can be told
is refused. A key that was made with care to look uniform passes: its owner is expected to follow
the protocol in that.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]

HEADER_BYTES = 113
"""What SEAL writes before the words of an uncompressed ciphertext or key."""

_LIST_HEADER_BYTES = 56
_N_BINS = 16
_DEVIATIONS = 12.0
_REPEATED_SHARE = 0.01


def public_words(blob: bytes, primes: int, degree: int) -> Words | None:
    """The two polynomials of a serialised public key, or None if it has another size."""
    if len(blob) != HEADER_BYTES + 2 * primes * degree * 8:
        return None
    return np.frombuffer(blob, "<u8", offset=HEADER_BYTES).reshape(2, primes, degree)


def switching_words(blob: bytes, primes: int, degree: int) -> Iterator[Words | None]:
    """The polynomials of every key in a list of key-switching keys; None where a size is wrong."""
    size, place = HEADER_BYTES + 2 * primes * degree * 8, _LIST_HEADER_BYTES
    while place + 8 <= len(blob):
        count = int.from_bytes(blob[place : place + 8], "little")
        place += 8
        for _ in range(min(count, primes)):
            yield public_words(blob[place : place + size], primes, degree)
            place += size
    if place != len(blob):
        yield None


def look_uniform(words: Words, moduli: list[int]) -> bool:
    """Whether every polynomial fills its range evenly; shape (polynomials, primes, degree)."""
    degree = words.shape[-1]
    expected = degree / _N_BINS
    most = _DEVIATIONS * np.sqrt(expected)
    for polynomial in words:
        for residues, modulus in zip(polynomial, moduli, strict=True):
            bins = residues * np.uint64(_N_BINS) // np.uint64(modulus)
            counts = np.bincount(bins.astype(np.int64), minlength=_N_BINS)
            if len(counts) > _N_BINS or np.abs(counts - expected).max() > most:
                return False
    return True


def repeat_numbers(words: Words) -> bool:
    """Whether a polynomial has numbers more than once; uniform ones of 54 bits hardly do."""
    return any(
        len(np.unique(residues)) < (1 - _REPEATED_SHARE) * len(residues)
        for polynomial in words
        for residues in polynomial
    )
