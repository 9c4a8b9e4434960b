# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A member's own settings: ``site.toml`` of an organisation, ``hub.toml``, ``submitter.toml``.

The file lies in ``local/fedsift`` of a startup kit and never leaves it. A job names organisations,
a method and its parameters; everything about data, keys and consent comes from here. Paths are
relative to the file. The files of the hub and of submitters have the same form without ``[data]``::

    [party]
    name = "bank"                   # the organisation; its name in jobs, certificates and results

    [data]
    path = "/srv/bank.csv"
    id = ["customer_id"]            # optional: columns that identify a row
    label = "default"               # optional: the only column a job may use as the label; of
                                    # survival times { time = "days", event = "died" }
    columns = ["age", "income"]     # optional: the only features a job may use
    categorical = ["region"]        # optional: columns of whole numbers that are categories

    [policy]                        # optional: the keys of a policy in a job file
    methods = ["filter"]
    min_rows = 50

    [keys]
    own = "organisation.key"        # secret; readable by its owner alone
    [keys.pinned]                   # public keys, base64, of every other member
    hub = "..."
    shop = "..."
    [keys.signing]                  # public keys with which they sign ledgers, base64
    shop = "..."

    [accepts]
    drivers = ["bank", "shop"]      # optional: who may lead a run; every pinned member if missing
    [accepts.submitters]            # whose jobs are run, and the key their results are sealed to
    "ann@bank.example" = "..."

    [limits]
    idle_seconds = 600.0            # ends its part when the leading organisation is silent so long
    heartbeat_seconds = 5.0         # says "still computing" this often
    approval_seconds = 86400.0      # a job that waits for a person longer is refused

    [runtime]
    checkpoint = "checkpoints"      # optional: where this organisation's part of a run is kept
    output = "results"              # optional: where this organisation's own view of a run goes
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from fedsift.config.parties import policy_in
from fedsift.config.toml import PRIVATE, TEXTS, Key, Kinds, TomlCheck, toml_text, write_text
from fedsift.crypto.envelope import OrganisationKey
from fedsift.data.sources import LabelColumn
from fedsift.engine.timeouts import DEFAULT_TIMEOUTS
from fedsift.errors import ConfigError, FileProblem

SITE_FILE, HUB_FILE, SUBMITTER_FILE = "site.toml", "hub.toml", "submitter.toml"
KEY_FILE = "organisation.key"
HUB = "hub"
"""Name of the hub as a member; it runs the neutral roles of a method."""

_KEY_BYTES = 32

_SECTIONS: dict[str, Kinds] = {
    "party": (dict,),
    "data": (dict,),
    "policy": (dict,),
    "keys": (dict,),
    "accepts": (dict,),
    "limits": (dict,),
    "runtime": (dict,),
}
_DATA: dict[str, Kinds] = {
    "path": (str,),
    "id": (str, TEXTS),
    "label": (str, dict),
    "columns": (TEXTS,),
    "categorical": (TEXTS,),
}
_KEYS: dict[str, Kinds] = {"own": (str,), "pinned": (dict,), "signing": (dict,)}
_LIMITS: dict[str, Kinds] = {
    "idle_seconds": (float,),
    "heartbeat_seconds": (float,),
    "approval_seconds": (float,),
}
_DAY_SECONDS = 86400.0
_RUNTIME: dict[str, Kinds] = {"checkpoint": (str,), "output": (str,)}


