# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A secret shared by several parties, and secret orders of rows drawn from it.

The secret is dealt under pairwise X25519 keys (HKDF-SHA256, then ChaCha20-Poly1305), so whoever
carries the messages cannot read it. Every *run* has an order of its own: pseudo-ids of different
runs have nothing to do with each other.
"""

from __future__ import annotations

import os

import numpy as np
import numpy.typing as npt
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fedsift.crypto.identity import KeyedParty
from fedsift.crypto.masking import MaskingKey
from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.errors import BadCiphertext

SCHEME = "x25519-chacha20poly1305"
SECRET_BYTES = 32
_DEAL = b"fedsift shared secret v1"
_ORDER = b"fedsift shuffle v1"


def new_secret() -> bytes:
    """Fresh bytes from the operating system."""
    return os.urandom(SECRET_BYTES)


def deal(
    secret: bytes, key: MaskingKey, at: KeyedParty, receiver: str, public: PublicKeys
) -> Ciphertexts:
    """Seal a secret for one party; every pair of keys is used for one message only."""
    shared = key.agree(receiver, public, at.identity)
    blob = ChaCha20Poly1305(_pair_key(shared)).encrypt(bytes(12), secret, _DEAL)
    return Ciphertexts(SCHEME, (blob,))


def receive(
    sealed: Ciphertexts, key: MaskingKey, at: KeyedParty, dealer: str, public: PublicKeys
) -> bytes:
    """Open what :func:`deal` sealed, or refuse it."""
    shared = key.agree(dealer, public, at.identity)
    try:
        if sealed.scheme != SCHEME or len(sealed.blobs) != 1:
            raise ValueError
        secret = ChaCha20Poly1305(_pair_key(shared)).decrypt(bytes(12), sealed.blobs[0], _DEAL)
        if len(secret) != SECRET_BYTES:
            raise ValueError
    except (ValueError, InvalidTag) as error:
        raise BadCiphertext(
            "A dealt secret cannot be opened.",
            "It must be sealed for this party's key of this run.",
            "Run the job again; if it happens again, someone changes messages on the way.",
        ) from error
    return secret


class SecretOrder:
    """Pseudo-ids of all rows for one run, and how ties are broken in it.

    Parameters
    ----------
    secret : bytes
    run : int
    n_rows : int

    Attributes
    ----------
    row_of : ndarray of int64
        Row behind each pseudo-id.
    id_of : ndarray of int64
        Pseudo-id of each row.
    ties : ndarray of uint64
        Random numbers by row, the same at all parties: rows at equal distance are listed in their
        order, so that lists agree and nobody else can tell a tie from a difference.
    """

    def __init__(self, secret: bytes, run: int, n_rows: int) -> None:
        info = _ORDER + run.to_bytes(8, "big") + n_rows.to_bytes(8, "big")
        key = HKDF(hashes.SHA256(), length=32, salt=None, info=info).derive(secret)
        stream = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()
        numbers = np.frombuffer(stream.update(bytes(16 * n_rows)), "<u8")
        self.row_of: npt.NDArray[np.int64] = np.argsort(numbers[:n_rows]).astype(np.int64)
        self.ties: npt.NDArray[np.uint64] = numbers[n_rows:]

    def __repr__(self) -> str:
        return f"<secret order of {len(self.row_of)} rows>"

    @property
    def id_of(self) -> npt.NDArray[np.int64]:
        """Pseudo-id of each row."""
        ids = np.empty_like(self.row_of)
        ids[self.row_of] = np.arange(len(ids))
        return ids


def _pair_key(shared: bytes) -> bytes:
    return HKDF(hashes.SHA256(), length=32, salt=None, info=_DEAL).derive(shared)
