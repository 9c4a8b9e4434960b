# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The text of a job that several sites run: a method, parties and settings, and no path.

Where a party's table lies, what its key is and what it allows is each site's own business. The text
is canonical, so that its digest names the job: sites that have another one do not talk.

Here is also the federation as one site knows it: own parts are real, others are outlines.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from fedsift import __version__
from fedsift.config.job import CHAIN, SETTINGS, TASKS, Job
from fedsift.config.steps import PREDICT, TRAIN, UNLABELLED
from fedsift.config.toml import fits
from fedsift.data.federation import JointFederation, RemoteTable, TargetOutline, remarks_on
from fedsift.data.ids import Ids, check_names
from fedsift.data.part import LABEL, Part, recoded_target
from fedsift.data.partition import LARGEST_SEED
from fedsift.data.table import PartyTable
from fedsift.data.target import Target
from fedsift.errors import AlignmentError, FedsiftError, JobError, PartyError, ValueProblem
from fedsift.jobs.setup_terms import NO_LABELS, NUMBERS, Agreed, Terms
from fedsift.methods.registry import (
    Method,
    method_named,
    schemas,
    step_schema,
    training_method,
)
from fedsift.protocol.policy import add_budgets

FORMAT = "fedsift-job/1"
_MOST_PARTIES = 1000
_MOST_STEPS = 20


