# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Each party's own file: its part of a model, or of an unfinished training.

A state is a nested mapping of arrays and plain values. It is written as one ``.npz`` archive with a
JSON index, without pickle, readable by the owner alone, and replaces an older file in one step.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch

from fedsift.errors import AlignmentError, FileProblem, ParameterError

State = dict[str, Any]

_FORMAT = "fedsift part 1"
_SUFFIX = ".fedsift-part"


def write_state(path: Path, state: Mapping[str, Any]) -> None:
    """Write a state; an interrupted write leaves the old file as it was."""
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    index = json.dumps({"format": _FORMAT, "state": _plain(state, arrays)})
    buffer = io.BytesIO()
    np.savez(buffer, index=np.frombuffer(index.encode(), dtype=np.uint8), **arrays)  # type: ignore[arg-type]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # mkstemp makes files that only their owner can read.
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=_SUFFIX + ".new")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(buffer.getvalue())
            os.replace(temporary, path)
        except OSError:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise FileProblem(
            f"{path} could not be written ({error.strerror or type(error).__name__}).",
            "A directory with enough space and write permission is needed.",
            "Free some space or choose another directory; an older file is untouched.",
        ) from error


def read_state(path: Path) -> State:
    """Read what :func:`write_state` wrote; tensors come back as tensors."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        index = json.loads(arrays.pop("index").tobytes())
        if index["format"] != _FORMAT:
            raise KeyError("format")
        state: State = _restored(index["state"], arrays)
        return state
    except FileNotFoundError as error:
        raise FileProblem(
            f"There is no {path}.",
            "The file of this party's part is needed.",
            "Check the directory; every party keeps its own part.",
        ) from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError, BadZipFile) as error:
        raise FileProblem(
            f"{path} is not a readable part of a model.",
            f"A file of format {_FORMAT!r} is needed.",
            "Write the model again, or restore the file from a backup.",
        ) from error


class Checkpoints:
    """A party's unfinished training, one file per epoch, the last two kept.

    Two, because a party may have finished an epoch that others have not.
    """

    def __init__(self, directory: Path, party: str) -> None:
        self._directory = directory
        self._stem = safe_name(party)

    def path(self, epoch: int) -> Path:
        """File of one epoch."""
        return self._directory / f"{self._stem}.{epoch:05d}{_SUFFIX}"

    def epochs(self) -> list[int]:
        """Epochs that can be continued from."""
        pattern = re.compile(re.escape(self._stem) + r"\.(\d{5})" + re.escape(_SUFFIX))
        found = [pattern.fullmatch(path.name) for path in self._directory.glob("*" + _SUFFIX)]
        return sorted(int(match[1]) for match in found if match)

    def save(self, epoch: int, state: Mapping[str, Any]) -> None:
        """Write an epoch and forget all but the one before it."""
        write_state(self.path(epoch), state)
        for old in self.epochs():
            if old < epoch - 1:
                self.path(old).unlink(missing_ok=True)

    def load(self, epoch: int) -> State:
        """Read an epoch."""
        return read_state(self.path(epoch))

    def clear(self) -> None:
        """Remove all of this party's epochs, once the training is finished."""
        for epoch in self.epochs():
            self.path(epoch).unlink(missing_ok=True)


def digest(content: bytes) -> str:
    """A number that stands for data, to notice changes."""
    return hashlib.sha256(content).hexdigest()


def check_same_data(saved: str, now: str, party: str) -> None:
    """A training goes on with the data it began with, or not at all."""
    if saved != now:
        raise AlignmentError(
            f"The data of party {party!r} is not what it was at the checkpoint.",
            "An interrupted training continues on the same rows and columns.",
            "Restore the data, or train anew without the checkpoint.",
        )


def check_same_job(saved: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """A training goes on with the settings it began with."""
    changed = sorted(name for name in now if saved.get(name) != now[name])
    if changed:
        raise ParameterError(
            f"The checkpoint belongs to a job with another {', '.join(changed)}.",
            "An interrupted training continues with the settings it began with.",
            "Restore the settings, or choose another checkpoint directory to train anew.",
        )


def part_path(directory: Path, party: str) -> Path:
    """Where a party's part of a finished model lies."""
    return directory / f"{safe_name(party)}{_SUFFIX}"


def safe_name(party: str) -> str:
    """A file name for a party, on any file system, different for different parties."""
    return "".join(
        c if c.isascii() and (c.isalnum() or c in "-_") else f"%{ord(c):x}" for c in party
    )


def _plain(value: Any, arrays: dict[str, np.ndarray[Any, Any]]) -> Any:
    """JSON for a value; arrays go to the archive and leave a reference."""
    if isinstance(value, Mapping):
        return {"map": [[_key(key), _plain(item, arrays)] for key, item in value.items()]}
    if isinstance(value, torch.Tensor):
        return {"tensor": _stored(value.detach().numpy(), arrays)}
    if isinstance(value, np.ndarray) and value.dtype == object:
        return {"integers": [str(int(v)) for v in value.ravel()], "shape": list(value.shape)}
    if isinstance(value, np.ndarray):
        return {"array": _stored(value, arrays)}
    if isinstance(value, (list, tuple)):
        return {"list": [_plain(item, arrays) for item in value]}
    if isinstance(value, np.generic):
        return {"value": value.item()}
    return {"value": value}


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
        return torch.from_numpy(arrays[node["tensor"]].copy())
    if "integers" in node:
        numbers = [int(text) for text in node["integers"]]
        return np.array(numbers, dtype=object).reshape(node["shape"])
    if "array" in node:
        return arrays[node["array"]].copy()
    if "list" in node:
        return [_restored(item, arrays) for item in node["list"]]
    return node["value"]
