# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Sealing keys: made by their owner, pinned by the others.

The certificates of FLARE say who may connect. What members send each other is sealed with keys that
no authority signs: every member makes its own, hands the public part around by a way the others
trust, and pins theirs. So neither the hub nor the keeper of the authority can read or forge it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from fedsift.config.toml import TomlCheck
from fedsift.config.toml_write import PRIVATE, toml_text, write_text
from fedsift.crypto.envelope import OrganisationKey
from fedsift.deploy.site_files import (
    KEY_FILE,
    public_bytes,
    public_text,
    read_key,
    read_sections,
    settings_file,
    write_sections,
)
from fedsift.errors import ConfigError


@dataclass(frozen=True)
class PublicKey:
    """A member's public key, as it is handed around."""

    name: str
    kind: str
    public: bytes

    @property
    def fingerprint(self) -> str:
        """Short enough to be read out on the telephone."""
        digest = hashlib.sha256(self.public).hexdigest()[:24]
        return " ".join(digest[i : i + 4] for i in range(0, len(digest), 4))


def make_key(settings: Path, name: str, kind: str) -> PublicKey:
    """The public key of a kit; its secret part is made if there is none yet."""
    path = settings / KEY_FILE
    if not path.exists():
        secret = OrganisationKey.generate()
        write_text(path, public_text(secret.to_bytes()) + "\n", PRIVATE)
    return PublicKey(name, kind, read_key(path).public)


def write_public(path: Path, key: PublicKey) -> None:
    """Write a public key file for the others."""
    entry = {"name": key.name, "kind": key.kind, "public": public_text(key.public)}
    write_text(path, toml_text({"key": entry}))


def read_public(path: Path) -> PublicKey:
    """Read what :func:`write_public` wrote."""
    check = TomlCheck(path)
    top = check.table((), check.document, {"key": (dict,)})
    kinds = {"name": (str,), "kind": (str,), "public": (str,)}
    entry = check.table(("key",), top.get("key", {}), kinds)
    for name in kinds:
        if name not in entry and not check.has(("key", name)):
            needed = "A file written by 'fedsift deploy key' is needed."
            check.add(("key",), f"{name} is missing.", needed, "Ask its owner again.")
    raw = public_bytes(entry.get("public", ""))
    if "public" in entry and raw is None:
        needed = "It must be 32 bytes in base64."
        check.add(("key", "public"), "This is no public key.", needed, "Ask its owner again.")
    check.finish("the key")
    return PublicKey(entry["name"], entry["kind"], raw or b"")


def pin_keys(settings: Path, keys: Iterable[PublicKey], *, replace: bool = False) -> None:
    """Pin public keys of other members in a kit's settings.

    Parameters
    ----------
    settings : Path
        ``local/fedsift`` of the kit.
    keys : iterable of PublicKey
    replace : bool
        Whether a key that differs from the pinned one takes its place.
    """
    path = settings_file(settings)
    sections = read_sections(path)
    pinned = sections.setdefault("keys", {}).setdefault("pinned", {})
    submitters = sections.setdefault("accepts", {}).setdefault("submitters", {})
    for key in keys:
        goal = submitters if key.kind == "submitter" else pinned
        text = public_text(key.public)
        if goal.get(key.name, text) != text and not replace:
            raise ConfigError(
                f"Another key of {key.name!r} is pinned already.",
                "A pinned key changes only on purpose.",
                "Ask its owner whether the key was renewed, then pass --replace.",
            )
        goal[key.name] = text
    write_sections(path, sections)
