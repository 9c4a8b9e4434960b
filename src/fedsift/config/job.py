# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Job files: TOML, checked as a whole before anything else happens.

A job file says which method runs on whose data. Reading one collects every problem, each with its
line, and raises a single :class:`~fedsift.errors.JobError`. Paths in a file are relative to it.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fedsift.config.parameters import Parameter
from fedsift.config.parties import PartyEntry, parties_in, texts_in
from fedsift.config.steps import StepEntry, check_setting, steps_in
from fedsift.config.toml import TEXTS, Key, Kinds, TomlCheck, did_you_mean

SETTINGS = ("vertical", "horizontal")
ENGINES = ("embedded", "flare")
TASKS = ("auto", "classification", "regression", "survival")
_PLAIN_TASKS = tuple(task for task in TASKS if task != "survival")
CHAIN = "chain"
"""Stands for the method of a job that has steps."""

OWN_PARTY = "label-holder"
"""Name of a label holder that is a party of its own, in a split of a catalogued set."""

_SECTIONS: dict[str, Kinds] = {
    "job": (dict,),
    "data": (dict,),
    "party": (list,),
    "method": (dict,),
    "step": (list,),
    "runtime": (dict,),
    "output": (dict,),
}
_JOB_KEYS: dict[str, Kinds] = {"method": (str,), "seed": (int,), "timeout_seconds": (float,)}
_SPLIT_KEYS: dict[str, Kinds] = {
    "dataset": (str,),
    "parties": (int, TEXTS),
    "label_holder": (str,),
    "skew": (str,),
}
_TABLE_KEYS: dict[str, Kinds] = {"label": (str, dict), "id": (str, TEXTS)}
_SHARED_KEYS: dict[str, Kinds] = {"setting": (str,), "task": (str,), "categorical": (TEXTS,)}
_RUNTIME_KEYS: dict[str, Kinds] = {"engine": (str,), "kit": (str,), "checkpoint": (str,)}
_OUTPUT_KEYS: dict[str, Kinds] = {
    "directory": (str,),
    "mlflow": (str,),
    "mlflow_experiment": (str,),
    "tensorboard": (str,),
}


@dataclass(frozen=True)
class MethodSchema:
    """What a job file may say about one method.

    Parameters
    ----------
    parameters : mapping of name to Parameter, or to kinds
        Parameters for ``[method]``.
    kinds : frozenset of str
        Disclosures the method may make, which policies name.
    settings : tuple of str
        Settings the method works in.
    elsewhere : mapping of name to str
        Parameters that a job file gives in another place, and which.
    training : frozenset of str, optional
        Parameters of a ``train`` step, if the method trains its model.
    """

    parameters: Mapping[str, Kinds | Parameter]
    kinds: frozenset[str] = frozenset()
    settings: tuple[str, ...] = SETTINGS
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    training: frozenset[str] | None = None


@dataclass(frozen=True)
class DataEntry:
    """A catalogued set to split, or what the parties' tables have in common.

    With an ``event_column`` the label is a survival time, and ``label_column`` has the times.
    """

    setting: str
    dataset: str | None = None
    parties: int | tuple[str, ...] = 2
    label_holder: str | None = None
    skew: str | None = None
    label_party: str | None = None
    label_column: str | None = None
    event_column: str | None = None
    task: str = "auto"
    categorical: tuple[str, ...] = ()

    @property
    def label(self) -> str | dict[str, str] | None:
        """The label column, or those of survival times."""
        if self.label_column is None or self.event_column is None:
            return self.label_column
        return {"time": self.label_column, "event": self.event_column}


@dataclass(frozen=True)
class Trackers:
    """Trackers of experiments that get the result too; none if nothing is given.

    Parameters
    ----------
    mlflow : str, optional
        Tracking address of MLflow; not shown, because it may hold a password.
    mlflow_experiment : str
        Experiment that the run belongs to.
    tensorboard : Path, optional
        Directory of runs for TensorBoard.
    """

    mlflow: str | None = field(default=None, repr=False)
    mlflow_experiment: str = "fedsift"
    tensorboard: Path | None = None