@dataclass(frozen=True)
class SiteSettings:
    """A checked settings file.

    Parameters
    ----------
    folder : Path
        Where the file is.
    name : str
        The organisation.
    data : Path, optional
        Its table; the hub has none.
    id_columns, columns, categorical, label
        As in the file; ``columns`` and ``label`` are limits for jobs.
    policy : mapping, optional
        For :meth:`fedsift.protocol.Policy.from_mapping`.
    key_file : Path
        The organisation's secret key.
    pinned : mapping of str to bytes
        Public keys of the other members.
    submitters : mapping of str to bytes
        Whose jobs are run, and the public key their results are sealed to.
    drivers : tuple of str, optional
        Members that may lead a run.
    signing : mapping of str to bytes
        Public keys with which the other members sign ledgers.
    """

    folder: Path
    name: str
    data: Path | None = None
    id_columns: tuple[str, ...] = ()
    label: LabelColumn | None = None
    columns: tuple[str, ...] | None = None
    categorical: tuple[str, ...] = ()
    policy: Mapping[str, Any] | None = None
    key_file: Path = Path(KEY_FILE)
    pinned: Mapping[str, bytes] = field(default_factory=dict)
    submitters: Mapping[str, bytes] = field(default_factory=dict)
    drivers: tuple[str, ...] | None = None
    idle_seconds: float = DEFAULT_TIMEOUTS.idle_seconds
    heartbeat_seconds: float = DEFAULT_TIMEOUTS.hold_seconds
    checkpoint: Path | None = None
    output: Path | None = None
    signing: Mapping[str, bytes] = field(default_factory=dict)
    approval_seconds: float = _DAY_SECONDS

    def find_keys(self, names: Iterable[str]) -> dict[str, bytes]:
        """Return the pinned keys of some members; refused if one of them is not pinned."""
        wanted = list(names)
        missing = [name for name in wanted if name not in self.pinned]
        if missing:
            raise ConfigError(
                f"{self.name!r} has not pinned the keys of: {', '.join(missing)}.",
                "What members and submitters exchange is sealed with keys pinned beforehand.",
                "Get their key files and run 'fedsift deploy pin'.",
            )
        return {name: self.pinned[name] for name in wanted}

    def key(self) -> OrganisationKey:
        """Read the organisation's secret key."""
        return read_key(self.key_file)


def load_site(folder: Path) -> SiteSettings:
    """Read and check the settings file of a folder.

    Parameters
    ----------
    folder : Path
        ``local/fedsift`` of a startup kit.

    Returns
    -------
    settings : SiteSettings
        With all paths resolved against the folder.
    """
    path = settings_file(folder)
    holds_data = path.name == SITE_FILE
    check = TomlCheck(path)
    top = check.table((), check.document, _SECTIONS)
    party = check.table(("party",), top.get("party", {}), {"name": (str,)})
    if not party.get("name", "").strip():
        check.add(("party",), "There is no name.", "[party] needs a name.", "Add it.")
    data = check.table(("data",), top.get("data", {}), _DATA)
    if data and not holds_data:
        needed = "Only an organisation holds a table."
        check.add(("data",), f"{path.name} names data.", needed, "Remove [data].")
    if holds_data and "path" not in data:
        needed = "[data] needs a path."
        check.add(("data",), "The file names no data.", needed, "Run 'fedsift deploy party'.")
    source = check.file(("data", "path"), data.get("path"))
    policy = policy_in(check, ("policy",), top.get("policy"), ())
    keys = check.table(("keys",), top.get("keys", {}), _KEYS)
    accepts = check.table(
        ("accepts",), top.get("accepts", {}), {"drivers": (TEXTS,), "submitters": (dict,)}
    )
    limits = check.table(("limits",), top.get("limits", {}), _LIMITS)
    for name, value in limits.items():
        if not 0 < value < float("inf"):
            needed = "It must be a positive number of seconds."
            check.add(("limits", name), f"{name} is no time.", needed, "Change it.")
    runtime = check.table(("runtime",), top.get("runtime", {}), _RUNTIME)
    checkpoint = check.place(("runtime", "checkpoint"), runtime.get("checkpoint"))
    output = check.place(("runtime", "output"), runtime.get("output"))
    pinned = _keys(check, ("keys", "pinned"), keys.get("pinned", {}))
    signing = _keys(check, ("keys", "signing"), keys.get("signing", {}))
    submitters = _keys(check, ("accepts", "submitters"), accepts.get("submitters", {}))
    label = _label(check, data.get("label"))
    check.finish("the organisation")
    columns = data.get("columns")
    drivers = accepts.get("drivers")
    return SiteSettings(
        folder,
        party["name"],
        source,
        _texts(data.get("id")),
        label,
        None if columns is None else tuple(columns),
        tuple(data.get("categorical", ())),
        policy,
        folder / keys.get("own", KEY_FILE),
        pinned,
        submitters,
        None if drivers is None else tuple(drivers),
        float(limits.get("idle_seconds", DEFAULT_TIMEOUTS.idle_seconds)),
        float(limits.get("heartbeat_seconds", DEFAULT_TIMEOUTS.hold_seconds)),
        checkpoint,
        output,
        signing,
        float(limits.get("approval_seconds", _DAY_SECONDS)),
    )


