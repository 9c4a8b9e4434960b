# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Jobs that wait at a member until a person approves or rejects them, or a time limit passes."""

from __future__ import annotations

import contextlib
import datetime as dt
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from fedsift.data.row_digests import Digests
from fedsift.errors import ConfigError, JobError
from fedsift.jobs.history import Budget, History, PastJob, now_text
from fedsift.jobs.row_sets import refuse_damage
from fedsift.jobs.spec import JointJob
from fedsift.methods.registry import joint_declarations, method_named
from fedsift.protocol.policy import PlannedDisclosure, Policy

WAITING, APPROVED, REJECTED, EXPIRED = "waiting", "approved", "rejected", "expired"
_MOST_REASON = 500


class Possible(msgspec.Struct, frozen=True):
    """Something that a job may reveal: about a party with which role, and to which role."""

    about: str
    learner: str
    kind: str
    what: str


class Outlook(msgspec.Struct, frozen=True):
    """What a member sees when it looks ahead at a job.

    Attributes
    ----------
    columns : tuple of str
        Features of the member that the job uses.
    planned : tuple of PlannedDisclosure
        Who will learn what about whom, by party.
    predicted : dict
        Cost in seconds, bytes, rounds and messages; empty if it is not known.
    notes : tuple of str
        What the plan supposes.
    refusal : str
        Why the member's own policy or settings refuse the job; empty if they do not.
    budget : Budget, optional
        What is spent of the member's table, and what its policy allows.
    digests : mapping of str to ndarray, optional
        Of all rows of the member's table.
    """

    columns: tuple[str, ...] = ()
    planned: tuple[PlannedDisclosure, ...] = ()
    predicted: dict[str, Any] = {}
    notes: tuple[str, ...] = ()
    refusal: str = ""
    budget: Budget | None = None
    digests: Mapping[str, Digests] | None = None


class Request(msgspec.Struct, frozen=True):
    """A job in the inbox.

    Attributes
    ----------
    job : str
        Fingerprint of the job.
    state : {"waiting", "approved", "rejected", "expired"}
    asked, expires, decided : str
    reason : str
        Of a rejection; the submitter reads it.
    labels_from : str
        Whose labels are used; empty in a horizontal job, where everybody brings its own.
    parameters : str
        As JSON.
    may_reveal : tuple of Possible
        Where there is no plan: what the methods of the job reveal as far as the member's policy
        allows it, by role.
    before : dict of party to dict of str to int
        What parties of this job learned in earlier jobs: kinds, and in how many jobs.
    asked_columns : dict of party to column names
        Features that the job names; of parties that are missing here it uses all that they release.
    columns : tuple of str
        Features of this member that the job uses.
    rows_apart : str
        Which rows are left out of the selection and predicted; empty if none.
    planned, predicted, notes, refusal
        As of :class:`Outlook`.
    left : dict of str to float
        What is left before the job of jobs and budgets for the member's table, where there is a
        limit.
    """

    job: str
    state: str
    asked: str
    expires: str
    decided: str
    reason: str
    submitter: str
    method: str
    setting: str
    parties: tuple[str, ...]
    coordinator: str
    labels_from: str
    parameters: str
    epsilon: float
    release_epsilon: float
    may_reveal: tuple[Possible, ...]
    before: dict[str, dict[str, int]]
    asked_columns: dict[str, tuple[str, ...]] = {}
    columns: tuple[str, ...] = ()
    rows_apart: str = ""
    planned: tuple[PlannedDisclosure, ...] = ()
    predicted: dict[str, Any] = {}
    notes: tuple[str, ...] = ()
    refusal: str = ""
    left: dict[str, float] = {}


