# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A member runs its part in a submitted job once.

A hub keeps jobs together with the submitter's signatures and could start one again and again, to
average out what methods round or add on purpose. Every submission has a number of its own, so a job
that was seen before is a repetition and nothing else.
"""

from __future__ import annotations

import os
from pathlib import Path

from fedsift.errors import BadEnvelope, FileProblem

SEEN_FILE = "seen-jobs.txt"


def accept_once(folder: Path, fingerprint: str) -> None:
    """Note a job, or refuse it because it was noted before.

    Parameters
    ----------
    folder : Path
        The member's settings.
    fingerprint : str
        Names the job.
    """
    path = folder / SEEN_FILE
    try:
        seen = path.read_text(encoding="ascii").split() if path.exists() else []
        if fingerprint not in seen:
            handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            with os.fdopen(handle, "w", encoding="ascii") as stream:
                stream.write(fingerprint + "\n")
            return
    except OSError as error:
        raise FileProblem(
            f"The list of jobs {path.name!r} cannot be kept: {error.strerror}.",
            "A member notes every job, so that none is run twice.",
            "Check the folder of its settings.",
        ) from None
    raise BadEnvelope(
        "The job was run here before.",
        "A submitted job is run once; a new submission is a new job.",
        "Submit it again with 'fedsift deploy submit'; if nobody did, the hub repeats old jobs.",
    )
