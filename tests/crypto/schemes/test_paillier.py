# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Our Paillier against the textbook, against python-paillier, and against bad input."""

from __future__ import annotations

import math
import os
import pickle
import secrets
from pathlib import Path

import gmpy2
import pytest
from gmpy2 import mpz
from phe import paillier as oracle

from fedsift.crypto.schemes import paillier, paillier_proof
from fedsift.crypto.schemes.paillier import (
    PaillierPrivateKey,
    PaillierPublicKey,
    key_bits_for,
    public_key_from,
    public_keys_of,
    security_bits_of,
)
from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.errors import BadCiphertext, FileProblem, KeyTooWeak, ParameterError

KEY_BITS = 512


@pytest.fixture(scope="module")
def key() -> PaillierPrivateKey:
    return PaillierPrivateKey.generate(KEY_BITS, allow_weak=True)


def oracle_of(key: PaillierPrivateKey) -> oracle.PaillierPrivateKey:
    public = oracle.PaillierPublicKey(int(key.public.n))
    return oracle.PaillierPrivateKey(public, int(key._p), int(key._q))


def edge_values(key: PaillierPrivateKey) -> list[int]:
    n = int(key.public.n)
    return [0, 1, -1, 2, n - 1, 1 - n, n // 2, -(n // 2), secrets.randbelow(n), 10**20, -(10**20)]


def test_decrypts_what_either_side_encrypts(key: PaillierPrivateKey) -> None:
    n = int(key.public.n)
    values = edge_values(key)
    for encrypted in (key.encrypt_many(values), key.public.encrypt_many(values)):
        opened = key.decrypt_many(encrypted)
        assert [value % n for value in opened] == [value % n for value in values]
        assert all(abs(value) <= n // 2 for value in opened)


def test_oracle_decrypts_ours(key: PaillierPrivateKey) -> None:
    n, private = int(key.public.n), oracle_of(key)
    for value in edge_values(key):
        for ciphertext in (key.encrypt(value), key.public.encrypt(value)):
            assert private.raw_decrypt(int(ciphertext)) == value % n


def test_we_decrypt_the_oracles(key: PaillierPrivateKey) -> None:
    n, private = int(key.public.n), oracle_of(key)
    for value in edge_values(key):
        ciphertext = private.public_key.raw_encrypt(value % n)
        assert key.decrypt(mpz(ciphertext)) % n == value % n


def test_arithmetic_agrees_with_the_oracle(key: PaillierPrivateKey) -> None:
    public, private, n = key.public, oracle_of(key), int(key.public.n)
    for _ in range(10):
        a, b = (secrets.randbelow(1 << 200) - (1 << 199) for _ in range(2))
        factor = secrets.randbelow(1 << 40) - (1 << 39)
        cases = {
            a + b: public.add(public.encrypt(a), key.encrypt(b)),
            a - b: public.add_plain(public.encrypt(a), -b),
            a * factor: public.multiply(key.encrypt(a), factor),
            a: public.rerandomise(key.encrypt(a)),
        }
        for expected, ciphertext in cases.items():
            assert key.decrypt(ciphertext) == expected
            assert private.raw_decrypt(int(ciphertext)) == expected % n


def test_negative_factor_and_zero(key: PaillierPrivateKey) -> None:
    ciphertext = key.encrypt(-7)
    assert key.decrypt(key.public.multiply(ciphertext, -3)) == 21
    assert key.decrypt(key.public.multiply(ciphertext, 0)) == 0


def test_encryption_is_fresh_each_time(key: PaillierPrivateKey) -> None:
    assert len(set(key.encrypt_many([5] * 20) + key.public.encrypt_many([5] * 20))) == 40
    zeros = key.public.obfuscators(5)
    assert len(set(zeros)) == 5
    assert key.decrypt_many(zeros) == [0] * 5


def test_obfuscators_hide_from_the_owner_too(key: PaillierPrivateKey) -> None:
    # Their exponent covers the group order with 40 bits to spare, not just short exponents.
    assert 8 * key.public._long_powers.n_columns >= KEY_BITS + 40
    assert 8 * key.public._short_powers.n_columns >= 2 * key.security_bits + 64


def test_key_has_the_promised_form(key: PaillierPrivateKey) -> None:
    p, q, n = key._p, key._q, key.public.n
    assert n.bit_length() == KEY_BITS
    assert p % 4 == q % 4 == 3
    assert gmpy2.gcd(p - 1, q - 1) == 2
    # hs is an n-th power: decrypting it gives 0. Its root is minus a square: Jacobi symbol 1.
    assert key.decrypt(key.public.hs) == 0
    assert gmpy2.jacobi(key.public.hs, n) == 1


def test_too_large_plaintext(key: PaillierPrivateKey) -> None:
    for value in (int(key.public.n), -int(key.public.n)):
        with pytest.raises(ParameterError):
            key.public.encrypt(value)


def test_strength_table() -> None:
    assert [security_bits_of(bits) for bits in (1024, 2048, 3072, 7680)] == [80, 112, 128, 192]
    assert 112 < security_bits_of(2560) < 128
    assert [key_bits_for(bits) for bits in (100, 112, 128, 140)] == [2048, 2048, 3072, 4096]
    with pytest.raises(ParameterError):
        key_bits_for(300)


def test_weak_keys_are_refused(key: PaillierPrivateKey) -> None:
    with pytest.raises(KeyTooWeak):
        PaillierPrivateKey.generate(1024)
    with pytest.raises(KeyTooWeak):
        PaillierPublicKey.from_bytes(key.public.to_bytes())
    with pytest.raises(ParameterError):
        PaillierPrivateKey.generate(513, allow_weak=True)


def test_public_key_there_and_back(key: PaillierPrivateKey) -> None:
    again = PaillierPublicKey.from_bytes(key.public.to_bytes(), allow_weak=True)
    assert again == key.public
    assert hash(again) == hash(key.public)
    assert key.decrypt(again.encrypt(-12345)) == -12345
    wire = public_keys_of(key.public, value_bits=9)
    assert wire.numbers == {
        "key_bits": KEY_BITS,
        "security_bits": key.security_bits,
        "value_bits": 9,
    }
    assert public_key_from(wire, allow_weak=True) == key.public


def encoded_key(n: int, roots: list[int], key_bits: int = KEY_BITS) -> bytes:
    width = -(-key_bits // 8)
    numbers = b"".join(int(number).to_bytes(width, "big") for number in (n, *roots))
    return b"\x02" + key_bits.to_bytes(4, "big") + numbers


def test_bad_public_keys_are_refused(key: PaillierPrivateKey) -> None:
    n, roots, p = int(key.public.n), list(key.public._roots), int(key._p)
    assert encoded_key(n, roots) == key.public.to_bytes()
    good = key.public.to_bytes()
    prime = int(gmpy2.next_prime(3 << (KEY_BITS - 2)))
    small = 3 * (n // 3 | 1) | 1 << (KEY_BITS - 1)
    bad = {
        "empty": b"",
        "version": b"\x01" + good[1:],
        "cut": good[:-1],
        "longer": good + b"\0",
        "huge": b"\x02\xff\xff\xff\xff" + good[5:],
        "even": encoded_key(n - 1, roots),
        "short modulus": encoded_key(n >> 1 | 1, roots),
        "small factor": encoded_key(small - small % 15 + 15, roots),
        "prime": encoded_key(prime, roots),
        "square": encoded_key(p * p, roots),
        "no proof": encoded_key(n, [0] * len(roots)),
        "proof of ones": encoded_key(n, [1] * len(roots)),
        "proof in another order": encoded_key(n, roots[::-1]),
        "one root wrong": encoded_key(n, [*roots[:-1], roots[-1] + 1]),
        "root too large": encoded_key(n, [*roots[:-1], (1 << KEY_BITS) - 1]),
    }
    for blob in bad.values():
        with pytest.raises(BadCiphertext):
            PaillierPublicKey.from_bytes(blob, allow_weak=True)


def made_from(primes: list[int]) -> tuple[int, list[int]]:
    """A modulus of a liar's choice, with the best proof its factors allow."""
    n = math.prod(primes)
    phi = math.prod(prime - 1 for prime in primes)
    exponent = int(gmpy2.invert(n, phi)) if math.gcd(n, phi) == 1 else 1
    return n, [pow(int(number), exponent, n) for number in paillier_proof._challenges(mpz(n))]


def prime_of(bits: int) -> int:
    return int(paillier._prime(bits))


def test_a_modulus_with_a_short_factor_is_refused() -> None:
    """Residues modulo 10007 would tell the owner what was added up."""
    for short in (10007, 65521):
        long = prime_of(KEY_BITS - 16)
        while (short * long).bit_length() % 2:
            long = prime_of(KEY_BITS - 17)
        n, roots = made_from([short, long])
        found = [pow(root, n, n) for root in roots]
        assert found == paillier_proof._challenges(mpz(n))  # only the division tells
        with pytest.raises(BadCiphertext):
            PaillierPublicKey.from_bytes(encoded_key(n, roots, n.bit_length()), allow_weak=True)


def test_a_modulus_whose_powers_miss_residues_has_no_proof() -> None:
    """One prime divides the other minus 1: the n-th powers are a small part of all residues."""
    p = prime_of(100)
    while True:
        long = 2 * p * (secrets.randbits(310) | 1 << 309) + 1
        if gmpy2.is_prime(long) and not (p * long).bit_length() % 2:
            break
    n, roots = made_from([p, long])
    with pytest.raises(BadCiphertext):
        PaillierPublicKey.from_bytes(encoded_key(n, roots, n.bit_length()), allow_weak=True)


def test_the_generator_is_nobodys_choice(key: PaillierPrivateKey) -> None:
    """n^2 - 1 has order 2: re-randomising with it would hide nothing."""
    again = PaillierPublicKey.from_bytes(key.public.to_bytes(), allow_weak=True)
    assert again.hs == key.public.hs
    n, orders = key.public.n, (2, key._p - 1, key._q - 1, 2 * (key._p - 1), 2 * (key._q - 1))
    assert all(gmpy2.powmod(again.hs, order, n * n) != 1 for order in orders)
    assert key.decrypt(again.hs) == 0


def test_bad_key_messages_are_refused(key: PaillierPrivateKey) -> None:
    blob = key.public.to_bytes()
    for wire in (
        PublicKeys("bgv", {"key_bits": KEY_BITS}, (blob,)),
        PublicKeys("paillier", {"key_bits": KEY_BITS}, ()),
        PublicKeys("paillier", {"key_bits": 3072}, (blob,)),
        PublicKeys("paillier", {}, (blob,)),
    ):
        with pytest.raises(BadCiphertext):
            public_key_from(wire, allow_weak=True)


def test_bad_ciphertexts_are_refused(key: PaillierPrivateKey) -> None:
    public = key.public
    n, width = int(public.n), public.ciphertext_bytes
    good = public.ciphertext_to_bytes(public.encrypt(3))
    assert len(good) == width
    assert key.decrypt(public.ciphertext_from_bytes(good)) == 3
    bad = [b"", good[1:], good + b"\0"]
    bad += [number.to_bytes(width, "big") for number in (0, n * n, n, 5 * int(key._p))]
    for blob in bad:
        with pytest.raises(BadCiphertext):
            public.ciphertext_from_bytes(blob)
        with pytest.raises(BadCiphertext):
            public.unseal(Ciphertexts("paillier", (good, blob)), 2)
    for sealed in (Ciphertexts("bgv", (good,)), Ciphertexts("paillier", (good, good))):
        with pytest.raises(BadCiphertext):
            public.unseal(sealed, 1)


def test_private_key_file(key: PaillierPrivateKey, tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(b"")
    path.chmod(0o644)
    key.save(path)
    assert os.stat(path).st_mode & 0o777 == 0o600
    again = PaillierPrivateKey.load(path, allow_weak=True)
    assert again.decrypt(key.encrypt(-9)) == -9
    with pytest.raises(KeyTooWeak):
        PaillierPrivateKey.load(path)
    with pytest.raises(FileProblem):
        PaillierPrivateKey.load(tmp_path / "none")
    with pytest.raises(FileProblem):
        key.save(tmp_path / "none" / "key")


def test_bad_private_keys_are_refused(key: PaillierPrivateKey) -> None:
    good = key.to_bytes()
    for blob in (b"", good[:10], good[:-1], good[:-1] + bytes([good[-1] ^ 2])):
        with pytest.raises(BadCiphertext):
            PaillierPrivateKey.from_bytes(blob, allow_weak=True)


def test_secrets_stay_out_of_reprs_and_pickles(key: PaillierPrivateKey) -> None:
    assert repr(key) == "<Paillier private key, 512 bits>"
    assert repr(key.public) == "<Paillier public key, 512 bits>"
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(key)


@pytest.mark.real_keys
def test_full_size_key_against_the_oracle() -> None:
    key = PaillierPrivateKey.generate()
    assert (key.public.key_bits, key.security_bits) == (3072, 128)
    PaillierPublicKey.from_bytes(key.public.to_bytes())
    private = oracle_of(key)
    n = int(key.public.n)
    for value in (0, 1, n - 1, -(1 << 3000)):
        assert private.raw_decrypt(int(key.encrypt(value))) == value % n
        assert private.raw_decrypt(int(key.public.encrypt(value))) == value % n
        ours = key.decrypt(mpz(private.public_key.raw_encrypt(value % n)))
        assert ours % n == value % n
