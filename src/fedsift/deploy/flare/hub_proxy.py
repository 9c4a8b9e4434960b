# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The process that passes a submitter's commands to the hub.

It is started with ``python -m fedsift.deploy.flare.hub_proxy KIT SECONDS SECONDS``.

FLARE's client starts threads, prints, logs, and may not end when the hub goes away. Here it does so
in a process of its own, which takes one JSON request per line, gives one JSON answer per line, and
can be ended at any time. :mod:`fedsift.deploy.flare.hub_session` is the other end.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from fedsift.deploy.kits import load_kit


def main() -> None:
    """Serve requests from standard input until it ends."""
    # FLARE prints to standard output, which is ours: answers get a copy of it, prints go nowhere.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    kit = load_kit(sys.argv[1], "submitter")
    connect_seconds, command_seconds = map(float, sys.argv[2:])
    session = None
    try:
        session = _connect(kit.folder, kit.name, connect_seconds, command_seconds)
        _write(answers, {"connected": True})
        for line in sys.stdin:
            request = json.loads(line)
            if request["do"] == "close":
                break
            _write(answers, _answer(session, request))
    except Exception as error:
        _write(answers, _failure(error))
    finally:
        if session is not None:
            with contextlib.suppress(Exception):
                session.close()
        # FLARE's threads would keep the process alive.
        answers.flush()
        os._exit(0)


def _connect(folder: Path, name: str, connect_seconds: float, command_seconds: float) -> Any:
    from nvflare.fuel.flare_api.flare_api import new_secure_session

    os.chdir(folder)
    return new_secure_session(
        name,
        str(folder),
        timeout=connect_seconds,
        command_timeout=command_seconds,
        auto_login_max_tries=1,
    )


def _answer(session: Any, request: dict[str, Any]) -> dict[str, Any]:
    try:
        return _COMMANDS[request.pop("do")](session, **request)
    except Exception as error:
        return _failure(error)


def _info(session: Any) -> dict[str, Any]:
    info, now = session.get_system_info(), time.time()
    return {
        "silent": {c.name: max(0.0, now - c.last_connect_time) for c in info.client_info},
        "jobs": [job.job_id for job in info.job_info or []],
    }


def _jobs(session: Any, limit: int = 20) -> dict[str, Any]:
    listed = session.list_jobs(limit=limit, reverse=True)
    keys = ("job_id", "job_name", "status", "submit_time", "duration")
    return {"jobs": [{key: str(job.get(key, "")) for key in keys} for job in listed]}


_COMMANDS: dict[str, Callable[..., dict[str, Any]]] = {
    "info": _info,
    "jobs": _jobs,
    "submit": lambda session, folder: {"job": session.submit_job(folder)},
    "status": lambda session, job: {"status": str(session.get_job_meta(job).get("status", ""))},
    "ask job": lambda session, job, topic, data: {
        "reply": session.do_app_command(job, topic, data)
    },
    "abort": lambda session, job: {"reply": session.abort_job(job)},
    "download": lambda session, job, folder: {"folder": session.download_job_result(job, folder)},
}
"""What a submitter can ask; the other entries of a request are the command's arguments."""


def _failure(error: Exception) -> dict[str, Any]:
    """The kind of an error and its first line; FLARE's errors know no data."""
    text = str(error).strip().splitlines()
    return {"error": type(error).__name__, "text": text[0][:300] if text else ""}


def _write(answers: TextIO, content: dict[str, Any]) -> None:
    answers.write(json.dumps(content) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
