# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The folder that FLARE takes as a job: two class names and the text of the job, no code."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedsift.deploy.flare.files import HUB_CLASS, SITE_CLASS
from fedsift.deploy.flare.wire import SETUP, WORK
from fedsift.deploy.job_signature import decode_job, encode_job
from fedsift.engine.timeouts import DEFAULT_TIMEOUTS
from fedsift.errors import FileProblem

_APP = "fedsift"
_SERVER_FILE, _CLIENT_FILE = "config_fed_server.json", "config_fed_client.json"
# How soon a member asks or tries again where FLARE would wait longer for no reason of ours.
_VARIABLES = {
    "task_check_interval": DEFAULT_TIMEOUTS.task_check_seconds,
    "job_heartbeat_interval": DEFAULT_TIMEOUTS.job_heartbeat_seconds,
}
_SERVER = {"task_request_interval": DEFAULT_TIMEOUTS.task_request_seconds}


@contextlib.contextmanager
def job_folder(
    name: str, text: str, signatures: Mapping[str, str], organisations: Sequence[str]
) -> Iterator[Path]:
    """Write a job for FLARE; the folder is gone afterwards, as FLARE signs what is in it.

    Parameters
    ----------
    name : str
        Shown in lists of jobs.
    text : str
        The job as all members see it.
    signatures : mapping of str to str
        The submitter's signatures of it, by member.
    organisations : sequence of str
        Who takes part; the hub always does.
    """
    with tempfile.TemporaryDirectory(prefix="fedsift-job-") as made:
        folder = Path(made) / "job"
        config = folder / _APP / "config"
        config.mkdir(parents=True)
        given = encode_job(text, signatures)
        meta = {
            "name": name,
            "min_clients": len(organisations),
            "mandatory_clients": list(organisations),
            "deploy_map": {_APP: ["server", *organisations]},
            "resource_spec": {},
        }
        controller = {"id": "hub", "path": HUB_CLASS, "args": given}
        executor = {"path": SITE_CLASS, "args": given}
        version: dict[str, Any] = {"format_version": 2, **_VARIABLES}
        _write(folder / "meta.json", meta)
        _write(config / _SERVER_FILE, {**version, "server": _SERVER, "workflows": [controller]})
        entry = {"tasks": [SETUP, WORK], "executor": executor}
        _write(config / _CLIENT_FILE, {**version, "executors": [entry]})
        yield folder


def read_job_text(downloaded: Path) -> str:
    """Read the text of the job that a downloaded result belongs to."""
    for path in sorted(downloaded.rglob(_SERVER_FILE)):
        try:
            config = json.loads(path.read_text(encoding="utf-8"))
            return decode_job(config["workflows"][0]["args"]["job"])
        except (OSError, ValueError, KeyError, IndexError, TypeError):
            continue
    raise FileProblem(
        "What the hub keeps of this job is not a job of fedsift.",
        "A job that was submitted with 'fedsift deploy submit' is needed.",
        "Check the number of the job with 'fedsift deploy status'.",
    )


def _write(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=2), encoding="utf-8")
