# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What encrypted things look like on the wire: opaque bytes with a scheme name.

These structs are the only way a ciphertext or a key enters a message. Their ``repr`` shows sizes,
never content, so a log line or a traceback cannot carry a key or a ciphertext.
"""

from __future__ import annotations

import msgspec


class Ciphertexts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One or more ciphertexts of one scheme (``"bgv"``, ``"paillier"`` or ``"plain"``)."""

    scheme: str
    blobs: tuple[bytes, ...]

    def __repr__(self) -> str:
        return f"<{len(self.blobs)} {self.scheme} ciphertexts, {self.n_bytes} bytes>"

    @property
    def n_bytes(self) -> int:
        """Bytes of all ciphertexts together."""
        return sum(len(blob) for blob in self.blobs)


class PublicKeys(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Public key material: what another party needs to compute under somebody's key.

    ``numbers`` holds the public parameters by name (ring size, plaintext primes, key bits);
    ``blobs`` the serialised keys in the order the scheme defines.
    """

    scheme: str
    numbers: dict[str, int]
    blobs: tuple[bytes, ...]

    def __repr__(self) -> str:
        return f"<public keys, {self.scheme}, {self.n_bytes} bytes>"

    @property
    def n_bytes(self) -> int:
        """Bytes of all keys together."""
        return sum(len(blob) for blob in self.blobs)
