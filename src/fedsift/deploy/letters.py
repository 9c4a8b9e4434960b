# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What passes between a submitter and the members of a run, readable by them alone.

The submitter warrants its job to every member, so that a hub cannot start one in its name. At the
end members report to the submitter: the coordinator the result, or each why it could not go on. To
a submitter who watches, the coordinator tells on the way how far the job is.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from fedsift import errors
from fedsift.crypto.envelope import OrganisationKey
from fedsift.crypto.letter import open_letter, seal_letter
from fedsift.engine.exchange import printable
from fedsift.engine.session import fault_of
from fedsift.engine.snapshot import ProgressSnapshot
from fedsift.errors import (
    BadEnvelope,
    BadFrame,
    FedsiftError,
    PartyFailed,
    PolicyViolation,
    ProtocolError,
    RunEnded,
)


def fingerprint_of(job: str) -> str:
    """What names a job: the same text, the same job."""
    return hashlib.sha256(job.encode()).hexdigest()


def sign_job(
    job: str, submitter: str, key: OrganisationKey, members: Mapping[str, bytes]
) -> dict[str, str]:
    """The submitter's word for a job, one per member, as texts that a job can carry.

    Parameters
    ----------
    members : mapping of str to bytes
        Members and the public keys that the submitter has pinned.
    """
    name = fingerprint_of(job)
    return {
        member: seal_letter(submitter, key, member, public, f"job {name}", name.encode()).hex()
        for member, public in members.items()
    }


def job_arguments(job: str, warrants: Mapping[str, str]) -> dict[str, object]:
    """What an engine's job file passes to every member; FLARE reads braces in texts as its own."""
    return {"job": base64.b64encode(job.encode()).decode("ascii"), "warrants": dict(warrants)}


def job_text(given: str) -> str:
    """The text of a job from :func:`job_arguments`."""
    try:
        return base64.b64decode(given, validate=True).decode()
    except ValueError:
        raise BadFrame(
            "The job that arrived is damaged.",
            "A job is one text in base64.",
            "Submit it again with 'fedsift deploy submit'.",
        ) from None


def verify_job(
    job: str, member: str, key: OrganisationKey, submitter: str, public: bytes, warrant: str
) -> None:
    """Refuse a job that its submitter did not warrant to this member."""
    name = fingerprint_of(job)
    try:
        letter = bytes.fromhex(warrant)
        open_letter(member, key, submitter, public, f"job {name}", letter)
    except (ValueError, BadEnvelope):
        raise BadEnvelope(
            f"A job that claims to come from {submitter!r} was refused.",
            "Its submitter must vouch for it with the key that is pinned here.",
            "Compare the pinned keys; if they are right, someone on the way changes jobs.",
        ) from None


class Report(msgspec.Struct, frozen=True):
    """How a member's part of a job ended.

    Attributes
    ----------
    site : str
    result : bytes or None
        The coordinator's, encoded.
    code, found, needed, action
        The error, if there was one; ``code`` is empty otherwise.
    drove : bool
        Whether this member was driving a protocol when it ended.
    party, message, round_number, reason, cause_code
        If a party failed: who, at what, and when.
    """

    site: str
    result: bytes | None = None
    code: str = ""
    found: str = ""
    needed: str = ""
    action: str = ""
    drove: bool = False
    party: str = ""
    message: str = ""
    round_number: int = 0
    reason: str = ""
    cause_code: str = ""

    @classmethod
    def of_error(cls, site: str, error: BaseException, *, drove: bool) -> Report:
        """A report of failure; only errors made to be shown tell their text."""
        if isinstance(error, PartyFailed):
            where = (error.party, error.message, error.round_number, error.reason, error.cause_code)
            return cls(site, None, error.code, error.found, "", "", drove, *where)
        if isinstance(error, FedsiftError):
            return cls(site, None, error.code, *error.for_others, drove)
        found = f"Site {site!r} failed: {fault_of(error).text}."
        return cls(site, None, ProtocolError.code, found, drove=drove)

    def error(self) -> FedsiftError:
        """The error, as it was raised there."""
        if self.code == PartyFailed.code:
            return PartyFailed(
                printable(self.party),
                printable(self.message),
                self.round_number,
                printable(self.reason),
                cause_code=printable(self.cause_code),
            )
        kind = _kinds().get(self.code, RunEnded)
        made = kind.__new__(kind)
        # Some errors make their texts themselves; here the texts are there already.
        FedsiftError.__init__(
            made, printable(self.found), printable(self.needed), printable(self.action)
        )
        return made


def seal_report(
    report: Report, key: OrganisationKey, submitter: str, public: bytes, job: str
) -> bytes:
    """A report that only the submitter can read."""
    topic = f"report {fingerprint_of(job)}"
    content = msgspec.msgpack.encode(report)
    return seal_letter(report.site, key, submitter, public, topic, content)


def open_report(
    letter: bytes, submitter: str, key: OrganisationKey, site: str, public: bytes, job: str
) -> Report:
    """A member's report about this job, if that member really wrote it."""
    topic = f"report {fingerprint_of(job)}"
    opened = open_letter(submitter, key, site, public, topic, letter)
    try:
        return msgspec.msgpack.decode(opened, type=Report)
    except msgspec.MsgspecError:
        raise BadEnvelope(
            f"The report of {site!r} cannot be read.",
            "Members and submitter must run the same version of fedsift.",
            "Compare the versions.",
        ) from None


def seal_news(
    news: ProgressSnapshot, site: str, key: OrganisationKey, submitter: str, public: bytes, job: str
) -> bytes:
    """News that only the submitter can read."""
    content = msgspec.msgpack.encode(news, enc_hook=_number)
    return seal_letter(site, key, submitter, public, f"news {fingerprint_of(job)}", content)


def open_news(
    letter: bytes, submitter: str, key: OrganisationKey, site: str, public: bytes, job: str
) -> ProgressSnapshot:
    """A member's news of this job, if that member really wrote it."""
    opened = open_letter(submitter, key, site, public, f"news {fingerprint_of(job)}", letter)
    try:
        return msgspec.msgpack.decode(opened, type=ProgressSnapshot)
    except msgspec.MsgspecError:
        raise BadEnvelope(
            f"The news of {site!r} cannot be read.",
            "Members and submitter must run the same version of fedsift.",
            "Compare the versions.",
        ) from None


def telling(reports: Iterable[Report]) -> Report | None:
    """The one report that says most.

    A result; a refusal by policy; what the driver saw; who names a party; what else went wrong.
    """

    def rank(report: Report) -> int:
        if report.result is not None:
            return 0
        if report.code == PolicyViolation.code:
            return 1
        if report.code == RunEnded.code:
            return 5
        if report.drove:
            return 2
        return 3 if report.code == PartyFailed.code else 4

    return min(reports, key=rank, default=None)


def _number(value: Any) -> Any:
    """Numbers of numpy as Python has them; what is no number is left out."""
    return value.tolist() if hasattr(value, "tolist") else None


def _kinds() -> dict[str, type[FedsiftError]]:
    named = (getattr(errors, name) for name in dir(errors))
    return {
        kind.code: kind
        for kind in named
        if isinstance(kind, type) and issubclass(kind, FedsiftError)
    }
