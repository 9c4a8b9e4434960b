# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A whole federation on one machine: real processes, certificates and sealing, and a toy job.

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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from fedsift.config.toml import toml_text
from fedsift.data.files import plain_cell, plain_cells
from fedsift.deploy import processes
from fedsift.deploy.kits import Kit, PartyData, PartyFacts, make_kits, set_party
from fedsift.deploy.project import Project, Submitter
from fedsift.deploy.site_files import HUB, read_sections, settings_file, write_sections
from fedsift.engine.timeouts import DEFAULT_TIMEOUTS
from fedsift.errors import ColumnError, ConfigError, FileProblem, ParameterError
from fedsift.methods.spec import Demo, Missing

if TYPE_CHECKING:
    import pandas as pd

    from fedsift.config.job import Job
    from fedsift.methods.registry import Method
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
        label = job.data.label
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


JOB_FILE = "job.toml"
MADE_ID = "row_id"


def demo_of(method: Method) -> Demo:
    """Settings for a quick look at a method."""
    if isinstance(method.demo, Missing):
        raise ParameterError(
            f"The method {method.name!r} has no quick job: {method.demo.reason}",
            "A toy federation runs the quick job of a method.",
            "Write a job of your own with 'fedsift init'.",
        )
    return method.demo


@dataclass(frozen=True)
class Toy:
    """How to cut a table into parties.

    Parameters
    ----------
    label : str, optional
        The label column; the first party holds it if columns are dealt out.
    setting : {"vertical", "horizontal"}
        Deal out columns, or rows.
    n_parties : int
    id_column : str, optional
        Identifies a row, for columns dealt out; numbers are made if missing.
    overlap : float
        Share of the rows that every party keeps, for columns dealt out.
    method : str
    parameters : mapping
        For ``[method]`` of the job.
    seed : int
    """

    label: str | None
    setting: str = "vertical"
    n_parties: int = 3
    id_column: str | None = None
    overlap: float = 1.0
    method: str = "filter"
    parameters: Mapping[str, Any] | None = None
    seed: int = 0


def write_toy(frame: pd.DataFrame, folder: Path, toy: Toy) -> Path:
    """Write the parties' files and the job.

    Parameters
    ----------
    frame : DataFrame
    folder : Path
        Must not hold a job yet.
    toy : Toy

    Returns
    -------
    job : Path
    """
    _check(frame, folder, toy)
    frame = plain_cells(frame)
    toy = replace(toy, label=plain_cell(toy.label), id_column=plain_cell(toy.id_column))
    rng = np.random.default_rng(toy.seed)
    cut = _columns_dealt if toy.setting == "vertical" else _rows_dealt
    tables = cut(frame, toy, rng)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(dir=folder, prefix=".fedsift-"))
        try:
            for name, table in tables.items():
                table.to_csv(aside / f"{name}.csv", index=False)
            (aside / JOB_FILE).write_text(_job(toy, list(tables)), encoding="utf-8")
            for made in aside.iterdir():
                made.rename(folder / made.name)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    except OSError as error:
        raise FileProblem(
            f"Cannot write to {folder}: {error.strerror}.",
            "A writable folder with free space is needed.",
            "Choose another place with --out.",
        ) from None
    return folder / JOB_FILE


def _check(frame: pd.DataFrame, folder: Path, toy: Toy) -> None:
    if (folder / JOB_FILE).exists():
        raise FileProblem(
            f"{folder / JOB_FILE} is there already.",
            "A folder without a job is needed.",
            "Choose another place with --out.",
        )
    for column in (toy.label, toy.id_column):
        if column is not None and column not in frame.columns:
            raise ColumnError(
                f"The table has no column {column!r}.",
                f"It must be one of its {len(frame.columns)} columns.",
                "Mend the name.",
            )
    if toy.id_column is not None and frame[toy.id_column].duplicated().any():
        raise ColumnError(
            f"Column {toy.id_column!r} has the same id twice.",
            "An id identifies one row.",
            "Choose another column, or leave --id out.",
        )
    if not 0 < toy.overlap <= 1:
        raise ParameterError(
            f"overlap is {toy.overlap}.", "It is a share above 0, up to 1.", "Change it."
        )
    n_features = len(_features(frame, toy))
    most = n_features if toy.setting == "vertical" else len(frame)
    if not 2 <= toy.n_parties <= most:
        what = "features" if toy.setting == "vertical" else "rows"
        raise ParameterError(
            f"{toy.n_parties} parties were asked for, and there are {most} {what}.",
            f"There must be at least 2 parties and at least as many {what}.",
            "Change --parties.",
        )


def _features(frame: pd.DataFrame, toy: Toy) -> list[Any]:
    return [column for column in frame.columns if column not in (toy.label, toy.id_column)]


def _columns_dealt(
    frame: pd.DataFrame, toy: Toy, rng: np.random.Generator
) -> dict[str, pd.DataFrame]:
    id_column = toy.id_column or MADE_ID
    if toy.id_column is None:
        frame = frame.assign(**{MADE_ID: [f"r{number:06d}" for number in range(len(frame))]})
    features = _features(frame, toy)
    features = [column for column in features if column != MADE_ID or toy.id_column == MADE_ID]
    tables = {}
    for number, share in enumerate(np.array_split(rng.permutation(len(features)), toy.n_parties)):
        own = [features[position] for position in sorted(share)]
        if number == 0 and toy.label is not None:
            own.append(toy.label)
        # Every party lists its customers in an order of its own, and may lack some.
        n_kept = max(1, round(toy.overlap * len(frame)))
        rows = rng.permutation(len(frame))[:n_kept]
        tables[f"party-{number + 1}"] = frame[[id_column, *own]].iloc[rows]
    return tables


def _rows_dealt(frame: pd.DataFrame, toy: Toy, rng: np.random.Generator) -> dict[str, pd.DataFrame]:
    shares = np.array_split(rng.permutation(len(frame)), toy.n_parties)
    return {f"party-{number + 1}": frame.iloc[np.sort(rows)] for number, rows in enumerate(shares)}


def _job(toy: Toy, parties: list[str]) -> str:
    data: dict[str, Any] = {"setting": toy.setting}
    if toy.label is not None and toy.setting == "vertical":
        data["label"] = {"party": parties[0], "column": toy.label}
    elif toy.label is not None:
        data["label"] = toy.label
    if toy.setting == "vertical":
        data["id"] = toy.id_column or MADE_ID
    elif toy.id_column is not None:
        data["id"] = toy.id_column
    return toml_text(
        {
            "job": {"method": toy.method},
            "data": data,
            "method": dict(toy.parameters or {}),
            "party": [{"name": name, "data": f"{name}.csv"} for name in parties],
        }
    )