def _label(check: TomlCheck, given: Any) -> LabelColumn | None:
    """The label column, or those of survival times."""
    if not isinstance(given, dict):
        return cast("str | None", given)
    label = check.table(("data", "label"), given, {"time": (str,), "event": (str,)}, "label")
    if set(label) == {"time", "event"}:
        return cast("dict[str, str]", label)
    needed = 'A label of survival times is { time = "...", event = "..." }.'
    check.add(("data", "label"), "The label is not complete.", needed, "Complete it.")
    return None


def settings_file(folder: Path) -> Path:
    """The settings file of a kit, whatever kind it is of."""
    for name in (HUB_FILE, SUBMITTER_FILE):
        if (folder / name).is_file():
            return folder / name
    return folder / SITE_FILE


def read_sections(path: Path) -> dict[str, Any]:
    """A settings file as it is, to change a part of it."""
    return TomlCheck(path).document


def read_pinned(path: Path, which: str) -> dict[str, bytes]:
    """Read a table of public keys in a settings file, without the rest of it."""
    check = TomlCheck(path)
    keys = check.table(("keys",), check.document.get("keys", {}), _KEYS)
    found = _keys(check, ("keys", which), keys.get(which, {}))
    check.finish("the keys")
    return found


def write_sections(path: Path, sections: Mapping[str, Any]) -> None:
    """Write a settings file; readable by its owner alone, as it names data and consent."""
    order = {name: sections[name] for name in _SECTIONS if sections.get(name)}
    write_text(path, toml_text(order), PRIVATE)


def read_key(path: Path) -> OrganisationKey:
    """Read a secret key file; the error never shows its content."""
    try:
        raw = base64.b64decode(path.read_text(encoding="ascii").strip(), validate=True)
    except OSError as error:
        raise FileProblem(
            f"Cannot read the key file {path}: {error.strerror}.",
            "Every organisation has a secret key of its own.",
            "Make one with 'fedsift deploy key', or check the path.",
        ) from None
    except ValueError:
        raw = b""
    if len(raw) != _KEY_BYTES:
        raise FileProblem(
            f"{path} is not a key file.",
            f"One line of base64 with {_KEY_BYTES} bytes is needed.",
            "Restore it from a backup, or make a new key and have the others pin it.",
        )
    return OrganisationKey.from_bytes(raw)


def public_text(public: bytes) -> str:
    """A public key as it stands in files."""
    return base64.b64encode(public).decode("ascii")


def public_bytes(text: str) -> bytes | None:
    """Read :func:`public_text` back; nothing if it is no key."""
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return raw if len(raw) == _KEY_BYTES else None


def _keys(check: TomlCheck, where: Key, given: Mapping[str, Any]) -> dict[str, bytes]:
    keys = {}
    for name, text in given.items():
        raw = public_bytes(text) if isinstance(text, str) else None
        if raw is None:
            needed = f"It must be {_KEY_BYTES} bytes in base64."
            action = "Ask its owner for the key again."
            check.add((*where, name), f"The public key of {name!r} is no key.", needed, action)
            continue
        keys[name] = raw
    return keys