class Inbox:
    """The inbox of a member, kept in the file of its history.

    Parameters
    ----------
    folder : Path
        The member's settings.
    """

    def __init__(self, folder: Path) -> None:
        self._history = History(folder)

    def ask(self, job: JointJob, limit_seconds: float) -> tuple[str, str]:
        """Put a job into the inbox unless it is there, and return its state and the reason.

        Parameters
        ----------
        limit_seconds : float
            How long it may wait.
        """
        until = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=limit_seconds)
        with self._history.change() as db:
            db.execute(
                "INSERT OR IGNORE INTO inbox (job, text, state, asked, expires)"
                " VALUES (?, ?, ?, ?, ?)",
                (
                    job.fingerprint,
                    job.to_text(),
                    WAITING,
                    now_text(),
                    until.isoformat(timespec="microseconds"),
                ),
            )
            _expire(db)
            state, reason = db.execute(
                "SELECT state, reason FROM inbox WHERE job = ?", (job.fingerprint,)
            ).fetchone()
        return state, reason

    def decide(self, job: str, *, approve: bool, reason: str = "") -> str:
        """Approve or reject a waiting job, named by the beginning of its fingerprint.

        Returns
        -------
        job : str
            Its fingerprint.
        """
        text = "".join(c if c.isprintable() else " " for c in reason)[:_MOST_REASON].strip()
        with self._history.change() as db:
            _expire(db)
            rows = db.execute("SELECT job, state FROM inbox ORDER BY asked").fetchall()
            with refuse_damage():
                found = [(name, state) for name, state in rows if job and name.startswith(job)]
            if len(found) != 1:
                raise ConfigError(
                    f"{len(found) or 'No'} jobs in the inbox begin with {job[:64]!r}.",
                    "The beginning of one job's number is needed.",
                    "See 'fedsift deploy inbox'.",
                )
            name, state = found[0]
            if state != WAITING:
                raise ConfigError(
                    f"The job {name[:12]} is not waiting: {state}.",
                    "A job is decided once, before its time limit.",
                    "Ask the submitter to submit it again.",
                )
            db.execute(
                "UPDATE inbox SET state = ?, decided = ?, reason = ? WHERE job = ?",
                (APPROVED if approve else REJECTED, now_text(), text, name),
            )
        return str(name)

    def list_requests(
        self, policy: Policy, look_ahead: Callable[[JointJob], Outlook] | None = None
    ) -> tuple[Request, ...]:
        """Return all requests, oldest first.

        Parameters
        ----------
        policy : Policy
            Of the member.
        look_ahead : callable, optional
            Plans a job that is waiting.
        """
        if not self._history.path.exists():
            return ()
        with self._history.change() as db:
            _expire(db)
            rows = db.execute(
                "SELECT text, state, asked, expires, decided, reason FROM inbox ORDER BY asked"
            ).fetchall()
        past, found = self._history.list_jobs(), []
        for text, *rest in rows:
            # Of another version of fedsift: nobody can run it.
            with contextlib.suppress(JobError), refuse_damage():
                job = JointJob.from_text(text)
                waits = rest[0] == WAITING
                outlook = look_ahead(job) if look_ahead is not None and waits else Outlook()
                found.append(_read(job, policy, past, rest, outlook))
        return tuple(found)


def _expire(db: sqlite3.Connection) -> None:
    db.execute(
        "UPDATE inbox SET state = ?, decided = expires WHERE state = ? AND expires <= ?",
        (EXPIRED, WAITING, now_text()),
    )


def _read(
    job: JointJob,
    policy: Policy,
    past: tuple[PastJob, ...],
    decision: Sequence[str],
    outlook: Outlook,
) -> Request:
    steps = [{"method": step.method, **step.parameters} for step in job.steps]
    others = {*job.parties, *job.neutrals}
    before: dict[str, dict[str, int]] = {}
    for earlier in past:
        for learner, kind in {(row.learner, row.kind) for row in earlier.revealed}:
            if earlier.counted and learner in others:
                kinds = before.setdefault(learner, {})
                kinds[kind] = kinds.get(kind, 0) + 1
    epsilon, release = job.budgets
    state, asked, expires, decided, reason = decision
    return Request(
        job=job.fingerprint,
        state=state,
        asked=asked,
        expires=expires,
        decided=decided,
        reason=reason,
        submitter=job.submitter,
        method=" > ".join(step.method for step in job.steps) or job.method,
        setting=job.setting,
        parties=job.parties,
        coordinator=job.coordinator,
        labels_from=job.label_party or "",
        parameters=msgspec.json.encode(steps or job.parameters).decode(),
        epsilon=epsilon,
        release_epsilon=release,
        may_reveal=() if outlook.planned else tuple(dict.fromkeys(_possible(job, policy))),
        before={name: dict(sorted(kinds.items())) for name, kinds in sorted(before.items())},
        asked_columns=job.columns,
        columns=outlook.columns,
        rows_apart=_rows_apart(job),
        planned=outlook.planned,
        predicted=outlook.predicted,
        notes=outlook.notes,
        refusal=outlook.refusal,
        left=_left(outlook.budget),
    )


def _rows_apart(job: JointJob) -> str:
    """Say which rows the job predicts."""
    if job.predicts is None:
        return ""
    if job.has_gaps:
        return "rows without a label are left out and predicted"
    return f"{job.predicts['share']:.0%} of the rows are held out and predicted"


def _left(budget: Budget | None) -> dict[str, float]:
    if budget is None:
        return {}
    amounts = {name: left for name, left in budget.left().items() if left is not None}
    return {"jobs": budget.jobs_left, **amounts}


def _possible(job: JointJob, policy: Policy) -> Iterator[Possible]:
    numbers = range(1, len(job.steps) + 1)
    names = {job.step(number).method for number in numbers} or {job.method}
    declared = [*joint_declarations()]
    for name in sorted(names):
        declared += (one for kind, one in method_named(name).declarations() if kind == job.setting)
    for one in declared:
        if policy.allows(one):
            yield Possible(one.about, one.receiver, one.kind, one.text)
