# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Vector sums: vectors of integers that others add up without seeing them.

One party owns the key and decrypts; any number of *evaluators* encrypt under its public key, add,
scale and shift vectors. ``value_bits`` bounds the size of every number on the way, intermediate
results included; who computes answers for it. Whoever returns a result to the key's owner calls
``rerandomise`` last, so that the owner learns the numbers and nothing of how they came about.

When only a sum over all parties is wanted and nobody needs to compute on it, pairwise masks
(:mod:`fedsift.crypto.masking`) do the same without any key ceremony.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from fedsift.crypto.columns.api import BigArray
from fedsift.crypto.kernels import check_ring_strength, check_scheme
from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.errors import FixedPointOverflow, ParameterError

SCHEMES = ("bfv", "bgv", "paillier", "plain")


class VectorOwner(Protocol):
    """The party that decrypts the sums."""

    keys: PublicKeys

    def encrypt(self, vector: npt.ArrayLike) -> Ciphertexts:
        """Encrypt a vector of signed integers."""
        ...

    def decrypt(self, sealed: Ciphertexts, length: int) -> BigArray:
        """Decrypt a vector of the given length to exact integers."""
        ...


class VectorEvaluator(Protocol):
    """A party that computes under somebody else's key."""

    def encrypt(self, vector: npt.ArrayLike) -> Ciphertexts:
        """Encrypt a vector under the owner's key."""
        ...

    def add(self, vectors: Sequence[Ciphertexts]) -> Ciphertexts:
        """Sum of encrypted vectors of equal length."""
        ...

    def add_plain(self, encrypted: Ciphertexts, vector: npt.ArrayLike) -> Ciphertexts:
        """Sum of an encrypted and a known vector."""
        ...

    def scale(self, encrypted: Ciphertexts, factor: int) -> Ciphertexts:
        """Multiple of an encrypted vector by a positive integer."""
        ...

    def rerandomise(self, encrypted: Ciphertexts) -> Ciphertexts:
        """Hide from the owner how the vector was computed."""
        ...


def own_vector(scheme: str, value_bits: int, *, security_bits: int = 128) -> VectorOwner:
    """Make keys of a scheme for vectors of numbers below ``2**value_bits`` in size.

    Examples
    --------
    >>> owner = own_vector("plain", value_bits=20)
    >>> evaluator = join_vector(owner.keys, value_bits=20)
    >>> total = evaluator.add([evaluator.encrypt([1, -2]), evaluator.encrypt([10, 20])])
    >>> owner.decrypt(evaluator.rerandomise(evaluator.scale(total, 3)), length=2).tolist()
    [33, 54]
    """
    from fedsift.crypto.schemes import paillier
    from fedsift.crypto.vectors import bgv as sums_seal
    from fedsift.crypto.vectors import paillier as sums_paillier
    from fedsift.crypto.vectors import plain as sums_plain

    check_scheme(scheme, SCHEMES)
    if scheme == "paillier":
        return sums_paillier.PaillierVectorOwner(value_bits, paillier.key_bits_for(security_bits))
    if scheme == "plain":
        return sums_plain.PlainVectorOwner(value_bits)
    check_ring_strength(scheme, security_bits)
    return sums_seal.SealVectorOwner(value_bits, scheme)


def join_vector(keys: PublicKeys, value_bits: int) -> VectorEvaluator:
    """Check the owner's keys against the agreed bits, before any computation."""
    from fedsift.crypto.vectors import bgv as sums_seal
    from fedsift.crypto.vectors import paillier as sums_paillier
    from fedsift.crypto.vectors import plain as sums_plain

    check_scheme(keys.scheme, SCHEMES)
    evaluators: dict[str, Any] = {
        "bfv": sums_seal.SealVectorEvaluator,
        "bgv": sums_seal.SealVectorEvaluator,
        "paillier": sums_paillier.PaillierVectorEvaluator,
        "plain": sums_plain.PlainVectorEvaluator,
    }
    evaluator: VectorEvaluator = evaluators[keys.scheme](keys, value_bits)
    return evaluator


def whole_numbers(vector: npt.ArrayLike, value_bits: int) -> list[int]:
    """Entries of a vector of integers, none of them longer than the agreed bits."""
    array = np.asarray(vector)
    if array.ndim != 1 or array.dtype.kind not in "iuO":
        raise ParameterError(
            f"A vector has shape {array.shape} and type {array.dtype}.",
            "One dimension of integers is needed.",
            "Encode reals with FixedPoint first.",
        )
    numbers = [int(number) for number in array]
    check_bits(numbers, value_bits)
    return numbers


def check_bits(numbers: Iterable[int], value_bits: int) -> None:
    """Refuse numbers beyond the agreed bits."""
    numbers = list(numbers)
    if any(abs(number) >> value_bits for number in numbers):
        raise FixedPointOverflow(
            f"An entry of a vector of {len(numbers)} is longer than {value_bits} bits.",
            "Every entry and every sum must keep to the agreed bits.",
            "Scale the numbers or agree on more bits.",
        )


def check_factor(factor: int, value_bits: int) -> None:
    """Refuse a factor that is not positive, or beyond the agreed bits."""
    if not 0 < factor < 1 << value_bits:
        raise ParameterError(
            "A factor is not positive or longer than the agreed value bits.",
            f"It must lie in 1 .. 2**{value_bits} - 1.",
            "Scale by a positive integer in range.",
        )
