# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a member remembers of the jobs it took part in, and what it refuses because of that.

One SQLite file in the member's own folder, readable by its owner alone, holds for every job: who
submitted it, what it revealed to whom, over which rows (keyed digests, never values), and which
budget it spent. It is written before the first message that a job's data could be read from, so a
job that breaks off counts. Every change is one exclusive transaction: of several processes that
begin the same job, or spend the same budget, one comes first.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from fedsift.data.row_digests import KEY_BYTES, Digests
from fedsift.errors import BadEnvelope, FedsiftError, FileProblem, PolicyViolation
from fedsift.jobs.row_sets import (
    HISTORY_FILE,
    Table,
    earlier_rows,
    find_smallest_change,
    ids_asked_of,
    keep_rows,
    keep_table,
    last_digests,
    refuse_damage,
    spent_on,
    tell_copies_apart,
)
from fedsift.jobs.spec import JointJob
from fedsift.protocol.policy import PlannedDisclosure, Policy, check_ids_asked

MOST_JOBS = 20
"""Jobs per table where a policy does not say."""
ROWS_PER_JOB, FEWEST_JOBS = 20, 3
"""Rows that a job must use for each job on the table, and jobs that any table takes part in, where
another party has the labels and a policy does not say."""
MOST_IDS = 10
"""How many times longer than its own a list of ids may be, where a policy does not say."""

RUNNING, FINISHED, FAILED, REFUSED = "running", "finished", "failed", "refused"
_VERSION = 2
_LOCK_SECONDS = 60.0
_ROUNDING = 1e-9
_SCHEMA = """
CREATE TABLE IF NOT EXISTS member (row_key BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS jobs (
    job TEXT PRIMARY KEY, state TEXT NOT NULL, started TEXT NOT NULL,
    ended TEXT NOT NULL DEFAULT '', reason TEXT NOT NULL DEFAULT '', submitter TEXT NOT NULL,
    coordinator TEXT NOT NULL, method TEXT NOT NULL, setting TEXT NOT NULL, parties TEXT NOT NULL,
    data TEXT NOT NULL, counted INTEGER NOT NULL DEFAULT 0, n_rows INTEGER NOT NULL DEFAULT 0,
    epsilon REAL NOT NULL DEFAULT 0, release_epsilon REAL NOT NULL DEFAULT 0,
    ids_asked INTEGER NOT NULL DEFAULT 0, row_change INTEGER,
    revealed TEXT NOT NULL DEFAULT '[]');
CREATE TABLE IF NOT EXISTS inbox (
    job TEXT PRIMARY KEY, text TEXT NOT NULL, state TEXT NOT NULL, asked TEXT NOT NULL,
    expires TEXT NOT NULL, decided TEXT NOT NULL DEFAULT '', reason TEXT NOT NULL DEFAULT '');
CREATE TABLE IF NOT EXISTS row_sets (digest TEXT PRIMARY KEY, digests BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS job_rows (
    job TEXT NOT NULL REFERENCES jobs, view TEXT NOT NULL, digest TEXT NOT NULL,
    PRIMARY KEY (job, view, digest));
CREATE TABLE IF NOT EXISTS job_tables (
    job TEXT NOT NULL REFERENCES jobs, view TEXT NOT NULL, digest TEXT NOT NULL,
    PRIMARY KEY (job, view, digest));
"""


class Revealed(msgspec.Struct, frozen=True):
    """One thing that a job reveals about the member: to whom, and what."""

    learner: str
    kind: str
    what: str
    step: int = 0


class PastJob(msgspec.Struct, frozen=True):
    """A job that the member was asked to take part in.

    Attributes
    ----------
    job : str
        Fingerprint of the job.
    state : {"running", "finished", "failed", "refused"}
    data : str
        The member's table.
    counted : bool
        Whether it spent something of the table's budget; jobs that end before data is used do not.
    row_change : int or None
        Rows that remain when its sums and those of one or two earlier jobs are subtracted.
    """

    job: str
    state: str
    started: str
    ended: str
    reason: str
    submitter: str
    coordinator: str
    method: str
    setting: str
    parties: tuple[str, ...]
    data: str
    counted: bool
    n_rows: int
    epsilon: float
    release_epsilon: float
    ids_asked: int
    row_change: int | None
    revealed: tuple[Revealed, ...]


