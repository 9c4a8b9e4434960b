# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What all targets use: the list of them, and files with the bytes of an input."""

from __future__ import annotations

import atexit
import shutil
import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path

from fedsift.errors import FedsiftError

Target = Callable[[bytes], object]
TARGETS: dict[str, Target] = {}
LONGEST = 8192
"""Bytes of an input: readers have no state, so that longer ones reach nothing new."""
_MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of its own is made in it


def target(function: Target) -> Target:
    """Add a reader; its name is that of the function."""
    TARGETS[function.__name__] = function
    return function


def check(name: str, data: bytes) -> None:
    """Give a reader some bytes; fails unless it reads them or says in three parts why not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            TARGETS[name](data)
        except FedsiftError as error:
            parts = (error.found, error.needed, error.action)
            if not all(parts):
                raise AssertionError(f"{error.code} lacks a part: {parts}") from error


@cache
def folder() -> Path:
    """A folder of the own process, with a table in it; in memory, where the system has that."""
    memory = _MEMORY if _MEMORY.is_dir() else None
    place = Path(tempfile.mkdtemp(prefix="fedsift-fuzz-", dir=memory))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    for inner in (place, place / "site"):
        inner.mkdir(exist_ok=True)
        (inner / "bank.csv").write_text("id,a,label\n1,2.5,yes\n2,3.5,no\n")
    return place


def file_of(name: str, data: bytes) -> Path:
    """A file with these bytes in that folder."""
    path = folder() / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def patched(original: bytes, data: bytes) -> bytes:
    """A copy of ``original`` with some bytes changed, for what is too long to be an input.

    The first byte says how many are cut off at the end; then three for each change: two of its
    place, counted from the end if it is large, and the new one.
    """
    changed = bytearray(original[: len(original) - data[0]] if data else original)
    for start in range(1, len(data) - 2, 3):
        place = int.from_bytes(data[start : start + 2], "little")
        place = place if place < 1 << 15 else len(changed) - (place - (1 << 15)) - 1
        if 0 <= place < len(changed):
            changed[place] = data[start + 2]
    return bytes(changed)
