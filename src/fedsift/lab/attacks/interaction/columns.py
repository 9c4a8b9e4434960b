# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Attack on columns at the cloud server (method ``interaction``, paper 001).

Leak  The paper gives every feature owner the key that decrypts all columns, so a cloud server that
      colludes with one of them reads everything.
Fix   Only the label owner has a secret key. The attacker here has everything the cloud server and
      one feature owner received, and a guess of the secret column, and looks for the guess in the
      bytes: it succeeds without encryption and finds nothing in ciphertexts.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from fedsift.crypto.wire import Ciphertexts

Column = npt.NDArray[np.float64]


def likeness(blob: bytes, guess: Column) -> float:
    """Largest absolute correlation of a guessed column with consecutive words of some bytes.

    Words are read as numbers and by whether they are above their median, so that negative numbers
    modulo a prime show too.
    """
    usable = len(blob) // 8 * 8
    best = 0.0
    for offset in (0, len(blob) - usable):
        words = np.frombuffer(blob[offset : offset + usable], dtype=np.uint64).astype(np.float64)
        if len(words) < len(guess):
            continue
        for reading in (words, np.where(words > np.median(words), -1.0, 1.0), np.sign(words)):
            best = max(best, _sliding_correlation(reading, guess))
    return best


def _sliding_correlation(words: Column, guess: Column) -> float:
    """Largest absolute correlation over all places, by one convolution."""
    n = len(guess)
    wanted = (guess - guess.mean()) / max(float(guess.std()), 1e-12)
    size = 1 << (len(words) + n - 1).bit_length()
    spectrum = np.fft.rfft(words, size) * np.conj(np.fft.rfft(wanted, size))
    products = np.fft.irfft(spectrum, size)[: len(words) - n + 1]
    sums, squares = (np.concatenate([[0.0], np.cumsum(v)]) for v in (words, words**2))
    mean = (sums[n:] - sums[:-n]) / n
    spread = np.sqrt(np.maximum((squares[n:] - squares[:-n]) / n - mean**2, 0.0))
    usable = spread > 1e-9 * max(1.0, float(np.abs(words).max()))
    if not usable.any():
        return 0.0
    return float(np.abs(products[usable] / (n * spread[usable])).max())


def best_likeness(sealed: Iterable[Ciphertexts], guess: Column) -> float:
    """The best trace of a guessed column in everything a colluding group received."""
    return max((likeness(blob, guess) for part in sealed for blob in part.blobs), default=0.0)
