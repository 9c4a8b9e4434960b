# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Private set intersection of ids: one side learns which of its own ids the other has too.

Elliptic-curve Diffie-Hellman by the library openmined-psi. The *holder* raises its ids to a secret
power and sends them sorted; the *asker* sends its own under a power of its own, gets them back
under both, takes its own away and compares. Whoever does not hold an id sees a random point.

The library compares exactly (no Bloom filter), so there are no false matches.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.crypto.wire import Ciphertexts
from fedsift.errors import BadCiphertext, MissingPackage

SCHEME = "ecdh-psi"
SALT_BYTES = 16


def new_salt() -> str:
    """A salt for one alignment, so that ids of two alignments cannot be compared."""
    return secrets.token_hex(SALT_BYTES)


def salted(ids: Sequence[str] | npt.NDArray[np.str_], salt: str) -> list[str]:
    """Ids as they enter the protocol: digests of one length, different in every alignment."""
    key = bytes.fromhex(salt)
    return [hashlib.blake2b(i.encode(), digest_size=16, key=key).hexdigest() for i in ids]


class SetHolder:
    """The side whose set is asked about; learns the size of the other set and nothing else."""

    def __init__(self) -> None:
        self._server = library().server.CreateWithNewKey(True)

    def __repr__(self) -> str:
        return "<holder of a set>"

    def setup(self, ids: Sequence[str], n_asked: int) -> Ciphertexts:
        """This party's own ids under its own key, sorted, for an asker with so many ids."""
        raw = library().DataStructure.RAW
        message = self._server.CreateSetupMessage(0.0, n_asked, list(ids), raw)
        return Ciphertexts(SCHEME, (message.SerializeToString(),))

    def answer(self, request: Ciphertexts) -> Ciphertexts:
        """The asker's blinded ids under this party's key as well, in the same order."""
        parsed = _parsed(library().Request, request)
        try:
            response = self._server.ProcessRequest(parsed)
        except (RuntimeError, ValueError) as error:
            raise _unusable() from error
        return Ciphertexts(SCHEME, (response.SerializeToString(),))


class SetAsker:
    """The side that learns which of its ids are common."""

    def __init__(self, ids: Sequence[str]) -> None:
        self._client = library().client.CreateWithNewKey(True)
        self._n_ids = len(ids)
        self._request = self._client.CreateRequest(list(ids))

    def __repr__(self) -> str:
        return f"<asker with {self._n_ids} ids>"

    @property
    def request(self) -> Ciphertexts:
        """This party's own ids, blinded."""
        return Ciphertexts(SCHEME, (self._request.SerializeToString(),))

    def common(self, setup: Ciphertexts, response: Ciphertexts) -> npt.NDArray[np.int64]:
        """Positions of the common ids among its own ones, rising."""
        found_in = library()
        theirs, back = _parsed(found_in.ServerSetup, setup), _parsed(found_in.Response, response)
        if len(back.encrypted_elements) != self._n_ids:
            raise _unusable()
        try:
            found = self._client.GetIntersection(theirs, back)
        except (RuntimeError, ValueError) as error:
            raise _unusable() from error
        return np.sort(np.array(found, dtype=np.int64))


def _parsed(kind: Any, sealed: Ciphertexts) -> Any:
    if sealed.scheme != SCHEME or len(sealed.blobs) != 1:
        raise _unusable()
    message = kind()
    try:
        message.ParseFromString(sealed.blobs[0])
    except Exception as error:  # the library's own error type depends on its protobuf
        raise _unusable() from error
    return message


def library() -> Any:
    """The package behind this module; refuses to go on without it."""
    try:
        import private_set_intersection.python as package
    except ImportError as error:
        raise MissingPackage(
            "The package openmined-psi is not installed.",
            "Aligning rows without showing ids needs it.",
            "Install it with: pip install 'fedsift[psi]', or align with alignment='exact'.",
        ) from error
    return package


def is_installed() -> bool:
    """Whether rows can be aligned without showing ids."""
    try:
        library()
    except MissingPackage:
        return False
    return True


def _unusable() -> BadCiphertext:
    return BadCiphertext(
        "Blinded ids arrived that cannot be used.",
        f"A message of scheme {SCHEME!r} with one point per id is needed.",
        "Check that all parties run the same version of fedsift and the same job.",
    )
