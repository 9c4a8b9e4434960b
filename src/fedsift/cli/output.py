# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Writing a run's files, all of them or none, and logging the run where trackers are named."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fedsift.errors import FedsiftError, FileProblem

if TYPE_CHECKING:
    from fedsift.config.job import Trackers
    from fedsift.result import SelectionResult


RESULT, REPORT, LEDGER = "result.json", "report.html", "ledger.jsonl"


def check_writable(directory: Path) -> None:
    """Refuse a place that cannot be written to, before a long run rather than after it."""
    try:
        os.lstat(directory)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:  # too long, or a character that this system does not allow
        raise _problem(directory, str(error.strerror)) from None
    existing = _existing(directory)
    if not existing.is_dir():
        raise _problem(directory, f"{existing.name} is a file")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise _problem(directory, "no permission")


def write_run(
    directory: Path, result: SelectionResult, more: Mapping[str, str] | None = None
) -> dict[str, Path]:
    """Write result, report and ledger.

    Parameters
    ----------
    directory : Path
        Made if it is not there; other files in it are left alone.
    result : SelectionResult
        What to write.
    more : mapping of name to text, optional
        Other files of the run.

    Returns
    -------
    paths : dict of str to Path
        Where ``result``, ``report`` and ``ledger`` are.
    """
    import msgspec

    from fedsift.report import html

    ledger = "".join(msgspec.json.encode(row).decode() + "\n" for row in result.disclosures)
    written = {RESULT: result.to_json() + "\n", REPORT: html.render(result), LEDGER: ledger}
    write_all(directory, {**(more or {}), **written})
    names = {"result": RESULT, "report": REPORT, "ledger": LEDGER}
    names |= {Path(name).stem: name for name in more or {}}
    return {key: directory / name for key, name in names.items()}


def write_all(directory: Path, files: Mapping[str, str]) -> None:
    """Write files aside, then move them into place together; undo everything on an error."""
    check_writable(directory)
    try:
        # Next to the goal, so that moving is renaming; nothing is made there until all is written.
        aside = Path(tempfile.mkdtemp(dir=_existing(directory), prefix=".fedsift-"))
    except OSError as error:
        raise _problem(directory, str(error.strerror)) from None
    try:
        new = aside / "new"
        new.mkdir()
        for name, text in files.items():
            (new / name).write_text(text, encoding="utf-8")
        _move(new, directory, aside)
    except OSError as error:
        raise _problem(directory, str(error.strerror)) from None
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _move(new: Path, directory: Path, aside: Path) -> None:
    if not directory.exists():
        directory.parent.mkdir(parents=True, exist_ok=True)
        new.rename(directory)
        return
    old = aside / "old"
    old.mkdir()
    moved: list[str] = []
    try:
        for source in sorted(new.iterdir()):
            target = directory / source.name
            if target.exists():
                target.rename(old / source.name)
            moved.append(source.name)
            source.rename(target)
    except OSError:
        for name in moved:
            (directory / name).unlink(missing_ok=True)
        for kept in old.iterdir():
            kept.rename(directory / kept.name)
        raise


def _existing(path: Path) -> Path:
    """The path itself, or the closest directory above it that is there."""
    path = path.absolute()
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def _problem(directory: Path, reason: str) -> FileProblem:
    return FileProblem(
        f"Cannot write to {directory}: {reason}.",
        "A writable directory with free space is needed.",
        "Choose another place with --out; nothing was written.",
    )


def check_trackers(trackers: Trackers) -> None:
    """Refuse trackers that are not installed, before anything runs."""
    if trackers.mlflow is None and trackers.tensorboard is None:
        return
    from fedsift.report.trackers import check_installed as check_packages

    check_packages(mlflow=trackers.mlflow is not None, tensorboard=trackers.tensorboard is not None)


def log_run(
    trackers: Trackers, result: SelectionResult, name: str, written: Path
) -> dict[str, str]:
    """Log a result.

    Parameters
    ----------
    trackers : Trackers
    result : SelectionResult
    name : str
        Of the run.
    written : Path
        Where the result is already, which an error says.

    Returns
    -------
    logged : dict of str to str
        Number of the run in MLflow, directory of the run for TensorBoard.
    """
    if trackers.mlflow is None and trackers.tensorboard is None:
        return {}
    from fedsift.report.trackers import log_to_mlflow, log_to_tensorboard

    logged: dict[str, str] = {}
    try:
        if trackers.mlflow is not None:
            logged["mlflow"] = log_to_mlflow(
                result, trackers.mlflow, experiment=trackers.mlflow_experiment, run_name=name
            )
        if trackers.tensorboard is not None:
            # One directory for each run, side by side, as TensorBoard compares them.
            place = trackers.tensorboard / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
            logged["tensorboard"] = str(log_to_tensorboard(result, place))
    except FedsiftError as error:
        error.add_note(f"The result is in {written}.")
        raise
    return logged
