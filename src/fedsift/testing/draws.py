# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Runs whose every draw follows the seed, so that tests can compare them number by number."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fedsift.privacy import draws


@contextmanager
def let_seeds_drive_everything() -> Iterator[None]:
    """Take private draws and noise of this process from the seed, as version 0.1.0 did.

    Such a run hides nothing from anybody who knows the seed.
    """
    before = draws._seeds_drive_everything
    draws._seeds_drive_everything = True
    try:
        yield
    finally:
        draws._seeds_drive_everything = before
