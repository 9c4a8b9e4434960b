# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Certificates and connection files of a federation, made by FLARE's own provisioning.

The authority of a federation is the key that signs certificates, in a folder of its own.
"""

from __future__ import annotations

import contextlib
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from fedsift.config.toml import PRIVATE, write_text
from fedsift.deploy.project import Project
from fedsift.deploy.site_files import HUB
from fedsift.errors import ConfigError, FileProblem, MissingPackage

_ROOT_KEYS = ("root_cert", "root_pri_key")
_ROOT_DAYS = 3650
_STATE = "cert.json"
_ROLE = "lead"
"""The FLARE role of submitters; what it may do is in ``flare_files``."""


@dataclass(frozen=True)
class Provisioned:
    """Where FLARE put what it made.

    Parameters
    ----------
    folders : dict of str to Path
        One folder per kit name, with ``startup`` and ``local``.
    authority : Authority
        Who signed, for the next time.
    """

    folders: dict[str, Path]
    authority: Authority


def require_flare() -> None:
    """Refuse with a clear error where FLARE is not installed."""
    try:
        import nvflare  # noqa: F401
    except ImportError:
        raise MissingPackage(
            "NVIDIA FLARE is not installed.",
            "It carries jobs between organisations.",
            "Install it with: pip install 'fedsift[flare]'",
        ) from None


def provision(project: Project, folder: Path, authority: Authority | None = None) -> Provisioned:
    """Make certificates and connection files for everybody in a project.

    Parameters
    ----------
    project : Project
    folder : Path
        An empty folder; what is made stays there, private keys among it.
    authority : Authority, optional
        What an earlier call gave, to go on with the same one.

    Returns
    -------
    made : Provisioned
    """
    require_flare()
    from nvflare.lighter.impl.cert import CertBuilder
    from nvflare.lighter.impl.static_file import StaticFileBuilder
    from nvflare.lighter.impl.workspace import WorkspaceBuilder
    from nvflare.lighter.provisioner import Provisioner

    state = folder / project.name / "state" / _STATE
    if authority is not None:
        state.parent.mkdir(parents=True)
        root = {key: getattr(authority, key) for key in _ROOT_KEYS}
        write_text(state, json.dumps(root), PRIVATE)
    builders = [
        WorkspaceBuilder(),
        StaticFileBuilder(config_folder="config", scheme=project.scheme, require_signed_jobs=True),
        CertBuilder(root_valid_days=_ROOT_DAYS),
    ]
    log = _ErrorLog()
    with contextlib.redirect_stderr(io.StringIO()):  # FLARE prints its stack there
        made = Provisioner(str(folder), builders).provision(_described(project), logger=log)
    produced = made.get("current_prod_dir")
    if produced is None or log.errors:
        raise ConfigError(
            f"FLARE could not make the certificates: {'; '.join(log.errors) or 'no reason'}.",
            "The names and the host of the project must suit FLARE.",
            "Mend the project file; nothing was written.",
        )
    folders = {name: Path(produced) / name for name in project.kit_names if name != HUB}
    folders[HUB] = Path(produced) / project.host
    kept = json.loads(state.read_text(encoding="utf-8"))
    # The rest of FLARE's state is everybody's private keys; it goes with the folder.
    return Provisioned(folders, Authority(project.name, **{key: kept[key] for key in _ROOT_KEYS}))


def _described(project: Project) -> Any:
    from nvflare.lighter.entity import Project as FlareProject

    secured = {"connection_security": "mtls"}
    described = FlareProject(project.name, "", props={"allow_log_streaming": False})
    described.set_server(
        project.host, HUB, {**secured, "fed_learn_port": project.port, "admin_port": project.port}
    )
    for name in project.organisations:
        described.add_client(name, _organisation(name), dict(secured))
    for person in project.submitters:
        described.add_admin(
            person.name, _organisation(person.organisation), {**secured, "role": _ROLE}
        )
    return described


def _organisation(name: str) -> str:
    """FLARE's names of organisations know no dash."""
    return name.replace("-", "_")


class _ErrorLog:
    """Takes what FLARE would print, and keeps the errors."""

    def __init__(self) -> None:
        self.errors: list[str] = []

    def debug(self, message: str) -> None:
        """Nothing of interest."""

    info = warning = debug

    def error(self, message: str) -> None:
        """Keep it for the exception."""
        self.errors.append(message)


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
