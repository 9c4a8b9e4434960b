# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The parties of a job: ``[[party]]`` tables, or each party's own file, and what a policy may say.

A party's own file says where its data is and what it agrees to disclose. It stays with the party;
a job in one process names it, and a site between organisations has the same tables in its settings.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedsift.config.toml import TEXTS, Key, Kinds, TomlCheck, did_you_mean
from fedsift.errors import JobError

POLICY_KEYS: dict[str, Kinds] = {
    "methods": (TEXTS,),
    "may_reveal": (TEXTS,),
    "may_not_reveal": (TEXTS,),
    "min_security_bits": (int,),
    "min_bin_size": (int,),
    "min_class_size": (int,),
    "min_rows": (int,),
    "anonymous_names": (bool,),
    "max_epsilon": (int, float),
    "max_release_epsilon": (int, float),
    "max_epsilon_total": (int, float),
    "max_jobs_per_table": (int,),
    "min_row_change": (int,),
    "max_ids_asked": (int,),
    "approval": (str,),
    "max_bins": (int,),
    "max_classes": (int,),
    "max_groups": (int,),
    "max_epochs": (int,),
    "max_columns": (int,),
}
APPROVALS = ("none", "ask")
_PARTY_KEYS: dict[str, Kinds] = {
    "name": (str,),
    "data": (str,),
    "id": (str, TEXTS),
    "columns": (TEXTS,),
    "policy": (dict,),
    "file": (str,),
}
_PARTY_FILE: dict[str, Kinds] = {"party": (dict,), "data": (dict,), "policy": (dict,)}
_PARTY_FILE_DATA: dict[str, Kinds] = {"path": (str,), "id": (str, TEXTS), "columns": (TEXTS,)}


@dataclass(frozen=True)
class PartyEntry:
    """One organisation: where its table is and what it agrees to."""

    name: str
    data: Path | None = None
    id_columns: tuple[str, ...] = ()
    columns: tuple[str, ...] | None = None
    policy: Mapping[str, Any] | None = None


def load_party(path: str | os.PathLike[str], kinds: Collection[str] = ()) -> PartyEntry:
    """Read and check a party's own file.

    Parameters
    ----------
    path : path of a TOML file
        With the tables ``[party]``, ``[data]`` and optionally ``[policy]``.
    kinds : collection of str
        Known disclosures; without them a policy may name any.

    Returns
    -------
    entry : PartyEntry
    """
    check = TomlCheck(Path(path))
    top = check.table((), check.document, _PARTY_FILE)
    party = check.table(("party",), top.get("party", {}), {"name": (str,)})
    if not party.get("name", "").strip():
        check.add(("party",), "The party has no name.", "[party] needs a name.", "Add it.")
    data = check.table(("data",), top.get("data", {}), _PARTY_FILE_DATA)
    if "path" not in data:
        check.add(("data",), "The file names no data.", "[data] needs a path.", "Add it.")
    policy = policy_in(check, ("policy",), top.get("policy"), kinds)
    source = check.file(("data", "path"), data.get("path"))
    check.finish("the party")
    columns = data.get("columns")
    return PartyEntry(
        party["name"],
        source,
        texts_in(data.get("id")),
        None if columns is None else tuple(columns),
        policy,
    )


def parties_in(
    check: TomlCheck, given: list[Any], kinds: Collection[str], at_home: bool
) -> dict[int, PartyEntry]:
    """Check ``[[party]]`` tables; the parties by their place in the file.

    With ``at_home`` the organisations have their tables and policies at home, and only names count.
    """
    entries: dict[int, PartyEntry] = {}
    first_line: dict[str, int | None] = {}
    for number, value in enumerate(given):
        where: Key = ("party", number)
        if not isinstance(value, dict):
            check.add(where, "'party' is a list of values.", "Write [[party]] tables.", "Mend it.")
            continue
        known = check.table(where, value, _PARTY_KEYS, "[[party]]")
        if at_home and "name" in known:
            # Paths and policies of this file are those of another machine.
            known = {key: known[key] for key in ("name", "id", "columns") if key in known}
        entry = _party(check, where, known, kinds)
        if entry is None:
            continue
        folded = entry.name.strip().casefold()
        if folded in first_line:
            found = f"Party {entry.name!r} is named twice (first in line {first_line[folded]})."
            needed = "Every party has one [[party]] entry."
            check.add((*where, "name"), found, needed, "Join or rename the two.")
        first_line.setdefault(folded, check.line((*where, "name")))
        entries[number] = entry
    return entries


