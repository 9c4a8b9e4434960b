# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Startup kits: the folder each member gets, and the authority that nobody gets.

``make_kits`` leaves this behind::

    OUT/ca/authority.json       the key that signs certificates; for its keeper alone
    OUT/kits/hub/               for the operator of the hub
    OUT/kits/bank/              for the organisation; one per organisation
    OUT/kits/ann@bank.example/  for the person who submits jobs

A kit holds its owner's certificate and private key, the public certificate of the authority, and
settings; never another member's private key.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import shutil
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from fedsift.config.parties import policy_in
from fedsift.config.toml import TEXTS, Kinds, TomlCheck, toml_text, write_text
from fedsift.data.sources import LabelColumn, label_columns
from fedsift.deploy.flare import wire as flare_files
from fedsift.deploy.project import Project
from fedsift.deploy.provision import (
    OWNER_ONLY,
    Provisioned,
    load_authority,
    provision,
    save_authority,
)
from fedsift.deploy.site_files import (
    HUB,
    HUB_FILE,
    KEY_FILE,
    SITE_FILE,
    SUBMITTER_FILE,
    make_key,
    pin_keys,
    read_sections,
    settings_file,
    write_sections,
)
from fedsift.engine.timeouts import DEFAULT_TIMEOUTS
from fedsift.errors import ConfigError, FileProblem
from fedsift.protocol import Policy

KIT_FILE = "fedsift-kit.toml"
KINDS = ("hub", "organisation", "submitter")

_SETTINGS_FILE = {"hub": HUB_FILE, "organisation": SITE_FILE, "submitter": SUBMITTER_FILE}
_STARTUP = {
    "hub": ("fed_server.json", "server.crt", "server.key", "rootCA.pem"),
    "organisation": ("fed_client.json", "client.crt", "client.key", "rootCA.pem"),
    "submitter": ("fed_admin.json", "client.crt", "client.key", "rootCA.pem"),
}
_KIT: dict[str, Kinds] = {
    "kind": (str,),
    "name": (str,),
    "project": (str,),
    "host": (str,),
    "port": (int,),
    "organisations": (TEXTS,),
    "submitters": (TEXTS,),
}

_KIT_NOTE = """\
Startup kit of {name!r} ({kind}) in the federation {project!r}.

It holds private keys: it belongs to {name!r} alone. Next steps, on {name}'s own machine:

{steps}
"""
_STEPS = {
    "hub": "    fedsift deploy key KIT      make the sealing key, send the public part around\n"
    "    fedsift deploy pin KIT ...  pin the public keys of the members\n"
    "    fedsift deploy start KIT    listen for the organisations",
    "organisation": "    fedsift deploy party KIT    name the data and the policy\n"
    "    fedsift deploy key KIT      make the sealing key, send the public part around\n"
    "    fedsift deploy pin KIT ...  pin the public keys of the others\n"
    "    fedsift deploy start KIT    dial the hub and wait for jobs",
    "submitter": "    fedsift deploy key KIT      make the key that results are sealed to\n"
    "    fedsift deploy pin KIT ...  pin the public keys of the members\n"
    "    fedsift deploy submit JOB.toml --kit KIT",
}


@dataclass(frozen=True)
class Kit:
    """A startup kit on this machine."""

    folder: Path
    kind: str
    name: str
    project: str
    host: str
    port: int
    organisations: tuple[str, ...]
    submitters: tuple[str, ...]

    @property
    def settings(self) -> Path:
        """Folder of fedsift's own settings."""
        return self.folder / "local" / "fedsift"

    @property
    def members(self) -> tuple[str, ...]:
        """Everybody who takes part in runs: the hub and the organisations."""
        return (HUB, *self.organisations)


def load_kit(folder: str | os.PathLike[str], kind: str | None = None) -> Kit:
    """Read what a kit says about itself.

    Parameters
    ----------
    folder : path
    kind : {"hub", "organisation", "submitter"}, optional
        Refuse any other.
    """
    path = Path(folder).absolute()
    if not (path / KIT_FILE).is_file():
        raise FileProblem(
            f"{path} is not a startup kit.",
            f"A folder with {KIT_FILE} is needed.",
            "Pass one of the folders that 'fedsift deploy init' made under kits/.",
        )
    check = TomlCheck(path / KIT_FILE)
    given = check.table((), check.document, {"kit": (dict,)})
    entry = check.table(("kit",), given.get("kit", {}), _KIT)
    for key in _KIT:
        if key not in entry and not check.has(("kit", key)):
            check.add(("kit",), f"{key} is missing.", "A whole kit is needed.", "Get it again.")
    if "kind" in entry:
        check.choice(("kit", "kind"), entry["kind"], KINDS)
    check.finish("the kit")
    entry["organisations"] = tuple(entry["organisations"])
    entry["submitters"] = tuple(entry["submitters"])
    kit = Kit(path, **entry)
    if kind is not None and kit.kind != kind:
        raise ConfigError(
            f"The kit of {kit.name!r} is for {_a(kit.kind)}.",
            f"This needs the kit of {_a(kind)}.",
            "Pass another kit.",
        )
    return kit


