# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Signatures (Ed25519) with which parties stand by the ledger of a run."""

from __future__ import annotations

from typing import NoReturn

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

_SEED_BYTES = 32


class SigningKey:
    """A secret key that signs; only its public part is ever handed out."""

    def __init__(self, secret: Ed25519PrivateKey) -> None:
        self._secret = secret

    def __repr__(self) -> str:
        return "<signing key>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("secret keys are not pickled")

    @classmethod
    def generate(cls) -> SigningKey:
        """Make a key from the operating system's random source."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def derive(cls, secret: bytes) -> SigningKey:
        """Make the key that belongs to another secret; that secret does not follow from it."""
        info = b"fedsift signing key v1"
        seed = HKDF(hashes.SHA256(), length=_SEED_BYTES, salt=None, info=info).derive(secret)
        return cls(Ed25519PrivateKey.from_private_bytes(seed))

    @property
    def public(self) -> bytes:
        """Public key that others check signatures with."""
        return self._secret.public_key().public_bytes_raw()

    def sign(self, content: bytes) -> bytes:
        """Sign some bytes."""
        return self._secret.sign(content)


def is_signed(public: bytes, content: bytes, signature: bytes) -> bool:
    """Whether the owner of a public key signed these bytes."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, content)
    except (InvalidSignature, ValueError):
        return False
    return True
