# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The project file: who takes part in a federation.

``fedsift deploy init`` reads it::

[project]
name = "credit"

[hub]                           # relays sealed messages, runs the neutral roles
host = "hub.example.org"        # the name every organisation dials
port = 8002

[[organisation]]
name = "bank"

[[organisation]]
name = "shop"

[[submitter]]                   # a person who may submit jobs
name = "ann@bank.example"
organisation = "bank"
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedsift.config.toml import Key, Kinds, TomlCheck
from fedsift.deploy.site_files import HUB

SCHEMES = ("grpc", "http", "tcp")
DEFAULT_PORT = 8002

# Certificates carry the names, and FLARE gives some of them a meaning of its own; the rest are the
# neutral parties of the methods, which live at the hub.
RESERVED = (
    HUB,
    "server",
    "server_parent",
    "localhost",
    "admin",
    "coordinator",
    "aggregator",
    "cloud",
    "third-party",
)
_ORGANISATION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_PROJECT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_]{0,62}")
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST = re.compile(rf"(?:{_LABEL}\.)*{_LABEL}")
_SUBMITTER = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._+-]*@(?:{_LABEL}\.)+[A-Za-z]{{2,}}")
_MAX_CERTIFICATE_NAME = 64

_SECTIONS: dict[str, Kinds] = {
    "project": (dict,),
    "hub": (dict,),
    "organisation": (list,),
    "submitter": (list,),
}
_HUB: dict[str, Kinds] = {"host": (str,), "port": (int,), "scheme": (str,)}


@dataclass(frozen=True)
class Submitter:
    """A person who may submit jobs."""

    name: str
    organisation: str


@dataclass(frozen=True)
class Project:
    """A checked project file."""

    name: str
    host: str
    organisations: tuple[str, ...]
    submitters: tuple[Submitter, ...]
    port: int = DEFAULT_PORT
    scheme: str = "grpc"

    @property
    def kit_names(self) -> tuple[str, ...]:
        """Names of all kits: the hub, the organisations, the submitters."""
        return (HUB, *self.organisations, *(person.name for person in self.submitters))


def load_project(path: str | os.PathLike[str]) -> Project:
    """Read and check a project file; all problems are reported at once.

    Parameters
    ----------
    path : path of a TOML file

    Returns
    -------
    project : Project
    """
    check = TomlCheck(Path(path))
    top = check.table((), check.document, _SECTIONS)
    project = check.table(("project",), top.get("project", {}), {"name": (str,)})
    name = _named(check, ("project",), project, _PROJECT, "letters, digits and _")
    hub = check.table(("hub",), top.get("hub", {}), _HUB)
    host = _host(check, hub)
    port = hub.get("port", DEFAULT_PORT)
    if not 0 < port < 1 << 16:
        check.add(("hub", "port"), f"port = {port}.", "It must be from 1 to 65535.", "Change it.")
    scheme = hub.get("scheme", "grpc")
    check.choice(("hub", "scheme"), scheme, SCHEMES)
    organisations = _organisations(check, top.get("organisation", []))
    submitters = _submitters(check, top.get("submitter", []), organisations)
    if host and host in organisations:
        needed = "A certificate names one member."
        check.add(("hub", "host"), f"{host!r} is an organisation too.", needed, "Rename it.")
    check.finish("the federation")
    return Project(name, host, tuple(organisations), tuple(submitters), port, scheme)


def _host(check: TomlCheck, hub: dict[str, Any]) -> str:
    host: str = hub.get("host", "")
    if not host:
        if not check.has(("hub", "host")) or hub.get("host") == "":
            needed = "[hub] needs host, the name that every organisation dials."
            check.add(("hub",), "The hub has no host.", needed, "Add it.")
    elif not _HOST.fullmatch(host) or len(host) > _MAX_CERTIFICATE_NAME:
        needed = f"A host name or address of at most {_MAX_CERTIFICATE_NAME} characters is needed."
        check.add(("hub", "host"), f"{host!r} is no host name.", needed, "Give it without a port.")
    return host


def _organisations(check: TomlCheck, given: list[Any]) -> list[str]:
    names = []
    for number, table in _tables(check, "organisation", given):
        where: Key = ("organisation", number)
        entry = check.table(where, table, {"name": (str,)}, "[[organisation]]")
        name = _named(check, where, entry, _ORGANISATION, "letters, digits, - and _")
        if name.casefold() in RESERVED:
            needed = f"These names have a meaning already: {', '.join(RESERVED)}."
            check.add((*where, "name"), f"{name!r} is reserved.", needed, "Choose another.")
        names.append(name)
    _refuse_twice(check, "organisation", names)
    if len(names) < 2 and not check.problems:
        needed = "A federation has at least two organisations."
        check.add((), f"There are {len(names)} organisations.", needed, "Add [[organisation]].")
    return names


def _submitters(
    check: TomlCheck, given: list[Any], organisations: Iterable[str]
) -> list[Submitter]:
    people = []
    known = [name for name in organisations if name]
    for number, table in _tables(check, "submitter", given):
        where: Key = ("submitter", number)
        kinds: dict[str, Kinds] = {"name": (str,), "organisation": (str,)}
        entry = check.table(where, table, kinds, "[[submitter]]")
        name = _named(check, where, entry, _SUBMITTER, "the form of an e-mail address")
        if "organisation" not in entry:
            needed = "It is one of the organisations of this file."
            check.add(where, "A submitter has no organisation.", needed, "Add organisation.")
        else:
            key = (*where, "organisation")
            check.known(key, "organisation", entry["organisation"], known)
        people.append(Submitter(name, entry.get("organisation", "")))
    _refuse_twice(check, "submitter", [person.name for person in people])
    if not people and not check.problems:
        needed = "Somebody must be able to submit jobs."
        check.add((), "There is no submitter.", needed, "Add [[submitter]].")
    return people


def _tables(check: TomlCheck, what: str, given: list[Any]) -> Iterable[tuple[int, dict[str, Any]]]:
    for number, value in enumerate(given):
        if isinstance(value, dict):
            yield number, value
        else:
            needed = f"Write [[{what}]] tables."
            check.add((what, number), f"{what!r} is a list of values.", needed, "Mend it.")


def _named(
    check: TomlCheck, where: Key, entry: dict[str, Any], form: re.Pattern[str], words: str
) -> str:
    name: str = entry.get("name", "")
    if "name" not in entry:
        if not check.has((*where, "name")):
            check.add(where, "There is no name.", f"[{where[0]}] needs a name.", "Add it.")
    elif not form.fullmatch(name) or len(name) > _MAX_CERTIFICATE_NAME:
        needed = f"A name has {words}, and at most {_MAX_CERTIFICATE_NAME - 1} characters."
        check.add((*where, "name"), f"{name!r} cannot be a name.", needed, "Change it.")
    return name


def _refuse_twice(check: TomlCheck, what: str, names: list[str]) -> None:
    seen: set[str] = set()
    for number, name in enumerate(names):
        if name and name.casefold() in seen:
            needed = "Every name is used once; case makes no difference."
            check.add((what, number, "name"), f"{name!r} is named twice.", needed, "Rename one.")
        seen.add(name.casefold())
