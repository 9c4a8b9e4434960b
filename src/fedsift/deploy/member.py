# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A member's part in one job, whatever engine carries it: check, play, report."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from fedsift.crypto.envelope import OrganisationKey
from fedsift.deploy.failures import log_failure
from fedsift.deploy.letters import (
    Report,
    fingerprint_of,
    seal_news,
    seal_report,
    verify_job,
)
from fedsift.deploy.site import make_site
from fedsift.engine.api import Engine
from fedsift.engine.observer import Observer
from fedsift.engine.remote.engine import SiteEngine
from fedsift.engine.remote.secure_transport import SecureTransport
from fedsift.engine.remote.transport import Timeouts, Transport
from fedsift.engine.snapshot import ProgressSnapshot, ProgressTracker


class SiteWork(Protocol):
    """What a member brings to a job, all of it from its own settings.

    ``fedsift.deploy.site.make_site(folder, job, name)`` makes one: ``folder`` holds the member's
    settings, ``job`` is the text of the job, ``name`` is the member.
    """

    @property
    def members(self) -> Mapping[str, str]:
        """Party -> member that plays it, for every party of the job."""
        ...

    @property
    def key(self) -> OrganisationKey:
        """The member's own key."""
        ...

    @property
    def pinned(self) -> Mapping[str, bytes]:
        """Public keys of the other members."""
        ...

    @property
    def submitter(self) -> tuple[str, bytes]:
        """Who submits such a job, and the public key that is pinned here for that."""
        ...

    @property
    def patience(self) -> Timeouts:
        """How long to wait for the others."""
        ...

    @property
    def tells_news(self) -> bool:
        """Whether the submitter watches, and is told by this member how far the job is."""
        ...

    def run(self, engine: Engine, observer: Observer | None = None) -> bytes | None:
        """Do this member's part; only the coordinator returns the encoded result."""
        ...


class Member:
    """One member in one job.

    Parameters
    ----------
    name : str
    folder : Path
        The member's own settings.
    job : str
        The text of the job.
    warrants : mapping of str to str
        The submitter's word, by member.
    session : str
        Names this run of the job.
    """

    def __init__(
        self, name: str, folder: Path, job: str, warrants: Mapping[str, str], session: str
    ) -> None:
        self.name = name
        self._job = job
        self._session = session
        # The only code that a job can start; it is not the job's choice.
        work: SiteWork = make_site(folder, job, name)
        submitter, public = work.submitter
        verify_job(job, name, work.key, submitter, public, warrants.get(name, ""))
        self.work = work
        self._engine: SiteEngine | None = None
        self._desk = ProgressTracker(name) if work.tells_news else None
        self._told = 0

    @property
    def takes_part(self) -> bool:
        """Whether any party of the job is played here; the hub may have none."""
        return self.name in self.work.members.values()

    @property
    def progress(self) -> tuple[int, int] | None:
        """Stage and round, while this member drives."""
        return None if self._engine is None else self._engine.driving

    def run(self, line: Transport) -> Report:
        """Play this member's part to the end, whichever that is."""
        try:
            sealed = SecureTransport(
                line,
                self.work.key,
                self.work.pinned,
                session=self._session,
                fingerprint=fingerprint_of(self._job),
                attempts=self.work.patience.attempts,
            )
            with SiteEngine(self.work.members, sealed, self.work.patience) as engine:
                self._engine = engine
                result = self.work.run(engine, self._desk)
        except Exception as error:
            log_failure(error)
            return Report.of_error(self.name, error, drove=self.progress is not None)
        return Report(self.name, result)

    def news(self) -> bytes:
        """What has happened so far, sealed for the submitter; nothing if it knows that already.

        News is a courtesy: what goes wrong with it is no reason to end a job.
        """
        try:
            news = ProgressSnapshot() if self._desk is None else self._desk.news()
            if news.number <= self._told:
                return b""
            sealed = seal_news(news, self.name, self.work.key, *self.work.submitter, self._job)
        except Exception as error:
            log_failure(error)
            return b""
        self._told = news.number
        return sealed

    def letter(self, report: Report) -> bytes:
        """A report, sealed for the submitter."""
        return seal_report(report, self.work.key, *self.work.submitter, self._job)
