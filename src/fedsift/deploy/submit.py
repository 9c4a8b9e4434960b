# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Submitting a job to a federation, watching it, and opening what it leaves for the submitter.

The job goes to the hub with a warrant for every member, so that the hub cannot alter it. At the end
the hub hands out sealed letters of the members: one holds the result, or all say why there is none.
Nobody but the submitter can read them.
"""

from __future__ import annotations

import base64
import binascii
import json
import secrets
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from fedsift.config.job import Job, load_job
from fedsift.deploy.flare.hub_session import HubRefused, HubSession
from fedsift.deploy.flare.job_folder import job_folder, text_in
from fedsift.deploy.kits import Kit
from fedsift.deploy.letters import Report, open_report, sign_job, telling
from fedsift.deploy.progress_reader import ProgressReader, coordinator_of
from fedsift.deploy.site_files import HUB, SiteSettings, load_site
from fedsift.engine.snapshot import ProgressSnapshot
from fedsift.errors import (
    BadEnvelope,
    ConfigError,
    FedsiftError,
    MemberDown,
    PartyFailed,
    PolicyViolation,
    ProtocolError,
)
from fedsift.jobs.spec import JointJob
from fedsift.methods.registry import schemas
from fedsift.result import SelectionResult

LETTERS = "fedsift.letters"
"""Command that the hub's part of a running job answers to its submitter."""

LIMIT_SECONDS = 24 * 3600.0
_POLL_SECONDS = 0.5
_PATIENCE_SECONDS = 60.0
_FORGOTTEN_SECONDS = 10.0
_RESULT_FOLDER, _LETTER_SUFFIX, _STATUS_FILE = "fedsift", ".letter", "status.json"
_NO_JOB_PROCESS = ("NoReply", "JobNotRunning", "InternalError")
_REASONS = {
    "E105": "a file of its own cannot be read",
    "E202": "its settings or the job are wrong",
    "E305": "it does not accept the submitter's key",
    "E404": "it runs another version of fedsift",
    "E405": "it did not answer",
}


@dataclass(frozen=True)
class JobState:
    """How far a job is: counts, never content.

    Parameters
    ----------
    job_id : str
        FLARE's number of the job.
    status : str
        FLARE's word for it.
    stage, round_number : int
        Which protocol of the job is played, and its round; 0 if not known yet.
    finished : tuple of str
        Members that are done.
    seconds : float
        Since it was submitted.
    news : News, optional
        Of the coordinator, in a job that is watched live.
    """

    job_id: str
    status: str
    stage: int = 0
    round_number: int = 0
    finished: tuple[str, ...] = ()
    seconds: float = 0.0
    news: ProgressSnapshot | None = None


Watcher = Callable[[JobState], None]


@dataclass(frozen=True)
class _Left:
    """What a job left at the hub."""

    letters: Mapping[str, bytes]
    status: Mapping[str, Any]
    ended: str = ""


def submit(path: Path, kit: Kit, **options: Any) -> SelectionResult:
    """Read a job file and submit it; see :func:`submit_job`."""
    from fedsift.data import catalog

    return submit_job(load_job(path, schemas(), catalog.names(), engine="flare"), kit, **options)


def submit_job(
    job: Job,
    kit: Kit,
    *,
    resume: bool = False,
    live: bool = False,
    watcher: Watcher | None = None,
    limit_seconds: float = LIMIT_SECONDS,
) -> SelectionResult:
    """Submit a job, wait for its end, and return the result.

    Parameters
    ----------
    job : Job
        Read with ``engine="flare"``.
    kit : Kit
        Of the submitter.
    resume : bool
        Go on with an interrupted run of the same job.
    live : bool
        Have the coordinator tell on the way what the result tells at the end about counts, ledger
        and course; ``watcher`` is told.
    watcher : callable, optional
        Told every change of the job's state.
    limit_seconds : float
        The job is ended if it takes longer.

    Returns
    -------
    result : SelectionResult
    """
    settings = load_site(kit.settings)
    parties = tuple(entry.name for entry in job.parties)
    members = _members(kit, settings, parties)
    nonce = secrets.token_hex(16)
    joint = JointJob.from_job(job, submitter=kit.name, resume=resume, live=live, nonce=nonce)
    text = joint.to_text()
    warrants = sign_job(text, kit.name, settings.key(), members)
    watch = _Watch(
        kit, watcher, limit_seconds, ProgressReader(kit, settings, text) if live else None
    )
    with HubSession(kit) as session, job_folder(job.method, text, warrants, parties) as folder:
        _refuse_missing(session.connected(), parties)
        job_id = session.ask("submit", folder=str(folder))["job"]
        left = watch.until_done(session, job_id)
    return _opened(left, kit, settings, text)