@dataclass(frozen=True)
class Job:
    """A checked job file; one with steps has the method ``"chain"`` and no parameters."""

    path: Path
    method: str
    data: DataEntry
    parties: tuple[PartyEntry, ...]
    parameters: Mapping[str, Any]
    output: Path
    seed: int | None = None
    timeout_seconds: float | None = None
    engine: str = "embedded"
    kit: Path | None = None
    checkpoint: Path | None = None
    steps: tuple[StepEntry, ...] = ()
    trackers: Trackers = Trackers()

    @property
    def policies(self) -> dict[str, Mapping[str, Any]]:
        """Policies of the parties that have one."""
        return {entry.name: entry.policy for entry in self.parties if entry.policy is not None}


def load_job(
    path: str | os.PathLike[str],
    methods: Mapping[str, MethodSchema],
    datasets: Collection[str] | None = None,
    engine: str | None = None,
) -> Job:
    """Read and check a job file.

    Parameters
    ----------
    path : path of a TOML file
    methods : mapping of method name to MethodSchema
        What there is to run.
    datasets : collection of str, optional
        Catalogued names; without it any name passes.
    engine : {"embedded", "flare"}, optional
        Takes the place of the engine in the file. With ``flare`` the organisations have their
        tables at home, so those that the file names are not looked for.

    Returns
    -------
    job : Job
        With all paths resolved against the file's directory.
    """
    check = TomlCheck(Path(path), "fedsift init")
    top = check.table((), check.document, _SECTIONS)
    job = check.table(("job",), top.get("job", {}), _JOB_KEYS)
    chained = "step" in top
    schema = None if chained else _method(check, job, methods)
    _job_numbers(check, job)
    steps = steps_in(check, top["step"], methods, job.get("seed")) if chained else ()
    runtime = check.table(("runtime",), top.get("runtime", {}), _RUNTIME_KEYS)
    kit = _kit(check, runtime, engine)
    engine = engine or runtime.get("engine", "embedded")
    checkpoint = _checkpoint(check, runtime, engine)
    output = check.table(("output",), top.get("output", {}), _OUTPUT_KEYS)
    trackers = _trackers(check, output)
    directory = check.place(("output", "directory"), output.get("directory"))
    kinds = frozenset(kind for known in methods.values() for kind in known.kinds)
    at_home = engine == "flare"
    parties = parties_in(check, top.get("party", []), kinds, at_home)
    data = _data(check, top.get("data"), parties, schema, datasets, at_home)
    if data.setting in SETTINGS and steps:
        check_setting(check, steps, methods, data.setting, has_gaps=data.dataset is None)
    parameters = _parameters(check, top.get("method", {}), job.get("method", ""), schema)
    check.finish("the job")
    folder = check.path.parent
    return Job(
        check.path,
        CHAIN if chained else job["method"],
        data,
        tuple(parties.values()),
        parameters,
        directory or folder / f"{check.path.stem}-out",
        job.get("seed"),
        job.get("timeout_seconds"),
        engine,
        kit,
        checkpoint,
        steps,
        trackers,
    )


# --- sections of a job file -------------------------------------------------------------------


def _method(
    check: TomlCheck, job: Mapping[str, Any], methods: Mapping[str, MethodSchema]
) -> MethodSchema | None:
    name = job.get("method")
    if name is None:
        if not check.has(("job", "method")):
            needed = f"[job] needs method, one of: {', '.join(methods)}; or list [[step]] tables."
            check.add(("job",), "The job names no method.", needed, "Add it.")
        return None
    if name not in methods:
        needed = f"Known methods: {', '.join(methods)}."
        action = did_you_mean(name, methods, "See 'fedsift methods'.")
        check.add(("job", "method"), f"Unknown method {name!r}.", needed, action)
    return methods.get(name)


def _job_numbers(check: TomlCheck, job: Mapping[str, Any]) -> None:
    if job.get("seed", 0) < 0:
        check.add(("job", "seed"), "seed is negative.", "It must be 0 or more.", "Change it.")
    if not 0 < job.get("timeout_seconds", 1) < float("inf"):
        needed = "It must be a positive number of seconds."
        check.add(
            ("job", "timeout_seconds"), "timeout_seconds is no time limit.", needed, "Mend it."
        )


