# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What all kernels share: schemes they know, kernels that only count, and what a run may tell.

A kernel that counts replaces the real one within a block, for predictions of cost. Nothing outside
:mod:`fedsift.costs` opens such a block, and nothing inside one is ever sent.

What a key's owner decrypts is hidden statistically: noise is flooded (BGV), numbers are under masks
that are wider than they are (Paillier). The distance from noise and masks that do not depend on
anybody's data adds up over a run, so it is stated for all its ciphertexts together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from fedsift.errors import ParameterError


class Counter(Protocol):
    """What counts work, and makes kernels that count theirs."""

    def kernel(self, name: str, *arguments: Any) -> Any:
        """The kernel that takes the place of what the function ``name`` makes."""
        ...

    def do(self, phase: str, unit: str, count: float = 1) -> None:
        """Count work of one kind."""
        ...


_counter: ContextVar[Counter | None] = ContextVar("counter", default=None)


@contextmanager
def counting_with(counter: Counter) -> Iterator[None]:
    """Let kernels count instead of working, in this thread and within this block."""
    token = _counter.set(counter)
    try:
        yield
    finally:
        _counter.reset(token)


def counting_kernel(name: str, *arguments: Any) -> Any:
    """The kernel of whoever counts; None in every real run."""
    counter = _counter.get()
    return None if counter is None else counter.kernel(name, *arguments)


def count_work(phase: str, unit: str, count: float = 1) -> None:
    """Count work of one kind, if somebody counts."""
    counter = _counter.get()
    if counter is not None:
        counter.do(phase, unit, count)


def check_scheme(scheme: str, known: Iterable[str]) -> None:
    """Refuse a scheme that is not among the known ones."""
    names = sorted(known)
    if scheme not in names:
        raise ParameterError(
            f"Unknown encryption scheme {scheme[:20]!r}.",
            f"Known: {', '.join(names)}.",
            "Choose one of them.",
        )


def check_ring_strength(scheme: str, security_bits: int) -> None:
    """Refuse more security than the parameters of a ring scheme offer."""
    if security_bits > 128:
        raise ParameterError(
            f"{scheme} here offers 128-bit security, {security_bits} was asked for.",
            "At most 128 bits are supported.",
            "Use he='paillier' with a larger key, or lower the demand.",
        )


def run_distance(scheme: str, n_ciphertexts: int, security_bits: int) -> float | None:
    """-log2 of a bound of the statistical distance of a run; None where nothing is encrypted.

    Every ciphertext counts as if it went back to the owner of its key. Most kernels do better than
    the bound, which holds for all of them.

    Examples
    --------
    >>> run_distance("bgv", 64, 128)
    28.9
    >>> run_distance("masked sums", 0, 128) is None
    True
    """
    if not n_ciphertexts:
        return None
    if scheme == "bgv":
        from fedsift.crypto.schemes.seal import least_distance_bits

        return _tenths(least_distance_bits(n_ciphertexts))
    if scheme == "paillier":
        from fedsift.crypto.schemes.paillier import masked_distance_bits

        return _tenths(masked_distance_bits(n_ciphertexts, security_bits))
    return None


def sum_distances(distances: Iterable[float | None]) -> float | None:
    """Of several runs together: distances add up.

    Examples
    --------
    >>> sum_distances([30.0, None, 30.0])
    29.0
    """
    known = [bits for bits in distances if bits is not None]
    return _tenths(-math.log2(sum(2.0**-bits for bits in known))) if known else None


def _tenths(bits: float) -> float:
    """Rounded towards the larger distance; never below 0, where it says nothing."""
    return max(0.0, math.floor(bits * 10 + 1e-9) / 10)