def fetch(job_id: str, kit: Kit) -> SelectionResult:
    """The result of a job that was submitted earlier and has ended."""
    settings = load_site(kit.settings)
    with HubSession(kit) as session:
        status = _status(session, job_id)
        if not _is_over(status):
            raise ConfigError(
                f"The job has not ended: {status}.",
                "A result is there at the end of a job.",
                "Ask again later, or watch it with 'fedsift deploy status'.",
            )
        left, text = _downloaded(session, job_id)
    return _opened(replace(left, ended=status), kit, settings, text)


def _members(kit: Kit, settings: SiteSettings, parties: tuple[str, ...]) -> dict[str, bytes]:
    """Public keys of everybody who takes part in a job."""
    strangers = [name for name in parties if name not in kit.organisations]
    if strangers:
        raise ConfigError(
            f"The job names {strangers[0]!r}, which is not in the federation.",
            f"Its organisations are: {', '.join(kit.organisations)}.",
            "Name the parties of the job after the organisations.",
        )
    missing = [name for name in (HUB, *parties) if name not in settings.pinned]
    if missing:
        raise ConfigError(
            f"{kit.name!r} has not pinned the keys of: {', '.join(missing)}.",
            "The submitter vouches for a job to every member, and checks who sealed the result.",
            "Get their key files and run 'fedsift deploy pin'.",
        )
    return {name: settings.pinned[name] for name in (HUB, *parties)}


def _refuse_missing(connected: Mapping[str, bool], parties: tuple[str, ...]) -> None:
    missing = [name for name in parties if not connected.get(name)]
    if missing:
        raise MemberDown(
            f"Not connected to the hub: {', '.join(missing)}.",
            "All organisations of a job must be up.",
            "Ask them to start with 'fedsift deploy start'; nothing was submitted.",
        )


class _Watch:
    """Follows one job; a hub that is away for a moment is dialled again."""

    def __init__(
        self,
        kit: Kit,
        watcher: Watcher | None,
        limit_seconds: float,
        reader: ProgressReader | None = None,
    ) -> None:
        self._reader = reader
        self._kit = kit
        self._watcher = watcher
        self._limit_seconds = limit_seconds
        self._start = time.monotonic()
        self._told: JobState | None = None
        self._unseen: float | None = None

    def until_done(self, session: HubSession, job_id: str) -> _Left:
        """Wait for the end of a job; an interrupt or a time limit ends it."""
        try:
            return self._followed(session, job_id)
        except MemberDown:
            return self._reconnected(job_id)
        except BaseException:
            _abort(session, job_id)
            raise

    def _reconnected(self, job_id: str) -> _Left:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                with HubSession(self._kit) as session:
                    try:
                        return self._followed(session, job_id, again=True)
                    except MemberDown:
                        raise
                    except BaseException:
                        _abort(session, job_id)
                        raise
            except MemberDown as error:
                if time.monotonic() > deadline:
                    raise MemberDown(
                        error.found,
                        f"The job {job_id} may still be running.",
                        f"When the hub is back: 'fedsift deploy result {job_id}'.",
                    ) from None
                time.sleep(_POLL_SECONDS)

    def _followed(self, session: HubSession, job_id: str, *, again: bool = False) -> _Left:
        while True:
            status = _status(session, job_id)
            if _is_over(status):
                self._tell(JobState(job_id, status))
                return replace(_downloaded(session, job_id)[0], ended=status)
            passed = self._reader.n_passed if self._reader else 0
            told = _told(session, job_id, LETTERS, passed) if status == "RUNNING" else None
            news = self._reader.read(told or {}) if self._reader else None
            self._tell(replace(_state(job_id, status, told or {}), news=news))
            if told and told.get("done"):
                return _Left(_decoded(told.get("letters", {})), told.get("status", {}))
            if again:
                waits = told is not None or status == "SUBMITTED"
                self._refuse_forgotten(session, job_id, seen=waits)
            if time.monotonic() - self._start > self._limit_seconds:
                raise ProtocolError(
                    f"The job takes longer than {self._limit_seconds:.0f} seconds.",
                    "It was given a limit.",
                    "Raise it with --limit, or ask for less.",
                )
            time.sleep(_POLL_SECONDS)

    def _refuse_forgotten(self, session: HubSession, job_id: str, *, seen: bool) -> None:
        """A hub that was started anew calls its old jobs running, though nobody runs them."""
        now = time.monotonic()
        self._unseen = None if seen else self._unseen or now
        if self._unseen is None or now - self._unseen < _FORGOTTEN_SECONDS:
            return
        if job_id not in session.ask("info")["jobs"]:
            raise ProtocolError(
                "The hub was restarted and no longer runs the job.",
                "The hub must be up for the whole length of a job.",
                "Submit the job again; with --resume it continues where it stopped, if all "
                "members keep checkpoints.",
            )

    def _tell(self, state: JobState) -> None:
        if self._watcher is not None and state != self._told:
            self._told = state
            seconds = time.monotonic() - self._start
            self._watcher(replace(state, seconds=seconds))


