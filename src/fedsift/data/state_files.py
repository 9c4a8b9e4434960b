# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Each party's own files: its part of a model, or of an unfinished run.

A state is a nested mapping of arrays and plain values. It is written as one ``.npz`` archive with a
JSON index, without pickle, readable by the owner alone, and replaces an older file in one step.

A fingerprint notices that the party's data has changed since; it stays with the party too.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import logging
import os
import re
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from msgspec import MsgspecError

from fedsift.data.archive import stored_arrays
from fedsift.data.table import PartyTable
from fedsift.data.target import Target
from fedsift.errors import FedsiftError, FileProblem

State = dict[str, Any]
"""Arrays and plain values by name, nested."""

_FORMAT = "fedsift part 1"
_PART, _CHECKPOINT = ".fedsift-part", ".fedsift-checkpoint"
_NEW = ".new"
_LOCK = ".fedsift-lock"
_log = logging.getLogger(__name__)
_DEVICES = {
    "con",
    "prn",
    "aux",
    "nul",
    *(f"{port}{n}" for port in ("com", "lpt") for n in "0123456789"),
}
_PLAIN = (str, int, float, bool, type(None))


def write_state(path: Path, state: Mapping[str, Any]) -> None:
    """Write a state; an interrupted write leaves the old file as it was."""
    try:
        _write(path, state)
    except OSError as error:
        raise FileProblem(
            f"{path} could not be written ({_reason(error)}).",
            "A directory with enough space and write permission is needed.",
            "Free some space or choose another directory; an older file is untouched.",
        ) from error


def read_state(path: Path) -> State:
    """Read what :func:`write_state` wrote; tensors come back as tensors."""
    try:
        return _read(path)
    except FileNotFoundError as error:
        raise FileProblem(
            f"There is no {path}.",
            "The file of this party's part is needed.",
            "Check the directory; every party keeps its own part.",
        ) from error
    except _UNREADABLE as error:
        raise FileProblem(
            f"{path} is not a readable part of a model.",
            f"A file of format {_FORMAT!r} is needed.",
            "Write the model again, or restore the file from a backup.",
        ) from error


