"""Jobs that are watched while something happens to the members of a federation."""

import contextlib
import signal
import time
from pathlib import Path

import psutil
import pytest

from fedsift.cli.prepare import prepare, read_job
from fedsift.deploy import processes
from fedsift.deploy.flare.hub_session import HubSession
from fedsift.deploy.site_files import read_sections, settings_file, write_sections
from fedsift.deploy.submit import submit_job
from fedsift.engine.local import in_thread
from fedsift.errors import FedsiftError
from fedsift.jobs.spec import JointJob
from helpers.flare import HORIZONTAL, PARTIES, POLICIES

LIMIT_SECONDS = 300.0
"""No wait needs a tenth of this on an idle machine; it only keeps a broken run from hanging."""

REPEATED = {"max_jobs_per_table": 20, "min_row_change": 0}
"""Every attempt is a job of its own, tables are small, and a run must notice by itself that a cell changed."""

_POLL_SECONDS, _PROCESS_POLL_SECONDS = 0.01, 0.2
_LOG_LINES = 25


class Run:
    """A job that is submitted again and again until it comes to its end."""

    def __init__(self, federation, tables, name, method, parties=PARTIES, policy=None):
        self._federation, self._tables = federation, tables
        self._name, self._method, self._policy = name, method, policy
        self._parties, self._attempts = parties, 0
        for party in parties:
            data = tables.data(party, horizontal=name in HORIZONTAL)
            allowed = {**(policy or POLICIES.get(name) or {}), **REPEATED}
            federation.set_party(party, data, allowed)
        self._place = JointJob.from_job(read_job(self.job(), "flare")).run_key[:32]

    def job(self, timeout_seconds=300) -> Path:
        """The job file; it is the same run whatever its limit."""
        section = {"method": self._name, "seed": 11, "timeout_seconds": timeout_seconds}
        return self._tables.job(
            self._name, self._parties, self._policy, job=section, method=self._method
        )

    def attempt(self, **options) -> "Attempt":
        """Submit the job; from the second time on, resume it.

        Somebody watches every second attempt, which must make no difference to how it ends.
        """
        job, self._attempts = read_job(self.job(**options), "flare"), self._attempts + 1
        kit, resume = self._federation.submitter, self._attempts > 1
        live = self._attempts % 2 == 1

        def submit():
            return submit_job(job, kit, resume=resume, live=live)

        return Attempt(self._federation, self, submit)

    def checkpoints(self, member) -> list[Path]:
        """What a member keeps of the run."""
        place = self._federation.kits[member].settings / "checkpoints" / self._place
        return sorted(place.glob("*.fedsift-checkpoint"))

    def last_unit(self, member) -> int:
        """The latest unit on file at a member; -1 without any."""
        return max([-1, *map(unit_of, self.checkpoints(member))])

    def check(self, result) -> None:
        """The result is that of an undisturbed run, and no member keeps anything of the run."""
        whole = prepare(read_job(self.job())).run()
        assert result.selected == whole.selected
        assert result.scores == whole.scores
        assert result.ranking == whole.ranking
        assert result.participants == whole.participants
        assert not any(self.checkpoints(member) for member in self._federation.members)