class JointStep(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One step of a chained job: a method, ``train`` or ``predict``."""

    method: str
    parameters: dict[str, Any] = {}
    seed: int | None = None


class JointJob(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A job as every site knows it.

    Attributes
    ----------
    method, setting : str
        The method is ``"chain"`` if there are steps.
    parties : tuple of str
        Parties with data, in order.
    label_party : str, optional
        Whose labels are used, in the vertical setting.
    labelled : bool
        Whether there are labels: at the label party, or at every party (horizontal).
    label_column : str, optional
        The label column, if the job insists on a name.
    aligned : bool
        Whether rows are matched by the ids that every party has.
    columns : dict of party to column names
        Features that the job wants of a party; all of them if missing.
    parameters : dict
        Of the method.
    steps : tuple of JointStep
        Of a chained job.
    submitter : str
        Who gets the result.
    resume : bool
        Go on with an interrupted run of the same job.
    live : bool
        Whether the submitter watches: the coordinator tells it on the way, sealed, what the result
        tells at the end about counts, ledger and course.
    nonce : str
        Makes every submission a job of its own, so that nobody can pass off an older result.
    """

    method: str
    setting: str
    parties: tuple[str, ...]
    label_party: str | None = None
    labelled: bool = False
    label_column: str | None = None
    aligned: bool = False
    task: str = "auto"
    categorical: tuple[str, ...] = ()
    columns: dict[str, tuple[str, ...]] = {}
    parameters: dict[str, Any] = {}
    steps: tuple[JointStep, ...] = ()
    seed: int | None = None
    timeout_seconds: float | None = None
    submitter: str = ""
    resume: bool = False
    live: bool = False
    nonce: str = ""
    version: str = __version__
    format: str = FORMAT

    @classmethod
    def from_job(
        cls,
        job: Job,
        *,
        submitter: str = "",
        resume: bool = False,
        live: bool = False,
        nonce: str = "",
    ) -> JointJob:
        """The part of a job file that all sites may see."""
        data = job.data
        vertical = data.setting == "vertical"
        made = cls(
            method=job.method,
            setting=data.setting,
            parties=tuple(entry.name for entry in job.parties),
            label_party=data.label_party,
            labelled=data.label_column is not None,
            label_column=data.label_column,
            aligned=vertical and any(entry.id_columns for entry in job.parties),
            task=data.task,
            categorical=data.categorical,
            columns={e.name: e.columns for e in job.parties if e.columns is not None},
            parameters={k: v for k, v in job.parameters.items() if k != "checkpoint"},
            steps=tuple(
                JointStep(method=step.method, parameters=dict(step.parameters), seed=step.seed)
                for step in job.steps
            ),
            seed=job.seed,
            timeout_seconds=None if job.timeout_seconds is None else float(job.timeout_seconds),
            submitter=submitter,
            resume=resume,
            live=live,
            nonce=nonce,
        )
        made.check()
        return made

    @classmethod
    def from_text(cls, text: str) -> JointJob:
        """Read what :meth:`to_text` wrote, wherever it came from."""
        try:
            job = msgspec.json.decode(text, type=cls)
        except (msgspec.MsgspecError, RecursionError):
            # The decoder's text may quote the job; whoever wrote it is not us.
            raise _bad("it is not one of this version of fedsift") from None
        if job.to_text() != text:
            raise _bad("it is not written the way fedsift writes jobs")
        job.check()
        return job

    def to_text(self) -> str:
        """Canonical JSON: the same job is the same text."""
        return msgspec.json.encode(self, order="sorted").decode()

    @property
    def fingerprint(self) -> str:
        """What names the job."""
        return hashlib.sha256(self.to_text().encode()).hexdigest()

    @property
    def run_key(self) -> str:
        """Names the computation, whoever submits it and however often it is resumed."""
        same = msgspec.structs.replace(
            self, submitter="", resume=False, live=False, nonce="", timeout_seconds=None
        )
        return same.fingerprint

    @property
    def step_parameters(self) -> tuple[dict[str, Any], ...]:
        """Parameters of all steps, or of the one method."""
        return tuple(step.parameters for step in self.steps) or (self.parameters,)

    @property
    def budgets(self) -> tuple[float, float]:
        """The sums of ``epsilon`` and ``release_epsilon`` over all steps."""
        steps = self.step_parameters
        epsilon, release = (add_budgets(steps, name) for name in ("epsilon", "release_epsilon"))
        return epsilon or 0.0, release or 0.0

    @property
    def entry(self) -> Method:
        """The method; of a chained job that of its first step."""
        return method_named(self.steps[0].method if self.steps else self.method)

    @property
    def neutral(self) -> str | None:
        """The party without data that the method needs, if it needs one."""
        if self.steps:
            return self.step(1).neutral
        return self.entry.neutral.get(self.setting)

    @property
    def neutrals(self) -> tuple[str, ...]:
        """All parties without data, of the method or of all steps."""
        jobs = [self.step(number) for number in range(1, len(self.steps) + 1)] or [self]
        return tuple(dict.fromkeys(job.neutral for job in jobs if job.neutral is not None))

    def step(self, number: int, parties: tuple[str, ...] | None = None) -> JointJob:
        """A step as a job of its own, among all parties or those that are left.

        Rows were matched before the first step. A training is a run of the model's method; a
        prediction is given as the training before it.
        """
        own = self.steps[number - 1]
        if own.method == PREDICT:
            return self.step(number - 1, parties)
        method, parameters = own.method, own.parameters
        if method == TRAIN:
            model, training = training_method()
            method, parameters = model.name, parameters | dict(training.settings)
        left = self.parties if parties is None else parties
        return msgspec.structs.replace(
            self,
            method=method,
            parameters=parameters,
            seed=own.seed,
            parties=left,
            columns={},
            categorical=(),
            aligned=False,
            steps=(),
        )

    @property
    def predicts(self) -> dict[str, Any] | None:
        """Which rows the last step predicts, if it does."""
        last = self.steps[-1] if self.steps else None
        return last.parameters if last is not None and last.method == PREDICT else None

    @property
    def has_gaps(self) -> bool:
        """Whether rows without a label take part, to be predicted."""
        return (self.predicts or {}).get("rows") == UNLABELLED

    @property
    def coordinator(self) -> str:
        """The party that drives the method: the label holder, or the neutral one."""
        if self.setting == "horizontal":
            assert self.neutral is not None  # noqa: S101 - all horizontal methods have one
            return self.neutral
        return self.label_party or self.parties[0]

    def selector(self, **more: Any) -> Any:
        """The estimator, made of the job's parameters and seed."""
        return self.entry.estimator(**self.parameters, random_state=self.seed, **more)

    def terms(self, selector: Any) -> Terms:
        """What the setup is about."""
        needs = selector._wanted()
        return Terms(
            version=self.version,
            job=self.fingerprint,
            method=self.method,
            setting=self.setting,
            parties=self.parties,
            coordinator=self.coordinator,
            neutral=self.neutral,
            label_party=self.label_party,
            labelled=self.labelled and needs.labels,
            aligned=self.aligned and len(self.parties) > 1,
            task=self.task,
            categorical=self.categorical,
            run=self.run_key,
            needs=needs,
        )

    def check(self) -> None:
        """Refuse a job that no site could run, whoever wrote it."""
        if self.format != FORMAT:
            raise _bad("it is of another format")
        if self.version != __version__:
            raise _bad(f"it was written by fedsift {self.version[:20]}")
        if (self.method == CHAIN) != bool(self.steps):
            raise _bad("it does not say clearly whether it has steps")
        if self.setting not in SETTINGS:
            raise _bad("its setting is not known")
        if self.steps:
            self._check_steps()
        elif self.setting not in self.entry.schema().settings:
            raise _bad(f"{self.method} does not work in its setting")
        if self.task not in TASKS:
            raise _bad("its task is not known")
        if not 1 <= len(self.parties) <= _MOST_PARTIES:
            raise _bad("it names no parties, or too many")
        check_names(self.parties)
        for neutral in self.neutrals:
            if neutral in {party.strip().casefold() for party in self.parties}:
                raise PartyError(
                    f"A party is called {neutral!r}.",
                    f"In {self.method} that name belongs to the neutral party without data.",
                    "Rename the party.",
                )
        vertical = self.setting == "vertical"
        if (self.label_party is not None) != (vertical and self.labelled):
            raise _bad("it does not say clearly where the labels are")
        if self.label_party is not None and self.label_party not in self.parties:
            raise _bad("its label party is none of its parties")
        if self.aligned and not vertical:
            raise _bad("it matches rows of parties that have different ones")
        if not set(self.columns) <= set(self.parties):
            raise _bad("it names columns of a party that is none of its own")
        if self.seed is not None and not 0 <= self.seed <= LARGEST_SEED:
            raise _bad("its seed is negative or too long")
        if self.timeout_seconds is not None and not 0 < self.timeout_seconds < float("inf"):
            raise _bad("its time limit is none")
        if self.steps:
            for number in range(1, len(self.steps) + 1):
                self.step(number)._check_parameters()
        else:
            self._check_parameters()

    def _check_steps(self) -> None:
        """Selections first, then a training, then a prediction, whoever wrote the job."""
        names = [step.method for step in self.steps]
        selections = [name for name in names if name not in (TRAIN, PREDICT)]
        rest = names[len(selections) :]
        if len(names) > _MOST_STEPS or rest not in ([], [TRAIN], [TRAIN, PREDICT]):
            raise _bad("its steps are too many, or in an order that makes no sense")
        if self.parameters:
            raise _bad("it has parameters outside of its steps")
        for step in self.steps:
            known = step_schema(step.method, schemas())
            if self.setting not in known.settings:
                raise _bad(f"{step.method} does not work in its setting")
            for name, value in step.parameters.items():
                if name not in known.parameters or not fits(value, known.parameters[name]):
                    raise _bad(f"{step.method} has no such parameter {name[:40]!r}")
            if step.seed is not None and not 0 <= step.seed <= LARGEST_SEED:
                raise _bad("a seed is negative or too long")
        if rest and not self.labelled:
            raise _bad("it trains a model without labels")
        if self.predicts is not None:
            _check_rows(self.predicts)

    def _check_parameters(self) -> None:
        known = self.entry.schema().parameters
        for name, value in self.parameters.items():
            if name == "checkpoint" or name not in known:
                raise _bad(f"{self.method} has no parameter {name[:40]!r} that a job could set")
            if not fits(value, known[name]):
                raise _bad(f"its parameter {name!r} is of the wrong kind")
        try:
            self.selector()
        except FedsiftError:
            raise
        except (TypeError, ValueError):
            raise _bad("its parameters do not fit the method") from None


def _check_rows(predicts: dict[str, Any]) -> None:
    unlabelled = predicts.get("rows") == UNLABELLED
    share = predicts.get("share")
    if unlabelled != (share is None) or (share is not None and not 0 < share < 1):
        raise _bad("it does not say clearly which rows to predict")


def _bad(reason: str) -> JobError:
    return JobError(
        f"The job cannot be run here: {reason}.",
        f"A job of format {FORMAT} and version {__version__} is needed.",
        "Submit a job file with the same version of fedsift that the sites have.",
    )


Rows = npt.NDArray[np.int64]


def join_federation(terms: Terms, agreed: Agreed, parts: Mapping[str, Part]) -> JointFederation:
    """Put together this site's tables and what is known of the rest.

    Parameters
    ----------
    terms : Terms
    agreed : Agreed
        What this site knows since the setup.
    parts : mapping of party to Part
        Those of this site, with the rows that take part.
    """
    if terms.setting == "vertical":
        return _vertical(terms, agreed, parts)
    tables: dict[str, PartyTable] = {}
    targets: dict[str, Target | None] = {}
    for party in agreed.features:
        codes = dict(agreed.codes.get(party, {}))
        if party in parts:
            table = parts[party].recoded(agreed.columns, codes).table
            assert table is not None  # noqa: S101 - horizontal parties have columns
            tables[party] = table
        else:
            tables[party] = RemoteTable(party, agreed.columns, agreed.n_rows.get(party, 0))
        targets[party] = _target(terms, agreed, parts.get(party), fewest_classes=1)
        own = targets[party]
        if own is not None and LABEL in codes:
            targets[party] = recoded_target(own, *codes[LABEL])
    return JointFederation(
        "horizontal", tables, terms.parties, targets=targets, total_features=agreed.n_features
    )


def _vertical(terms: Terms, agreed: Agreed, parts: Mapping[str, Part]) -> JointFederation:
    n_rows = next((part.n_rows for part in parts.values()), agreed.n_rows.get(terms.coordinator, 0))
    tables: dict[str, PartyTable] = {}
    for party, names in agreed.features.items():
        own = parts[party].table if party in parts else None
        tables[party] = RemoteTable(party, names, n_rows) if own is None else own
    target = _target(terms, agreed, parts.get(terms.coordinator), fewest_classes=2)
    if target is not None and agreed.n_classes and target.n_classes != agreed.n_classes:
        raise ValueProblem(
            "A class of the label has no rows left among those that all parties have.",
            f"The {agreed.n_classes} classes of the label are needed.",
            "Join classes, or leave the rows of rare ones out.",
        )
    return JointFederation(
        "vertical",
        tables,
        terms.parties,
        label_holder=terms.label_party,
        target=target,
        total_features=agreed.n_features,
    )


def _target(
    terms: Terms, agreed: Agreed, part: Part | None, *, fewest_classes: int
) -> Target | None:
    """Labels as agreed during setup, whatever some of the rows alone would look like."""
    if agreed.labels == NO_LABELS:
        return None
    numbers = agreed.labels == NUMBERS
    if part is None:
        return TargetOutline("numbers" if numbers else "classes", agreed.n_classes, terms.task)
    task = "regression" if numbers else "classification"
    return part.target(task, fewest_classes=fewest_classes)


def match_rows_here(ids: Mapping[str, Ids], leader: str) -> dict[str, Rows]:
    """Rows that all parties have, in the leader's order, found in the clear in this process."""
    common = set(ids[leader].tolist()).intersection(*(own.tolist() for own in ids.values()))
    if not common:
        raise AlignmentError(
            f"No id is common to all {len(ids)} parties.",
            "At least one common row is needed.",
            "Check that the same id is meant, and that it is written the same way.",
        )
    order = [text for text in ids[leader].tolist() if text in common]
    rows = {}
    for party, own in ids.items():
        place = {text: row for row, text in enumerate(own.tolist())}
        rows[party] = np.array([place[text] for text in order], dtype=np.int64)
    return rows


def remark_left_out(n_rows: Mapping[str, int], n_common: int) -> tuple[str, ...]:
    """Remarks on parties whose rows do not all take part."""
    return tuple(
        f"Party {party!r} takes part with {n_common} of {rows} rows: those that all parties have."
        for party, rows in n_rows.items()
        if n_common < rows
    )


def remarks_of(part: Part) -> tuple[str, ...]:
    """What is remarkable about one party's columns; counts only."""
    return () if part.table is None else remarks_on({part.party: part.table}, [])
