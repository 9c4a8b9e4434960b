# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Short numbers under masks that cancel in the sum, from a secret that the adder does not have.

Every member adds its own key stream and subtracts its successor's, round a ring. To whoever lacks
the secret a masked array looks uniform; the sum over all members is the true one modulo ``2**21``.
Lighter than :mod:`fedsift.crypto.masking` (two streams instead of one per pair, 21 bits a number),
and weaker: one member together with the adder can unmask the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fedsift.errors import BadFrame, FixedPointOverflow, ParameterError

Words = npt.NDArray[np.uint64]
"""Three short numbers per word, as they travel."""

SHORT_BITS = 21
_PER_WORD = 3
_SHIFTS = np.arange(_PER_WORD, dtype=np.uint64) * np.uint64(SHORT_BITS)
_LARGEST = np.uint64((1 << SHORT_BITS) - 1)
_DOMAIN = b"fedsift zero shares v2"


def n_words(n_numbers: int) -> int:
    """Words that some short numbers fill."""
    return -(-n_numbers // _PER_WORD)


def masked(
    values: npt.NDArray[np.int64], secret: bytes, context: str, members: Sequence[str], own: str
) -> Words:
    """Add this member's mask to its numbers.

    Parameters
    ----------
    values : ndarray of int64
        Not negative; the sum over all members must stay below ``2**21``.
    secret : bytes
        Known to all members and to nobody who adds up.
    context : str
        Names the sum. Never twice with the same secret.
    members : sequence of str
        Everybody who takes part, in the same order at all of them.
    own : str
        Which member this is.

    Examples
    --------
    >>> parts = {"ann": np.array([1, 2, 3]), "bob": np.array([10, 20, 30])}
    >>> sealed = [masked(parts[name], bytes(32), "first", list(parts), name) for name in parts]
    >>> total(sealed, 3).tolist()
    [11, 22, 33]
    """
    if len(members) < 2 or len(set(members)) < len(members) or own not in members:
        raise ParameterError(
            f"A sum over {len(members)} members was to be masked.",
            "Two at least are needed, each named once, this party among them.",
            "Use larger groups.",
        )
    if len(values) and (values.min() < 0 or int(values.max()) >> SHORT_BITS):
        raise FixedPointOverflow(
            f"A number does not fit {SHORT_BITS} bits.",
            "Numbers and their sum must keep to that size.",
            "Round to fewer digits.",
        )
    numbers = np.zeros(n_words(len(values)) * _PER_WORD, dtype=np.uint64)
    numbers[: len(values)] = values
    position = list(members).index(own)
    successor = (position + 1) % len(members)
    # Unsigned numbers wrap around, as they should.
    numbers += _stream(secret, context, members, position, len(numbers))
    numbers -= _stream(secret, context, members, successor, len(numbers))
    fields = (numbers & _LARGEST).reshape(-1, _PER_WORD) << _SHIFTS
    return np.asarray(np.bitwise_or.reduce(fields, axis=1))


def masked_words(
    values: npt.NDArray[np.int64], secret: bytes, context: str, members: Sequence[str], own: str
) -> Words:
    """Add this member's mask to numbers of 64 bits; unsigned words add up modulo ``2**64``.

    Examples
    --------
    >>> parts = {"ann": np.array([1, 2]), "bob": np.array([10, 20])}
    >>> sealed = [masked_words(parts[n], bytes(32), "list 1", list(parts), n) for n in parts]
    >>> sum(sealed).tolist()
    [11, 22]
    """
    position = list(members).index(own)
    words = values.astype(np.uint64)
    words += _key_stream(secret, context, members, position, len(words))
    words -= _key_stream(secret, context, members, (position + 1) % len(members), len(words))
    return words


def total(arrays: Iterable[npt.NDArray[np.generic]], n_numbers: int) -> Words:
    """Sum over all members: masks cancel."""
    result = np.zeros(n_words(n_numbers) * _PER_WORD, dtype=np.uint64)
    for array in arrays:
        if array.dtype != np.uint64 or array.shape != (n_words(n_numbers),):
            raise BadFrame(
                f"A masked array has shape {array.shape} and type {array.dtype}.",
                f"Shape {(n_words(n_numbers),)} and type uint64 are needed.",
                "Check that all parties run the same job on aligned rows.",
            )
        result += _numbers(array.astype(np.uint64))
    return result[:n_numbers] & _LARGEST


def _numbers(words: Words) -> Words:
    """The short numbers of some words."""
    return ((words[:, None] >> _SHIFTS) & _LARGEST).ravel()


def _stream(
    secret: bytes, context: str, members: Sequence[str], position: int, count: int
) -> Words:
    """Short numbers of one place in the ring."""
    return _numbers(_key_stream(secret, context, members, position, count // _PER_WORD))


def _key_stream(
    secret: bytes, context: str, members: Sequence[str], position: int, n_words: int
) -> Words:
    """Key stream of one place in the ring; lengths make the joined names unambiguous."""
    info = _DOMAIN + position.to_bytes(4, "big")
    for name in (context, *members):
        encoded = name.encode()
        info += len(encoded).to_bytes(4, "big") + encoded
    key = HKDF(hashes.SHA256(), length=32, salt=None, info=info).derive(secret)
    # Every key is used for one stream only, so a fixed nonce repeats nothing.
    stream = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()
    return np.frombuffer(stream.update(bytes(8 * n_words)), "<u8").astype(np.uint64)
