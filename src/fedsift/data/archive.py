# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Reading and checking ``.npz`` files of named data sets, without pickle."""

from __future__ import annotations

import hashlib
import io
import threading
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from fedsift.data.files import check_readable
from fedsift.errors import FileProblem

Arrays = dict[str, NDArray[Any]]

SUMS = "SHA256SUMS"

_one_reader = threading.Lock()
"""NumPy parses the header of an array with :mod:`ast`, where Python 3.11 counts recursion for all
threads together: two at it at once can end in a SystemError. Parties in one process are threads."""


def stored_arrays(file: BinaryIO) -> Arrays:
    """All arrays of an ``.npz`` archive, never unpickled; safe to call from several threads."""
    try:
        with _one_reader, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except MemoryError:
        # A damaged header can claim any size; NumPy would ask for that much.
        raise ValueError("an array that no memory holds") from None
    except (zlib.error, NotImplementedError, RuntimeError) as error:
        # Damaged compression, a method that zipfile does not know, or an encrypted entry.
        raise ValueError(str(error)) from None
    if not all(isinstance(array, np.ndarray) for array in arrays.values()):
        raise ValueError("an entry that is no array")  # NumPy gives its bytes
    return arrays


def read_arrays(path: Path) -> Arrays:
    """Read all arrays of a file after checking it against ``SHA256SUMS`` beside it.

    Parameters
    ----------
    path : Path
        An ``.npz`` file. If its directory has a ``SHA256SUMS``, the file must be listed there.

    Returns
    -------
    arrays : dict of str to ndarray
        At least ``X`` and ``y``.
    """
    check_readable(path)
    content = path.read_bytes()
    sums = path.parent / SUMS
    if sums.is_file():
        _check_sum(content, path, sums)
    return _parse(content, path)


def content_digest(arrays: Mapping[str, NDArray[Any]]) -> str:
    """Checksum of what the arrays say, however the file was compressed or written."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.asarray(arrays[name])
        little_endian = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<")))
        digest.update(f"{name} {little_endian.dtype.str} {array.shape}\n".encode())
        digest.update(little_endian.tobytes())
    return digest.hexdigest()


def _check_sum(content: bytes, path: Path, sums: Path) -> None:
    listed: dict[str, str] = {}
    for line in sums.read_text(encoding="utf-8").splitlines():
        digest, _, name = line.partition(" ")
        listed[name.strip().removeprefix("*")] = digest
    if path.name not in listed:
        raise FileProblem(
            f"File {path.name!r} is not listed in {SUMS} beside it.",
            "Every file there must be covered by a checksum.",
            f"Add the file to {SUMS}, or remove it.",
        )
    if hashlib.sha256(content).hexdigest() != listed[path.name].lower():
        raise FileProblem(
            f"File {path.name!r} does not have the checksum listed in {SUMS}.",
            "The file must be exactly the one that was listed.",
            "Copy or download the file again.",
        )


def _parse(content: bytes, path: Path) -> Arrays:
    try:
        arrays = stored_arrays(io.BytesIO(content))
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, AttributeError):
        raise FileProblem(
            f"File {path.name!r} is not a readable .npz file of plain arrays.",
            "Data sets are .npz files without pickled objects.",
            "Copy or download the file again.",
        ) from None
    lacking = [name for name in ("X", "y") if name not in arrays]
    if lacking or arrays["X"].ndim != 2 or arrays["y"].shape != arrays["X"].shape[:1]:
        raise FileProblem(
            f"File {path.name!r} does not hold a table and its labels.",
            "It needs a 2-D array X and an array y with one label per row.",
            "Copy or download the file again.",
        )
    return arrays