def _state(job_id: str, status: str, told: Mapping[str, Any]) -> JobState:
    seen = told.get("status", {})
    return JobState(
        job_id,
        status,
        int(seen.get("stage", 0)),
        int(seen.get("round", 0)),
        tuple(str(name) for name in seen.get("finished", ())),
    )


def _status(session: HubSession, job_id: str) -> str:
    try:
        return str(session.ask("status", job=job_id)["status"])
    except HubRefused as error:
        if error.kind != "JobNotFound":
            raise
        raise ConfigError(
            f"The hub knows no job {job_id!r}.",
            "The number that 'fedsift deploy submit' showed is needed.",
            "List the jobs with 'fedsift deploy status'.",
        ) from None


def _told(session: HubSession, job_id: str, topic: str, data: int = 0) -> dict[str, Any] | None:
    """What the hub's part of a running job says; nothing before it began and after it ended."""
    try:
        told: dict[str, Any] = session.ask("tell", job=job_id, topic=topic, data=data)["told"]
    except HubRefused as error:
        if error.kind in _NO_JOB_PROCESS:
            return None
        raise
    return told


def _abort(session: HubSession, job_id: str) -> None:
    try:
        session.ask("abort", job=job_id)
    except FedsiftError:
        return  # it has ended, or the hub is gone; both end it


def _is_over(status: str) -> bool:
    return status.startswith("FINISHED") or status in ("ABORTED", "REJECTED", "ABANDONED")


def _downloaded(session: HubSession, job_id: str) -> tuple[_Left, str]:
    with tempfile.TemporaryDirectory(prefix="fedsift-result-") as folder:
        place = Path(session.ask("download", job=job_id, folder=folder)["folder"])
        letters = {
            path.name.removesuffix(_LETTER_SUFFIX): path.read_bytes()
            for path in place.rglob(f"{_RESULT_FOLDER}/*{_LETTER_SUFFIX}")
        }
        status: dict[str, Any] = {}
        for path in place.rglob(f"{_RESULT_FOLDER}/{_STATUS_FILE}"):
            status = json.loads(path.read_text(encoding="utf-8"))
        return _Left(letters, status), text_in(place)


def _decoded(letters: Mapping[str, Any]) -> dict[str, bytes]:
    decoded = {}
    for name, text in letters.items():
        try:
            decoded[name] = base64.b64decode(text, validate=True)
        except (binascii.Error, TypeError, ValueError):
            continue  # a letter that the hub spoilt is no letter
    return decoded


def _opened(left: _Left, kit: Kit, settings: SiteSettings, text: str) -> SelectionResult:
    """The result, or the error that says most; what does not open was not written by a member."""
    coordinator, key, forged = coordinator_of(text), settings.key(), None
    reports: list[Report] = []
    for name, letter in left.letters.items():
        public = settings.pinned.get(name)
        if public is None:
            continue
        try:
            opened = open_report(letter, kit.name, key, name, public, text)
        except BadEnvelope as error:
            forged = error
            continue
        if opened.result is None or name == coordinator:
            reports.append(opened)
    report = telling(reports)
    if report is not None and report.result is not None:
        try:
            return msgspec.json.decode(report.result, type=SelectionResult)
        except msgspec.MsgspecError:
            raise BadEnvelope(
                f"The result of {report.site!r} cannot be read.",
                "Members and submitter must run the same version of fedsift.",
                "Compare the versions.",
            ) from None
    if report is not None:
        raise report.error()
    if forged is not None:
        raise forged
    raise _silent_end(left.status, left.ended)


def _silent_end(status: Mapping[str, Any], ended: str) -> FedsiftError:
    """Why a job ended without a letter, as far as the hub knows: names and codes."""
    if ended.endswith("CAN_NOT_SCHEDULE"):
        return MemberDown(
            "An organisation of the job does not answer the hub.",
            "All of them must be up.",
            "See who is connected with 'fedsift deploy status', then submit the job again.",
        )
    refused = status.get("refused", {})
    for name, code in sorted(refused.items(), key=lambda pair: pair[1] != PolicyViolation.code):
        found = f"{name!r} refused the job ({code}: {_REASONS.get(code, 'see its log')})."
        kind = PolicyViolation if code == PolicyViolation.code else ProtocolError
        return kind(
            found,
            "Every member must accept a job.",
            f"Ask {name!r} to look at its log.",
        )
    failed = status.get("failed", ())
    if failed:
        name = str(failed[0])
        return PartyFailed(name, "the job", int(status.get("round", 0)), "it was lost")
    return ProtocolError(
        "The job ended, and no member said why.",
        "A member leaves a letter when its part ends.",
        "Look at the logs of the hub and of the organisations.",
    )
