# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The submitter signs a job for every member, so that a hub can neither invent nor alter one."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping

from fedsift.crypto.envelope import OrganisationKey
from fedsift.crypto.letter import open_letter, seal_letter
from fedsift.errors import BadEnvelope, BadFrame


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
