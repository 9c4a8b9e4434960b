# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""From what files say to federations: catalogued sets, generated sets, and the parties' tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedsift.config.job import DataEntry, Job
from fedsift.config.parties import PartyEntry
from fedsift.data import Federation, catalog, synthetic
from fedsift.data.partition import split_as_described
from fedsift.data.sources import RawTable, label_columns, read_source
from fedsift.errors import JobError
from fedsift.lab.compare.cases import Case
from fedsift.lab.compare.cells import METHOD, Contestant
from fedsift.lab.compare.file import DataPlan


def case_of(plan: DataPlan, seed: int) -> Case:
    """Load or generate a set and cut it for its parties."""
    if plan.synthetic is None:
        return _catalogued(plan.name, plan.data, seed, plan.copies_together)
    made = getattr(synthetic, plan.synthetic)(**plan.options, random_state=seed)
    task = made.task if plan.data.task == "auto" else plan.data.task
    federation = split_as_described(made.X, made.y, replace(plan.data, task=task), seed)
    return Case(plan.name, federation, tuple(made.relevant), plan.copies_together)


def cases_of_jobs(jobs: Sequence[Job]) -> tuple[list[Case], list[list[Contestant]]]:
    """Federations of ordinary jobs; jobs on the same data share one.

    The seed of the first job cuts a catalogued set; tables of parties are read here, all of them,
    as ``fedsift run`` does.
    """
    seed = next((job.seed for job in jobs if job.seed is not None), 0)
    groups: dict[Any, list[Job]] = {}
    for job in jobs:
        if job.steps:
            raise JobError(
                f"{job.path.name} is a chain of several methods.",
                "A comparison takes methods one by one.",
                "Write one job file for each step, and compare these.",
            )
        if job.engine != "embedded":
            raise JobError(
                f"{job.path.name} is a job between organisations.",
                "A comparison looks at all rows, which only one place with all tables can.",
                "Use a job with the engine 'embedded'.",
            )
        tables = tuple((p.name, p.data, p.id_columns, p.columns) for p in job.parties)
        groups.setdefault((job.data, tables if job.data.dataset is None else ()), []).append(job)
    cases: list[Case] = []
    contestants = []
    for (data, _), members in groups.items():
        name = data.dataset or members[0].path.stem
        taken = {case.name for case in cases}
        name = _free(name, taken)
        cases.append(
            Case(name, _from_tables(members[0]))
            if data.dataset is None
            else _catalogued(name, data, seed)
        )
        contestants.append(_contestants(members))
    return cases, contestants


def _contestants(jobs: Sequence[Job]) -> list[Contestant]:
    labels: set[str] = set()
    found = []
    for job in jobs:
        plain = job.method if len({j.path.stem for j in jobs}) < len(jobs) else job.path.stem
        label = _free(plain, labels)
        labels.add(label)
        found.append(Contestant(label, job.method, job.parameters, METHOD, job.policies or None))
    return found


def _free(name: str, taken: set[str]) -> str:
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name} {number}"
    return free


def _catalogued(name: str, data: DataEntry, seed: int, copies_together: bool = False) -> Case:
    assert data.dataset is not None  # noqa: S101 - checked
    loaded = catalog.load(data.dataset, as_frame=True)
    y = loaded.y
    if data.task == "regression" and "target" in loaded.extras:
        y = np.asarray(loaded.extras["target"], dtype=np.float64)
    informative = loaded.extras.get("informative")
    truth = None if informative is None else tuple(int(i) for i in np.ravel(informative))
    return Case(name, split_as_described(loaded.X, y, data, seed), truth, copies_together)


def _from_tables(job: Job) -> Federation:
    """The parties' own tables, put together in this process."""
    data = job.data
    sources = {entry.name: _narrowed(entry, data) for entry in job.parties}
    shared: dict[str, Any] = {"task": data.task, "categorical": data.categorical}
    if data.setting == "horizontal":
        return Federation.horizontal(sources, data.label, **shared)
    label = None
    if data.label_party is not None and data.label is not None:
        label = (data.label_party, data.label)
    ids = {entry.name: entry.id_columns for entry in job.parties if entry.id_columns}
    return Federation.vertical(sources, label, ids or None, **shared)


def _narrowed(entry: PartyEntry, data: DataEntry) -> RawTable:
    """A party's table with the columns that the job names; ids are no features of rows."""
    texts = (*entry.id_columns, *data.categorical)
    raw = read_source(
        entry.data, party=entry.name, text_columns=texts, index_columns=entry.id_columns
    )
    keep_ids = entry.id_columns if data.setting == "vertical" else ()
    if entry.columns is not None:
        own = label_columns(data.label) if data.label_party in (None, entry.name) else ()
        wanted = [*keep_ids, *entry.columns, *own]
        return raw.only(list(dict.fromkeys(wanted)), entry.name)
    return raw if data.setting == "vertical" else raw.without(entry.id_columns)