def _kit(check: TomlCheck, runtime: Mapping[str, Any], engine: str | None) -> Path | None:
    """The submitter's startup kit, which the engine 'flare' needs."""
    given = runtime.get("kit")
    if "engine" in runtime:
        check.choice(("runtime", "engine"), runtime["engine"], ENGINES)
    if engine is None and runtime.get("engine") == "flare" and given is None:
        needed = 'Jobs between organisations are submitted with kit = "...", a startup kit.'
        check.add(("runtime",), "The engine 'flare' has no kit.", needed, "Add it.")
    return check.place(("runtime", "kit"), given)


def _checkpoint(check: TomlCheck, runtime: Mapping[str, Any], engine: str) -> Path | None:
    """Where a run in one process keeps the state of all parties."""
    given = runtime.get("checkpoint")
    if given is not None and engine == "flare":
        found = "A place for checkpoints is given for the engine 'flare'."
        needed = "There every organisation names a place of its own in its settings."
        check.add(("runtime", "checkpoint"), found, needed, "Remove it.")
    return check.place(("runtime", "checkpoint"), given)


def _trackers(check: TomlCheck, output: Mapping[str, Any]) -> Trackers:
    """Where else the result goes."""
    for key in ("mlflow", "mlflow_experiment", "tensorboard"):
        if key in output and not output[key].strip():
            check.add(("output", key), f"{key} is empty.", "It must name a place.", "Remove it.")
    if "mlflow_experiment" in output and "mlflow" not in output:
        needed = 'It needs mlflow = "...", the address of a server or store.'
        check.add(("output", "mlflow_experiment"), "There is no MLflow.", needed, "Add it.")
    given = output.get("tensorboard")
    return Trackers(
        output.get("mlflow"),
        output.get("mlflow_experiment", Trackers.mlflow_experiment),
        check.place(("output", "tensorboard"), given),
    )


def _parameters(
    check: TomlCheck, given: dict[str, Any], method: str, schema: MethodSchema | None
) -> dict[str, Any]:
    if schema is None:
        return {}
    for name in sorted(set(given) & set(schema.elsewhere)):
        needed = f"A job file gives it as {schema.elsewhere[name]}."
        check.add(("method", name), f"{name!r} does not belong to [method].", needed, "Move it.")
    rest = {name: value for name, value in given.items() if name not in schema.elsewhere}
    return check.table(("method",), rest, schema.parameters, f"[method] of {method!r}")


def _data(
    check: TomlCheck,
    given: dict[str, Any] | None,
    parties: dict[int, PartyEntry],
    schema: MethodSchema | None,
    datasets: Collection[str] | None,
    at_home: bool,
) -> DataEntry:
    if given is None:
        needed = "[data] names a catalogued dataset, or the setting of the parties' tables."
        check.add((), "The job has no [data].", needed, "Add it.")
        return DataEntry("vertical")
    split = "dataset" in given
    own = _SPLIT_KEYS if split else _TABLE_KEYS
    where = "[data] with a dataset" if split else "[data] without a dataset"
    data = check.table(("data",), given, {**own, **_SHARED_KEYS}, where)
    setting = data.get("setting", "vertical" if split else None)
    if setting is None:
        needed = '[data] needs setting = "vertical" or "horizontal".'
        check.add(("data",), "The setting is not given.", needed, "Add it.")
        setting = "vertical"
    check.choice(("data", "setting"), setting, schema.settings if schema else SETTINGS)
    check.choice(("data", "task"), data.get("task", "auto"), TASKS)
    shared = {"task": data.get("task", "auto"), "categorical": tuple(data.get("categorical", ()))}
    if split and at_home:
        needed = "With the engine 'flare' every organisation has a table of its own."
        check.add(("data", "dataset"), "The job splits a data set.", needed, "Name the parties.")
    if split:
        return _split(check, data, setting, parties, datasets, shared)
    return _tables(check, data, setting, parties, shared, at_home)


