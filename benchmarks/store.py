# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Result files: facts about the machine, writing, reading, resuming and comparing."""

from __future__ import annotations

import contextlib
import json
import os
import platform
from pathlib import Path
from typing import Any

import msgspec

from fedsift.errors import FileProblem
from fedsift.result import write_atomically

COUNTS = ("bytes", "ciphertexts", "rounds", "messages")
"""Deterministic measures: growth is an error. Seconds only warn, machines are noisy."""

_SLOWER = 1.5


def machine_facts() -> dict[str, Any]:
    """What a reader needs to judge the numbers; no host or user names."""
    from importlib import metadata

    libraries = (
        *("fedsift", "numpy", "seal-python", "gmpy2", "phe", "scikit-learn"),
        *("openmined-psi", "nvflare", "grpcio"),
    )
    versions = {}
    for library in libraries:
        try:
            versions[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            versions[library] = "not installed"
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "threads": os.environ.get("OMP_NUM_THREADS", "default"),
        "versions": versions,
    }


def to_text(results: dict[str, Any]) -> str:
    """Results as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(results), indent=2).decode() + "\n"


def write(path: Path, results: dict[str, Any]) -> Path:
    """Write a result file; the path it has."""
    return write_atomically(path, to_text(results))


def load(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a result file of ``fedsift bench``."""
    try:
        data: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
        data["rows"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FileProblem(
            f"{os.fspath(path)} is not a benchmark result.",
            "A JSON file written by 'fedsift bench --out' is needed.",
            "Run the benchmark first.",
        ) from error
    return data


def compare(old: str | os.PathLike[str], new: str | os.PathLike[str]) -> tuple[list[str], int]:
    """Lines that say what changed, and exit code 1 if a count grew."""
    before = {row["case"]: row for row in load(old)["rows"]}
    lines, exit_code = [], 0
    for row in load(new)["rows"]:
        base = before.get(row["case"])
        if base is None:
            lines.append(f"{row['case']}: new case")
            continue
        for name in COUNTS:
            if row.get(name, 0) > base.get(name, 0):
                lines.append(f"{row['case']}: {name} grew from {base[name]} to {row[name]}")
                exit_code = 1
        if row["seconds"] > _SLOWER * base["seconds"]:
            lines.append(
                f"{row['case']}: slower, {base['seconds']:.2f} s before, "
                f"{row['seconds']:.2f} s now (a warning: machines are noisy)"
            )
    return lines or ["no case got worse"], exit_code


def key_of(job: dict[str, Any]) -> str:
    """A job as text: the same for the same job."""
    return json.dumps(job, sort_keys=True)


class Journal:
    """Finished jobs of a suite, line by line in a file, so that an interrupted suite goes on.

    Parameters
    ----------
    path : Path
    program : str
        Identifies what the program computes; only results of the same program count.
    """

    def __init__(self, path: Path, program: str) -> None:
        self._path = path
        self._program = program
        self.known: dict[str, dict[str, Any]] = {}
        self.read()

    def read(self) -> None:
        """Take note of what the file has, whoever wrote it."""
        found = self._path.is_file()
        lines = self._path.read_text(encoding="utf-8").splitlines() if found else []
        for line in lines:
            with contextlib.suppress(ValueError):  # a line cut off when the suite was interrupted
                entry = json.loads(line)
                if entry["program"] == self._program:
                    self.known[entry["job"]] = entry["result"]

    def add(self, job: str, result: dict[str, Any]) -> None:
        """Write one result; where nothing can be written, the suite goes on without."""
        entry = {"program": self._program, "job": job, "result": result}
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")

    def remove(self) -> None:
        """The suite is complete."""
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)