def make_kits(
    project: Project,
    out: Path,
    *,
    only: Collection[str] | None = None,
    with_keys: bool = False,
) -> list[Kit]:
    """Issue certificates and write the kits.

    Parameters
    ----------
    project : Project
    out : Path
        Made if missing. An authority found there goes on signing.
    only : collection of str, optional
        Kits to issue, for instance to renew certificates; by default those not issued before.
    with_keys : bool
        Also make all sealing keys here and pin them everywhere: for trials, because whoever runs
        this then sees every key.

    Returns
    -------
    kits : list of Kit
        Those that were written.
    """
    earlier = load_authority(out, project.name)
    issued = dict(earlier.issued) if earlier else {}
    wanted = _wanted(project, only, issued)
    for name in wanted:
        if (out / "kits" / name).exists():
            raise FileProblem(
                f"{out / 'kits' / name} is there already.",
                "A kit is never overwritten.",
                "Move it away first, or choose another --out.",
            )
    with _aside(out) as aside:
        made = provision(project, aside, earlier)
        for name in wanted:
            _write_kit(project, name, made, aside / "ready" / name)
        kits = [load_kit(aside / "ready" / name) for name in wanted]
        if with_keys:
            share_keys(kits)
        today = dt.datetime.now(dt.UTC).date().isoformat()
        issued |= dict.fromkeys(wanted, today)
        save_authority(out, msgspec.structs.replace(made.authority, issued=issued))
        (out / "kits").mkdir(exist_ok=True)
        for name in wanted:
            (aside / "ready" / name).rename(out / "kits" / name)
    return [load_kit(out / "kits" / name) for name in wanted]


def share_keys(kits: Iterable[Kit]) -> None:
    """Make a sealing key in every kit and pin it in all others."""
    kits = list(kits)
    keys = [make_key(kit.settings, kit.name, kit.kind) for kit in kits]
    for kit in kits:
        pin_keys(kit.settings, [key for key in keys if key.name != kit.name])


def _wanted(
    project: Project, only: Collection[str] | None, issued: Collection[str]
) -> tuple[str, ...]:
    if only is None:
        wanted = tuple(name for name in project.kit_names if name not in issued)
        if not wanted:
            raise ConfigError(
                "Every member of the project has a kit already.",
                "A kit is issued once.",
                "Name the kits to issue again with --only.",
            )
        return wanted
    unknown = sorted(set(only) - set(project.kit_names))
    if unknown:
        raise ConfigError(
            f"The project has no {unknown[0]!r}.",
            f"It has: {', '.join(project.kit_names)}.",
            "Mend the name, or add it to the project file.",
        )
    return tuple(name for name in project.kit_names if name in only)


def _write_kit(project: Project, name: str, made: Provisioned, folder: Path) -> None:
    kind = kind_of(project, name)
    source = made.folders[name]
    (folder / "startup").mkdir(parents=True, mode=OWNER_ONLY)
    folder.chmod(OWNER_ONLY)
    for file in _STARTUP[kind]:
        shutil.copy2(source / "startup" / file, folder / "startup" / file)
    local = folder / "local"
    _json(local / flare_files.CONNECTIONS, flare_files.connections())
    if kind == "submitter":
        shutil.copy2(source / "local" / "resources.json.default", local / flare_files.RESOURCES)
    else:
        shutil.copy2(source / "local" / "log_config.json.default", local / flare_files.LOGGING)
        default = json.loads((source / "local" / "resources.json.default").read_text("utf-8"))
        tightened = flare_files.hub_resources if kind == "hub" else flare_files.site_resources
        _json(local / flare_files.RESOURCES, tightened(default))
        _json(local / flare_files.AUTHORIZATION, flare_files.authorization())
    submitters = tuple(person.name for person in project.submitters)
    shared = (project.name, project.host, project.port, project.organisations, submitters)
    _describe(Kit(folder, kind, name, *shared))
    limits = {
        "idle_seconds": DEFAULT_TIMEOUTS.idle_seconds,
        "heartbeat_seconds": DEFAULT_TIMEOUTS.hold_seconds,
    }
    kept = {"checkpoint": "checkpoints", "output": "results"}
    write_sections(
        local / "fedsift" / _SETTINGS_FILE[kind],
        {"party": {"name": name}, "keys": {"own": KEY_FILE}}
        | ({} if kind == "submitter" else {"limits": limits, "runtime": kept}),
    )
    note = _KIT_NOTE.format(name=name, kind=kind, project=project.name, steps=_STEPS[kind])
    write_text(folder / "README.txt", note)


