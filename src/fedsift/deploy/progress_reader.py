# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The progress of a watched job: sealed by the coordinator, passed on by the hub."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from fedsift.deploy.flare import wire
from fedsift.deploy.kits import Kit
from fedsift.deploy.sealed_reports import open_report
from fedsift.deploy.site_files import HUB, SiteSettings
from fedsift.engine.snapshot import ProgressSnapshot
from fedsift.errors import BadEnvelope
from fedsift.jobs.spec import JointJob


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