class Attempt:
    """One submission of a job, in the background, and what its members show of it meanwhile."""

    def __init__(self, federation, run, submit) -> None:
        self._federation, self._run = federation, run
        self._began = time.time()
        self._work = in_thread("submission", submit)

    @property
    def is_over(self) -> bool:
        """Whether the job has ended."""
        return self._work.done()

    def until(self, holds, what, poll_seconds=_POLL_SECONDS) -> None:
        """Wait until something can be seen; the job must not end before."""
        start = time.monotonic()
        while not holds():
            waited = time.monotonic() - start
            if self.is_over:
                self._fail(f"The job ended before {what}: {self._ended()}")
            if waited > LIMIT_SECONDS:
                self._fail(f"Not reached in {waited:.0f} seconds: {what}")
            time.sleep(poll_seconds)

    def pids(self, member) -> tuple[int, ...]:
        """Wait until a member has processes for this submission; their numbers."""
        what = f"{member} started the job"
        self.until(lambda: self._own_pids(member), what, _PROCESS_POLL_SECONDS)
        return self._own_pids(member)

    def until_unit(self, member, unit) -> None:
        """Wait until a member has written the checkpoint of a unit, or of a later one."""
        self.until(lambda: self._newest(member) >= unit, f"{member} saved unit {unit}")

    def strike(self, member, unit, number=signal.SIGKILL, *, whole=False) -> tuple[int, ...]:
        """Send a signal to a member's processes for the job once it has saved a unit.

        With ``whole`` also to the process that stays, as if the machine went down.
        """
        # Looking for processes takes a while on a busy machine, so it comes first.
        pids = self.pids(member)
        if whole:
            pids = (processes.status(self._federation.kits[member]).pid, *pids)
        self.until_unit(member, unit)
        processes.send(pids, number)
        if number == signal.SIGKILL:
            processes.wait_until_gone(pids)
        return pids

    def error(self, kind=FedsiftError) -> FedsiftError:
        """Wait for the end, which must be an error of the given kind."""
        try:
            result = self._work.result(LIMIT_SECONDS)
        except kind as error:
            return error
        except TimeoutError:
            self._fail("The job did not end")
        except Exception as error:
            self._fail(f"Another error was expected: {error!r}")
        return self._fail(f"The job came to a result: {result!r}")

    def result(self):
        """Wait for the end, which must be a result."""
        try:
            return self._work.result(LIMIT_SECONDS)
        except TimeoutError:
            return self._fail("The job did not end")
        except Exception as error:
            return self._fail(f"There is no result: {error!r}")

    def _own_pids(self, member) -> tuple[int, ...]:
        """Those that were born since; a job that was ended before may still be leaving."""
        found = []
        for pid in self._federation.job_pids(member):
            with contextlib.suppress(psutil.NoSuchProcess):
                if psutil.Process(pid).create_time() >= self._began:
                    found.append(pid)
        return tuple(found)

    def _newest(self, member) -> int:
        """The latest unit that a member has saved since this submission; -1 without any."""
        found = [-1]
        for path in self._run.checkpoints(member):
            with contextlib.suppress(FileNotFoundError):  # the run goes on and removes older ones
                if path.stat().st_mtime >= self._began:
                    found.append(unit_of(path))
        return max(found)

    def _ended(self) -> str:
        error = self._work.exception()
        return repr(error or self._work.result())

    def _fail(self, text):
        pytest.fail(f"{text}\n{logs(self._federation)}")


def unit_of(path: Path) -> int:
    return int(path.name.split(".")[-2])


def set_limits(federation, **limits) -> None:
    """Change the limits of all members for the jobs to come."""
    for member in federation.members:
        path = settings_file(federation.kits[member].settings)
        sections = read_sections(path)
        sections["limits"] = {**sections.get("limits", {}), **limits}
        write_sections(path, sections)


def wait_until_connected(federation, parties) -> None:
    """Wait until the hub has heard of organisations, after one of both was away."""
    with HubSession(federation.submitter) as session:
        federation.wait_for(
            lambda: all(session.find_connected().get(party) for party in parties),
            LIMIT_SECONDS,
            f"the connection of {', '.join(parties)} to the hub",
        )


def logs(federation) -> str:
    """The ends of the logs of all members, and of the latest job of each."""
    texts = []
    for member in federation.members:
        folder = federation.kits[member].folder
        jobs = sorted(folder.glob("*-*-*-*-*/log.txt"), key=lambda path: path.stat().st_mtime)
        for path in (folder / "log.txt", *jobs[-1:]):
            if path.exists():
                lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
                texts += [f"--- {path.relative_to(federation.folder)}", *lines[-_LOG_LINES:]]
    return "\n".join(texts)
