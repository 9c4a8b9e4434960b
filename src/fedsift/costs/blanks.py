# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Ciphertexts and keys that have a size but no content."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fedsift.crypto.wire import Ciphertexts, PublicKeys


class Blank:
    """Stands for some bytes; ``opened`` is what the kernel's other side finds in them."""

    __slots__ = ("_n_bytes", "opened")

    def __init__(self, n_bytes: int, opened: Any = None) -> None:
        self._n_bytes = n_bytes
        self.opened = opened

    def __len__(self) -> int:
        return self._n_bytes


def blank_ciphertexts(
    scheme: str, sizes: Iterable[tuple[int, int]], opened: Any = None
) -> Ciphertexts:
    """So many ciphertexts of so many bytes each, for every pair; all open to one content."""
    blobs: list[Any] = []
    for count, n_bytes in sizes:
        blobs += [Blank(n_bytes, opened)] * count
    return Ciphertexts(scheme, tuple(blobs))


def blank_keys(keys: PublicKeys, sizes: Iterable[int]) -> PublicKeys:
    """The same public numbers with keys of the given bytes."""
    blobs: Any = tuple(Blank(n_bytes) for n_bytes in sizes)
    return PublicKeys(keys.scheme, keys.numbers, blobs)


def opened(sealed: Ciphertexts) -> Any:
    """The content of blank ciphertexts."""
    blob: Any = sealed.blobs[0]
    return blob.opened
