# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""FLARE's own configuration, tightened: what a job may load, do and see at a member.

FLARE's defaults let a submitter ship code, let the hub read the sites' error logs, and keep the
jobs of all hubs of a machine in one folder. Here a job may name exactly two classes, both installed
with fedsift; nobody may ship code or run commands; logs stay where they are written.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from fedsift.engine.timeouts import DEFAULT_TIMEOUTS

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
