# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""From a job file, or shapes alone, to what can be planned, run and resumed; nothing is sent."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer

from fedsift.cli.common import one_line
from fedsift.config.job import Job, load_job
from fedsift.config.steps import PREDICT, TRAIN
from fedsift.config.toml import did_you_mean
from fedsift.data.state_files import unfinished
from fedsift.errors import (
    ColumnError,
    ConfigError,
    FedsiftError,
    FileProblem,
    ParameterError,
    ProtocolError,
)

if TYPE_CHECKING:
    from fedsift.config.job import Job
    from fedsift.config.parties import PartyEntry
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
    local_parties : mapping of party to LocalParty
        The parties' own tables, each read for itself.
    files : dict of str to str
        What the label holder keeps for itself after a run: name and text.
    """

    job: Job
    selector: Any = None
    federation: Federation | None = None
    joint: JointJob | None = None
    local_parties: Mapping[str, LocalParty] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)

    def run(self, observer: Observer | None = None) -> SelectionResult:
        """Run the method or all steps."""
        if self.federation is not None:
            return self._run_federation(self.federation, observer)
        assert self.joint is not None  # noqa: S101 - one of the two is there
        from fedsift.jobs import run
        from fedsift.jobs.chain_run import ChainRun
        from fedsift.jobs.chain_steps import PREDICTIONS

        if self.job.steps:
            self.selector = ChainRun(
                self.joint,
                self.local_parties,
                observer=observer,
                place=self.job.checkpoint,
                keep_predictions=lambda text: self.files.update({PREDICTIONS: text}),
            )
            result = self.selector.run()
        else:
            result = run.run_joint(
                self.joint, self.local_parties, observer=observer, selector=self.selector
            )
        assert result is not None  # noqa: S101 - the coordinator is here
        checked: SelectionResult = result
        return checked

    def _run_federation(self, federation: Federation, observer: Observer | None) -> SelectionResult:
        from fedsift.data.part import anonymised
        from fedsift.protocol.commitments import sign_again

        policies = self.job.policies
        limit = self.job.timeout_seconds
        self.selector.run(federation, timeout_seconds=limit, observer=observer)
        if self.job.steps:
            self.files.update(self.selector.files())
        hidden = [party for party, own in policies.items() if own.get("anonymous_names")]
        result = self.selector.result_
        replaced = anonymised(result, federation, hidden)
        return result if replaced is result else sign_again(replaced)

    def plan(self) -> tuple[Federation, Plan]:
        """The federation, and who will learn what; sends nothing."""
        if self.federation is not None:
            return self.federation, self.selector.plan(self.federation)
        assert self.joint is not None  # noqa: S101 - one of the two is there
        from fedsift.jobs.run import plan_joint

        return plan_joint(self.joint, self.local_parties, simulated=self.job.engine != "flare")


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
    from fedsift.data import catalog
    from fedsift.data.partition import split_as_described
    from fedsift.methods.registry import method_named
    from fedsift.protocol import Policy
    from fedsift.protocol.policy import check_names

    loaded = catalog.load(job.data.dataset, as_frame=True)
    federation = split_as_described(loaded.X, loaded.y, job.data, job.seed)
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
    from fedsift.protocol.policy import OPEN, RemotePolicy

    data, local_parties, names = job.data, {}, []
    joint = JointJob.from_job(job)
    selector = None if job.steps else joint.selector(checkpoint=job.checkpoint)
    _refuse_label_elsewhere(job)
    for entry in job.parties:
        part = read_part(
            entry.name,
            entry.data if made_up is None else made_up[entry.name],
            ids=entry.id_columns,
            label=data.label if data.label_party in (None, entry.name) else None,
            columns=entry.columns,
            categorical=data.categorical,
        )
        names.append(part.feature_names)
        policy = None if entry.policy is None else Policy.from_mapping(entry.policy)
        if policy is None and job.engine == "flare" and selector is not None:
            # Whether they allow the job is for organisations to say; extras they may not.
            kinds = [cls.declaration for cls in selector._wanted().choices]
            policy = RemotePolicy(
                choices=frozenset(one.kind for one in kinds),
                granted=frozenset(one.kind for one in kinds if OPEN.allows(one)),
            )
        local_parties[entry.name] = LocalParty.of(part, policy)
    counts = [len(own) for own in names]
    _refuse_too_many(job, sum(counts) if data.setting == "vertical" else counts[0])
    return JobRunner(job, selector, joint=joint, local_parties=local_parties)


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


SHAPES_NOTE = (
    "Tables are made up of numbers in the given shapes. What the organisations' own policies say, "
    "and columns with categories or gaps, is not known here."
)
_SHAPE = re.compile(r"(?P<party>.+)=(?P<rows>\d+)[xX](?P<columns>\d+)")


def prepare_shapes(job: Job, given: Sequence[str], classes: int, common: int | None) -> JobRunner:
    """A job on made-up tables.

    Parameters
    ----------
    job : Job
    given : sequence of str
        ``PARTY=ROWSxCOLUMNS`` for every party; columns without ids and label.
    classes : int
        Of the label; 0 for numbers.
    common : int, optional
        Rows that the parties have in common, where they are matched by ids; without it the
        fewest rows of a party.
    """
    from fedsift.cli.prepare import prepare_tables

    if job.data.dataset is not None:
        raise ParameterError(
            "Shapes are given for a job on a catalogued data set.",
            "Its shapes are known.",
            "Leave --shape out.",
        )
    if classes < 0 or classes == 1:
        raise ParameterError(
            f"{classes} classes of the label were given.",
            "Two or more are needed, or 0 for a label of numbers.",
            "Change --classes.",
        )
    shapes = _read([entry.name for entry in job.parties], given)
    fewest = min(rows for rows, _ in shapes.values())
    if common is not None and not 1 <= common <= fewest:
        raise ParameterError(
            f"{common} rows in common were given.",
            f"The smallest table has {fewest}.",
            "Give a number from 1 to that, or leave --common out.",
        )
    n_common = fewest if common is None else common
    frames = {
        entry.name: _made_up(job, entry, number, shapes[entry.name], classes, n_common)
        for number, entry in enumerate(job.parties)
    }
    return prepare_tables(job, frames)


def _read(parties: Sequence[str], given: Sequence[str]) -> dict[str, tuple[int, int]]:
    shapes = {}
    for text in given:
        found = _SHAPE.fullmatch(text.strip())
        if found is None or not int(found["rows"]):
            raise ParameterError(
                f"The shape {text[:60]!r} cannot be read.",
                "A shape is PARTY=ROWSxCOLUMNS, such as bank=20000x40.",
                "Write --shape once per party.",
            )
        party = found["party"].strip()
        if party not in parties:
            raise ParameterError(
                f"A shape is given for {party[:60]!r}, which is no party of the job.",
                f"Its parties: {', '.join(parties)}.",
                did_you_mean(party, parties, "Use their names."),
            )
        shapes[party] = int(found["rows"]), int(found["columns"])
    missing = [party for party in parties if party not in shapes]
    if missing:
        raise ParameterError(
            f"No shape is given for: {', '.join(missing)}.",
            "The organisations hold the tables, so 'plan' needs the size of each.",
            f"Add --shape {missing[0]}=ROWSxCOLUMNS.",
        )
    return shapes


def _made_up(
    job: Job, entry: PartyEntry, number: int, shape: tuple[int, int], classes: int, common: int
) -> Any:
    """A table of random numbers; the first rows of all parties have the same ids."""
    import pandas as pd

    rng, data = np.random.default_rng(number), job.data
    vertical = data.setting == "vertical"
    n_rows, n_columns = shape
    if vertical and not any(one.id_columns for one in job.parties):
        n_rows = common  # without ids the rows are the same at all parties
    # Where rows are split, all parties have the same columns.
    prefix = entry.name if vertical else "x"
    names = entry.columns or tuple(f"{prefix}_{i}" for i in range(n_columns))
    frame = pd.DataFrame(rng.normal(size=(n_rows, len(names))), columns=list(names))
    ids = np.arange(n_rows)
    ids[common:] += (number + 1) * 10**9
    for column in entry.id_columns:
        frame[column] = ids
    if data.label_column is not None and data.label_party in (None, entry.name):
        rows = np.random.default_rng(99).permutation(n_rows)
        frame[data.label_column] = rows % classes if classes else rng.normal(size=n_rows)
        if data.event_column is not None:
            frame[data.label_column] = rng.exponential(size=n_rows)
            frame[data.event_column] = rows % 2
    return frame


def check_place(job: Job, *, resume: bool) -> None:
    """Refuse to start over an unfinished run, and to resume where nothing can be kept."""
    place = job.checkpoint
    if place is None:
        if resume:
            raise ConfigError(
                "The job keeps no checkpoints.",
                "An interrupted run resumes from those that it kept.",
                'Add checkpoint = "..." to [runtime], and run the job without --resume.',
            )
        return
    if job.data.dataset is not None and job.data.setting == "horizontal" and job.seed is None:
        raise ConfigError(
            "The rows of the data set are split at random, and the job has no seed.",
            "A run can be resumed if the parties have the same rows again.",
            "Add seed = ... to [job], or remove checkpoint from [runtime].",
        )
    if unfinished(place):
        if not resume:
            raise FileProblem(
                f"{place} holds the checkpoints of an unfinished run.",
                "A new run needs a directory without any.",
                "Resume with --resume, or remove the directory to start again.",
            )
        typer.echo(one_line(f"Resuming the run in {place}."), err=True)
    elif resume:
        text = f"There is nothing to resume in {place}: starting from the beginning."
        typer.echo(one_line(text), err=True)


@contextlib.contextmanager
def noting_checkpoints(job: Job) -> Iterator[None]:
    """Tell whoever reads of a failure that finished rounds are kept."""
    try:
        yield
    except (FedsiftError, KeyboardInterrupt) as error:
        # What is wrong with data or settings has to be put right first.
        mendable = isinstance(error, (ProtocolError, FileProblem, KeyboardInterrupt))
        if mendable and has_unfinished(job):
            error.add_note(how_to_go_on(job))
        raise


def has_unfinished(job: Job) -> bool:
    """Whether the job has left something to go on from."""
    return job.checkpoint is not None and bool(unfinished(job.checkpoint))


def how_to_go_on(job: Job) -> str:
    """The sentence for it."""
    return (
        f"Finished rounds are kept in {job.checkpoint}: "
        f"'fedsift run {job.path.name} --resume' continues from there."
    )
