# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A member's part in a job, built from the member's own settings and from nothing else.

The job says which parties do what; it names no file, no key and no code. What a member brings, what
it allows and whom it knows comes from its own folder. It refuses a job of a submitter or with a
coordinator that it does not know, columns or labels that it did not set free, and whatever its
policy forbids; the last two when the parties meet, so that the coordinator learns the reason.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import time
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fedsift.config.toml import PRIVATE, write_text
from fedsift.crypto.envelope import OrganisationKey
from fedsift.data.part import Part
from fedsift.data.state_files import take_lock
from fedsift.deploy.own_table import columns_for, digest_table, part_for, read_table
from fedsift.deploy.site_files import HUB, SiteSettings, load_site
from fedsift.engine import Engine
from fedsift.engine.observer import Observer
from fedsift.engine.timeouts import DEFAULT_TIMEOUTS, Timeouts
from fedsift.errors import BadEnvelope, FedsiftError, FileProblem, JobError, PolicyViolation
from fedsift.jobs.chain_files import ChainModel
from fedsift.jobs.chain_steps import PREDICTIONS
from fedsift.jobs.history import History, JobRecord
from fedsift.jobs.inbox import APPROVED, EXPIRED, REJECTED, Inbox
from fedsift.jobs.phases import KeepOwn
from fedsift.jobs.run import LocalParty, run_joint
from fedsift.jobs.spec import JointJob
from fedsift.protocol import Policy
from fedsift.protocol.policy import OPEN

OWN_FILE, RECORD_FILE = "own.json", "record.json"
_RESULTS, _MODEL = "results", "model"
_OWN_FOLDER = 0o700
_KEY_LENGTH = 32


def make_site(folder: Path, job_text: str, name: str) -> Site:
    """Read a member's settings and see whether it takes part in a job.

    Parameters
    ----------
    folder : Path
        Where the member's settings are.
    job_text : str
        As :meth:`JointJob.to_text` writes it.
    name : str
        The member, as the engine knows it.

    Returns
    -------
    site : Site
        Whatever carries the messages calls :meth:`Site.run` with an engine.
    """
    settings = load_site(Path(folder))
    job = JointJob.from_text(job_text)
    if settings.name != name:
        raise JobError(
            f"The settings here are those of {settings.name!r}, and this is {name!r}.",
            "A member has settings of its own.",
            "Use the right startup kit.",
        )
    site = Site(job, settings, settings.key())
    site.check()
    return site


