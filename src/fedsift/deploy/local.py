# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A whole federation on one machine: real processes, real certificates, real sealing.

For trials and tests. Every member has its own kit, process and keys as it would elsewhere; only
that one user runs them all, and made all keys, sets it apart from a real federation.
"""

from __future__ import annotations

import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from fedsift.deploy import processes
from fedsift.deploy.kits import Kit, make_kits
from fedsift.deploy.party import PartyData, PartyFacts, set_party
from fedsift.deploy.project import Project, Submitter
from fedsift.deploy.site_files import HUB, read_sections, settings_file, write_sections
from fedsift.engine.timeouts import DEFAULT_TIMEOUTS
from fedsift.errors import ConfigError

if TYPE_CHECKING:
    from fedsift.config.job import Job
    from fedsift.result import SelectionResult

SUBMITTER = "submitter@federation.local"
_HOST = "localhost"


class LocalFederation:
    """Hub and organisations as processes of this machine; a context manager.

    Parameters
    ----------
    parties : mapping of str to PartyData
        The organisations and what they bring.
    policies : mapping of str to mapping, optional
        ``[policy]`` tables of organisations that have one.
    folder : Path, optional
        Where the kits go; a temporary folder, removed at the end, by default.
    limits : mapping, optional
        ``idle_seconds`` and ``heartbeat_seconds`` of all members.
    checkpoints : bool
        Whether members keep the state of interrupted runs, so that these can be resumed.

    Examples
    --------
    ::

        parties = {"bank": PartyData(Path("bank.csv"), ("id",)), "shop": ...}
        with LocalFederation(parties) as federation:
            result = federation.submit("job.toml")
    """

    def __init__(
        self,
        parties: Mapping[str, PartyData],
        policies: Mapping[str, Mapping[str, Any]] | None = None,
        *,
        folder: Path | None = None,
        limits: Mapping[str, float] | None = None,
        checkpoints: bool = True,
    ) -> None:
        self._temporary = folder is None
        self.folder = folder or Path(tempfile.mkdtemp(prefix="fedsift-federation-"))
        names = tuple(parties)
        project = Project(
            "local", _HOST, names, (Submitter(SUBMITTER, names[0]),), port=_free_port()
        )
        try:
            made = make_kits(project, self.folder, with_keys=True)
            self.kits: dict[str, Kit] = {kit.name: kit for kit in made}
            for name, data in parties.items():
                self.set_party(name, data, (policies or {}).get(name))
            for name in (HUB, *names):
                self._adjust(name, limits or {}, checkpoints)
        except BaseException:
            self._clean()
            raise

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @classmethod
    def for_job(cls, job: Job, **options: Any) -> LocalFederation:
        """A federation of the parties of a job, with the tables and policies of its file."""
        label = job.data.label_column
        parties = {}
        for entry in job.parties:
            if entry.data is None:
                raise ConfigError(
                    f"Party {entry.name!r} of the job has no data.",
                    "A federation on one machine takes the tables from the job file.",
                    "Name them with data in [[party]].",
                )
            held = job.data.label_party in (None, entry.name)
            parties[entry.name] = PartyData(
                entry.data,
                entry.id_columns,
                label if held else None,
                entry.columns,
                job.data.categorical,
            )
        return cls(parties, job.policies, **options)

    @property
    def submitter(self) -> Kit:
        """The kit that jobs are submitted with."""
        return self.kits[SUBMITTER]

    @property
    def members(self) -> tuple[str, ...]:
        """The hub and the organisations."""
        return tuple(name for name in self.kits if name != SUBMITTER)

    def set_party(
        self, name: str, data: PartyData, policy: Mapping[str, Any] | None = None
    ) -> PartyFacts:
        """Give an organisation other data or another policy, for the jobs to come."""
        return set_party(self.kits[name], data, policy or {})

    def start(self, timeout_seconds: float = DEFAULT_TIMEOUTS.member_start_seconds) -> None:
        """Start all members and wait until they are connected."""
        for name in self.members:
            processes.start(self.kits[name])
        deadline = time.monotonic() + timeout_seconds
        for name in self.members:
            processes.wait_until_up(self.kits[name], max(1.0, deadline - time.monotonic()))

    def stop(self) -> None:
        """Stop all members; nothing is left behind, and a temporary folder is removed."""
        try:
            processes.stop_all(self.kits[name] for name in self.members)
        finally:
            self._clean()

    def submit(self, job: str | Path, **options: Any) -> SelectionResult:
        """Submit a job file and wait for its result; see :func:`fedsift.deploy.submit.submit`."""
        from fedsift.deploy.submit import submit

        return submit(Path(job), self.submitter, **options)

    def pids(self, name: str) -> tuple[int, ...]:
        """The process that stays and the processes of jobs of one member."""
        running = processes.status(self.kits[name])
        first = (running.pid,) if running else ()
        return (*first, *self.job_pids(name))

    def job_pids(self, name: str) -> tuple[int, ...]:
        """Processes that carry jobs for one member."""
        return processes.job_pids(self.kits[name])

    def kill(self, name: str, *, jobs_only: bool = False) -> tuple[int, ...]:
        """Kill a member without warning, or only the processes of its jobs."""
        pids = self.job_pids(name) if jobs_only else self.pids(name)
        processes.send(pids, signal.SIGKILL)
        processes.wait_until_gone(pids)
        return pids

    def restart(
        self, name: str, timeout_seconds: float = DEFAULT_TIMEOUTS.member_start_seconds
    ) -> None:
        """Stop a member, whatever is left of it, and start it again."""
        kit = self.kits[name]
        processes.stop(kit)
        processes.start(kit)
        processes.wait_until_up(kit, timeout_seconds)

    def wait_for(
        self, condition: Callable[[], bool], timeout_seconds: float, what: str = "the condition"
    ) -> None:
        """Wait until something holds, and not longer than that."""
        deadline = time.monotonic() + timeout_seconds
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what} does not hold after {timeout_seconds:.0f} seconds")
            time.sleep(0.1)

    def log(self, name: str) -> str:
        """What a member has logged so far."""
        texts: Iterable[Path] = processes.log_files(self.kits[name])
        return "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in texts)

    def _adjust(self, name: str, limits: Mapping[str, float], checkpoints: bool) -> None:
        path = settings_file(self.kits[name].settings)
        sections = read_sections(path)
        sections["limits"] = {**sections.get("limits", {}), **limits}
        if not checkpoints:
            sections.get("runtime", {}).pop("checkpoint", None)
        write_sections(path, sections)

    def _clean(self) -> None:
        if self._temporary:
            shutil.rmtree(self.folder, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
