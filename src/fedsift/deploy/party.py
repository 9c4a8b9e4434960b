# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""An organisation names its data and its policy; both are checked before they are written down."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedsift.config.parties import policy_in
from fedsift.config.toml import TomlCheck
from fedsift.deploy.kits import Kit
from fedsift.deploy.site_files import read_sections, settings_file, write_sections
from fedsift.errors import ConfigError
from fedsift.protocol import Policy


@dataclass(frozen=True)
class PartyData:
    """What an organisation brings: a file, and the columns that jobs may use.

    Parameters
    ----------
    path : Path
        CSV or Parquet file.
    id_columns : tuple of str
        Columns that identify a row.
    label : str, optional
        The only column that a job may use as the label.
    columns : tuple of str, optional
        The only columns that a job may use as features.
    categorical : tuple of str
        Columns of numbers that are categories.
    """

    path: Path
    id_columns: tuple[str, ...] = ()
    label: str | None = None
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
        "label": data.label,
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

    if data.columns is not None and data.label in data.columns:
        raise ConfigError(
            f"{data.label!r} is named both as the label and among the columns.",
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
