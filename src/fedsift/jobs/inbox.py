# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Jobs that wait at a member until a person approves or rejects them, or a time limit passes."""

from __future__ import annotations

import contextlib
import datetime as dt
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from fedsift.errors import ConfigError, JobError
from fedsift.jobs.history import History, PastJob, now_text, refuse_damage
from fedsift.jobs.spec import JointJob
from fedsift.methods.registry import joint_declarations, method_named
from fedsift.protocol.policy import Policy

WAITING, APPROVED, REJECTED, EXPIRED = "waiting", "approved", "rejected", "expired"
_MOST_REASON = 500


class Possible(msgspec.Struct, frozen=True):
    """Something that a job may reveal: about a party with which role, and to which role."""

    about: str
    learner: str
    kind: str
    what: str


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
        What the methods of the job reveal as far as the member's policy allows it. Which of it is
        about the member depends on the role that the job gives it.
    before : dict of party to dict of str to int
        What parties of this job learned in earlier jobs: kinds, and in how many jobs.
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

    def list_requests(self, policy: Policy) -> tuple[Request, ...]:
        """Return all requests, oldest first, with what ``policy`` lets them reveal."""
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
                found.append(_read(text, policy, past, rest))
        return tuple(found)


def _expire(db: sqlite3.Connection) -> None:
    db.execute(
        "UPDATE inbox SET state = ?, decided = expires WHERE state = ? AND expires <= ?",
        (EXPIRED, WAITING, now_text()),
    )


def _read(text: str, policy: Policy, past: tuple[PastJob, ...], decision: Sequence[str]) -> Request:
    job = JointJob.from_text(text)
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
        may_reveal=tuple(dict.fromkeys(_possible(job, policy))),
        before={name: dict(sorted(kinds.items())) for name, kinds in sorted(before.items())},
    )


def _possible(job: JointJob, policy: Policy) -> Iterator[Possible]:
    numbers = range(1, len(job.steps) + 1)
    names = {job.step(number).method for number in numbers} or {job.method}
    declared = [*joint_declarations()]
    for name in sorted(names):
        declared += (one for kind, one in method_named(name).declarations() if kind == job.setting)
    for one in declared:
        if policy.allows(one):
            yield Possible(one.about, one.receiver, one.kind, one.text)
