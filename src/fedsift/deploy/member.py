# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A member's part in one job, whatever carries the messages: check, run, report."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fedsift.deploy.sealed_reports import Report, fingerprint_of, seal_report, verify_job
from fedsift.deploy.site import log_failure, make_site
from fedsift.engine.observer import ProgressSnapshot, ProgressTracker
from fedsift.engine.remote.engine import SiteEngine
from fedsift.engine.remote.secure_transport import SecureTransport, Transport


class JobMember:
    """One member in one job.

    Parameters
    ----------
    name : str
    folder : Path
        The member's own settings.
    job : str
        The text of the job.
    signatures : mapping of str to str
        The submitter's signatures of the job, by member.
    session : str
        Names this run of the job.
    """

    def __init__(
        self, name: str, folder: Path, job: str, signatures: Mapping[str, str], session: str
    ) -> None:
        self.name = name
        self._job = job
        self._session = session
        self.site = make_site(folder, job, name)
        submitter, public = self.site.submitter
        verify_job(job, name, self.site.key, submitter, public, signatures.get(name, ""))
        self._engine: SiteEngine | None = None
        self._tracker = ProgressTracker(name) if self.site.reports_progress else None
        self._reported = 0

    @property
    def takes_part(self) -> bool:
        """Whether any party of the job lives here; the hub may have none."""
        return self.name in self.site.members.values()

    @property
    def driving(self) -> tuple[int, int] | None:
        """Number of the protocol that this member drives, and its round."""
        return None if self._engine is None else self._engine.driving

    def run(self, transport: Transport) -> Report:
        """Run this member's part to the end, whichever that is."""
        site = self.site
        try:
            secure = SecureTransport(
                transport,
                site.key,
                site.pinned,
                session=self._session,
                fingerprint=fingerprint_of(self._job),
                attempts=site.timeouts.attempts,
            )
            with SiteEngine(site.members, secure, site.timeouts) as engine:
                self._engine = engine
                result = site.run(engine, self._tracker)
        except Exception as error:
            log_failure(error)
            return Report.from_error(self.name, error, drove=self.driving is not None)
        return Report(self.name, result)

    def seal_progress(self) -> bytes:
        """Seal what has happened so far for the submitter; empty if nothing is new.

        Progress is a courtesy: what goes wrong with it is no reason to end a job.
        """
        try:
            snapshot = ProgressSnapshot() if self._tracker is None else self._tracker.snapshot()
            if snapshot.number <= self._reported:
                return b""
            sealed = self._seal(snapshot)
        except Exception as error:
            log_failure(error)
            return b""
        self._reported = snapshot.number
        return sealed

    def seal_report(self, report: Report) -> bytes:
        """Seal a report for the submitter; empty if there is nothing to say."""
        return self._seal(report) if report.result or report.code else b""

    def _seal(self, report: Report | ProgressSnapshot) -> bytes:
        return seal_report(report, self.name, self.site.key, *self.site.submitter, self._job)