class Checkpoints:
    """The unfinished run of one role: one file per unit of work, the last two kept.

    Two, because one role may have saved a unit that others have not. Errors name files without
    their directory, since other parties may get to read them.

    Parameters
    ----------
    directory : Path
        Made when the first file is written.
    party, role : str
        Whose files these are; others in the directory are left alone.
    """

    def __init__(self, directory: Path, party: str, role: str) -> None:
        self._directory = directory
        self._stem = f"{safe_name(party)}.{safe_name(role)}"
        self._held: int | None = None

    def path(self, unit: int) -> Path:
        """File of one unit."""
        return self._directory / f"{self._stem}.{unit:05d}{_CHECKPOINT}"

    def units(self) -> list[int]:
        """Units that can be continued from, earlier ones first."""
        pattern = re.compile(re.escape(self._stem) + r"\.(\d{5,})" + re.escape(_CHECKPOINT))
        found = [pattern.fullmatch(path.name) for path in self._directory.glob("*" + _CHECKPOINT)]
        return sorted(int(match[1]) for match in found if match)

    def readable_units(self, needed: Collection[str]) -> list[int]:
        """As :meth:`units`, without damaged ones at the end if one before them is intact.

        ``needed`` are parts that a state must have.
        """
        units = self.units()
        for kept in range(len(units), 0, -1):
            try:
                if not set(needed) <= set(_read(self.path(units[kept - 1]))):
                    continue
            except _UNREADABLE:
                continue
            for damaged in units[kept:]:
                _log.warning(
                    "the checkpoint %s is not readable; the run goes on from the one before",
                    self.path(damaged).name,
                )
            return units[:kept]
        if units:
            raise self.unreadable(units[-1])
        return []

    def lock(self) -> bool:
        """Take the directory for this role; False if another process or run has it.

        The file holds the number of the process, for people. It is the system's lock that counts,
        which ends with the process, so that a file that was left behind locks nobody out.
        """
        if self._held is not None:
            return True
        held = take_lock(self._directory / f"{self._stem}{_LOCK}")
        if held is None:
            return False
        os.ftruncate(held, 0)
        os.write(held, f"{os.getpid()}\n".encode())
        self._held = held
        return True

    def unlock(self) -> None:
        """Let others use the directory."""
        if self._held is not None:
            (self._directory / f"{self._stem}{_LOCK}").unlink(missing_ok=True)
            os.close(self._held)
            self._held = None
            with contextlib.suppress(OSError):  # others still have files there
                self._directory.rmdir()

    def __del__(self) -> None:
        if self._held is not None:
            with contextlib.suppress(OSError):
                os.close(self._held)

    def save(self, unit: int, state: Mapping[str, Any]) -> None:
        """Write a unit and forget all but the one before it."""
        try:
            _write(self.path(unit), state)
            for old in self.units():
                if old < unit - 1:
                    self.path(old).unlink(missing_ok=True)
        except OSError as error:
            raise FileProblem(
                f"The checkpoint {self.path(unit).name} could not be written ({_reason(error)}).",
                "A directory with enough space and write permission is needed.",
                "Free some space and resume the run; the checkpoint before it is untouched.",
            ) from error

    def load(self, unit: int) -> State:
        """Read a unit."""
        try:
            return _read(self.path(unit))
        except _UNREADABLE as error:
            raise self.unreadable(unit) from error

    @contextlib.contextmanager
    def reading(self, unit: int) -> Iterator[None]:
        """Refuse a file that is intact and holds something else than was ever written."""
        try:
            yield
        except FedsiftError:
            raise
        except (*_UNREADABLE, LookupError, ArithmeticError, MsgspecError) as error:
            raise self.unreadable(unit) from error

    def unreadable(self, unit: int) -> FileProblem:
        """The error of a file that is not what was written."""
        return FileProblem(
            f"The checkpoint {self.path(unit).name} is not readable.",
            "An interrupted run continues from files that are as they were written.",
            "Restore the file from a backup, or remove the checkpoints of all parties and "
            "start again.",
        )

    def forget_after(self, unit: int) -> None:
        """Remove later units, which the run is about to do again."""
        for later in self.units():
            if later > unit:
                self.path(later).unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove all files of this role, also half-written ones."""
        for path in self._directory.glob("*" + _NEW):
            if path.name.startswith(self._stem + "."):
                path.unlink(missing_ok=True)
        for unit in self.units():
            self.path(unit).unlink(missing_ok=True)


def unfinished(directory: Path) -> tuple[str, ...]:
    """Names of the checkpoints in a directory, of all parties."""
    return tuple(sorted(path.name for path in directory.glob("*" + _CHECKPOINT)))


def part_path(directory: Path, party: str) -> Path:
    """Where a party's part of a finished model lies."""
    return directory / f"{safe_name(party)}{_PART}"


def safe_name(name: str) -> str:
    """A file name for a party or role, on any file system, different for different ones."""
    safe = "".join(
        c if c.isascii() and (c.isalnum() or c in "-_") else f"%{ord(c):x}" for c in name
    )
    # Windows takes a name such as "con" for a device, with whatever suffix.
    return f"%{ord(safe[0]):x}{safe[1:]}" if safe.casefold() in _DEVICES else safe


_UNREADABLE = (
    OSError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    EOFError,
    RecursionError,
    BadZipFile,
)


def _write(path: Path, state: Mapping[str, Any]) -> None:
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    index = json.dumps({"format": _FORMAT, "state": _plain(state, arrays)})
    buffer = io.BytesIO()
    np.savez(buffer, index=np.frombuffer(index.encode(), dtype=np.uint8), **arrays)  # type: ignore[arg-type]
    path.parent.mkdir(parents=True, exist_ok=True)
    # mkstemp makes files that only their owner can read.
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name + ".", suffix=_NEW)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(buffer.getvalue())
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise


