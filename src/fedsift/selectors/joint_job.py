# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The text of a job that several sites run: a method, parties and settings, and no path.

Where a party's table lies, what its key is and what it allows is each site's own business. The text
is canonical, so that its digest names the job: sites that have another one do not talk.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from fedsift import __version__
from fedsift.data.parties import check_names
from fedsift.errors import FedsiftError, JobError, PartyError
from fedsift.job import SETTINGS, TASKS, Job
from fedsift.methods.meeting_terms import Terms
from fedsift.selectors.registry import Method, method_named
from fedsift.toml_check import fits

FORMAT = "fedsift-job/1"
_MOST_PARTIES = 1000


class JointJob(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A job as every site knows it.

    Attributes
    ----------
    method, setting : str
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
    submitter : str
        Who gets the result.
    resume : bool
        Go on with an interrupted run of the same job.
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
    seed: int | None = None
    timeout_seconds: float | None = None
    submitter: str = ""
    resume: bool = False
    nonce: str = ""
    version: str = __version__
    format: str = FORMAT

    @classmethod
    def from_job(
        cls, job: Job, *, submitter: str = "", resume: bool = False, nonce: str = ""
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
            seed=job.seed,
            timeout_seconds=None if job.timeout_seconds is None else float(job.timeout_seconds),
            submitter=submitter,
            resume=resume,
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
            self, submitter="", resume=False, nonce="", timeout_seconds=None
        )
        return same.fingerprint

    @property
    def entry(self) -> Method:
        """The method."""
        return method_named(self.method)

    @property
    def neutral(self) -> str | None:
        """The party without data that the method needs, if it needs one."""
        return self.entry.neutral.get(self.setting)

    @property
    def chair(self) -> str:
        """The party that drives the method: the label holder, or the neutral one."""
        if self.setting == "horizontal":
            assert self.neutral is not None  # noqa: S101 - all horizontal methods have one
            return self.neutral
        return self.label_party or self.parties[0]

    def selector(self, **more: Any) -> Any:
        """The estimator, made of the job's parameters and seed."""
        return self.entry.estimator(**self.parameters, random_state=self.seed, **more)

    def terms(self, selector: Any) -> Terms:
        """What the meeting is about."""
        wanted = selector._wanted()
        return Terms(
            version=self.version,
            job=self.fingerprint,
            method=self.method,
            setting=self.setting,
            parties=self.parties,
            chair=self.chair,
            neutral=self.neutral,
            label_party=self.label_party,
            labelled=self.labelled and wanted.labels,
            aligned=self.aligned and len(self.parties) > 1,
            task=self.task,
            categorical=self.categorical,
            run=self.run_key,
            wanted=wanted,
        )

    def check(self) -> None:
        """Refuse a job that no site could run, whoever wrote it."""
        if self.format != FORMAT:
            raise _bad("it is of another format")
        if self.version != __version__:
            raise _bad(f"it was written by fedsift {self.version[:20]}")
        schema = self.entry.schema()
        if self.setting not in SETTINGS or self.setting not in schema.settings:
            raise _bad(f"{self.method} does not work in its setting")
        if self.task not in TASKS:
            raise _bad("its task is not known")
        if not 1 <= len(self.parties) <= _MOST_PARTIES:
            raise _bad("it names no parties, or too many")
        check_names(self.parties)
        if self.neutral in {party.strip().casefold() for party in self.parties}:
            raise PartyError(
                f"A party is called {self.neutral!r}.",
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
        if self.seed is not None and not 0 <= self.seed < 1 << 256:
            raise _bad("its seed is negative or too long")
        if self.timeout_seconds is not None and not 0 < self.timeout_seconds < float("inf"):
            raise _bad("its time limit is none")
        self._check_parameters()

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


def _bad(reason: str) -> JobError:
    return JobError(
        f"The job cannot be run here: {reason}.",
        f"A job of format {FORMAT} and version {__version__} is needed.",
        "Submit a job file with the same version of fedsift that the sites have.",
    )
