# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""From a job file to what can be planned and run; nothing is sent and nothing is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedsift.config.job import OWN_PARTY, DataEntry, Job, load_job
from fedsift.config.steps import PREDICT, TRAIN
from fedsift.errors import ColumnError, ConfigError, ParameterError

if TYPE_CHECKING:
    from fedsift.data import Federation
    from fedsift.engine.observer import Observer
    from fedsift.jobs.run import LocalParty
    from fedsift.jobs.spec import JointJob
    from fedsift.methods.execution import Plan
    from fedsift.result import SelectionResult


@dataclass
class JobRunner:
    """A job whose data has been read and checked, ready to be planned and run.

    Parameters
    ----------
    selector : estimator, Chain or ChainRun
        What runs; fitted afterwards. A chain on the parties' own tables is made when it runs.
    federation : Federation, optional
        A catalogued data set, cut for several parties.
    joint : JointJob, optional
        A job on the parties' own tables, which is run as sites of their own would.
    homes : mapping of party to LocalParty
        The parties' own tables, each read for itself.
    files : dict of str to str
        What the label holder keeps for itself after a run: name and text.
    """

    job: Job
    selector: Any = None
    federation: Federation | None = None
    joint: JointJob | None = None
    homes: Mapping[str, LocalParty] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)

    def run(self, observer: Observer | None = None) -> SelectionResult:
        """Run the method or all steps."""
        if self.federation is not None:
            return self._run_federation(self.federation, observer)
        assert self.joint is not None  # noqa: S101 - one of the two is there
        from fedsift.jobs import chain_joint, run
        from fedsift.jobs.chain_results import PREDICTIONS

        if self.job.steps:
            self.selector = chain_joint.ChainRun(
                self.joint,
                self.homes,
                observer=observer,
                place=self.job.checkpoint,
                keep_predictions=lambda text: self.files.update({PREDICTIONS: text}),
            )
            result = self.selector.run()
        else:
            result = run.run_joint(
                self.joint, self.homes, observer=observer, selector=self.selector
            )
        assert result is not None  # noqa: S101 - the coordinator is here
        checked: SelectionResult = result
        return checked

    def _run_federation(self, federation: Federation, observer: Observer | None) -> SelectionResult:
        from fedsift.data.anonymous import anonymised

        policies = self.job.policies
        limit = self.job.timeout_seconds
        self.selector.run(federation, timeout_seconds=limit, observer=observer)
        if self.job.steps:
            self.files.update(self.selector.files())
        hidden = [party for party, own in policies.items() if own.get("anonymous_names")]
        return anonymised(self.selector.result_, federation, hidden)

    def plan(self) -> tuple[Federation, Plan]:
        """The federation, and who will learn what; sends nothing."""
        if self.federation is not None:
            return self.federation, self.selector.plan(self.federation)
        assert self.joint is not None  # noqa: S101 - one of the two is there
        from fedsift.jobs import chain_joint, run

        plan = chain_joint.plan_chain if self.job.steps else run.plan_joint
        return plan(self.joint, self.homes)


def read_job(path: Path, engine: str | None = None) -> Job:
    """Read a job file against the methods and data sets of this version."""
    from fedsift.data import catalog
    from fedsift.methods.registry import schemas

    return load_job(path, schemas(), catalog.names(), engine)


def prepare(job: Job) -> JobRunner:
    """Read the data and build the estimator."""
    if job.engine == "flare":
        raise ConfigError(
            "The tables of this job are at the organisations.",
            "Only a job with the engine 'embedded' reads them here.",
            "'fedsift deploy party' shows at each of them what it would disclose; 'fedsift plan' "
            "with --shape PARTY=ROWSxCOLUMNS predicts the cost.",
        )
    if job.data.dataset is None:
        return prepare_tables(job)
    from fedsift.methods.registry import method_named
    from fedsift.protocol import Policy
    from fedsift.protocol.policy import check_names

    federation = _split(job.data, job.data.dataset, job.seed)
    _refuse_too_many(job, federation.n_features)
    policies = {party: Policy.from_mapping(given) for party, given in job.policies.items()}
    if federation.setting == "horizontal":
        check_names(policies)
    if job.steps:
        return JobRunner(job, _chain(job, policies), federation)
    selector = method_named(job.method).estimator(
        **job.parameters,
        policy=policies or None,
        random_state=job.seed,
        checkpoint=job.checkpoint,
    )
    return JobRunner(job, selector, federation)


def _chain(job: Job, policies: dict[str, Any]) -> Any:
    """The estimators of all steps, as one."""
    from fedsift.jobs.chain import Chain
    from fedsift.methods.registry import method_named, training_method

    steps, share = [], None
    for step in job.steps:
        if step.method == PREDICT:
            share = step.parameters["share"]
            continue
        if step.method == TRAIN:
            method, training = training_method()
            own = {**step.parameters, **training.settings}
        else:
            method, own = method_named(step.method), dict(step.parameters)
        steps.append(method.estimator(**own, random_state=step.seed))
    return Chain(
        steps,
        held_out=share,
        policy=policies or None,
        checkpoint=job.checkpoint,
        random_state=job.seed,
    )


def prepare_tables(job: Job, made_up: Mapping[str, Any] | None = None) -> JobRunner:
    """Read the parties' tables, or take made-up ones in their place."""
    from fedsift.data.part import read_part
    from fedsift.jobs.run import LocalParty
    from fedsift.jobs.spec import JointJob
    from fedsift.protocol import Policy

    data, homes, names = job.data, {}, []
    _refuse_label_elsewhere(job)
    for entry in job.parties:
        part = read_part(
            entry.name,
            entry.data if made_up is None else made_up[entry.name],
            ids=entry.id_columns,
            label=data.label_column if data.label_party in (None, entry.name) else None,
            columns=entry.columns,
            categorical=data.categorical,
        )
        names.append(part.feature_names)
        policy = None if entry.policy is None else Policy.from_mapping(entry.policy)
        homes[entry.name] = LocalParty.of(part, policy)
    counts = [len(own) for own in names]
    _refuse_too_many(job, sum(counts) if data.setting == "vertical" else counts[0])
    joint = JointJob.from_job(job)
    selector = None if job.steps else joint.selector(checkpoint=job.checkpoint)
    return JobRunner(job, selector, joint=joint, homes=homes)


def _refuse_label_elsewhere(job: Job) -> None:
    """A label that the named party does not have and another one does: a common slip."""
    from fedsift.data.files import column_names

    label, holder = job.data.label_column, job.data.label_party
    if label is None or holder is None:
        return
    # The holder first: if it has the label, nothing else is read.
    for entry in sorted(job.parties, key=lambda entry: entry.name != holder):
        if entry.data is None or label not in column_names(entry.data):
            continue
        if entry.name == holder:
            return
        raise ColumnError(
            f"Party {holder!r} has no column {label!r}.",
            "The label must be a column of the party that the job names.",
            f"Party {entry.name!r} has one: name that party with the label.",
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


def _refuse_too_many(job: Job, n_features: int) -> None:
    """A number written in the job file is meant; only the estimator's default is *at most*."""
    parameters = job.steps[0].parameters if job.steps else job.parameters
    wanted = parameters.get("n_features_to_select")
    if isinstance(wanted, int) and wanted > n_features:
        raise ParameterError(
            f"n_features_to_select = {wanted}, and the federation has {n_features} features.",
            f"A number from 1 to {n_features} is needed.",
            "Ask for fewer features, or give a share such as 0.5.",
        )
