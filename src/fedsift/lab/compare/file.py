# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Compare files: TOML, checked as a whole like job files.

``[compare]`` says how; every ``[[data]]`` is a catalogued or generated set, cut for some parties;
every ``[[method]]`` is a method with its parameters, under a label of its own. A method takes part
wherever the setting suits it, unless a data set names its methods.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fedsift.config.job import OWN_PARTY, SETTINGS, DataEntry, MethodSchema
from fedsift.config.parameters import (
    Parameter,
    accept_number,
    accept_whole,
    accept_words,
)
from fedsift.config.toml import TEXTS, Key, Kinds, TomlCheck, Wanted, did_you_mean
from fedsift.data import synthetic
from fedsift.lab.compare.cells import METHOD, PEER, Contestant
from fedsift.lab.compare.judge import MODELS
from fedsift.lab.peers import PEERS

SYNTHETIC = ("friedman", "madelon_like", "mixed_bank", "redundant_twins", "xor")
"""Generated sets, whose features that matter are known; see `fedsift.data.synthetic`."""

PROFILES: dict[str, dict[str, int]] = {
    "smoke": {"folds": 2, "seeds": 1, "permutations": 1},
    "regular": {},
    "paper": {"folds": 5, "seeds": 10},
}
"""What a profile changes; ``[profile.NAME]`` in the file has the last word."""

LIMITED = {
    "folds": Parameter("Parts that the rows are cut into.", accept_whole(2)),
    "seeds": Parameter("Repetitions with other folds.", accept_whole()),
    "seed": Parameter("Of the first repetition.", accept_whole(0)),
    "permutations": Parameter("Shuffles of the labels of every split.", accept_whole()),
    "workers": Parameter("Processes.", accept_whole()),
    "security": Parameter("Whether methods run encrypted.", accept_words("secure", "plain")),
}
"""Settings of a comparison that have limits."""

_SETTING_KEYS: dict[str, Wanted] = {
    **LIMITED,
    "models": (TEXTS,),
    "peers": (TEXTS,),
    "verify": accept_words("first fold", "never"),
    "timeout_seconds": accept_number(0.0, strict=True),
}
_SECTIONS: dict[str, Kinds] = {
    "compare": (dict,),
    "profile": (dict,),
    "data": (list,),
    "method": (list,),
    "output": (dict,),
}
_DATA_KEYS: dict[str, Wanted] = {
    "name": (str,),
    "dataset": (str,),
    "synthetic": (str,),
    "rows": (int,),
    "options": (dict,),
    "setting": accept_words(*SETTINGS),
    "parties": (int, TEXTS),
    "label_holder": (str,),
    "skew": accept_words("kmeans", "dirichlet"),
    "task": accept_words("auto", "classification", "regression"),
    "n_features_to_select": (int, float),
    "copies_together": (bool,),
    "methods": (TEXTS,),
    "peers": (TEXTS,),
}


@dataclass(frozen=True)
class DataPlan:
    """One ``[[data]]`` entry, checked."""

    name: str
    data: DataEntry
    synthetic: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    copies_together: bool = False
    contestants: tuple[Contestant, ...] = ()


@dataclass(frozen=True)
class ComparePlan:
    """A checked compare file; ``settings`` are keywords of `fedsift.lab.compare.compare`."""

    path: Path
    data: tuple[DataPlan, ...]
    settings: Mapping[str, Any]
    output: Path