@dataclass(frozen=True, eq=False, repr=False)
class Site:
    """One member in one job.

    Parameters
    ----------
    job : JointJob
    settings : SiteSettings
    key : OrganisationKey
    """

    job: JointJob
    settings: SiteSettings
    key: OrganisationKey

    def __repr__(self) -> str:
        return f"<{self.settings.name!r} in a job of {self.job.method!r}>"

    @property
    def members(self) -> dict[str, str]:
        """Party -> member where it lives; neutral parties live at the hub."""
        members = {party: party for party in self.job.parties}
        return members | dict.fromkeys(self.job.neutrals, HUB)

    @property
    def pinned(self) -> Mapping[str, bytes]:
        """Public keys of the other members."""
        return self.settings.pinned

    @property
    def submitter(self) -> tuple[str, bytes]:
        """Who submits the job, and the public key that is pinned here for that."""
        return self.job.submitter, self.settings.submitters[self.job.submitter]

    @property
    def reports_progress(self) -> bool:
        """Whether the submitter watches, and this member leads the run and so knows the course."""
        return self.job.live and self.members[self.job.coordinator] == self.settings.name

    @property
    def timeouts(self) -> Timeouts:
        """How long to wait for the others."""
        return Timeouts.for_member(self.settings.idle_seconds, self.settings.heartbeat_seconds)

    @property
    def policy(self) -> Policy:
        """What the member allows; without a policy of its own, what a run with encryption needs."""
        return policy_of(self.settings)

    def check(self) -> None:
        """Refuse a job of strangers, and one that could be passed off as another."""
        own, name = self.settings, self.settings.name
        if self.job.submitter not in own.submitters:
            raise BadEnvelope(
                f"{name!r} does not know the submitter {self.job.submitter[:60]!r}.",
                "Jobs are taken from submitters whose key is pinned here.",
                "Pin the submitter's key, if its jobs are welcome.",
            )
        if name != HUB and name not in self.job.parties:
            raise JobError(
                f"{name!r} is none of the parties of the job.",
                "A member is asked to take part in jobs that name it.",
                "Submit the job to its own parties.",
            )
        coordinator = self.members[self.job.coordinator]
        accepted = own.drivers is None or coordinator in own.drivers or coordinator == name
        for member in dict.fromkeys([coordinator, *self.members.values()]):
            if member == name or (member in own.pinned and (member != coordinator or accepted)):
                continue
            what = "as the coordinator of a run" if member == coordinator else "in a run"
            raise PolicyViolation(
                f"{name!r} does not accept {member!r} {what}.",
                "Its key must be pinned, and a coordinator must be one of the drivers it accepts.",
                f"Leave one of the two out, or ask {name!r} to change its settings.",
            )
        if not self.job.nonce:
            raise BadEnvelope(
                f"{name!r} was given a job without a number of its own.",
                "Every submission has one, so that none can be repeated.",
                "Submit the job with 'fedsift deploy submit'.",
            )

    def run(self, engine: Engine, observer: Observer | None = None) -> bytes | None:
        """Run this member's part, once; the coordinator returns the encoded result."""
        if not self.is_approved():
            raise PolicyViolation(
                f"{self.settings.name!r} has not approved the job yet.",
                "Its policy says that a person approves every job.",
                f"Wait until {self.settings.name!r} has decided.",
            )
        history = History(self.settings.folder)
        history.begin(self.job, self._table)
        try:
            result = self._run(engine, observer, history)
        except BaseException as error:
            self._end(history, error)
            raise
        self._end(history)
        return result

    def _end(self, history: History, error: BaseException | None = None) -> None:
        """Close the job in the history; an organisation also gets its record as a file."""
        history.end(self.job.fingerprint, error)
        if self.settings.output is None or self.settings.name not in self.job.parties:
            return
        (past,) = (job for job in history.list_jobs() if job.job == self.job.fingerprint)
        text = msgspec.json.format(msgspec.json.encode(past), indent=2).decode()
        try:
            write_text(self._place / RECORD_FILE, text + "\n", PRIVATE)
        except FileProblem as problem:
            log_failure(problem)  # the history has it all

    def is_approved(self) -> bool:
        """Whether the member takes part as far as people decide; asks them if they have to.

        Raises if they rejected the job, or did not decide in time.
        """
        if self.policy.approval != "ask":
            return True
        inbox, limit = Inbox(self.settings.folder), self.settings.approval_seconds
        state, reason = inbox.ask(self.job, limit)
        name = self.settings.name
        if state == EXPIRED:
            raise PolicyViolation(
                f"Nobody at {name!r} approved the job within {limit:.0f} seconds.",
                "Its policy says that a person approves every job.",
                f"Ask {name!r}, then submit the job again.",
            )
        if state == REJECTED:
            raise PolicyViolation(
                f"{name!r} rejected the job: {reason or 'no reason was given'}.",
                "Its policy says that a person approves every job.",
                f"Change the job, or talk to {name!r}.",
            )
        return state == APPROVED

    @property
    def _table(self) -> str:
        """Names the member's table in its history."""
        return "" if self.settings.data is None else str(self.settings.data)

    def _run(self, engine: Engine, observer: Observer | None, history: History) -> bytes | None:
        local_parties = {}
        for party in engine.home or ():
            if party in self.job.parties:
                record = JobRecord(history, self.job, party, self.policy, self._table)
                local_parties[party] = LocalParty(partial(self._load, record), self.policy, record)
            else:
                local_parties[party] = LocalParty(None, self.policy)
        with self._checkpoint() as place:
            result = run_joint(
                self.job,
                local_parties,
                engine,
                observer=observer,
                place=place,
                keep_own=self._keep_step() if self.job.steps else self._keep_own,
                keep_predictions=self._keep_predictions,
                keep_model=self._keep_model,
            )
        return None if result is None else msgspec.json.encode(result)

    def _load(self, record: JobRecord) -> Part:
        """Read what the job needs of the data and the settings set free, and charge the job."""
        columns = columns_for(self.settings, self.job)
        raw = read_table(self.settings)
        record.charge(digest_table(self.settings, raw, record.history.row_key))
        return part_for(self.settings, self.job, raw, columns)

    @contextlib.contextmanager
    def _checkpoint(self) -> Iterator[Path | None]:
        """A place of its own for every job; a run that is not resumed starts anew."""
        if self.settings.checkpoint is None:
            yield None
            return
        place = self.settings.checkpoint / self.job.run_key[:_KEY_LENGTH]
        with hold_checkpoints(place):
            if not self.job.resume:
                shutil.rmtree(place, ignore_errors=True)
            yield place
            with contextlib.suppress(OSError):
                place.rmdir()  # a finished run has left nothing in it

    def _keep_step(self) -> KeepOwn:
        """All steps so far in one file, as each of them ends."""
        steps: dict[str, list[dict[str, Any]]] = {}

        def keep(party: str, known: dict[str, Any]) -> None:
            steps.setdefault(party, []).append(known)
            self._keep_own(party, {"steps": steps[party]})

        return keep

    @property
    def _output(self) -> Path:
        return self.settings.output or self.settings.folder / _RESULTS

    @property
    def _place(self) -> Path:
        """A folder of its own for every job, so that none overwrites another's files."""
        return self._output / self.job.fingerprint[:_KEY_LENGTH]

    def _keep_predictions(self, text: str) -> None:
        """What the label holder learns in the end stays with it."""
        with self._keeping("its predictions"):
            write_text(self._place / PREDICTIONS, text, PRIVATE)

    def _keep_model(self, model: ChainModel) -> None:
        """This member's part of a trained model, in a folder named after the job.

        Parts of different runs do not fit together, so every run has a folder of its own.
        """
        place = self._output / _MODEL / self.job.fingerprint[:_KEY_LENGTH]
        with self._keeping("its part of the model"):
            place.mkdir(mode=_OWN_FOLDER, parents=True, exist_ok=True)
            model.save(place)

    @contextlib.contextmanager
    def _keeping(self, what: str) -> Iterator[None]:
        """Others may get to read an error; where a member keeps its files is its own business."""
        name = self.settings.name
        try:
            yield
        except (FileProblem, OSError) as error:
            log_failure(error)
            raise FileProblem(
                f"{name!r} cannot keep {what}.",
                "A folder with enough space and write permission is needed.",
                f"Ask {name!r} to look at its log, and at 'output' in its settings.",
            ) from None

    def _keep_own(self, party: str, known: dict[str, Any]) -> None:
        """What only this member may know of the run, in its own output folder."""
        if self.settings.output is not None and party in self.job.parties:
            content = {
                "party": party,
                "method": self.job.method,
                "job": self.job.fingerprint,
                "own": _plain(known),
            }
            text = msgspec.json.format(msgspec.json.encode(content), indent=2).decode()
            with self._keeping("its own view of the run"):
                write_text(self._place / OWN_FILE, text + "\n", PRIVATE)