def _party(
    check: TomlCheck, where: Key, given: dict[str, Any], kinds: Collection[str]
) -> PartyEntry | None:
    if "file" in given:
        return _party_from_file(check, where, given, kinds)
    if not given.get("name", "").strip():
        if "name" in given or not check.has((*where, "name")):
            check.add(where, "A party has no name.", "[[party]] needs a name.", "Add it.")
        return None
    columns = given.get("columns")
    return PartyEntry(
        given["name"],
        check.file((*where, "data"), given.get("data")),
        texts_in(given.get("id")),
        None if columns is None else tuple(columns),
        policy_in(check, (*where, "policy"), given.get("policy"), kinds),
    )


def _party_from_file(
    check: TomlCheck, where: Key, given: dict[str, Any], kinds: Collection[str]
) -> PartyEntry | None:
    for key in ("data", "id", "columns", "policy"):
        if key in given:
            needed = "A party's own file says this."
            check.add((*where, key), f"Both file and {key} are given.", needed, "Remove one.")
    source = check.file((*where, "file"), given["file"])
    if source is None:
        return None
    try:
        entry = load_party(source, kinds)
    except JobError as error:
        for problem in error.problems:
            check.add((*where, "file"), f"{source.name}, {problem}")
        return None
    if given.get("name", entry.name) != entry.name:
        found = f"The party is called {given['name']!r} here and {entry.name!r} in its own file."
        check.add((*where, "name"), found, "Both must agree.", "Leave the name out here.")
    return entry


def policy_in(
    check: TomlCheck, where: Key, given: dict[str, Any] | None, kinds: Collection[str]
) -> dict[str, Any] | None:
    """Check a policy found at a key; a misspelt disclosure is a problem if ``kinds`` are known."""
    if given is None:
        return None
    policy = check.table(where, given, POLICY_KEYS, "a policy")
    known = {*kinds, *KIND_SETS}
    for key in ("may_reveal", "may_not_reveal"):
        # A misspelt kind would protect nothing, so it is refused, not ignored.
        for kind in policy.get(key, ()):
            if kinds and kind not in known:
                needed = f"Known: {', '.join(sorted(known))}."
                action = did_you_mean(kind, known, "See 'fedsift methods'.")
                check.add((*where, key), f"Unknown disclosure {kind!r} in {key}.", needed, action)
    if policy.get("min_class_size", 1) < 1:
        needed = "It must be 1 or more; 1 allows any class."
        check.add((*where, "min_class_size"), "min_class_size is too small.", needed, "Change it.")
    for key in ("min_security_bits", "min_bin_size", "min_rows", "min_row_change"):
        if policy.get(key, 0) < 0:
            check.add((*where, key), f"{key} is negative.", "It must be 0 or more.", "Change it.")
    if policy.get("approval", "none") not in APPROVALS:
        needed = f"It must be one of: {', '.join(APPROVALS)}."
        check.add((*where, "approval"), "approval has an unknown value.", needed, "Change it.")
    for key in (key for key in POLICY_KEYS if key.startswith("max_")):
        if not policy.get(key, 1) > 0:
            needed = "It must be a positive number."
            check.add((*where, key), f"{key} allows nothing.", needed, "Change it.")
    return policy


def texts_in(value: Any) -> tuple[str, ...]:
    """A text or a list of texts, as a tuple."""
    return () if value is None else (value,) if isinstance(value, str) else tuple(value)


_SCORES = ("class-count", "feature-count", "feature-scores", "selection")

KIND_SETS = {
    "basic": (
        "layer-shape",
        "named-gates",
        "named-scores",
        "outline",
        "remarks",
        "row-count",
        "selected-features",
        "staying-parties",
        "total-feature-count",
        "word-counts",
    ),
    "scores": (*_SCORES, "numeric-scores"),
    "counts": (*_SCORES, "bin-counts", "class-sums"),
    "products": (*_SCORES[:2], "class-sums", "correlations", "selection", "shuffled-products"),
    "training": (*_SCORES, "block-losses", "gate-sums", "predictions", "training-rows"),
    "paper-training": (
        "embedding-gradients",
        "embedding-width",
        "gate-start",
        "layer-outputs",
        "open-gates",
        "single-layer-outputs",
        "training-course",
    ),
}
"""What ``may_reveal`` and ``may_not_reveal`` take besides single kinds.

``basic`` is what parties of any job on their own tables tell each other: names and numbers of
features, numbers of rows and words, remarks, whose feature a score or gate belongs to, and what
stays after a step. ``scores`` and ``counts`` are what filters need with ``disclose="scores"`` (also
for labels of numbers) and ``disclose="counts"``. ``products`` is what stepwise selection needs if
the label holder has classes and no features; with features, or a label of numbers, it also needs
``numeric-scores``. ``training`` is what FedSDG-FS needs, and a training and prediction in a chain;
``paper-training`` is what ``protocol="paper"`` opens beyond that: numbers of single rows, from
which labels and columns can be computed.
"""