def _texts(value: Any) -> tuple[str, ...]:
    return () if value is None else (value,) if isinstance(value, str) else tuple(value)


@dataclass(frozen=True)
class PublicKey:
    """A member's public key, as it is handed around."""

    name: str
    kind: str
    public: bytes
    signing: bytes = b""

    @property
    def fingerprint(self) -> str:
        """Short enough to be read out on the telephone."""
        digest = hashlib.sha256(self.public + self.signing).hexdigest()[:24]
        return " ".join(digest[i : i + 4] for i in range(0, len(digest), 4))


def make_key(settings: Path, name: str, kind: str) -> PublicKey:
    """The public key of a kit; its secret part is made if there is none yet."""
    path = settings / KEY_FILE
    if not path.exists():
        secret = OrganisationKey.generate()
        write_text(path, public_text(secret.to_bytes()) + "\n", PRIVATE)
    own = read_key(path)
    return PublicKey(name, kind, own.public, own.signing.public)


def write_public(path: Path, key: PublicKey) -> None:
    """Write a public key file for the others."""
    entry = {"name": key.name, "kind": key.kind, "public": public_text(key.public)}
    if key.signing:
        entry["signing"] = public_text(key.signing)
    write_text(path, toml_text({"key": entry}))


def read_public(path: Path) -> PublicKey:
    """Read what :func:`write_public` wrote."""
    check = TomlCheck(path)
    top = check.table((), check.document, {"key": (dict,)})
    kinds = {"name": (str,), "kind": (str,), "public": (str,), "signing": (str,)}
    entry = check.table(("key",), top.get("key", {}), kinds)
    for name in ("name", "kind", "public"):
        if name not in entry and not check.has(("key", name)):
            needed = "A file written by 'fedsift deploy key' is needed."
            check.add(("key",), f"{name} is missing.", needed, "Ask its owner again.")
    raw = public_bytes(entry.get("public", ""))
    if "public" in entry and raw is None:
        needed = "It must be 32 bytes in base64."
        check.add(("key", "public"), "This is no public key.", needed, "Ask its owner again.")
    signing = public_bytes(entry.get("signing", ""))
    if "signing" in entry and signing is None:
        needed = "It must be 32 bytes in base64."
        check.add(("key", "signing"), "This is no public key.", needed, "Ask its owner again.")
    check.finish("the key")
    return PublicKey(entry["name"], entry["kind"], raw or b"", signing or b"")


def read_signing_keys(paths: Iterable[Path]) -> dict[str, bytes]:
    """Read the public signing keys in key files, and those pinned in settings files, by name."""
    keys: dict[str, bytes] = {}
    for path in paths:
        if "key" in TomlCheck(path).document:
            one = read_public(path)
            found = {one.name: one.signing} if one.signing else {}
        else:
            found = read_pinned(path, "signing")
        if not found:
            raise ConfigError(
                f"{path} holds no public signing key.",
                "A file that 'fedsift deploy key' wrote, or settings with pinned keys, is needed.",
                "Ask its owner to run 'fedsift deploy key' again with this version.",
            )
        keys |= found
    return keys


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
    signing = sections["keys"].setdefault("signing", {})
    submitters = sections.setdefault("accepts", {}).setdefault("submitters", {})
    for key in keys:
        goal = submitters if key.kind == "submitter" else pinned
        text, signs = public_text(key.public), public_text(key.signing)
        known = (goal.get(key.name, text), signing.get(key.name, signs))
        if known != (text, signs) and not replace:
            raise ConfigError(
                f"Another key of {key.name!r} is pinned already.",
                "A pinned key changes only on purpose.",
                "Ask its owner whether the key was renewed, then pass --replace.",
            )
        goal[key.name] = text
        signing.pop(key.name, None)
        if key.signing and key.kind != "submitter":
            signing[key.name] = signs
    write_sections(path, sections)
