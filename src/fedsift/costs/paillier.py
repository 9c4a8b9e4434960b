# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Work of Paillier's scheme, whatever the kernel."""

from __future__ import annotations

from fedsift.costs.counts import Counts
from fedsift.crypto.schemes.paillier import key_bits_for

_POWERS = ("key", "join", "decrypt", "rerandomise", "encrypt public", "tables public")
"""Work that raises to powers, whose exponents grow with the key as well."""


class PaillierWork:
    """One key of the wanted strength; work is measured with 3072 bits."""

    def __init__(self, tally: Counts, security_bits: int) -> None:
        self._tally = tally
        self.key_bits = key_bits_for(security_bits)
        # Products of longer numbers take the square of the length.
        self._scale = (self.key_bits / 3072) ** 2

    @property
    def public_key_bytes(self) -> int:
        """Modulus and generator."""
        return 5 + 3 * self.key_bits // 8

    @property
    def ciphertext_bytes(self) -> int:
        """A number modulo the squared modulus."""
        return 2 * self.key_bits // 8

    def do(self, phase: str, operation: str, count: float = 1) -> None:
        """Count operations, in those of a key of 3072 bits."""
        power = 1.5 if operation in _POWERS else 1.0
        self._tally.do(phase, f"paillier {operation}", count * self._scale**power)