class Budget(msgspec.Struct, frozen=True):
    """What one table has spent and may spend; a limit of None is no limit."""

    data: str
    jobs: int
    most_jobs: int
    epsilon: float
    most_epsilon: float | None
    release_epsilon: float
    most_release_epsilon: float | None
    most_epsilon_total: float | None

    @property
    def jobs_left(self) -> int:
        """Jobs that the member would still take part in."""
        return max(0, self.most_jobs - self.jobs)

    def left(self) -> dict[str, float | None]:
        """What is left of every budget; None where there is no limit."""
        total = self.epsilon + self.release_epsilon
        return {
            "epsilon": _left(self.most_epsilon, self.epsilon),
            "release_epsilon": _left(self.most_release_epsilon, self.release_epsilon),
            "epsilon_total": _left(self.most_epsilon_total, total),
        }


class History:
    """The history of one member.

    Parameters
    ----------
    folder : Path
        The member's settings.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / HISTORY_FILE

    @property
    def row_key(self) -> bytes:
        """The member's secret for :func:`~fedsift.data.row_digests.digest_rows`."""
        with self.change() as db, refuse_damage():
            key: bytes = db.execute("SELECT row_key FROM member").fetchone()[0]
        return key

    def begin(self, job: JointJob, data: str = "") -> None:
        """Write a job down, or refuse it because it is there already."""
        started = now_text()
        with self.change() as db:
            # The constraint decides, whatever other processes do at the same time.
            added = db.execute(
                "INSERT OR IGNORE INTO jobs (job, state, started, submitter, coordinator, method,"
                " setting, parties, data) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    job.fingerprint, RUNNING, started, job.submitter, job.coordinator,
                    " > ".join(step.method for step in job.steps) or job.method,
                    job.setting, json.dumps(job.parties), data,
                ),
            ).rowcount  # fmt: skip
        if not added:
            raise BadEnvelope(
                "The job was run here before.",
                "A submitted job is run once; a new submission is a new job.",
                "Submit it again with 'fedsift deploy submit'; if nobody did, the hub repeats old "
                "jobs.",
            )

    def end(self, job: str, error: BaseException | None = None) -> None:
        """Write down how a job ended; if no data was used before that, it has spent nothing."""
        state = FINISHED if error is None else FAILED
        reason = error.one_line if isinstance(error, FedsiftError) else type(error).__name__
        if isinstance(error, PolicyViolation):
            state = REFUSED
        with self.change() as db:
            db.execute(
                "UPDATE jobs SET state = ?, ended = ?, reason = ? WHERE job = ?",
                (state, now_text(), "" if error is None else reason, job),
            )
            db.execute(
                "UPDATE jobs SET counted = 0, epsilon = 0, release_epsilon = 0 WHERE job = ?"
                " AND ids_asked = 0 AND job NOT IN (SELECT job FROM job_rows)",
                (job,),
            )

    def list_jobs(self) -> tuple[PastJob, ...]:
        """Return all jobs, oldest first."""
        if not self.path.exists():
            return ()
        columns = ", ".join(PastJob.__struct_fields__)
        with self.change() as db:
            rows = db.execute(f"SELECT {columns} FROM jobs ORDER BY started, rowid").fetchall()  # noqa: S608
        with refuse_damage():
            return tuple(
                _read_job(dict(zip(PastJob.__struct_fields__, row, strict=True))) for row in rows
            )

    def budget(
        self, data: str, policy: Policy, digests: Mapping[str, Digests] | None = None
    ) -> Budget:
        """Add up what jobs on a table have spent, and say what its policy allows.

        Parameters
        ----------
        data : str
            The table.
        policy : Policy
        digests : mapping of str to ndarray, optional
            Of its rows as they are now. If missing: as they were in the last job with the table.
        """
        if not self.path.exists():
            return _limits(data, policy, (0, 0.0, 0.0))
        with self.change() as db:
            table = Table(data, digests or last_digests(db, data))
            return _limits(data, policy, spent_on(db, table))

    @contextlib.contextmanager
    def change(self) -> Iterator[sqlite3.Connection]:
        """One exclusive transaction; nothing of it is kept if it fails."""
        try:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
            db = sqlite3.connect(self.path, timeout=_LOCK_SECONDS, isolation_level=None)
        except (OSError, sqlite3.Error) as error:
            raise _unusable(error) from None
        try:
            db.execute("BEGIN IMMEDIATE")
            _prepare(db)
            yield db
            db.execute("COMMIT")
        except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter: what SQLite says of it
            raise _unusable(error) from None
        finally:
            db.close()


