# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Submitting a job to a federation, watching it, and opening what it leaves for the submitter.

The job goes to the hub signed for every member, so that the hub cannot alter it. At the end the hub
hands out the members' sealed reports: one holds the result, or all say why there is none. Nobody
but the submitter can read them.
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

from fedsift.config.job import Job, load_job
from fedsift.deploy.flare import wire
from fedsift.deploy.flare.hub_session import HubRefused, HubSession
from fedsift.deploy.flare.wire import job_folder, read_job_text
from fedsift.deploy.kits import Kit
from fedsift.deploy.sealed_reports import Report, choose_report, open_report, sign_job
from fedsift.deploy.site_files import HUB, SiteSettings, load_site
from fedsift.engine.observer import ProgressSnapshot
from fedsift.engine.timeouts import DEFAULT_TIMEOUTS
from fedsift.errors import (
    BadEnvelope,
    ConfigError,
    FedsiftError,
    LedgerAltered,
    MemberDown,
    PartyFailed,
    PolicyViolation,
    ProtocolError,
)
from fedsift.jobs.spec import JointJob
from fedsift.methods.registry import schemas
from fedsift.protocol.verify import verify_result
from fedsift.result import SelectionResult

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
    protocol_number, round_number : int
        Which protocol of the job runs, and its round; 0 if not known yet.
    finished : tuple of str
        Members that are done.
    seconds : float
        Since it was submitted.
    progress : ProgressSnapshot, optional
        Of the coordinator, in a job that is watched live.
    waiting : tuple of str
        Members where a person has to approve the job.
    """

    job_id: str
    status: str
    protocol_number: int = 0
    round_number: int = 0
    finished: tuple[str, ...] = ()
    seconds: float = 0.0
    progress: ProgressSnapshot | None = None
    waiting: tuple[str, ...] = ()


Watcher = Callable[[JobState], None]


@dataclass(frozen=True)
class _JobResult:
    """What a job left at the hub."""

    reports: Mapping[str, bytes]
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
    limit_seconds: float = DEFAULT_TIMEOUTS.job_limit_seconds,
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
        Have the coordinator report on the way what the result says at the end about counts, ledger
        and course; ``watcher`` gets it.
    watcher : callable, optional
        Called at every change of the job's state.
    limit_seconds : float
        The job is ended if it takes longer.

    Returns
    -------
    result : SelectionResult

    Raises
    ------
    LedgerAltered
        If the result is not what the members signed; the error has it as ``result``.
    """
    settings = load_site(kit.settings)
    parties = tuple(entry.name for entry in job.parties)
    members = _find_keys(kit, settings, parties)
    nonce = secrets.token_hex(16)
    joint = JointJob.from_job(job, submitter=kit.name, resume=resume, live=live, nonce=nonce)
    text = joint.to_text()
    signatures = sign_job(text, kit.name, settings.key(), members)
    watch = _JobWatch(
        kit, watcher, limit_seconds, ProgressReader(kit, settings, text) if live else None
    )
    with HubSession(kit) as session, job_folder(job.method, text, signatures, parties) as folder:
        _refuse_missing(session.find_connected(), parties)
        job_id = session.ask("submit", folder=str(folder))["job"]
        left = watch.wait(session, job_id)
    return _open_result(left, kit, settings, text)


def fetch(job_id: str, kit: Kit) -> SelectionResult:
    """Return the result of a job that was submitted earlier and has ended."""
    settings = load_site(kit.settings)
    with HubSession(kit) as session:
        status = _ask_status(session, job_id)
        if not _is_over(status):
            raise ConfigError(
                f"The job has not ended: {status}.",
                "A result is there at the end of a job.",
                "Ask again later, or watch it with 'fedsift deploy status'.",
            )
        left, text = _download(session, job_id)
    return _open_result(replace(left, ended=status), kit, settings, text)


def _find_keys(kit: Kit, settings: SiteSettings, parties: tuple[str, ...]) -> dict[str, bytes]:
    """Return the public keys of everybody who takes part in a job."""
    strangers = [name for name in parties if name not in kit.organisations]
    if strangers:
        raise ConfigError(
            f"The job names {strangers[0]!r}, which is not in the federation.",
            f"Its organisations are: {', '.join(kit.organisations)}.",
            "Name the parties of the job after the organisations.",
        )
    return settings.find_keys((HUB, *parties))


def _refuse_missing(connected: Mapping[str, bool], parties: tuple[str, ...]) -> None:
    missing = [name for name in parties if not connected.get(name)]
    if missing:
        raise MemberDown(
            f"Not connected to the hub: {', '.join(missing)}.",
            "All organisations of a job must be up.",
            "Ask them to start with 'fedsift deploy start'; nothing was submitted.",
        )


