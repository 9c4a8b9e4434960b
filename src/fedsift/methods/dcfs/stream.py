# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Numbers that everybody with a shared secret can draw, and nobody else can foretell."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

_DOMAIN = b"fedsift uniform numbers v1"


def uniform_numbers(secret: bytes, purpose: str, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """Uniform numbers in [0, 1) with 53 bits each, from HKDF-SHA256 and ChaCha20.

    Parameters
    ----------
    secret : bytes
        Shared by the parties that may know the numbers.
    purpose : str
        Different purposes give unrelated numbers.
    shape : tuple of int

    Examples
    --------
    >>> numbers = uniform_numbers(bytes(32), "example", (2, 3))
    >>> numbers.shape, bool((numbers < 1).all())
    ((2, 3), True)
    """
    info = _DOMAIN + purpose.encode()
    key = HKDF(hashes.SHA256(), length=32, salt=None, info=info).derive(secret)
    # Every key is used for one stream only, so a fixed nonce repeats nothing.
    stream = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()
    words = np.frombuffer(stream.update(bytes(8 * math.prod(shape))), "<u8")
    return np.ldexp((words >> np.uint64(11)).astype(np.float64), -53).reshape(shape)
