# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Starting and stopping a member's processes, by recorded process number.

FLARE runs one process per member that stays, and one per member and job, in a session of its own
that outlives the first. The number and the birth of the former are written down; the latter are
found by the kit's folder on their command line, so that stopping a member leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import msgspec

from fedsift.deploy.flare import wire as flare_files
from fedsift.deploy.kits import Kit
from fedsift.deploy.provision import require_flare
from fedsift.deploy.site_files import load_site
from fedsift.engine.timeouts import DEFAULT_TIMEOUTS
from fedsift.errors import ConfigError, FileProblem, MemberDown

_RUN, _RECORD, _CONSOLE, _LOG = "run", "process.json", "console.log", "log.txt"
_APPS = "nvflare.private.fed.app."
_MODULES = {
    "hub": (_APPS + "server.server_train", "fed_server.json"),
    "organisation": (_APPS + "client.client_train", "fed_client.json"),
}
_JOB_MODULES = (_APPS + "server.runner_process", _APPS + "client.worker_process")
_REGISTERED = b"Successfully registered client:"
_SAME_BIRTH_SECONDS = 2.0


class _Record(msgspec.Struct, frozen=True):
    """What is written down about a started process."""

    pid: int
    born: float
    folder: str


@dataclass(frozen=True)
class Running:
    """A member that is up."""

    pid: int
    since: float
    job_pids: tuple[int, ...]


def start(kit: Kit) -> int:
    """Start a member in the background.

    Parameters
    ----------
    kit : Kit
        Of the hub or of an organisation, with its settings complete.

    Returns
    -------
    pid : int
    """
    command = command_of(kit)
    with open_log(kit, _CONSOLE) as console, open(os.devnull, encoding="utf-8") as nothing:
        redirected = [
            (os.POSIX_SPAWN_DUP2, nothing.fileno(), 0),
            (os.POSIX_SPAWN_DUP2, console.fileno(), 1),
            (os.POSIX_SPAWN_DUP2, console.fileno(), 2),
        ]
        # A session of its own: Ctrl-C in this terminal must not reach it.
        pid = os.posix_spawn(command[0], command, os.environ, file_actions=redirected, setsid=True)
    _record(kit, pid)
    return pid


def run_here(kit: Kit) -> None:
    """Become the member's process; for a supervisor such as systemd."""
    command = command_of(kit)
    _run_folder(kit)
    _record(kit, os.getpid())
    os.execv(command[0], command)  # noqa: S606 - an argument list, no shell


def command_of(kit: Kit) -> list[str]:
    """Check that a member can start, and say how."""
    require_flare()
    if not hasattr(os, "posix_spawn"):
        raise ConfigError(
            f"Members of a federation cannot be started on {sys.platform}.",
            "Hub and organisations run on Linux or macOS; 'fedsift run' works anywhere.",
            "Start the member there, for instance in a container.",
        )
    if kit.kind not in _MODULES:
        raise ConfigError(
            f"The kit of {kit.name!r} is a submitter's: there is nothing to start.",
            "The hub and the organisations have processes.",
            "Submit with 'fedsift deploy submit'.",
        )
    check_ready(kit)
    running = status(kit)
    if running is not None:
        raise ConfigError(
            f"{kit.name!r} is running already, as process {running.pid}.",
            "A member runs once.",
            "Stop it first with 'fedsift deploy stop'.",
        )
    for path in (str(kit.folder), sys.executable):
        if re.search(r"[\s'\"\\]", path):
            raise FileProblem(
                f"The path {path} has a blank or a quote in it.",
                "FLARE passes it on without quotes.",
                "Move the kit to another folder.",
            )
    module, settings = _MODULES[kit.kind]
    shared = ["secure_train=true", "config_folder=config"]
    if kit.kind == "hub":
        _refuse_taken_port(kit)
        flare_files.place_hub(kit.folder)
        given = [*shared, "org=hub"]
    else:
        named = [f"uid={kit.name}", f"org={kit.name.replace('-', '_')}"]
        given = [
            *shared,
            *named,
            f"heart_beat_interval={DEFAULT_TIMEOUTS.member_heartbeat_seconds}",
        ]
    arguments = ["-m", str(kit.folder), "-s", settings, "--set", *given]
    return [sys.executable, "-u", "-m", module, *arguments]


