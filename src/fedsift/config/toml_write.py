# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Writing small TOML files and secret files, completely or not at all."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedsift.errors import FileProblem

PRIVATE = 0o600
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def toml_text(sections: Mapping[str, Mapping[str, Any] | list[Mapping[str, Any]]]) -> str:
    r"""Tables of numbers, texts, lists of them, and tables of texts; empty ones are left out.

    Examples
    --------
    >>> print(toml_text({"party": {"name": "bank"}, "keys": {"pinned": {"a@b": "x"}}}), end="")
    [party]
    name = "bank"
    <BLANKLINE>
    [keys.pinned]
    "a@b" = "x"
    """
    blocks: list[str] = []
    for name, content in sections.items():
        if isinstance(content, list):
            blocks += [f"[[{name}]]\n{_lines(entry)}" for entry in content]
            continue
        plain = {key: value for key, value in content.items() if not isinstance(value, Mapping)}
        if plain:
            blocks.append(f"[{name}]\n{_lines(plain)}")
        for key, value in content.items():
            if isinstance(value, Mapping) and value:
                blocks.append(f"[{name}.{_key(key)}]\n{_lines(value)}")
    return "\n".join(blocks)


def write_text(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file so that a crash leaves the old one or the new one."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, partial = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        os.chmod(partial, mode)
        os.replace(partial, path)
    except OSError as error:
        raise FileProblem(
            f"Cannot write {path}: {error.strerror}.",
            "A writable folder with free space is needed.",
            "Check the folder and its permissions.",
        ) from None


def _lines(entries: Mapping[str, Any]) -> str:
    return "".join(f"{_key(key)} = {toml_value(value)}\n" for key, value in entries.items())


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else toml_value(name)


def toml_value(value: Any) -> str:
    """A value on one line."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(k)} = {toml_value(v)}" for k, v in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(toml_value(entry) for entry in value) + "]"
    if isinstance(value, str):
        # A JSON text is a TOML text, but for one control character.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)