def add_members(kit: Kit, kinds: Mapping[str, str]) -> Kit:
    """Let a kit know of organisations and submitters who joined after it was issued.

    Parameters
    ----------
    kit : Kit
    kinds : mapping of str to str
        What each new member is; names that are known already change nothing.
    """
    for name, kind in kinds.items():
        if kind == "hub" or name == kit.name:
            continue
        if name in (*kit.members, *kit.submitters):
            continue
        if kind == "submitter":
            kit = replace(kit, submitters=(*kit.submitters, name))
        else:
            kit = replace(kit, organisations=(*kit.organisations, name))
    _describe(kit)
    return kit


def _describe(kit: Kit) -> None:
    """Write down what a kit is."""
    about = {key: getattr(kit, key) for key in _KIT}
    write_text(kit.folder / KIT_FILE, toml_text({"kit": about}))


def kind_of(project: Project, name: str) -> str:
    """What a kit of that name is for."""
    if name == HUB:
        return "hub"
    return "organisation" if name in project.organisations else "submitter"


@contextlib.contextmanager
def _aside(out: Path) -> Iterator[Path]:
    """A private folder beside the goal, so that moving is renaming; gone afterwards."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=out, prefix=".fedsift-"))
    except OSError as error:
        raise FileProblem(
            f"Cannot write to {out}: {error.strerror}.",
            "A writable folder with free space is needed.",
            "Choose another place with --out; nothing was written.",
        ) from None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _json(path: Path, content: object) -> None:
    write_text(path, json.dumps(content, indent=2))


def _a(kind: str) -> str:
    return {"hub": "the hub", "organisation": "an organisation"}.get(kind, f"a {kind}")


@dataclass(frozen=True)
class PartyData:
    """What an organisation brings: a file, and the columns that jobs may use.

    Parameters
    ----------
    path : Path
        CSV or Parquet file.
    id_columns : tuple of str
        Columns that identify a row.
    label : str, or mapping with ``time`` and ``event``, optional
        The only column, or columns of survival times, that a job may use as the label.
    columns : tuple of str, optional
        The only columns that a job may use as features.
    categorical : tuple of str
        Columns of numbers that are categories.
    """

    path: Path
    id_columns: tuple[str, ...] = ()
    label: LabelColumn | None = None
    columns: tuple[str, ...] | None = None
    categorical: tuple[str, ...] = ()


@dataclass(frozen=True)
class PartyFacts:
    """What the check of an organisation's data found; shapes and names, no values."""

    n_rows: int
    features: Mapping[str, str]


def set_party(kit: Kit, data: PartyData, policy: Mapping[str, Any] | None = None) -> PartyFacts:
    """Check an organisation's data and policy, then write them into its settings.

    Parameters
    ----------
    kit : Kit
        Of an organisation.
    data : PartyData
    policy : mapping, optional
        The keys of a ``[policy]`` table; without it a policy written before stays.

    Returns
    -------
    facts : PartyFacts
    """
    facts = check_data(kit.name, data)
    if policy is not None:
        Policy.from_mapping(policy)
    path = settings_file(kit.settings)
    sections = read_sections(path)
    given = {
        "path": str(data.path.absolute()),
        "id": list(data.id_columns),
        "label": data.label if isinstance(data.label, str | None) else dict(data.label),
        "columns": None if data.columns is None else list(data.columns),
        "categorical": list(data.categorical),
    }
    sections["data"] = {key: value for key, value in given.items() if value not in (None, [])}
    if policy is not None:
        sections["policy"] = dict(policy)
    write_sections(path, sections)
    return facts


def check_data(name: str, data: PartyData) -> PartyFacts:
    """Read a table as a job would; raises what a job would raise.

    Parameters
    ----------
    name : str
        The organisation, for error messages.
    data : PartyData
    """
    from fedsift.data.part import read_part

    both = set(label_columns(data.label)) & set(data.columns or ())
    if both:
        raise ConfigError(
            f"{min(both)!r} is named both as the label and among the columns.",
            "A column is the label or a feature.",
            "Leave it out of one of the two.",
        )
    part = read_part(
        name,
        data.path,
        ids=data.id_columns,
        label=data.label,
        columns=data.columns,
        categorical=data.categorical,
    )
    columns = () if part.table is None else part.table.columns
    return PartyFacts(part.n_rows, {column.name: column.kind for column in columns})


def load_policy(path: Path, kinds: Collection[str] = ()) -> dict[str, Any]:
    """Read the ``[policy]`` table of a file; other tables of a party file may be there too.

    Parameters
    ----------
    path : Path
    kinds : collection of str
        Known disclosures; without them a policy may name any.
    """
    check = TomlCheck(path)
    top = check.table((), check.document, {"policy": (dict,), "party": (dict,), "data": (dict,)})
    if "policy" not in top and not check.has(("policy",)):
        needed = "A policy file has a [policy] table."
        check.add((), "There is no policy.", needed, "Add it.")
    policy = policy_in(check, ("policy",), top.get("policy"), kinds)
    check.finish("the policy")
    return policy or {}