def check_ready(kit: Kit) -> None:
    """Refuse a kit whose settings are not complete: data, own key, keys of the others."""
    settings = load_site(kit.settings)
    settings.key()
    settings.find_keys(name for name in kit.members if name != kit.name)
    if not settings.submitters:
        raise ConfigError(
            f"{kit.name!r} accepts no submitter.",
            "A job runs only for a submitter whose key is pinned.",
            "Get the submitter's key file and run 'fedsift deploy pin'.",
        )


def wait_until_up(kit: Kit, timeout_seconds: float = DEFAULT_TIMEOUTS.member_start_seconds) -> None:
    """Wait until the hub listens, or until an organisation has registered with it."""
    deadline = time.monotonic() + timeout_seconds
    while not _is_up(kit):
        if status(kit) is None:
            raise MemberDown(
                f"{kit.name!r} ended while it started.",
                "It must stay up to take part.",
                f"See 'fedsift deploy logs {kit.folder}'.",
            )
        if time.monotonic() > deadline:
            raise MemberDown(
                f"{kit.name!r} is not ready after {timeout_seconds:.0f} seconds.",
                f"It must reach the hub at {kit.host}:{port_of(kit)}."
                if kit.kind == "organisation"
                else "It must listen for the organisations.",
                f"See 'fedsift deploy logs {kit.folder}'; it keeps trying.",
            )
        time.sleep(DEFAULT_TIMEOUTS.process_poll_seconds)


def status(kit: Kit) -> Running | None:
    """Return the running process of a kit, if there is one."""
    record, process = _find_process(kit)
    if record is None or process is None:
        return None
    return Running(record.pid, record.born, job_pids(kit))


def job_pids(kit: Kit) -> tuple[int, ...]:
    """Processes that carry jobs for this member, whoever their parent is by now."""
    import psutil

    record, _ = _find_process(kit)
    folders = {str(kit.folder), str(kit.folder.resolve())} | ({record.folder} if record else set())
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        command = process.info["cmdline"] or []
        if process.info["status"] == psutil.STATUS_ZOMBIE or not folders & set(command):
            continue
        if any(module in command for module in _JOB_MODULES):
            found.append(process.pid)
    return tuple(sorted(found))


def stop(kit: Kit, grace_seconds: float = DEFAULT_TIMEOUTS.process_end_seconds) -> tuple[int, ...]:
    """End a member and the jobs it carries; the numbers of the processes that were ended."""
    import psutil

    ended: list[int] = []
    jobs = _processes(job_pids(kit))
    if jobs:
        # First the jobs: the member's own process then informs the hub, and others need not wait.
        ended += _end(jobs, grace_seconds)
        time.sleep(DEFAULT_TIMEOUTS.job_end_notice_seconds)
    _, parent = _find_process(kit)
    if parent is not None:
        ended += _end([parent], grace_seconds)
    ended += _end(_processes(job_pids(kit)), grace_seconds)
    left = [pid for pid in job_pids(kit) if psutil.pid_exists(pid)]
    if left:
        raise MemberDown(
            f"Processes of {kit.name!r} do not end: {', '.join(map(str, left))}.",
            "They must be gone before the member starts again.",
            "End them by hand.",
        )
    (kit.folder / _RUN / _RECORD).unlink(missing_ok=True)
    return tuple(ended)


def stop_all(
    kits: Iterable[Kit], grace_seconds: float = DEFAULT_TIMEOUTS.process_end_seconds
) -> None:
    """End several members at once, where nobody is left who would have to know."""
    kits = list(kits)
    found = []
    for kit in kits:
        _, parent = _find_process(kit)
        found += ([] if parent is None else [parent]) + _processes(job_pids(kit))
    _end(found, grace_seconds)
    for kit in kits:
        stop(kit, grace_seconds)