def _split(
    check: TomlCheck,
    data: dict[str, Any],
    setting: str,
    parties: dict[int, PartyEntry],
    datasets: Collection[str] | None,
    shared: dict[str, Any],
) -> DataEntry:
    if datasets is not None:
        action = "See 'fedsift datasets'."
        check.known(("data", "dataset"), "data set", data.get("dataset", ""), datasets, action)
    given = data.get("parties", [entry.name for entry in parties.values()] or 2)
    if isinstance(given, int) and given < 1:
        check.add(("data", "parties"), f"parties = {given}.", "It must be 1 or more.", "Raise it.")
    numbered = isinstance(given, int)
    names = [f"party-{i + 1}" for i in range(min(given, 10_000))] if numbered else list(given)
    for number, entry in parties.items():
        check.known(("party", number, "name"), "party", entry.name, names)
        if entry.data is not None:
            needed = "The parties share the columns or rows of the data set."
            check.add(
                ("party", number, "data"), "Both dataset and data are given.", needed, "Remove one."
            )
    for key, needs in (("skew", "horizontal"), ("label_holder", "vertical")):
        if key in data and setting != needs:
            needed = f"It has a meaning in the {needs} setting only."
            check.add(("data", key), f"{key} is given in a {setting} job.", needed, "Remove it.")
    holder = data.get("label_holder")
    if holder is not None:
        check.known(("data", "label_holder"), "party", holder, [*names, OWN_PARTY])
    return DataEntry(
        setting,
        data.get("dataset"),
        given if numbered else tuple(given),
        holder,
        data.get("skew"),
        **shared,
    )


def _tables(
    check: TomlCheck,
    data: dict[str, Any],
    setting: str,
    parties: dict[int, PartyEntry],
    shared: dict[str, Any],
    at_home: bool,
) -> DataEntry:
    if not check.document.get("party"):
        needed = "Name a catalogued dataset in [data], or every party with its data in [[party]]."
        check.add(("data",), "The job has no data.", needed, "Add one of the two.")
    for number, entry in parties.items():
        named = {"data", "file"} & set(check.document["party"][number])
        if entry.data is None and not named and not at_home:
            needed = "Every party needs data, the path of its table."
            check.add(("party", number), f"Party {entry.name!r} has no data.", needed, "Add it.")
    label = _label(check, data, setting, parties)
    if "event" in label:
        shared = shared | {"task": "survival"}
    # Every party may have an id column of its own name; the common one is the default.
    for number, entry in parties.items():
        if not entry.id_columns:
            parties[number] = replace(entry, id_columns=texts_in(data.get("id")))
    return DataEntry(
        setting,
        label_party=label.get("party"),
        label_column=label.get("column"),
        event_column=label.get("event"),
        **shared,
    )


def _label(
    check: TomlCheck, data: dict[str, Any], setting: str, parties: dict[int, PartyEntry]
) -> dict[str, Any]:
    """Party and column of the label; for survival times ``event`` too, and times in ``column``."""
    given = data.get("label")
    if given is None:
        return {}
    where: Key = ("data", "label")
    keys: dict[str, Kinds] = dict.fromkeys(("party", "column", "time", "event"), (str,))
    label = check.table(where, given, keys, "label") if isinstance(given, dict) else {}
    label = label if isinstance(given, dict) else {"column": given}
    told = {"time", "event"} & set(label)
    if len(told) == 1 or (told and "column" in label):
        needed = 'Survival times need label = { time = "...", event = "..." } and no column.'
        check.add(where, "The label names a part of survival times.", needed, "Name both.")
    elif data.get("task", "auto") not in (("auto", "survival") if told else _PLAIN_TASKS):
        needed = 'task = "survival" goes with a label of time and event, and with no other.'
        check.add(where, "Task and label do not fit.", needed, "Change one of them.")
    if told:
        label["column"] = label.pop("time", label.get("column", ""))
    if setting == "vertical" and not {"party", "column"} <= set(label):
        needed = 'A vertical job needs label = { party = "...", column = "..." }.'
        check.add(where, "The label is not complete.", needed, "Complete it.")
    if "party" in label:
        check.known(where, "party", label["party"], [p.name for p in parties.values()])
    return label
