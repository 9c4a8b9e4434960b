# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What is fuzzed: a function of bytes per reader of files; ``federation`` has those of frames."""

from __future__ import annotations

from contextlib import suppress

from fedsift.config.parties import load_party
from fedsift.crypto.envelope import Envelopes, OrganisationKey, open_letter
from fedsift.crypto.schemes.paillier import PaillierPublicKey
from fedsift.data import PartyTable, catalog
from fedsift.data.archive import read_arrays
from fedsift.data.files import column_names, read_frame
from fedsift.data.state_files import Checkpoints, part_path, read_state
from fedsift.deploy.kits import KIT_FILE, load_kit, load_policy
from fedsift.deploy.project import load_project
from fedsift.deploy.site_files import SITE_FILE, load_site, read_key, read_public
from fedsift.errors import FedsiftError
from fedsift.lab.compare.comparison import Comparison
from fedsift.lab.compare.file import load_compare_file
from fedsift.methods.registry import schemas
from fedsift.report import html, text
from fedsift.result import SelectionResult
from fuzz import federation
from fuzz.harness import LONGEST, TARGETS, check, file_of, folder, target

__all__ = ["LONGEST", "TARGETS", "check", "federation"]


@target
def job(data: bytes) -> object:
    """A job file."""
    from fedsift.config.job import load_job

    return load_job(file_of("job.toml", data), schemas(), catalog.names())


@target
def party(data: bytes) -> object:
    """A party's own file, and its policy."""
    path = file_of("party.toml", data)
    with suppress(FedsiftError):
        load_policy(path, ("feature-scores",))
    return load_party(path)


@target
def compare(data: bytes) -> object:
    """A file for ``fedsift compare``."""
    return load_compare_file(file_of("compare.toml", data), schemas(), catalog.names())


@target
def project(data: bytes) -> object:
    """The project file of a federation."""
    return load_project(file_of("project.toml", data))


@target
def kit(data: bytes) -> object:
    """What a startup kit says about itself, and an organisation's settings."""
    with suppress(FedsiftError):
        load_kit(file_of(f"kit/{KIT_FILE}", data).parent)
    return load_site(file_of(f"site/{SITE_FILE}", data).parent)


@target
def keys(data: bytes) -> object:
    """Key files: public ones of others, the own secret one."""
    for read in (read_public, read_key):
        with suppress(FedsiftError):
            read(file_of("some.key", data))
    return PaillierPublicKey.from_bytes(data)


@target
def result(data: bytes) -> object:
    """A result, with its ledger, and the reports made of it."""
    found = SelectionResult.load(file_of("result.json", data))
    return text.render(found), html.render(found), found.to_json()


@target
def comparison(data: bytes) -> object:
    """The result of a comparison, and the pages made of it."""
    found = Comparison.load(file_of("comparison.json", data))
    return found.text(), found.to_html(folder() / "comparison.html"), found.to_json()


@target
def csv(data: bytes) -> object:
    """A table in a CSV file."""
    path = file_of("table.csv", data)
    column_names(path)
    return PartyTable.from_any(read_frame(path), name="bank")


@target
def parquet(data: bytes) -> object:
    """A table in a Parquet file."""
    path = file_of("table.parquet", data)
    column_names(path)
    return PartyTable.from_any(read_frame(path), name="bank")


@target
def npz(data: bytes) -> object:
    """A named data set."""
    return read_arrays(file_of("set.npz", data))


@target
def state(data: bytes) -> object:
    """A party's part of a model, and a checkpoint."""
    with suppress(FedsiftError):
        read_state(file_of("bank.fedsift-part", data))
    files = Checkpoints(folder() / "checkpoints", "bank", "leader")
    file_of(f"checkpoints/{files.path(1).name}", data)
    return files.readable_units({"run"})


@target
def model(data: bytes) -> object:
    """The header of a model, whose parts are absent."""
    from fedsift.methods.fedsdg.model_files import read_model

    path = file_of("model/model.json", data)
    part_path(path.parent, "bank").unlink(missing_ok=True)
    return read_model(path.parent)


@target
def envelope(data: bytes) -> object:
    """A sealed message and a sealed report from another organisation."""
    own, other = (OrganisationKey.from_bytes(bytes([n]) * 32) for n in (1, 2))
    with suppress(FedsiftError):
        open_letter("bank", own, "shop", other.public, "topic", data)
    return Envelopes("bank", own, {"shop": other.public}, "session").open("shop", "request", data)