def send(pids: Iterable[int], number: int) -> None:
    """Send a signal to processes; those that are gone are left out."""
    for process in _processes(pids):
        _signal(process, number)


def wait_until_gone(
    pids: Iterable[int], timeout_seconds: float = DEFAULT_TIMEOUTS.process_end_seconds
) -> None:
    """Wait for processes to end, and take note of those that were ours."""
    import psutil

    psutil.wait_procs(_processes(pids), timeout=timeout_seconds)


def log_files(kit: Kit) -> tuple[Path, ...]:
    """Return a member's logs, the one that says most first."""
    places = (kit.folder / _LOG, kit.folder / _RUN / _CONSOLE)
    return tuple(path for path in places if path.is_file())


def open_log(kit: Kit, name: str) -> TextIO:
    """Open an empty log in a kit, readable by its owner alone."""
    path = _run_folder(kit) / name
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    return os.fdopen(handle, "w", encoding="utf-8")


def port_of(kit: Kit) -> int:
    """Read the hub's port from FLARE's files in the kit."""
    _, name = _MODULES.get(kit.kind, ("", "fed_admin.json"))
    content = msgspec.json.decode((kit.folder / "startup" / name).read_bytes())
    if "admin" in content:
        return int(content["admin"]["port"])
    return int(content["servers"][0]["service"]["target"].rpartition(":")[2])


def _is_up(kit: Kit) -> bool:
    if kit.kind == "hub":
        # Its public name may lead around a firewall; it listens on this machine.
        return _answers(port_of(kit))
    try:
        return _REGISTERED in (kit.folder / _RUN / _CONSOLE).read_bytes()
    except OSError:
        return False


def _refuse_taken_port(kit: Kit) -> None:
    port = port_of(kit)
    if _answers(port):
        raise ConfigError(
            f"Port {port} is taken by another process of this machine.",
            "The hub listens there.",
            "Stop the other process, or give the hub another port and new kits.",
        )


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(
            ("127.0.0.1", port), timeout=DEFAULT_TIMEOUTS.port_check_seconds
        ):
            return True
    except OSError:
        return False


def _run_folder(kit: Kit) -> Path:
    folder = kit.folder / _RUN
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise FileProblem(
            f"Cannot write to the kit {kit.folder}: {error.strerror}.",
            "Logs and the process number go there.",
            "Check the permissions of the kit.",
        ) from None
    return folder


def _record(kit: Kit, pid: int) -> None:
    import psutil

    record = _Record(pid, psutil.Process(pid).create_time(), str(kit.folder))
    (kit.folder / _RUN / _RECORD).write_bytes(msgspec.json.encode(record))


def _find_process(kit: Kit) -> tuple[_Record | None, Any]:
    """Return what is recorded of a kit's process, and that process if it still runs."""
    import psutil

    try:
        raw = (kit.folder / _RUN / _RECORD).read_bytes()
        record = msgspec.json.decode(raw, type=_Record)
    except (OSError, msgspec.MsgspecError):
        return None, None
    try:
        process = psutil.Process(record.pid)
        same = abs(process.create_time() - record.born) < _SAME_BIRTH_SECONDS
        # The number of a process that is gone may have been given to another.
        return record, process if same and process.status() != psutil.STATUS_ZOMBIE else None
    except psutil.Error:
        return record, None


def _processes(pids: Iterable[int]) -> list[Any]:
    import psutil

    found = []
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            found.append(psutil.Process(pid))
    return found


def _end(processes: list[Any], grace_seconds: float) -> list[int]:
    """Ask processes to end, then make them; a suspended one does not hear the first."""
    import psutil

    for process in processes:
        _signal(process, signal.SIGTERM)
        _signal(process, signal.SIGCONT)
    _, left = psutil.wait_procs(processes, timeout=grace_seconds)
    for process in left:
        _signal(process, signal.SIGKILL)
    psutil.wait_procs(left, timeout=grace_seconds)
    return [process.pid for process in processes]


def _signal(process: Any, number: int) -> None:
    import psutil

    with contextlib.suppress(psutil.Error):
        process.send_signal(number)
