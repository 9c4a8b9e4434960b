# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""One run of a job at a time at a member.

A job that is resumed, or submitted twice, uses the checkpoints of its earlier run. That run may not
be over here yet: its process hung, say, and wakes up now. Two runs that write to one place would
leave states of both, which do not fit together.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from fedsift.engine.timeouts import DEFAULT_TIMEOUTS
from fedsift.errors import FileProblem


@contextlib.contextmanager
def hold_checkpoints(
    place: Path, timeout_seconds: float = DEFAULT_TIMEOUTS.checkpoint_turn_seconds
) -> Iterator[None]:
    """Hold the lock of a job's checkpoints; however a process ends, it holds nothing any more.

    Parameters
    ----------
    place : Path
        Folder of the checkpoints, which need not be there.
    timeout_seconds : float
        How long to wait for another run.
    """
    lock = place.with_name(place.name + ".lock")
    handle = _lock(lock, time.monotonic() + timeout_seconds)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            lock.unlink()
        os.close(handle)


def _lock(lock: Path, deadline: float) -> int:
    import fcntl

    while True:
        try:
            lock.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise FileProblem(
                f"The folder of the checkpoints cannot be used: {error.strerror}.",
                "A directory with enough space and write permission is needed.",
                "Check the folder of its settings.",
            ) from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever held it before has removed the file, and others may hold a new one.
            if _same_file(handle, lock):
                return handle
        except BlockingIOError:
            pass
        os.close(handle)
        if time.monotonic() > deadline:
            raise FileProblem(
                "An earlier run of this job is still going on here.",
                "Runs of one job share their checkpoints and take turns.",
                "Wait for its end, or end it, and submit the job again.",
            )
        time.sleep(DEFAULT_TIMEOUTS.lock_poll_seconds)


def _same_file(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False
