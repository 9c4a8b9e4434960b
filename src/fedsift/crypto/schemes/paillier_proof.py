# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What comes with a Paillier modulus ``n`` so that others can rely on it.

*Proof.* Whoever re-randomises ciphertexts relies on ``gcd(n, phi(n)) = 1``: otherwise n-th powers
do not reach all residues, and the owner could tell two computations apart. The owner shows n-th
roots of eight numbers that nobody chose: they are hashes of ``n``. If a prime of ``n`` divided
``phi(n)``, a random number would have a root with probability below 2**-16 (all primes of ``n`` are
longer: the receiver divides by the shorter ones), and all eight with probability 2**-128. Goldberg,
Reyzin, Sagga and Baldimtsi, "Efficient noninteractive certification of RSA moduli and beyond"
(ASIACRYPT 2019), section 3. The proof excludes squares as well; it does not say how many primes
there are.

*Generator.* ``h = -x**2`` where ``x`` is another hash of ``n``, so the owner cannot choose one of
small order, such as ``n**2 - 1``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import gmpy2
from gmpy2 import mpz

SMALL_FACTOR_LIMIT = 1 << 16
N_ROOTS = 8
_EXTRA_BYTES = 16  # reducing a number this much longer than n leaves it uniform


def derive_generator(n: mpz) -> mpz:
    """``-x**2 mod n`` for an ``x`` that follows from ``n``."""
    x = _hashed(n, "generator", 0)
    return -x * x % n


def make_roots(n: mpz, p: mpz, q: mpz) -> tuple[mpz, ...]:
    """The proof, for which the factors are needed."""
    inverse = gmpy2.invert(q, p)
    roots = []
    for number in _challenges(n):
        above, below = (gmpy2.powmod(number, gmpy2.invert(n, prime - 1), prime) for prime in (p, q))
        roots.append(below + q * ((above - below) * inverse % p))
    return tuple(roots)


def is_well_formed(n: mpz, roots: Sequence[mpz]) -> bool:
    """Check the proof: no short factor, and all roots are there."""
    if gmpy2.gcd(n, gmpy2.primorial(SMALL_FACTOR_LIMIT)) != 1 or len(roots) != N_ROOTS:
        return False
    return all(
        0 < root < n and gmpy2.gcd(number, n) == 1 and gmpy2.powmod(root, n, n) == number
        for root, number in zip(roots, _challenges(n), strict=True)
    )


def _challenges(n: mpz) -> list[mpz]:
    return [_hashed(n, "root", index) for index in range(N_ROOTS)]


def _hashed(n: mpz, purpose: str, index: int) -> mpz:
    """A number below ``n`` that nobody chose."""
    width = -(-n.bit_length() // 8)
    text = f"fedsift paillier {purpose} {index} ".encode() + int(n).to_bytes(width, "big")
    digest = hashlib.shake_256(text).digest(width + _EXTRA_BYTES)
    return mpz(int.from_bytes(digest, "big")) % n