@dataclass(eq=False)
class JobRecord:
    """A member's own record of one job, checked against its history as the job goes on.

    Parameters
    ----------
    history : History
    job : JointJob
    party : str
        The member's party in the job.
    policy : Policy
    data : str
        The member's table.
    digests : mapping of str to ndarray
        Of all rows, see :func:`~fedsift.data.row_digests.digest_rows`.
    """

    history: History
    job: JointJob
    party: str
    policy: Policy
    data: str = ""
    digests: Mapping[str, Digests] = field(default_factory=dict)

    def charge(self, digests: Mapping[str, Digests]) -> None:
        """Take the job's budget off what is left for the table, or refuse."""
        self.digests = digests
        noise, release = self.job.budgets
        with self.history.change() as db:
            jobs, epsilon, released = spent_on(db, Table(self.data, digests))
            after = (jobs + 1, epsilon + noise, released + release)
            self._refuse_beyond(_limits(self.data, self.policy, after))
            keep_table(db, self.job.fingerprint, digests)
            n_rows = len(next(iter(digests.values()), ()))
            db.execute(
                "UPDATE jobs SET counted = 1, n_rows = ?, epsilon = ?, release_epsilon = ?"
                " WHERE job = ?",
                (n_rows, noise, release, self.job.fingerprint),
            )

    def note_plan(self, planned: Iterable[PlannedDisclosure]) -> None:
        """Write down what the job is going to reveal about the party."""
        rows = (row for row in planned if row.about == self.party and row.learner != self.party)
        revealed = dict.fromkeys(
            Revealed(row.learner, row.kind, row.what, row.step) for row in rows
        )
        with self.history.change() as db:
            db.execute(
                "UPDATE jobs SET revealed = ? WHERE job = ?",
                (msgspec.json.encode(list(revealed)).decode(), self.job.fingerprint),
            )

    def check_ids(self, n_asked: int, n_own: int) -> None:
        """Refuse lists of ids that are too long, or that differ in few ids from earlier ones."""
        policy, least = self.policy, _least_change(self.policy)
        if policy.max_ids_asked is None:
            policy = Policy(max_ids_asked=MOST_IDS * n_own)
        check_ids_asked(self.party, policy, n_asked)
        with self.history.change() as db:
            # Whoever asked: lists of two organisations are subtracted like those of one.
            for before, state, change in ids_asked_of(
                db, Table(self.data, self.digests), self.job.fingerprint
            ):
                narrow = state == REFUSED and change is not None and change < least
                if narrow or 0 < abs(before - n_asked) < least:
                    raise self._violation(
                        "ids to be compared with a list that differs in few ids from an earlier "
                        "one",
                        f"lists that differ in no id, or in at least {least}",
                    )
            db.execute(
                "UPDATE jobs SET ids_asked = ? WHERE job = ?", (n_asked, self.job.fingerprint)
            )

    def admit(self, rows: Any = None, *, set_apart: bool = False) -> None:
        """Write down the rows that the job uses, or refuse if they are nearly those of others.

        Parameters
        ----------
        rows : ndarray of int, optional
            Positions in the table; all rows if missing.
        set_apart : bool
            Whether the rows that a job predicts are left out; until then there is nothing to check.
        """
        if self.job.predicts is not None and not set_apart:
            return
        least, job = _least_change(self.policy), self.job.fingerprint
        used = {
            view: tell_copies_apart(every if rows is None else every[rows])
            for view, every in self.digests.items()
        }
        with self.history.change() as db:
            found = (
                find_smallest_change(own, earlier_rows(db, view, job)) for view, own in used.items()
            )
            smallest = min((change for change in found if change is not None), default=None)
            refused = smallest is not None and smallest < least
            n_rows = len(next(iter(used.values()), ()))
            self._refuse_many(spent_on(db, Table(self.data, self.digests))[0], n_rows)
            db.execute(
                "UPDATE jobs SET row_change = ?, n_rows = ? WHERE job = ?", (smallest, n_rows, job)
            )
            for view, own in used.items() if not refused else ():
                keep_rows(db, "job_rows", job, view, own)
        if refused:
            # Others may read this: how many rows differ stays here.
            raise self._violation(
                "rows that differ in few rows from those of earlier jobs",
                f"jobs over the same rows, or over rows that differ in at least {least}",
            )

    def _refuse_many(self, n_jobs: int, n_rows: int) -> None:
        """Refuse more jobs than there are rows for: labels of choice tell about rows each time."""
        of_others = self.job.label_party not in (None, self.party)
        if self.policy.max_jobs_per_table is not None or not of_others:
            return
        if n_jobs > max(FEWEST_JOBS, n_rows // ROWS_PER_JOB):
            raise self._violation(
                "one more job on a table with few rows",
                f"{FEWEST_JOBS} jobs, and one for every {ROWS_PER_JOB} rows in use, where another "
                "party has the labels and max_jobs_per_table is missing",
            )

    def _refuse_beyond(self, budget: Budget) -> None:
        if budget.jobs > budget.most_jobs:
            raise self._violation(
                "one more job on a table", f"at most {budget.most_jobs} jobs on one table"
            )
        for name, left in budget.left().items():
            if left is not None and left < 0:
                raise self._violation(
                    f"more {name} than is left of the budget of a table",
                    "a fixed sum over all jobs and their steps",
                )

    def _violation(self, found: str, allowed: str) -> PolicyViolation:
        return PolicyViolation(
            f"The run needs {found}, which the history of party {self.party!r} forbids.",
            f"Its policy allows {allowed}.",
            f"Change the job, or ask {self.party!r} to look at 'fedsift deploy history' and at its "
            "policy.",
        )


def _prepare(db: sqlite3.Connection) -> None:
    """Make the tables of a new file; refuse a file of a later version."""
    version: int = db.execute("PRAGMA user_version").fetchone()[0]
    if version < _VERSION:
        for statement in _SCHEMA.split(";"):
            db.execute(statement)
        if version == 0:
            db.execute("INSERT INTO member VALUES (?)", (secrets.token_bytes(KEY_BYTES),))
        db.execute(f"PRAGMA user_version = {_VERSION}")
    elif version != _VERSION:
        raise FileProblem(
            f"The history is of version {version}.",
            f"This version of fedsift reads version {_VERSION}.",
            "Upgrade fedsift.",
        )


def _limits(data: str, policy: Policy, spent: tuple[int, float, float]) -> Budget:
    jobs, epsilon, release = spent
    most, total = policy.max_jobs_per_table, policy.max_epsilon_total
    return Budget(
        data,
        jobs,
        MOST_JOBS if most is None else most,
        epsilon,
        policy.max_epsilon if total is None else None,
        release,
        policy.max_release_epsilon if total is None else None,
        total,
    )


def _left(most: float | None, spent: float) -> float | None:
    if most is None:
        return None
    left = most - spent
    return 0.0 if abs(left) <= _ROUNDING * most else left


def _least_change(policy: Policy) -> int:
    return policy.min_bin_size if policy.min_row_change is None else policy.min_row_change


def _read_job(row: dict[str, Any]) -> PastJob:
    row["parties"] = json.loads(row["parties"])
    row["revealed"] = json.loads(row["revealed"])
    row["counted"] = bool(row["counted"])
    return msgspec.convert(row, PastJob)


def now_text() -> str:
    """Return the time, so that later times sort after earlier ones."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="microseconds")


def _unusable(error: Exception) -> FileProblem:
    return FileProblem(
        f"The history {HISTORY_FILE!r} cannot be kept: {error}.",
        "A member writes down every job before it takes part.",
        "Check the folder of its settings; a damaged file can be restored from a backup.",
    )
