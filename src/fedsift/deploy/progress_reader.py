# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""News of a job that its submitter watches: sealed by the coordinator, passed on by the hub."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from fedsift.deploy.kits import Kit
from fedsift.deploy.letters import open_news
from fedsift.deploy.site_files import HUB, SiteSettings
from fedsift.engine.snapshot import ProgressSnapshot
from fedsift.errors import BadEnvelope
from fedsift.jobs.spec import JointJob


def coordinator_of(text: str) -> str:
    """The member that leads a job, and whose word counts."""
    job = JointJob.from_text(text)
    return job.coordinator if job.coordinator in job.parties else HUB


class ProgressReader:
    """Opens what the hub passes on; news that is forged, repeated or old changes nothing.

    Parameters
    ----------
    kit : Kit
        Of the submitter.
    settings : SiteSettings
    text : str
        The job.
    """

    def __init__(self, kit: Kit, settings: SiteSettings, text: str) -> None:
        self.coordinator = coordinator_of(text)
        self.n_passed = 0
        self._kit, self._key, self._text = kit, settings.key(), text
        self._public = settings.pinned.get(self.coordinator)
        self._latest: ProgressSnapshot | None = None

    def read(self, told: Mapping[str, Any]) -> ProgressSnapshot | None:
        """The latest news, from an answer of the hub."""
        count, sealed = told.get("n_news"), told.get("news")
        self.n_passed = count if isinstance(count, int) else 0
        letter = sealed.get(self.coordinator) if isinstance(sealed, dict) else None
        if isinstance(letter, str) and self._public is not None:
            try:
                opened = base64.b64decode(letter, validate=True)
                name = self._kit.name
                news = open_news(
                    opened, name, self._key, self.coordinator, self._public, self._text
                )
            except (ValueError, BadEnvelope):
                return self._latest
            if self._latest is None or news.number > self._latest.number:
                self._latest = news
        return self._latest