def is_compare_file(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a compare file rather than a job: jobs have a ``[job]``."""
    document = TomlCheck(Path(path)).document
    return "job" not in document and (
        "compare" in document or isinstance(document.get("data"), list)
    )


def load_compare_file(
    path: str | os.PathLike[str],
    methods: Mapping[str, MethodSchema],
    datasets: Collection[str],
    profile: str = "regular",
) -> ComparePlan:
    """Read and check a compare file.

    Parameters
    ----------
    path : path of a TOML file
    methods : mapping of method name to MethodSchema
    datasets : collection of str
        Catalogued names.
    profile : {"smoke", "regular", "paper"}

    Returns
    -------
    plan : ComparePlan
    """
    check = TomlCheck(Path(path))
    top = check.table((), check.document, _SECTIONS)
    settings = _settings(check, top, profile)
    own_peers = settings.pop("peers", [])
    known = _methods(check, top.get("method", []), methods)
    data = _data(check, top.get("data", []), known, methods, datasets, own_peers)
    output = check.table(("output",), top.get("output", {}), {"directory": (str,)})
    directory = check.place(("output", "directory"), output.get("directory"))
    check.finish("the comparison")
    return ComparePlan(
        check.path,
        data,
        settings,
        directory or check.path.parent / f"{check.path.stem}-out",
    )


def _settings(check: TomlCheck, top: Mapping[str, Any], profile: str) -> dict[str, Any]:
    """Keywords of a comparison under one profile; all profiles are checked."""
    profiles = check.table(("profile",), top.get("profile", {}), dict.fromkeys(PROFILES, (dict,)))
    found = _checked(check, ("compare",), top.get("compare", {}))
    own = {name: _checked(check, ("profile", name), table) for name, table in profiles.items()}
    settings: dict[str, Any] = {**found, **PROFILES[profile], **own.get(profile, {})}
    if "verify" in settings:
        settings["verify"] = settings["verify"] != "never"
    return settings


def _checked(check: TomlCheck, where: Key, given: Mapping[str, Any]) -> dict[str, Any]:
    values = check.table(where, given, _SETTING_KEYS)
    _names(check, (*where, "models"), "model", values.get("models", ()), MODELS)
    peers = [peer.name for peer in PEERS]
    _names(check, (*where, "peers"), "peer", values.get("peers", ()), peers)
    if values.get("models") == []:
        check.add((*where, "models"), "No model is named.", "One is needed at least.", "Add one.")
    return values


def _names(
    check: TomlCheck, key: Key, what: str, given: Collection[str], known: Collection[str]
) -> None:
    for name in dict.fromkeys(given):
        check.known(key, what, name, known)
    if len(set(given)) < len(given):
        check.add(key, f"A {what} is named twice.", "Each needs to be named once.", "Remove one.")


def _methods(
    check: TomlCheck, given: list[Any], methods: Mapping[str, MethodSchema]
) -> dict[str, Contestant]:
    found: dict[str, Contestant] = {}
    if not given:
        needed = 'At least one [[method]] with method = "..." is needed.'
        check.add((), "There is nothing to compare.", needed, "Add it.")
    for number, entry in enumerate(given):
        where: Key = ("method", number)
        contestant = _method(check, where, entry, methods)
        if contestant is None:
            continue
        if contestant.label in found:
            needed = "Every [[method]] needs a name of its own."
            found_text = f"Two methods are called {contestant.label!r}."
            check.add((*where, "name"), found_text, needed, 'Add name = "...".')
        found[contestant.label] = contestant
    return found


def _method(
    check: TomlCheck, where: Key, entry: Any, methods: Mapping[str, MethodSchema]
) -> Contestant | None:
    if not isinstance(entry, dict):
        check.add(where, "'method' is a list of values.", "Write [[method]] tables.", "Mend it.")
        return None
    name = entry.get("method")
    if not isinstance(name, str) or name not in methods:
        needed = f"[[method]] needs method, one of: {', '.join(methods)}."
        action = did_you_mean(str(name), methods, "See 'fedsift methods'.")
        found = "A method is not named." if name is None else f"Unknown method {name!r}."
        check.add((*where, "method"), found, needed, action)
        return None
    schema = methods[name]
    kinds: dict[str, Wanted] = {
        **schema.parameters,
        "name": (str,),
        "method": (str,),
    }
    known = check.table(where, entry, kinds, f"[[method]] of {name!r}")
    label = known.pop("name", name).strip()
    known.pop("method", None)
    if not label:
        check.add((*where, "name"), "A method's name is empty.", "A text is needed.", "Add it.")
    return Contestant(label or name, name, known, METHOD)


def _data(
    check: TomlCheck,
    given: list[Any],
    contestants: Mapping[str, Contestant],
    methods: Mapping[str, MethodSchema],
    datasets: Collection[str],
    peers: Collection[str],
) -> tuple[DataPlan, ...]:
    plans: list[DataPlan] = []
    if not given:
        needed = 'At least one [[data]] with dataset = "..." is needed.'
        check.add((), "There is no data to compare on.", needed, "Add it.")
    for number, entry in enumerate(given):
        where: Key = ("data", number)
        if not isinstance(entry, dict):
            check.add(where, "'data' is a list of values.", "Write [[data]] tables.", "Mend it.")
            continue
        known = check.table(where, entry, _DATA_KEYS, "[[data]]")
        plan = _one_set(check, where, known, datasets)
        if any(plan.name == other.name for other in plans):
            needed = "Every [[data]] needs a name of its own."
            check.add(where, f"Two data sets are called {plan.name!r}.", needed, "Add a name.")
        line_up = _line_up(check, where, known, plan.data.setting, contestants, methods)
        own_peers = known.get("peers", peers)
        _names(check, (*where, "peers"), "peer", known.get("peers", ()), [p.name for p in PEERS])
        wanted = known.get("n_features_to_select")
        number_of_peers = {} if wanted is None else {"n_features_to_select": wanted}
        line_up += [Contestant(name, name, number_of_peers, PEER) for name in own_peers]
        plans.append(replace(plan, contestants=tuple(line_up)))
    return tuple(plans)


def _one_set(
    check: TomlCheck, where: Key, known: dict[str, Any], datasets: Collection[str]
) -> DataPlan:
    dataset, made = known.get("dataset"), known.get("synthetic")
    if (dataset is None) == (made is None):
        found = "Both dataset and synthetic are given." if dataset else "A data set is not named."
        needed = "[[data]] needs dataset (see 'fedsift datasets') or synthetic."
        check.add(where, found, needed, "Give one of the two.")
    if dataset is not None:
        check.known((*where, "dataset"), "data set", dataset, datasets, "See 'fedsift datasets'.")
    options = _options(check, where, known, made)
    setting = known.get("setting", "vertical")
    parties = known.get("parties", 2)
    if isinstance(parties, int) and parties < 1:
        check.add(
            (*where, "parties"), f"parties = {parties}.", "It must be 1 or more.", "Raise it."
        )
    names = (
        [f"party-{i + 1}" for i in range(min(parties, 10_000))]
        if isinstance(parties, int)
        else list(parties)
    )
    for key, needs in (("skew", "horizontal"), ("label_holder", "vertical")):
        if key in known and setting != needs:
            needed = f"It has a meaning in the {needs} setting only."
            check.add((*where, key), f"{key} is given in a {setting} set.", needed, "Remove it.")
    if "label_holder" in known:
        check.known((*where, "label_holder"), "party", known["label_holder"], [*names, OWN_PARTY])
    return DataPlan(
        known.get("name") or dataset or made or "data",
        DataEntry(
            setting,
            dataset,
            parties if isinstance(parties, int) else tuple(parties),
            known.get("label_holder"),
            known.get("skew"),
            task=known.get("task", "auto"),
        ),
        made,
        options,
        known.get("copies_together", False),
    )


def _options(
    check: TomlCheck, where: Key, known: dict[str, Any], made: str | None
) -> dict[str, Any]:
    """Arguments of a generator; a catalogued set has none."""
    if made is None:
        for key in ("rows", "options"):
            if key in known:
                needed = "It has a meaning for generated sets only."
                check.add((*where, key), f"{key} is given for a catalogued set.", needed, "Remove.")
        return {}
    check.known((*where, "synthetic"), "generated set", made, SYNTHETIC)
    if made not in SYNTHETIC:
        return {}
    signature = inspect.signature(getattr(synthetic, made)).parameters
    allowed: dict[str, Kinds] = {
        name: (float,) if isinstance(parameter.default, float) else (int,)
        for name, parameter in signature.items()
        if name not in ("n_rows", "random_state")
    }
    options = check.table(
        (*where, "options"), known.get("options", {}), allowed, f"options of {made!r}"
    )
    return {**options, **({"n_rows": known["rows"]} if "rows" in known else {})}


def _line_up(
    check: TomlCheck,
    where: Key,
    known: dict[str, Any],
    setting: str,
    contestants: Mapping[str, Contestant],
    methods: Mapping[str, MethodSchema],
) -> list[Contestant]:
    """Methods of a data set, with its number of features where they have none."""
    wanted = known.get("methods")
    for label in wanted or ():
        check.known((*where, "methods"), "method", label, list(contestants))
        named = contestants.get(label)
        if named is not None and setting not in methods[named.name].settings:
            found = f"{label!r} is named for {setting} data."
            needed = f"{named.name!r} works in the setting: {methods[named.name].settings[0]}."
            check.add((*where, "methods"), found, needed, "Remove it, or change the setting.")
    chosen = [c for label, c in contestants.items() if wanted is None or label in wanted]
    number = known.get("n_features_to_select")
    line_up = []
    for contestant in chosen:
        parameters = dict(contestant.parameters)
        if number is not None and "n_features_to_select" in methods[contestant.name].parameters:
            parameters.setdefault("n_features_to_select", number)
        line_up.append(replace(contestant, parameters=parameters))
    return line_up
