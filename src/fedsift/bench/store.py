# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Facts about the machine, and the comparison of two result files."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path
from typing import Any

from fedsift.errors import FileProblem

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
