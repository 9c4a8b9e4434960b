# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Names and strengths of schemes, checked before keys are made."""

from __future__ import annotations

from collections.abc import Iterable

from fedsift.errors import ParameterError


def check_scheme(scheme: str, known: Iterable[str]) -> None:
    """Refuse a scheme that is not among the known ones."""
    names = sorted(known)
    if scheme not in names:
        raise ParameterError(
            f"Unknown encryption scheme {scheme[:20]!r}.",
            f"Known: {', '.join(names)}.",
            "Choose one of them.",
        )


def check_ring_strength(scheme: str, security_bits: int) -> None:
    """Refuse more security than the parameters of a ring scheme offer."""
    if security_bits > 128:
        raise ParameterError(
            f"{scheme} here offers 128-bit security, {security_bits} was asked for.",
            "At most 128 bits are supported.",
            "Use he='paillier' with a larger key, or lower the demand.",
        )
