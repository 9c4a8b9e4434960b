# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What is fuzzed: a function of bytes per reader of files and frames."""

from __future__ import annotations

import atexit
import shutil
import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from fedsift.config.parties import load_party
from fedsift.crypto.columns.api import ColumnSpec, join_columns
from fedsift.crypto.envelope import Envelopes, OrganisationKey
from fedsift.crypto.letter import open_letter
from fedsift.crypto.masking import MaskingKey, PairwiseMasks
from fedsift.crypto.schemes.paillier import PaillierPublicKey
from fedsift.crypto.wire import Ciphertexts, PublicKeys
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
from fedsift.protocol.codec import MAGIC, Codec
from fedsift.protocol.message import MaskedArray, Message, PublicArray
from fedsift.report import html, text
from fedsift.result import SelectionResult

Target = Callable[[bytes], object]
TARGETS: dict[str, Target] = {}
LONGEST = 8192
"""Bytes of an input: readers have no state, so that longer ones reach nothing new."""


def target(function: Target) -> Target:
    """Add a reader; its name is that of the function."""
    TARGETS[function.__name__] = function
    return function


def check(name: str, data: bytes) -> None:
    """Give a reader some bytes; fails unless it reads them or says in three parts why not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            TARGETS[name](data)
        except FedsiftError as error:
            parts = (error.found, error.needed, error.action)
            if not all(parts):
                raise AssertionError(f"{error.code} lacks a part: {parts}") from error


@cache
def _folder() -> Path:
    place = Path(tempfile.mkdtemp(prefix="fedsift-fuzz-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    for folder in (place, place / "site"):
        folder.mkdir(exist_ok=True)
        (folder / "bank.csv").write_text("id,a,label\n1,2.5,yes\n2,3.5,no\n")
    return place


def _file(name: str, data: bytes) -> Path:
    path = _folder() / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


@target
def job(data: bytes) -> object:
    """A job file."""
    from fedsift.config.job import load_job

    return load_job(_file("job.toml", data), schemas(), catalog.names())


@target
def party(data: bytes) -> object:
    """A party's own file, and its policy."""
    path = _file("party.toml", data)
    with suppress(FedsiftError):
        load_policy(path, ("feature-scores",))
    return load_party(path)


@target
def compare(data: bytes) -> object:
    """A file for ``fedsift compare``."""
    return load_compare_file(_file("compare.toml", data), schemas(), catalog.names())


@target
def project(data: bytes) -> object:
    """The project file of a federation."""
    return load_project(_file("project.toml", data))


@target
def kit(data: bytes) -> object:
    """What a startup kit says about itself, and an organisation's settings."""
    with suppress(FedsiftError):
        load_kit(_file(f"kit/{KIT_FILE}", data).parent)
    return load_site(_file(f"site/{SITE_FILE}", data).parent)


@target
def keys(data: bytes) -> object:
    """Key files: public ones of others, the own secret one."""
    for read in (read_public, read_key):
        with suppress(FedsiftError):
            read(_file("some.key", data))
    return PaillierPublicKey.from_bytes(data)


@target
def result(data: bytes) -> object:
    """A result, with its ledger, and the reports made of it."""
    found = SelectionResult.load(_file("result.json", data))
    return text.render(found), html.render(found), found.to_json()


@target
def comparison(data: bytes) -> object:
    """The result of a comparison."""
    return Comparison.load(_file("comparison.json", data))


@target
def csv(data: bytes) -> object:
    """A table in a CSV file."""
    path = _file("table.csv", data)
    column_names(path)
    return PartyTable.from_any(read_frame(path), name="bank")


@target
def parquet(data: bytes) -> object:
    """A table in a Parquet file."""
    path = _file("table.parquet", data)
    column_names(path)
    return PartyTable.from_any(read_frame(path), name="bank")


@target
def npz(data: bytes) -> object:
    """A named data set."""
    return read_arrays(_file("set.npz", data))


@target
def state(data: bytes) -> object:
    """A party's part of a model, and a checkpoint."""
    with suppress(FedsiftError):
        read_state(_file("bank.fedsift-part", data))
    files = Checkpoints(_folder() / "checkpoints", "bank", "leader")
    _file(f"checkpoints/{files.path(1).name}", data)
    return files.readable_units({"run"})


@target
def model(data: bytes) -> object:
    """The header of a model, whose parts are absent."""
    from fedsift.methods.fedsdg.model_files import read_model

    path = _file("model/model.json", data)
    part_path(path.parent, "bank").unlink(missing_ok=True)
    return read_model(path.parent)


@cache
def _codec() -> tuple[Codec, tuple[type[Message], ...]]:
    """The codec of all filters, whose messages have every type of field."""
    from fedsift.jobs import setup
    from fedsift.methods.filter import coordinator, label_holder

    protocols = (label_holder.PROTOCOL, coordinator.PROTOCOL, setup.PROTOCOL)
    known = {cls.__name__: cls for one in protocols for cls in one.messages}
    return Codec(known.values()), tuple(known.values())


@target
def frame(data: bytes) -> object:
    """A message on its way, and the arrays, keys and ciphertexts in it."""
    codec, known = _codec()
    received = codec.decode(MAGIC + data, known)
    for name in received.__struct_fields__:
        _use(getattr(received, name))
    return received


def _use(value: Any) -> None:
    spec = ColumnSpec(n_samples=30, n_columns=1, result_bits=20)
    if isinstance(value, (PublicArray, MaskedArray)):
        value.array()
    elif isinstance(value, PublicKeys):
        join_columns(value, Ciphertexts(value.scheme, ()), spec)
    elif isinstance(value, dict) and value:
        PairwiseMasks("bank", MaskingKey.generate(), value)


@target
def envelope(data: bytes) -> object:
    """A sealed message and a sealed report from another organisation."""
    own, other = (OrganisationKey.from_bytes(bytes([n]) * 32) for n in (1, 2))
    with suppress(FedsiftError):
        open_letter("bank", own, "shop", other.public, "topic", data)
    return Envelopes("bank", own, {"shop": other.public}, "session").open("shop", "request", data)
