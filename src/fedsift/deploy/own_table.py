# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A member's own table, as far as its settings release it to a job."""

from __future__ import annotations

from collections.abc import Sequence

from fedsift.data.part import Part, read_part
from fedsift.data.row_digests import Digests, digest_rows
from fedsift.data.sources import RawTable, label_columns, read_source
from fedsift.deploy.site_files import SiteSettings
from fedsift.errors import PolicyViolation
from fedsift.jobs.spec import JointJob


def uses_label(settings: SiteSettings, job: JointJob) -> bool:
    """Whether a job uses the labels of this member."""
    return job.labelled and (job.setting == "horizontal" or settings.name == job.label_party)


def columns_for(settings: SiteSettings, job: JointJob) -> Sequence[str] | None:
    """Return the features that a job uses here; None if all. Refuse what is not released."""
    released = label_columns(settings.label)
    if uses_label(settings, job) and (
        not released
        or job.label_column not in (None, released[0])
        or (job.task == "survival") != (len(released) == 2)
    ):
        raise _not_free(settings, "the label that the job names", "the label in its settings")
    columns, wanted = settings.columns, job.columns.get(settings.name)
    if wanted is None:
        return columns
    closed = {*settings.id_columns, *released}
    if closed & set(wanted) or (columns is not None and not set(wanted) <= set(columns)):
        raise _not_free(settings, "columns that the job names", "the columns in its settings")
    return wanted


def read_table(settings: SiteSettings) -> RawTable:
    """Read the whole table of an organisation."""
    assert settings.data is not None  # noqa: S101 - every organisation has a table
    return read_source(
        settings.data,
        party=settings.name,
        text_columns=(*settings.id_columns, *settings.categorical),
        index_columns=settings.id_columns,
    )


def digest_table(settings: SiteSettings, raw: RawTable, key: bytes) -> dict[str, Digests]:
    """Compute what the member's history recognises its rows by."""
    return digest_rows(raw, settings.id_columns, key)


def part_for(
    settings: SiteSettings, job: JointJob, raw: RawTable, columns: Sequence[str] | None
) -> Part:
    """Return what the member brings to a job."""
    part = read_part(
        settings.name,
        raw if set(job.categorical) <= set(settings.categorical) else settings.data,
        ids=settings.id_columns,
        label=settings.label,
        columns=columns,
        categorical=tuple(dict.fromkeys((*settings.categorical, *job.categorical))),
    )
    return part if uses_label(settings, job) else part.without_labels()


def _not_free(settings: SiteSettings, found: str, allowed: str) -> PolicyViolation:
    name = settings.name
    return PolicyViolation(
        f"The run needs {found}, which {name!r} has not released.",
        f"Jobs may use {allowed}.",
        f"Change the job, or ask {name!r} to change its settings.",
    )
