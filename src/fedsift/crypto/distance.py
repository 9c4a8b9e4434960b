# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""How much the ciphertexts of one run can tell their receiver beyond what they are meant to.

What a key's owner decrypts is hidden statistically: noise is flooded (BGV), numbers are under masks
that are wider than they are (Paillier). The distance from noise and masks that do not depend on
anybody's data adds up over a run, so it is stated for all its ciphertexts together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable


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
