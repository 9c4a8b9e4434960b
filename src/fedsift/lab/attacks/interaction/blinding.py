# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Attack on multiplicative blinding (method ``interaction``, paper 001).

Leak  A server that cannot divide under encryption may be tempted to send numerator and denominator
      times one random factor ``r`` and let the label owner divide. Over the integers the greatest
      common divisor of the two numbers returns ``r``; modulo a prime, continued fractions return
      numerator and denominator from their ratio alone.
Fix   The protocol never sends such a pair: every opened number is either uniform or a finished
      value with noise in its low bits (``tests/lab/attacks/test_interaction_attacks.py``).
"""

from __future__ import annotations

import math


def unblind(numerator: int, denominator: int) -> tuple[int, int, int]:
    """Blinding factor, numerator and denominator behind ``r * a`` and ``r * b``.

    Exact up to a common divisor of a and b, which is 1 for most counts.

    Examples
    --------
    >>> unblind(7919 * 35, 7919 * 12)
    (7919, 35, 12)
    """
    factor = math.gcd(numerator, denominator) or 1
    return factor, numerator // factor, denominator // factor


def reconstruct(ratio: int, modulus: int, bound: int) -> tuple[int, int] | None:
    """Small numerator and denominator whose quotient modulo a prime is ``ratio``, if there are any.

    Euclid's algorithm on (modulus, ratio), stopped when the remainder is at most ``bound``; the
    answer is unique if ``2 * bound**2 < modulus``.

    Examples
    --------
    >>> t = 1_000_003
    >>> reconstruct(35 * pow(12, -1, t) % t, t, 100)
    (35, 12)
    """
    left, right = (modulus, 0), (ratio % modulus, 1)
    while right[0] > bound:
        quotient = left[0] // right[0]
        left, right = right, (left[0] - quotient * right[0], left[1] - quotient * right[1])
    numerator, denominator = right
    if denominator < 0:
        numerator, denominator = -numerator, -denominator
    if denominator == 0 or denominator > bound or math.gcd(numerator, denominator) != 1:
        return None
    return numerator, denominator
