# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Finished cells of a comparison, line by line in a file, so that an interrupted one goes on."""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec

from fedsift.lab.compare.cells import Cell


class _Line(msgspec.Struct, frozen=True):
    key: str
    cell: Cell


class Journal:
    """Cells by their key; without a path nothing is kept.

    Parameters
    ----------
    path : Path or None
        Written to line by line and read at the start; a line that was cut off does not count.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self.known: dict[str, Cell] = {}
        if path is None or not path.is_file():
            return
        for line in path.read_bytes().splitlines():
            with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
                entry = msgspec.json.decode(line, type=_Line)
                self.known[entry.key] = entry.cell

    def add(self, key: str, cell: Cell) -> None:
        """Note a cell; where nothing can be written, the comparison goes on without."""
        self.known[key] = cell
        if self._path is None or cell.failed:
            return
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("ab") as file:
                # Begins with a line end: after a line that was cut off, the next one is whole.
                file.write(b"\n" + msgspec.json.encode(_Line(key, cell)))

    def remove(self) -> None:
        """The comparison is complete."""
        if self._path is not None:
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)
