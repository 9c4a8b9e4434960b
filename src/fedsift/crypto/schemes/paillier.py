# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Paillier's cryptosystem with short random exponents (Damgard, Jurik and Nielsen).

A ciphertext of ``m`` is ``(1 + m n) * hs**r mod n**2`` with ``hs = h**n`` and ``h = -x**2 mod n``.
A public key is ``n`` and a proof that it is well formed; ``x`` is a hash of ``n``
(:mod:`fedsift.crypto.schemes.paillier_proof`).

*Encryption* takes ``r`` of ``2 * security_bits + 64`` bits. This assumes that a short power of
``h`` cannot be told from a random element without the factors of ``n``; the best known attack
is Pollard's kangaroo, ``2**(bits / 2)`` steps, and the 64 extra bits pay for attacking very many
ciphertexts at once. The original proof takes half the bits of ``n``.

*Re-randomisation* protects the one who computed against the **owner**, who knows the factors and
might take discrete logarithms. Short exponents would not hide anything from that party, so
``r`` is there 64 bits longer than ``n``: all results of a run together, up to 2**24 of them, are
within 2**-40 of uniform in the whole group of ``hs``.
"""

from __future__ import annotations

import math
import os
import secrets
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

import gmpy2
from gmpy2 import mpz

from fedsift.crypto.columns.api import STATISTICAL_BITS
from fedsift.crypto.schemes.multiexp import FixedBase, n_threads, powers
from fedsift.crypto.schemes.paillier_proof import (
    N_ROOTS,
    derive_generator,
    is_well_formed,
    make_roots,
)
from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.errors import BadCiphertext, FileProblem, KeyTooWeak, ParameterError

SCHEME = "paillier"
MIN_KEY_BITS = 2048
VERSION = 2

# NIST SP 800-57 part 1, table 2. Between the points the straight line lies below the true
# strength, and below 1024 bits it is meant for tests only.
_STRENGTHS = ((0, 0), (1024, 80), (2048, 112), (3072, 128), (7680, 192), (15360, 256))

_MAX_KEY_BITS = 15360
_RUN_BITS = STATISTICAL_BITS + 24  # for up to 2**24 ciphertexts of a run
_PRIME_TEST_ROUNDS = 40


def security_bits_of(key_bits: int) -> int:
    """Bits of security of a modulus, interpolated downwards from NIST's table.

    Examples
    --------
    >>> security_bits_of(2048), security_bits_of(3072), security_bits_of(4096)
    (112, 128, 142)
    """
    for (low, weak), (high, strong) in pairwise(_STRENGTHS):
        if key_bits < high:
            return weak + (key_bits - low) * (strong - weak) // (high - low)
    return _STRENGTHS[-1][1]


def key_bits_for(security_bits: int) -> int:
    """Smallest usual key size of at least this strength."""
    for key_bits in (2048, 3072, 4096, 7680, 15360):
        if security_bits_of(key_bits) >= security_bits:
            return key_bits
    raise ParameterError(
        f"{security_bits} bits of security were asked for.",
        "Paillier keys reach 256 bits.",
        "Ask for 112, 128, 192 or 256.",
    )


def masked_distance_bits(n_ciphertexts: int, security_bits: int) -> float:
    """-log2 of a bound of the statistical distance of all ciphertexts of a run.

    Each is full of numbers under the narrowest masks that there are, and re-randomised.
    """
    digit_bits = STATISTICAL_BITS + 1
    n_numbers = n_ciphertexts * (key_bits_for(security_bits) // digit_bits)
    rerandomised = n_ciphertexts * 2.0 ** (STATISTICAL_BITS - _RUN_BITS)
    return STATISTICAL_BITS - math.log2(n_numbers + rerandomised)


class PaillierPublicKey:
    """What everybody may know: encrypt, add, scale, re-randomise.

    Plaintexts are integers strictly between ``-n`` and ``n``; decryption returns the
    representative nearest to zero, so signed results must stay below ``n / 2``.
    """

    def __init__(self, n: mpz, roots: tuple[mpz, ...]) -> None:
        self.n = mpz(n)
        self.n_squared = self.n * self.n
        self.hs = gmpy2.powmod(derive_generator(self.n), self.n, self.n_squared)
        self.key_bits: int = self.n.bit_length()
        self._roots = roots

    def __repr__(self) -> str:
        return f"<Paillier public key, {self.key_bits} bits>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PaillierPublicKey) and self.n == other.n

    def __hash__(self) -> int:
        return hash(self.n)

    @property
    def security_bits(self) -> int:
        """Strength in bits."""
        return security_bits_of(self.key_bits)

    @property
    def exponent_bits(self) -> int:
        """Length of the random exponent of an encryption; see the module's docstring."""
        return min(2 * self.security_bits + 64, self.key_bits + STATISTICAL_BITS)

    @property
    def plaintext_bits(self) -> int:
        """Packed signed plaintexts of this many bits always decrypt correctly."""
        return self.key_bits - 2

    @property
    def ciphertext_bytes(self) -> int:
        """Width of a serialised ciphertext."""
        return -(-2 * self.key_bits // 8)

    @cached_property
    def _short_powers(self) -> FixedBase:
        return FixedBase(self.hs, self.n, self.exponent_bits, n_squarings=3)

    @cached_property
    def _long_powers(self) -> FixedBase:
        return FixedBase(self.hs, self.n, self.key_bits + _RUN_BITS, n_squarings=48)

    def encrypt(self, value: int) -> mpz:
        """Encrypt one integer."""
        return self.encrypt_many([value])[0]

    def encrypt_many(self, values: list[int]) -> list[mpz]:
        """Encrypt integers. One thread: the table beats parallel powers about tenfold."""
        digits = self._short_powers.random_digits(len(values))
        pairs = zip(values, map(self._short_powers.power, digits), strict=True)
        return [self._hide(value, noise) for value, noise in pairs]

    def obfuscators(self, count: int) -> list[mpz]:
        """Fresh encryptions of zero that hide a computation even from the key's owner."""
        return [self._long_powers.power(d) for d in self._long_powers.random_digits(count)]

    def rerandomise(self, ciphertext: mpz) -> mpz:
        """Make a ciphertext independent of how it was computed."""
        return self.rerandomise_many([ciphertext])[0]

    def rerandomise_many(self, ciphertexts: list[mpz]) -> list[mpz]:
        """Re-randomise each ciphertext with its own encryption of zero."""
        pairs = zip(ciphertexts, self.obfuscators(len(ciphertexts)), strict=True)
        return [self.add(ciphertext, zero) for ciphertext, zero in pairs]

    def add(self, left: mpz, right: mpz) -> mpz:
        """Encrypted sum."""
        return left * right % self.n_squared

    def add_plain(self, ciphertext: mpz, value: int) -> mpz:
        """Encrypted sum with a known number; re-randomise before it leaves."""
        return self._hide(value, ciphertext)

    def multiply(self, ciphertext: mpz, factor: int) -> mpz:
        """Encrypted multiple by a known signed number; re-randomise before it leaves."""
        return gmpy2.powmod(ciphertext, int(factor), self.n_squared)

    def _hide(self, value: int, noise: mpz) -> mpz:
        if not -self.n < value < self.n:
            raise ParameterError(
                f"A plaintext has {int(value).bit_length()} bits.",
                f"It must be smaller than the modulus of {self.key_bits} bits.",
                "Pack fewer digits, or use a longer key.",
            )
        return noise * (1 + self.n * int(value)) % self.n_squared

    def seal(self, ciphertexts: list[mpz]) -> Ciphertexts:
        """Serialise ciphertexts for the wire."""
        return Ciphertexts(SCHEME, tuple(map(self.ciphertext_to_bytes, ciphertexts)))

    def unseal(self, sealed: Ciphertexts, count: int) -> list[mpz]:
        """Read and check exactly ``count`` ciphertexts."""
        if sealed.scheme != SCHEME or len(sealed.blobs) != count:
            raise BadCiphertext(
                f"{len(sealed.blobs)} ciphertexts of scheme {sealed.scheme[:20]!r} came in.",
                f"{count} of scheme {SCHEME!r} were expected.",
                "Run the same version and the same job on both sides.",
            )
        numbers = [self._in_range(blob) for blob in sealed.blobs]
        # One greatest common divisor of the product finds a bad number among all of them.
        product = mpz(1)
        for number in numbers:
            product = product * (number % self.n) % self.n
        self._check_coprime(product)
        return numbers

    def ciphertext_to_bytes(self, ciphertext: mpz) -> bytes:
        """Serialise one ciphertext, always the same width."""
        return int(ciphertext).to_bytes(self.ciphertext_bytes, "big")

    def ciphertext_from_bytes(self, blob: bytes) -> mpz:
        """Read one ciphertext and check that it can be one."""
        number = self._in_range(blob)
        self._check_coprime(number)
        return number

    def _in_range(self, blob: bytes) -> mpz:
        number = mpz(int.from_bytes(blob, "big")) if len(blob) == self.ciphertext_bytes else mpz(0)
        if not 0 < number < self.n_squared:
            raise BadCiphertext(
                f"A ciphertext of {len(blob)} bytes is out of range.",
                f"It must have {self.ciphertext_bytes} bytes and lie below the squared modulus.",
                "Check that both sides use the same public key.",
            )
        return number

    def _check_coprime(self, number: mpz) -> None:
        if gmpy2.gcd(number, self.n) != 1:
            raise BadCiphertext(
                "A ciphertext has a factor in common with the key.",
                "Ciphertexts are invertible.",
                "Ask for a fresh ciphertext.",
            )

    def to_bytes(self) -> bytes:
        """Serialise: version, key bits, modulus, proof."""
        width = -(-self.key_bits // 8)
        numbers = (int(number).to_bytes(width, "big") for number in (self.n, *self._roots))
        return bytes([VERSION]) + self.key_bits.to_bytes(4, "big") + b"".join(numbers)

    @classmethod
    def from_bytes(cls, blob: bytes, *, allow_weak: bool = False) -> PaillierPublicKey:
        """Read a public key from another party and refuse what cannot be one."""
        key_bits = int.from_bytes(blob[1:5], "big")
        if (
            blob[:1] != bytes([VERSION])
            or key_bits > _MAX_KEY_BITS
            or len(blob) != public_key_bytes(key_bits)
        ):
            raise _bad_key("its version or size is wrong")
        check_strength(key_bits, allow_weak=allow_weak)
        width = -(-key_bits // 8)
        n, *roots = (
            mpz(int.from_bytes(blob[start : start + width], "big"))
            for start in range(5, len(blob), width)
        )
        if n.bit_length() != key_bits or gmpy2.is_even(n):
            raise _bad_key("its modulus is even or has the wrong length")
        if gmpy2.is_power(n) or gmpy2.is_prime(n):
            raise _bad_key("its modulus is not a product of two primes")
        if not is_well_formed(n, roots):
            raise _bad_key("its modulus has a small factor, or the proof of its form is wrong")
        public = cls(n, tuple(roots))
        if gmpy2.gcd(public.hs, n) != 1:
            raise _bad_key("its generator has a factor in common with its modulus")
        return public


class PaillierPrivateKey:
    """The factors of the modulus; stays with its owner.

    Encryption and decryption work modulo the squared factors and join the halves at the end
    (Chinese remainders), several times faster than with the public key alone.
    """

    def __init__(self, p: mpz, q: mpz, public: PaillierPublicKey) -> None:
        self._p, self._q = mpz(p), mpz(q)
        self.public = public
        self._p_squared, self._q_squared = self._p * self._p, self._q * self._q
        self._p_scale = self._decryption_scale(self._p, self._p_squared)
        self._q_scale = self._decryption_scale(self._q, self._q_squared)
        self._q_inverse = gmpy2.invert(self._q, self._p)
        self._q_squared_inverse = gmpy2.invert(self._q_squared, self._p_squared)

    def __repr__(self) -> str:
        return f"<Paillier private key, {self.public.key_bits} bits>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A private key cannot be pickled; use save().")

    @classmethod
    def generate(cls, key_bits: int = 3072, *, allow_weak: bool = False) -> PaillierPrivateKey:
        """Make a key; below 2048 bits only with ``allow_weak``, for tests."""
        check_strength(key_bits, allow_weak=allow_weak)
        p, q = _prime_pair(key_bits)
        return cls(p, q, PaillierPublicKey(p * q, make_roots(p * q, p, q)))

    @property
    def security_bits(self) -> int:
        """Strength in bits."""
        return self.public.security_bits

    @cached_property
    def _halves(self) -> tuple[FixedBase, FixedBase]:
        bits = self.public.exponent_bits
        return (
            FixedBase(self.public.hs, self._p, bits, n_squarings=3),
            FixedBase(self.public.hs, self._q, bits, n_squarings=3),
        )

    def encrypt(self, value: int) -> mpz:
        """Encrypt one integer."""
        return self.encrypt_many([value])[0]

    def encrypt_many(self, values: list[int]) -> list[mpz]:
        """Encrypt integers, the same distribution as with the public key."""
        modulo_p, modulo_q = self._halves
        ciphertexts = []
        for value, digits in zip(values, modulo_p.random_digits(len(values)), strict=True):
            above, below = modulo_p.power(digits), modulo_q.power(digits)
            quotient = (above - below) * self._q_squared_inverse % self._p_squared
            ciphertexts.append(self.public.add_plain(below + self._q_squared * quotient, value))
        return ciphertexts

    def decrypt(self, ciphertext: mpz) -> int:
        """Decrypt to the representative nearest to zero."""
        return self.decrypt_many([ciphertext])[0]

    def decrypt_many(self, ciphertexts: list[mpz]) -> list[int]:
        """Decrypt in threads (the list powers run without Python's lock)."""
        with ThreadPoolExecutor(n_threads()) as pool:
            modulo_p = powers(
                [c % self._p_squared for c in ciphertexts], self._p - 1, self._p_squared, pool
            )
            modulo_q = powers(
                [c % self._q_squared for c in ciphertexts], self._q - 1, self._q_squared, pool
            )
        return [self._join(*pair) for pair in zip(modulo_p, modulo_q, strict=True)]

    def _join(self, power_p: mpz, power_q: mpz) -> int:
        residue_p = (power_p - 1) // self._p * self._p_scale % self._p
        residue_q = (power_q - 1) // self._q * self._q_scale % self._q
        value = residue_q + self._q * ((residue_p - residue_q) * self._q_inverse % self._p)
        return int(value - self.public.n if 2 * value > self.public.n else value)

    def _decryption_scale(self, prime: mpz, squared: mpz) -> mpz:
        power = gmpy2.powmod(1 + self.public.n, prime - 1, squared)
        return gmpy2.invert((power - 1) // prime, prime)

    def to_bytes(self) -> bytes:
        """Serialise with all secrets: for the owner's own disk only."""
        public = self.public.to_bytes()
        width = -(-self.public.key_bits // 8)
        return public + int(self._p).to_bytes(width, "big") + int(self._q).to_bytes(width, "big")

    @classmethod
    def from_bytes(cls, blob: bytes, *, allow_weak: bool = False) -> PaillierPrivateKey:
        """Read one's own key again."""
        width = -(-int.from_bytes(blob[1:5], "big") // 8)
        if width == 0 or len(blob) <= 2 * width:
            raise _bad_key("its size is wrong")
        public = PaillierPublicKey.from_bytes(blob[: -2 * width], allow_weak=allow_weak)
        p = mpz(int.from_bytes(blob[-2 * width : -width], "big"))
        q = mpz(int.from_bytes(blob[-width:], "big"))
        if p * q != public.n or p == q or not (gmpy2.is_prime(p) and gmpy2.is_prime(q)):
            raise _bad_key("its factors do not belong to its modulus")
        return cls(p, q, public)

    def save(self, path: Path | str) -> None:
        """Write the key to a file that only its owner can read (mode 0600)."""
        _write_private(Path(path), self.to_bytes())

    @classmethod
    def load(cls, path: Path | str, *, allow_weak: bool = False) -> PaillierPrivateKey:
        """Read a key file."""
        return cls.from_bytes(_read(Path(path)), allow_weak=allow_weak)


def public_key_bytes(key_bits: int) -> int:
    """Serialised size of a public key: version, length, modulus, proof."""
    return 5 + (1 + N_ROOTS) * -(-key_bits // 8)


def public_keys_of(public: PaillierPublicKey, **numbers: int) -> PublicKeys:
    """Put a public key on the wire, with further public numbers."""
    sizes = {"key_bits": public.key_bits, "security_bits": public.security_bits}
    return PublicKeys(SCHEME, sizes | numbers, (public.to_bytes(),))


def public_key_from(keys: PublicKeys, *, allow_weak: bool = False) -> PaillierPublicKey:
    """Read and check a public key from the wire."""
    if keys.scheme != SCHEME or len(keys.blobs) != 1:
        raise _bad_key(f"it is of scheme {keys.scheme[:20]!r} with {len(keys.blobs)} parts")
    public = PaillierPublicKey.from_bytes(keys.blobs[0], allow_weak=allow_weak)
    if keys.numbers.get("key_bits") != public.key_bits:
        raise _bad_key("it is not as long as announced")
    return public


def check_strength(key_bits: int, *, allow_weak: bool = False) -> None:
    """Refuse keys below 112 bits of security, and sizes that cannot be made."""
    if key_bits < MIN_KEY_BITS and not allow_weak:
        raise KeyTooWeak(
            f"A Paillier key of {key_bits} bits has {security_bits_of(key_bits)} bits of security.",
            f"Keys need {MIN_KEY_BITS} bits or more; 3072 is the default.",
            "Use a longer key.",
        )
    if key_bits % 2 or not 64 <= key_bits <= _MAX_KEY_BITS:
        raise ParameterError(
            f"A Paillier key of {key_bits} bits was asked for.",
            f"The size must be even and at most {_MAX_KEY_BITS}.",
            "Use 3072.",
        )


def _prime_pair(key_bits: int) -> tuple[mpz, mpz]:
    """Primes that are 3 modulo 4 with nothing but 2 in common below them.

    The first makes ``-x**2`` a non-square with Jacobi symbol 1, the second makes the group of
    squares cyclic: both are what Damgard, Jurik and Nielsen ask for.
    """
    while True:
        p, q = _prime(key_bits // 2), _prime(key_bits // 2)
        if p != q and gmpy2.gcd(p - 1, q - 1) == 2:
            return p, q


def _prime(bits: int) -> mpz:
    # Two leading ones give the product of two primes its full length.
    fixed = (3 << (bits - 2)) | 3
    while True:
        candidate = mpz(secrets.randbits(bits) | fixed)
        if gmpy2.is_prime(candidate, _PRIME_TEST_ROUNDS):
            return candidate


def _bad_key(reason: str) -> BadCiphertext:
    return BadCiphertext(
        f"A Paillier key cannot be used: {reason}.",
        "Keys must be made and sent by this package.",
        "Ask its owner to make and send the key again.",
    )


def _write_private(path: Path, content: bytes) -> None:
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file:
            # The mode above counts for new files only.
            path.chmod(0o600)
            file.write(content)
    except OSError as problem:
        raise _file_problem(path, "written", problem) from None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as problem:
        raise _file_problem(path, "read", problem) from None


def _file_problem(path: Path, done: str, problem: OSError) -> FileProblem:
    return FileProblem(
        f"The key file {path.name!r} cannot be {done}: {problem.strerror}.",
        "A key file belongs to its owner, mode 0600.",
        "Check the path and the permissions.",
    )
