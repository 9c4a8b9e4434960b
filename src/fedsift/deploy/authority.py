# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The authority of a federation: the key that signs certificates, in a folder of its own."""

from __future__ import annotations

from pathlib import Path

import msgspec

from fedsift.config.toml_write import PRIVATE, write_text
from fedsift.errors import ConfigError, FileProblem

FOLDER, FILE = "ca", "authority.json"
OWNER_ONLY = 0o700

_NOTE = """\
This folder holds the key that signs certificates for the federation {project!r}.

Anyone with it can issue certificates in any member's name. Give it to someone who does not operate
the hub, keep it off-line, and bring it out only to add a member or to renew certificates. It holds
no member's private key: those are in the kits only.
"""


class Authority(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Certificate and key of the authority, and the day every kit was issued."""

    project: str
    root_cert: str
    root_pri_key: str
    issued: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"<authority of {self.project!r}>"


def load_authority(out: Path, project: str) -> Authority | None:
    """The authority that an earlier call left, or nothing."""
    path = out / FOLDER / FILE
    if not path.exists():
        return None
    try:
        kept = msgspec.json.decode(path.read_bytes(), type=Authority)
    except (OSError, msgspec.MsgspecError):
        raise FileProblem(
            f"{path} cannot be read as an authority.",
            "The file that an earlier 'fedsift deploy init' wrote is needed.",
            "Restore it from a backup, or choose another --out for a new federation.",
        ) from None
    if kept.project != project:
        raise ConfigError(
            f"{path} belongs to the project {kept.project!r}, not {project!r}.",
            "An authority signs for one project.",
            "Choose another --out.",
        )
    return kept


def save_authority(out: Path, authority: Authority) -> None:
    """Write the authority where its owner alone can read it."""
    folder = out / FOLDER
    folder.mkdir(exist_ok=True)
    folder.chmod(OWNER_ONLY)
    text = msgspec.json.format(msgspec.json.encode(authority), indent=2).decode()
    write_text(folder / FILE, text, PRIVATE)
    write_text(folder / "README.txt", _NOTE.format(project=authority.project))