def _read(path: Path) -> State:
    with path.open("rb") as file:
        arrays = stored_arrays(file)
    index = json.loads(arrays.pop("index").tobytes())
    if index["format"] != _FORMAT:
        raise KeyError("format")
    state: State = _restored(index["state"], arrays)
    return state


def take_lock(path: Path) -> int | None:
    """Lock a file, which is made if need be; None if another process or run has it.

    The system takes the lock back when the process ends, however it ends.
    """
    while True:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            held = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise FileProblem(
                f"The directory of checkpoints cannot be used ({_reason(error)}).",
                "A directory with enough space and write permission is needed.",
                "Choose another directory.",
            ) from error
        try:
            _lock_file(held)
            # Whoever had it may have removed the file meanwhile: that lock is worth nothing.
            if os.path.samestat(os.fstat(held), path.stat()):
                return held
        except FileNotFoundError:
            pass
        except OSError:
            os.close(held)
            return None
        os.close(held)


def _lock_file(handle: int) -> None:
    """Lock an open file for this process and this handle; OSError if somebody else has it."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _reason(error: OSError) -> str:
    return error.strerror or type(error).__name__


def _plain(value: Any, arrays: dict[str, np.ndarray[Any, Any]]) -> Any:
    """JSON for a value; arrays go to the archive and leave a reference."""
    if isinstance(value, _PLAIN):
        return {"value": value}
    if isinstance(value, Mapping):
        return {"map": [[_key(key), _plain(item, arrays)] for key, item in value.items()]}
    # Whoever has tensors has imported torch; everybody else need not.
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return {"tensor": _stored(value.detach().numpy(), arrays)}
    if isinstance(value, np.ndarray) and value.dtype == object:
        return {"integers": [str(int(v)) for v in value.ravel()], "shape": list(value.shape)}
    if isinstance(value, np.ndarray):
        return {"array": _stored(value, arrays)}
    if isinstance(value, (list, tuple)):
        if all(isinstance(item, _PLAIN) for item in value):
            return {"value": list(value)}
        return {"list": [_plain(item, arrays) for item in value]}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, np.generic):
        return {"value": value.item()}
    raise TypeError(f"a state holds no {type(value).__name__}")


def _key(key: Any) -> Any:
    return key if isinstance(key, (str, int)) else str(key)


def _stored(array: np.ndarray[Any, Any], arrays: dict[str, np.ndarray[Any, Any]]) -> str:
    name = f"a{len(arrays)}"
    arrays[name] = array
    return name


def _restored(node: Mapping[str, Any], arrays: Mapping[str, np.ndarray[Any, Any]]) -> Any:
    if "map" in node:
        return {key: _restored(item, arrays) for key, item in node["map"]}
    if "tensor" in node:
        import torch

        return torch.from_numpy(arrays[node["tensor"]].copy())
    if "integers" in node:
        numbers = [int(text) for text in node["integers"]]
        return np.array(numbers, dtype=object).reshape(node["shape"])
    if "array" in node:
        return arrays[node["array"]].copy()
    if "list" in node:
        return [_restored(item, arrays) for item in node["list"]]
    if "bytes" in node:
        return bytes.fromhex(node["bytes"])
    return node["value"]


def fingerprint(*parts: PartyTable | Target | None) -> str:
    """Digest of tables and targets: names, kinds, values, and the order of rows and columns.

    Examples
    --------
    >>> table = PartyTable.from_any({"age": [31, 52]}, name="bank")
    >>> older = PartyTable.from_any({"age": [31, 53]}, name="bank")
    >>> fingerprint(table) == fingerprint(table), fingerprint(table) == fingerprint(older)
    (True, False)
    """
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, PartyTable):
            for column in part.columns:
                digest.update(repr((column.name, column.kind, column.categories)).encode())
                digest.update(np.ascontiguousarray(column.values).tobytes())
        elif part is not None:
            digest.update(repr((part.kind, part.classes)).encode())
            digest.update(part.codes.tobytes() + part.values.tobytes())
        digest.update(b"|")
    return digest.hexdigest()