class _JobWatch:
    """Follows one job; a hub that is away for a moment is connected again."""

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
        self._timeouts = DEFAULT_TIMEOUTS
        self._start = time.monotonic()
        self._shown: JobState | None = None
        self._unseen: float | None = None

    def wait(self, session: HubSession, job_id: str) -> _JobResult:
        """Wait for the end of a job; an interrupt or a time limit ends it."""
        try:
            return self._follow(session, job_id)
        except MemberDown:
            return self._reconnect(job_id)

    def _reconnect(self, job_id: str) -> _JobResult:
        deadline = time.monotonic() + self._timeouts.reconnect_seconds
        while True:
            try:
                with HubSession(self._kit) as session:
                    return self._follow(session, job_id, again=True)
            except MemberDown as error:
                if time.monotonic() > deadline:
                    raise MemberDown(
                        error.found,
                        f"The job {job_id} may still be running.",
                        f"When the hub is back: 'fedsift deploy result {job_id}'.",
                    ) from None
                time.sleep(self._timeouts.job_poll_seconds)

    def _follow(self, session: HubSession, job_id: str, *, again: bool = False) -> _JobResult:
        try:
            return self._poll(session, job_id, again=again)
        except MemberDown:
            raise
        except BaseException:
            _abort(session, job_id)
            raise

    def _poll(self, session: HubSession, job_id: str, *, again: bool) -> _JobResult:
        while True:
            status = _ask_status(session, job_id)
            if _is_over(status):
                self._show(JobState(job_id, status))
                return replace(_download(session, job_id)[0], ended=status)
            passed = self._reader.n_passed if self._reader else 0
            reply = _ask_job(session, job_id, passed) if status == "RUNNING" else None
            progress = self._reader.read(reply or {}) if self._reader else None
            self._show(replace(_read_state(job_id, status, reply or {}), progress=progress))
            if reply and reply.get(wire.DONE):
                return _JobResult(_decode(reply.get(wire.SEALED, {})), reply.get(wire.STATUS, {}))
            if again:
                waits = reply is not None or status == "SUBMITTED"
                self._refuse_forgotten(session, job_id, seen=waits)
            if time.monotonic() - self._start > self._limit_seconds:
                raise ProtocolError(
                    f"The job takes longer than {self._limit_seconds:.0f} seconds.",
                    "It was given a limit.",
                    "Raise it with --limit, or ask for less.",
                )
            time.sleep(self._timeouts.job_poll_seconds)

    def _refuse_forgotten(self, session: HubSession, job_id: str, *, seen: bool) -> None:
        """A hub that was started anew calls its old jobs running, though nobody runs them."""
        now = time.monotonic()
        self._unseen = None if seen else self._unseen or now
        if self._unseen is None or now - self._unseen < self._timeouts.forgotten_seconds:
            return
        if job_id not in session.ask("info")["jobs"]:
            raise ProtocolError(
                "The hub was restarted and no longer runs the job.",
                "The hub must be up for the whole length of a job.",
                "Submit the job again; with --resume it continues where it stopped, if all "
                "members keep checkpoints.",
            )

    def _show(self, state: JobState) -> None:
        if self._watcher is not None and state != self._shown:
            self._shown = state
            seconds = time.monotonic() - self._start
            self._watcher(replace(state, seconds=seconds))


def _read_state(job_id: str, status: str, reply: Mapping[str, Any]) -> JobState:
    seen = reply.get(wire.STATUS, {})
    return JobState(
        job_id,
        status,
        int(seen.get(wire.PROTOCOL, 0)),
        int(seen.get(wire.ROUND, 0)),
        tuple(str(name) for name in seen.get(wire.FINISHED, ())),
        waiting=tuple(str(name) for name in seen.get(wire.WAITING, ())),
    )


def _ask_status(session: HubSession, job_id: str) -> str:
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


def _ask_job(session: HubSession, job_id: str, n_passed: int) -> dict[str, Any] | None:
    """Ask the hub's part of a running job; nothing before it began and after it ended."""
    try:
        asked = session.ask("ask job", job=job_id, topic=wire.REPORTS, data=n_passed)
    except HubRefused as error:
        if error.kind in _NO_JOB_PROCESS:
            return None
        raise
    reply: dict[str, Any] = asked["reply"]
    return reply


def _abort(session: HubSession, job_id: str) -> None:
    try:
        session.ask("abort", job=job_id)
    except FedsiftError:
        return  # it has ended, or the hub is gone; both end it


def _is_over(status: str) -> bool:
    return status.startswith("FINISHED") or status in ("ABORTED", "REJECTED", "ABANDONED")


def _download(session: HubSession, job_id: str) -> tuple[_JobResult, str]:
    with tempfile.TemporaryDirectory(prefix="fedsift-result-") as folder:
        place = Path(session.ask("download", job=job_id, folder=folder)["folder"])
        reports = {
            path.name.removesuffix(wire.REPORT_SUFFIX): path.read_bytes()
            for path in place.rglob(f"{wire.RESULT_FOLDER}/*{wire.REPORT_SUFFIX}")
        }
        status: dict[str, Any] = {}
        for path in place.rglob(f"{wire.RESULT_FOLDER}/{wire.STATUS_FILE}"):
            status = json.loads(path.read_text(encoding="utf-8"))
        return _JobResult(reports, status), read_job_text(place)


