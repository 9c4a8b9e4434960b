# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What processes of a federation must agree on: tasks, topics, keys, files and job folders.

The folder that FLARE takes as a job holds two class names and the text of the job, no code.
"""

from __future__ import annotations

import contextlib
import copy
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedsift.deploy.sealed_reports import decode_job, encode_job
from fedsift.engine.timeouts import DEFAULT_TIMEOUTS
from fedsift.errors import FileProblem

SETUP, WORK = "setup", "work"
"""The tasks that the hub hands out: accept or refuse the job; run your part in it."""

RELAY = "fedsift.relay"
"""Topic of sealed messages between members."""

REPORTS = "fedsift.reports"
"""Topic of sealed reports to the hub, and of the command by which the submitter asks for them."""

PROGRESS = "fedsift.progress"
"""Topic of counts and sealed snapshots to the hub."""

SENDER, CONTENT, REFUSED = "sender", "content", "refused"
"""Keys of a message between members."""

CODE = "code"
"""Key of the reply to the setup task: empty if the member accepts the job."""

SITE, REPORT, FAILED, DROVE, SNAPSHOT = "site", "report", "failed", "drove", "snapshot"
"""Keys of a report to the hub; ``SITE`` and ``SNAPSHOT`` are keys of progress too."""

PROTOCOL, ROUND = "protocol", "round"
"""Keys of progress and of the status: number of the protocol that runs, and its round."""

WAITING = "waiting"
"""Reply to the setup task of a member where a person has to approve; such members by name."""

FINISHED = "finished"
"""Key of the status, beside ``FAILED`` and ``REFUSED``: members that are done."""

DONE, STATUS, SEALED, SNAPSHOTS, N_SNAPSHOTS = (
    "done",
    "status",
    "reports",
    "snapshots",
    "n_snapshots",
)
"""Keys of the hub's reply to a submitter."""

RESULT_FOLDER, REPORT_SUFFIX, STATUS_FILE = "fedsift", ".report", "status.json"
"""Where the result of a job holds the sealed reports and the status."""

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


SITE_CLASS = "fedsift.deploy.flare.executor.SiteExecutor"
HUB_CLASS = "fedsift.deploy.flare.controller.HubController"
RESOURCES, AUTHORIZATION, CONNECTIONS = "resources.json", "authorization.json", "comm_config.json"
LOGGING = "log_config.json"

_LOG_SHIPPING = ("log_receiver", "site_log_streamer")
_JOBS, _SNAPSHOTS = "jobs", "snapshots"
_MAX_SCHEDULES = 6
_MAX_JOBS = 4


def site_resources(default: dict[str, Any]) -> dict[str, Any]:
    """Tighten FLARE's ``resources.json`` of an organisation."""
    made = _common(default, SITE_CLASS)
    made["allow_log_streaming"] = False
    made["client"]["maint_msg_timeout"] = DEFAULT_TIMEOUTS.hub_lost_seconds
    return made


def hub_resources(default: dict[str, Any]) -> dict[str, Any]:
    """Tighten FLARE's ``resources.json`` of the hub; :func:`place_hub` completes its paths."""
    made = _common(default, HUB_CLASS)
    made["servers"][0]["heart_beat_timeout"] = DEFAULT_TIMEOUTS.site_lost_seconds
    _component(made, "job_scheduler")["args"] = {
        "max_jobs": _MAX_JOBS,
        "max_schedule_count": _MAX_SCHEDULES,
        "min_schedule_interval": DEFAULT_TIMEOUTS.schedule_seconds,
        "max_schedule_interval": DEFAULT_TIMEOUTS.longest_schedule_seconds,
    }
    return made


def place_hub(kit: Path) -> None:
    """Point the hub's stores into its own kit; FLARE wants whole paths, and kits are moved."""
    path = kit / "local" / RESOURCES
    resources = json.loads(path.read_text(encoding="utf-8"))
    _component(resources, "job_manager")["args"]["uri_root"] = str(kit / _JOBS)
    storage = resources["snapshot_persistor"]["args"]["storage"]["args"]
    storage["root_dir"] = str(kit / _SNAPSHOTS)
    path.write_text(json.dumps(resources, indent=2), encoding="utf-8")


def authorization() -> dict[str, Any]:
    """What a submitter may do: submit, watch, and see to their own jobs. Nobody else anything."""
    return {
        "format_version": "1.0",
        "permissions": {
            "lead": {
                "submit_job": "any",
                "clone_job": "none",
                "manage_job": "n:submitter",
                "download_job": "n:submitter",
                "app_command": "n:submitter",
                "view": "any",
                "operate": "none",
                "shell_commands": "none",
                "byoc": "none",
                "server-predeployed-flwr": "none",
            }
        },
    }


def connections() -> dict[str, Any]:
    """No connections beside the secured ones to the hub, and little to remember about each message.

    FLARE keeps a waiting thread for every message it received, for as long as the message might be
    repeated: more than a minute, so thousands of threads in a run of many rounds. fedsift repeats
    what was lost by itself.
    """
    return {
        "allow_adhoc_conns": False,
        "streaming_retry_timeout": DEFAULT_TIMEOUTS.stream_retry_seconds,
        "streaming_retry_wait": DEFAULT_TIMEOUTS.stream_retry_wait_seconds,
    }


def _common(default: dict[str, Any], allowed: str) -> dict[str, Any]:
    made = copy.deepcopy(default)
    made["class_list_enforcement_mode"] = "enforce"
    made["class_allow_list"] = [allowed]
    made["components"] = [
        component for component in made["components"] if component["id"] not in _LOG_SHIPPING
    ]
    return made


def _component(resources: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(c for c in resources["components"] if c["id"] == name)
    return found
