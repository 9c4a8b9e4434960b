# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a feature holder of the blind protocol refuses, and secrets that masks are made from."""

from __future__ import annotations

import hashlib
import os
from typing import TypeVar

import numpy as np

from fedsift.crypto.masking import masks_modulo
from fedsift.crypto.products.between_two import Small
from fedsift.errors import ParameterError
from fedsift.protocol import MaskedArray

SECRET_BYTES = 32

T = TypeVar("T")


class Secrets:
    """Secrets of one party, one after the other, that masks are made from.

    They come from the operating system. A seed repeats them, which only a run in one process has:
    then two runs are the same to the last bit, encrypted or not.

    Examples
    --------
    >>> Secrets(1, "bank")() == Secrets(1, "bank")(), Secrets(None)() == Secrets(None)()
    (True, False)
    """

    def __init__(self, seed: int | None, *names: object) -> None:
        self._known = None if seed is None else repr((seed, *names))
        self._n_drawn = 0

    def __call__(self) -> bytes:
        """The next one."""
        if self._known is None:
            return os.urandom(SECRET_BYTES)
        self._n_drawn += 1
        return hashlib.sha256(f"{self._known} {self._n_drawn}".encode()).digest()


def wrap(secret: bytes, common: bytes) -> Small:
    """The common secret under a pairwise one."""
    stream = masks_modulo(secret, "common secret", (SECRET_BYTES,), 256)
    hidden = (np.frombuffer(common, np.uint8).astype(np.uint64) + stream) % np.uint64(256)
    return hidden.astype(np.int64)


def unwrap(secret: bytes, wrapped: MaskedArray) -> bytes:
    """The common secret again."""
    numbers = wrapped.array(shape=(SECRET_BYTES,))
    stream = masks_modulo(secret, "common secret", (SECRET_BYTES,), 256).astype(np.int64)
    return bytes(((numbers - stream) % 256).astype(np.uint8))


def present(part: T | None, needed: str) -> T:
    """A part of this party that some message makes; refuses a step that comes before it."""
    if part is None:
        raise ParameterError(
            "A step of the training was asked for before it was prepared.",
            f"{needed} comes first.",
            "Check that all parties run the same version of fedsift.",
        )
    return part


def too_often(n_openings: int) -> ParameterError:
    """More openings than the job says."""
    return ParameterError(
        "More sums were asked for than the job says.",
        f"They are opened {n_openings} times at most.",
        "Run the same job at every party.",
    )


def wrong_count(n_features: int, n_own: int, n_columns: int) -> ParameterError:
    """More features here than anywhere but at the label holder."""
    return ParameterError(
        f"The label holder counts {n_features} features, {n_own} of them its own; this party has "
        f"{n_columns}.",
        "All features of all parties count.",
        "Check that all parties run the same job.",
    )
