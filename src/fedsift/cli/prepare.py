# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""From a job file to an estimator and a federation; nothing is sent and nothing is written."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedsift.errors import ConfigError, ParameterError
from fedsift.job import OWN_PARTY, DataEntry, Job, PartyEntry, load_job

if TYPE_CHECKING:
    from fedsift.data import Federation
    from fedsift.result import SelectionResult
    from fedsift.runtime.session import Observer


@dataclass(frozen=True)
class ReadyJob:
    """A job whose data has been read and checked."""

    job: Job
    federation: Federation
    selector: Any

    def run(self, observer: Observer | None = None) -> SelectionResult:
        """Carry it out."""
        return fit_observed(
            self.selector, self.federation, observer, timeout_seconds=self.job.timeout_seconds
        )


def read_job(path: Path, engine: str | None = None) -> Job:
    """Read a job file against the methods and data sets of this version."""
    from fedsift.data import catalog
    from fedsift.selectors.registry import schemas

    return load_job(path, schemas(), catalog.names(), engine)


def prepare(job: Job) -> ReadyJob:
    """Read the data and build the estimator."""
    from fedsift.protocol import Policy
    from fedsift.selectors.registry import method_named

    if job.engine == "flare":
        raise ConfigError(
            "The tables of this job are at the organisations.",
            "Only a job with the engine 'embedded' reads them here.",
            "Ask each organisation: 'fedsift deploy party' shows what it would disclose.",
        )
    federation = build_federation(job)
    _refuse_too_many(job, federation)
    policies = {party: Policy.from_mapping(given) for party, given in job.policies.items()}
    selector = method_named(job.method).estimator(
        **job.parameters, policy=policies or None, random_state=job.seed
    )
    return ReadyJob(job, federation, selector)


def fit_observed(
    selector: Any,
    federation: Federation,
    observer: Observer | None = None,
    *,
    timeout_seconds: float | None = None,
) -> SelectionResult:
    """Fit with a time limit and an observer, which scikit-learn's ``fit`` has no place for."""
    watching = {}
    if "on_epoch" in inspect.signature(selector.run).parameters:
        watching["on_epoch"] = getattr(observer, "epoch", None)
    fitted = selector.run(
        federation, timeout_seconds=timeout_seconds, observer=observer, **watching
    )
    result: SelectionResult = fitted.result_
    return result


def build_federation(job: Job) -> Federation:
    """The parties' tables, read from files or cut out of a catalogued set."""
    if job.data.dataset is not None:
        return _split(job.data, job.data.dataset, job.seed)
    from fedsift.data import Federation

    data = job.data
    sources = [(entry.name, _source(entry, data)) for entry in job.parties]
    if data.setting == "horizontal":
        ids = {name: None for entry in job.parties for name in entry.id_columns}
        return Federation.horizontal(
            sources, data.label_column, data.task, data.categorical, ids=list(ids) or None
        )
    label = None
    if data.label_party is not None and data.label_column is not None:
        label = (data.label_party, data.label_column)
    by_party = {entry.name: entry.id_columns for entry in job.parties if entry.id_columns}
    # An alignment by messages would come before the parties' policies are asked.
    return Federation.vertical(
        sources, label, by_party or None, data.task, data.categorical, alignment="exact"
    )


def _split(data: DataEntry, dataset: str, seed: int | None) -> Federation:
    from fedsift.data import catalog, split_horizontal, split_vertical

    loaded = catalog.load(dataset, as_frame=True)
    names = None if isinstance(data.parties, int) else data.parties
    n_parties = data.parties if isinstance(data.parties, int) else len(data.parties)
    shared: dict[str, Any] = {
        "random_state": seed,
        "names": names,
        "task": data.task,
        "categorical": data.categorical,
    }
    if data.setting == "horizontal":
        return split_horizontal(loaded.X, loaded.y, n_parties, skew=data.skew, **shared)
    holder: int | str | None = data.label_holder or 0
    if holder == OWN_PARTY:
        holder = None
    return split_vertical(loaded.X, loaded.y, n_parties, label_holder=holder, **shared)


def _source(entry: PartyEntry, data: DataEntry) -> Any:
    """A party's file, or only the wanted columns of it."""
    if entry.columns is None:
        return entry.data
    from fedsift.data.sources import read_source

    ids = entry.id_columns
    raw = read_source(
        entry.data, party=entry.name, text_columns=(*ids, *data.categorical), index_columns=ids
    )
    wanted = [*ids, *entry.columns]
    if data.label_column is not None and data.label_party in (None, entry.name):
        wanted.append(data.label_column)
    return raw.only(list(dict.fromkeys(wanted)), entry.name)


def _refuse_too_many(job: Job, federation: Federation) -> None:
    """A number written in the job file is meant; only the estimator's default is *at most*."""
    wanted = job.parameters.get("n_features_to_select")
    if isinstance(wanted, int) and wanted > federation.n_features:
        raise ParameterError(
            f"n_features_to_select = {wanted}, and the federation has {federation.n_features} "
            "features.",
            f"A number from 1 to {federation.n_features} is needed.",
            "Ask for fewer features, or give a share such as 0.5.",
        )
