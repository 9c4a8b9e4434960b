# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Run a suite: cases with a claim, in fresh processes, compared by counts before seconds."""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from benchmarks.store import Journal, compare, key_of, machine_facts, to_text, write
from fedsift.errors import ParameterError

ROOT = Path(__file__).resolve().parents[1]
PROFILES = ("smoke", "regular", "paper")
N_WORKERS = 2

Echo = Callable[[str], None]
Job = dict[str, Any]
Suite = Callable[[str, Echo], dict[str, Any]]


def _suite(module: str) -> Suite:
    """A suite that is imported when it runs: a worker of one need not wait for all others."""

    def run(profile: str, echo: Echo) -> dict[str, Any]:
        return importlib.import_module(f"benchmarks.suites.{module}").run(profile, echo)

    return run


SUITES: dict[str, Suite] = {
    module.removesuffix(".suite"): _suite(module)
    for module in (
        "costs",
        "dcfs.suite",
        "dp.suite",
        "false_discoveries",
        "fedsdg.suite",
        "filters",
        "fpso.suite",
        "interaction.suite",
        "runtime.suite",
        "stepwise.suite",
        "verify.suite",
        "vfps.suite",
    )
}


def run_suite(suite: str, profile: str, echo: Echo) -> dict[str, Any]:
    """Run all cases of a suite; ``echo`` gets one line of text at a time."""
    if suite not in SUITES or profile not in PROFILES:
        raise ParameterError(
            f"No benchmark {suite!r} with profile {profile!r}.",
            f"Suites: {', '.join(SUITES)}. Profiles: {', '.join(PROFILES)}.",
            "Choose one of them.",
        )
    results = SUITES[suite](profile, echo)
    return {"suite": suite, "profile": profile, "machine": machine_facts(), **results}


def execute(
    suite: str, files: Sequence[Path], profile: str, out: Path | None, as_json: bool
) -> int:
    """Do what the command line asks for: run a suite or compare two files; the exit code."""
    if suite == "compare":
        if len(files) != 2:
            raise ParameterError(
                f"{len(files)} files were given.",
                "'compare' needs two: the old and the new one.",
                "Use 'fedsift bench compare OLD NEW'.",
            )
        lines, exit_code = compare(*files)
        shown = to_text({"lines": lines, "exit_code": exit_code}) if as_json else "\n".join(lines)
        print(shown.rstrip())
        return exit_code
    if files:
        raise ParameterError(
            f"{len(files)} files were given with the suite {suite!r}.",
            "Only 'compare' takes files.",
            "Use 'fedsift bench compare OLD NEW', or leave the files out.",
        )

    def echo(line: str) -> None:
        # Progress must not mix with the JSON on standard output.
        print(line, file=sys.stderr if as_json else sys.stdout, flush=True)

    if out is not None:
        from fedsift.cli.output import check_writable

        check_writable(out.parent)
    outcome = run_suite(suite, profile, echo)
    if out is not None:
        echo(f"Wrote {write(out, outcome)}.")
    if as_json:
        print(to_text(outcome), end="")
    return 0


def child_environment() -> dict[str, str]:
    """The environment of a process that must find this package wherever it runs."""
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    paths = [str(ROOT), *(path for path in paths if path not in ("", str(ROOT)))]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)}


def measure_in_fresh_process(module: str, job: Job, case: str, action: str) -> dict[str, Any]:
    """What ``measure(job)`` of a module of the suites returns, and the peak memory it took.

    A process of its own gives an honest peak memory and no help from earlier cases. ``action`` is
    what to do if the case fails.
    """
    command = [sys.executable, "-P", "-m", "benchmarks.worker", module, json.dumps(job)]
    finished = subprocess.run(  # noqa: S603 - our own module, no shell
        command,
        capture_output=True,
        text=True,
        timeout=3600,
        check=False,
        env=child_environment(),
    )
    if finished.returncode != 0:
        last = finished.stderr.strip().splitlines()[-1:] or ["no message"]
        raise ParameterError(
            f"The case {case!r} failed: {last[0][:200]}", "Every case of a suite must run.", action
        )
    return json.loads(finished.stdout)


def measure_in_workers(
    work: Callable[[Job], dict[str, Any]],
    jobs: Iterable[Job],
    journal: Journal,
    tell: Callable[[str, Job, dict[str, Any]], None],
    workers: int = N_WORKERS,
) -> list[dict[str, Any]]:
    """Results of all jobs in their order; every result is written down as it comes."""
    jobs = list(jobs)
    results = {key_of(job): journal.known.get(key_of(job)) for job in jobs}
    missing = [job for job in jobs if results[key_of(job)] is None]
    if missing:
        # Fresh processes: a forked one would have inherited numpy with all its threads.
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(workers, mp_context=context) as pool:
            running = {pool.submit(work, job): job for job in missing}
            for number, future in enumerate(as_completed(running), start=1):
                job, result = running[future], future.result()
                results[key_of(job)] = result
                journal.add(key_of(job), result)
                tell(f"{number}/{len(missing)}", job, result)
    return [result for result in results.values() if result is not None]


def use_one_thread_each() -> None:
    """Workers read this before they import numpy: one thread each, as many workers as cores."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")