def _decode(reports: Mapping[str, Any]) -> dict[str, bytes]:
    decoded = {}
    for name, text in reports.items():
        try:
            decoded[name] = base64.b64decode(text, validate=True)
        except (binascii.Error, TypeError, ValueError):
            continue  # a report that the hub damaged is no report
    return decoded


def _open_result(left: _JobResult, kit: Kit, settings: SiteSettings, text: str) -> SelectionResult:
    """Return the result, or raise the error that says most; what does not open is forged."""
    coordinator, key, forged = find_coordinator(text), settings.key(), None
    reports: list[Report] = []
    for name, sealed in left.reports.items():
        public = settings.pinned.get(name)
        if public is None:
            continue
        try:
            opened = open_report(Report, sealed, kit.name, key, name, public, text)
        except BadEnvelope as error:
            forged = error
            continue
        if opened.result is None or name == coordinator:
            reports.append(opened)
    report = choose_report(reports)
    if report is not None and report.result is not None:
        return _checked_ledger(report.decode_result(), settings)
    if report is not None:
        raise report.to_error()
    if forged is not None:
        raise forged
    raise _explain_silence(left.status, left.ended)


def _checked_ledger(result: SelectionResult, settings: SiteSettings) -> SelectionResult:
    """Refuse a result that is not what the members signed with the keys pinned here."""
    if not settings.signing:
        return result  # keys of members that were pinned with version 0.1.0
    found = verify_result(result, settings.signing)
    if found.passed:
        return result
    why = found.problems[0].text if found.problems else "Nobody signed it."
    altered = LedgerAltered(
        f"The result is not what the members signed: {why}",
        "Everything in it must be as the members signed it, with the keys pinned here.",
        "See 'fedsift verify', and ask the members before you use the result.",
    )
    altered.result = result
    raise altered


def _explain_silence(status: Mapping[str, Any], ended: str) -> FedsiftError:
    """Say why a job ended without a report, as far as the hub knows: names and codes."""
    if ended.endswith("CAN_NOT_SCHEDULE"):
        return MemberDown(
            "An organisation of the job does not answer the hub.",
            "All of them must be up.",
            "See who is connected with 'fedsift deploy status', then submit the job again.",
        )
    refused = status.get(wire.REFUSED, {})
    for name, code in sorted(refused.items(), key=lambda pair: pair[1] != PolicyViolation.code):
        found = f"{name!r} refused the job ({code}: {_REASONS.get(code, 'see its log')})."
        kind = PolicyViolation if code == PolicyViolation.code else ProtocolError
        return kind(
            found,
            "Every member must accept a job.",
            f"Ask {name!r} to look at its log.",
        )
    failed = status.get(wire.FAILED, ())
    if failed:
        name = str(failed[0])
        return PartyFailed(name, "the job", int(status.get(wire.ROUND, 0)), "it was lost")
    return ProtocolError(
        "The job ended, and no member said why.",
        "A member leaves a report when its part ends.",
        "Look at the logs of the hub and of the organisations.",
    )


def find_coordinator(text: str) -> str:
    """Return the member that leads a job, and whose result counts."""
    job = JointJob.from_text(text)
    return job.coordinator if job.coordinator in job.parties else HUB


class ProgressReader:
    """Opens what the hub passes on; what is forged, repeated or old changes nothing.

    Parameters
    ----------
    kit : Kit
        Of the submitter.
    settings : SiteSettings
    text : str
        The job.
    """

    def __init__(self, kit: Kit, settings: SiteSettings, text: str) -> None:
        self.coordinator = find_coordinator(text)
        self.n_passed = 0
        self._kit, self._key, self._text = kit, settings.key(), text
        self._public = settings.pinned.get(self.coordinator)
        self._latest: ProgressSnapshot | None = None

    def read(self, reply: Mapping[str, Any]) -> ProgressSnapshot | None:
        """Return the latest snapshot, from a reply of the hub."""
        count, snapshots = reply.get(wire.N_SNAPSHOTS), reply.get(wire.SNAPSHOTS)
        self.n_passed = count if isinstance(count, int) else 0
        site = self.coordinator
        text = snapshots.get(site) if isinstance(snapshots, dict) else None
        if isinstance(text, str) and self._public is not None:
            try:
                sealed = base64.b64decode(text, validate=True)
                names = (self._kit.name, self._key, site, self._public, self._text)
                snapshot = open_report(ProgressSnapshot, sealed, *names)
            except (ValueError, BadEnvelope):
                return self._latest
            if self._latest is None or snapshot.number > self._latest.number:
                self._latest = snapshot
        return self._latest