def policy_of(settings: SiteSettings) -> Policy:
    """Return what a member allows; without a policy of its own, what encrypted runs need."""
    if settings.policy is None:
        return OPEN if settings.name == HUB else Policy()
    return Policy.from_mapping(settings.policy)


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    return [_plain(one) for one in value] if isinstance(value, (list, tuple)) else value


_log = logging.getLogger(__name__)


def log_refusal(error: Exception) -> str:
    """Log an error and return its code, all that a hub may know of it."""
    log_failure(error)
    return error.code if isinstance(error, FedsiftError) else FedsiftError.code


def log_failure(error: BaseException) -> None:
    """Say in this member's own log what went wrong; texts of foreign errors may hold data."""
    if isinstance(error, FedsiftError):
        _log.error("%s", error.one_line)
    else:
        frames = "".join(traceback.format_tb(error.__traceback__))
        _log.error("%s in\n%s", type(error).__name__, frames)


@contextlib.contextmanager
def hold_checkpoints(
    place: Path, timeout_seconds: float = DEFAULT_TIMEOUTS.checkpoint_turn_seconds
) -> Iterator[None]:
    """Hold the lock of a job's checkpoints; however a process ends, it holds nothing any more.

    Parameters
    ----------
    place : Path
        Folder of the checkpoints, which need not be there.
    timeout_seconds : float
        How long to wait for another run.
    """
    lock = place.with_name(place.name + ".lock")
    handle = _lock(lock, time.monotonic() + timeout_seconds)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            lock.unlink()
        os.close(handle)


def _lock(lock: Path, deadline: float) -> int:
    while (handle := take_lock(lock)) is None:
        if time.monotonic() > deadline:
            raise FileProblem(
                "An earlier run of this job is still going on here.",
                "Runs of one job share their checkpoints and take turns.",
                "Wait for its end, or end it, and submit the job again.",
            )
        time.sleep(DEFAULT_TIMEOUTS.lock_poll_seconds)
    return handle
