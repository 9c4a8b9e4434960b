# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The submitter's signed job, and what members report on it, readable by the submitter alone.

The job is signed for every member, so that a hub can neither invent nor alter one.

At the end the coordinator reports the result, or every member why it could not go on. To a
submitter who watches, the coordinator reports on the way how far the job is.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from fedsift import errors
from fedsift.crypto.envelope import OrganisationKey, open_letter, seal_letter
from fedsift.engine.local import printable
from fedsift.engine.observer import ProgressSnapshot
from fedsift.engine.session import to_fault
from fedsift.errors import (
    BadEnvelope,
    BadFrame,
    FedsiftError,
    PartyFailed,
    PolicyViolation,
    ProtocolError,
    RunEnded,
)
from fedsift.result import SelectionResult


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
    def from_error(cls, site: str, error: BaseException, *, drove: bool) -> Report:
        """Report a failure; only the texts of errors that were made to be shown are included."""
        if isinstance(error, PartyFailed):
            where = (error.party, error.message, error.round_number, error.reason, error.cause_code)
            return cls(site, None, error.code, error.found, "", "", drove, *where)
        if isinstance(error, FedsiftError):
            return cls(site, None, error.code, *error.for_others, drove)
        found = f"Site {site!r} failed: {to_fault(error).text}."
        return cls(site, None, ProtocolError.code, found, drove=drove)

    def decode_result(self) -> SelectionResult:
        """Decode the result of a report that has one."""
        with _same_version("result", self.site):
            return msgspec.json.decode(self.result or b"", type=SelectionResult)

    def to_error(self) -> FedsiftError:
        """Make the error as it was raised there."""
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


_TOPICS: dict[type, str] = {Report: "report", ProgressSnapshot: "progress"}
K = TypeVar("K", Report, ProgressSnapshot)


def seal_report(
    report: Report | ProgressSnapshot,
    site: str,
    key: OrganisationKey,
    submitter: str,
    public: bytes,
    job: str,
) -> bytes:
    """Seal a report about a job so that only the submitter can read it."""
    topic = f"{_TOPICS[type(report)]} {fingerprint_of(job)}"
    content = msgspec.msgpack.encode(report, enc_hook=_to_python)
    return seal_letter(site, key, submitter, public, topic, content)


def open_report(
    kind: type[K],
    sealed: bytes,
    submitter: str,
    key: OrganisationKey,
    site: str,
    public: bytes,
    job: str,
) -> K:
    """Open a member's report about a job; refused if that member did not write it."""
    topic = f"{_TOPICS[kind]} {fingerprint_of(job)}"
    opened = open_letter(submitter, key, site, public, topic, sealed)
    with _same_version("report", site):
        return msgspec.msgpack.decode(opened, type=kind)


@contextlib.contextmanager
def _same_version(what: str, site: str) -> Iterator[None]:
    try:
        yield
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError, OverflowError):
        raise BadEnvelope(
            f"The {what} of {site!r} cannot be read.",
            "Members and submitter must run the same version of fedsift.",
            "Compare the versions.",
        ) from None


def choose_report(reports: Iterable[Report]) -> Report | None:
    """Choose the one report that says most.

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


def _to_python(value: Any) -> Any:
    """Make Python's numbers of numpy's; what is no number is left out."""
    return value.tolist() if hasattr(value, "tolist") else None


def _kinds() -> dict[str, type[FedsiftError]]:
    named = (getattr(errors, name) for name in dir(errors))
    return {
        kind.code: kind
        for kind in named
        if isinstance(kind, type) and issubclass(kind, FedsiftError)
    }


def fingerprint_of(job: str) -> str:
    """Return what names a job: the same text, the same job."""
    return hashlib.sha256(job.encode()).hexdigest()


def sign_job(
    job: str, submitter: str, key: OrganisationKey, members: Mapping[str, bytes]
) -> dict[str, str]:
    """Sign a job for every member; the signatures are texts that a job can carry.

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


def verify_job(
    job: str, member: str, key: OrganisationKey, submitter: str, public: bytes, signature: str
) -> None:
    """Refuse a job that its submitter did not sign for this member."""
    name = fingerprint_of(job)
    try:
        open_letter(member, key, submitter, public, f"job {name}", bytes.fromhex(signature))
    except (ValueError, BadEnvelope):
        raise BadEnvelope(
            f"A job that claims to come from {submitter!r} was refused.",
            "Its submitter must sign it with the key that is pinned here.",
            "Compare the pinned keys; if they are right, somebody on the way changes jobs.",
        ) from None


def encode_job(job: str, signatures: Mapping[str, str]) -> dict[str, object]:
    """Make the arguments of FLARE's classes; FLARE would read braces in a text as its own."""
    return {"job": base64.b64encode(job.encode()).decode("ascii"), "signatures": dict(signatures)}


def decode_job(given: str) -> str:
    """Read the text of a job from :func:`encode_job`."""
    try:
        return base64.b64decode(given, validate=True).decode()
    except ValueError:
        raise BadFrame(
            "The job that arrived is damaged.",
            "A job is one text in base64.",
            "Submit it again with 'fedsift deploy submit'.",
        ) from None
